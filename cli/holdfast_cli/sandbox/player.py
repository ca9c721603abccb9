"""Plays interruptions whose truth is known: EC2 and EventBridge on one side, Karpenter and the kubelet on the other.

All times lie in the past, so that every deadline is over when Holdfast looks. The state of the world is set before the
events are delivered: whoever hears of them and looks finds what they tell of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import boto3

from holdfast.interruption.verdict import Cause, Verdict
from holdfast_cli.sandbox import aws, up
from holdfast_cli.sandbox.control import Ec2Control, MiniStackControl
from holdfast_cli.sandbox.ec2_events import Ec2Events
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.kube import objects
from holdfast_cli.sandbox.kube.control import Control
from holdfast_cli.sandbox.kube_seed import HELD_LABELS, instance_of
from holdfast_cli.sandbox.state import SandboxState

WARNED_BEFORE = timedelta(minutes=4)
"""How long ago the played warnings came: every Spot deadline is over and the instances have ended. Ten minutes after that
a NodeClaim that is still there is rightly told as a ghost: `Player.nodeclaims_go` comes before, on a slow machine too."""

_POLLS = 600
"""More receives than the queue needs after the longest of our waves; then somebody keeps sending."""


@dataclass(frozen=True, slots=True)
class Played:
    """One scene and the truth of it: what Holdfast has to find out and what its Slack message has to say."""

    name: str
    story: str
    instance_id: str | None
    warned_at: datetime
    verdict: Verdict | None
    cause: Cause | None
    says: str


def instance_id_of(number: int) -> str:
    """The id of the instance that a scene, or a wave, plays under this number."""
    return f"i-{0xD0000000000000000 + number:017x}"


def remove_nodes(kubernetes: Control, claims: Sequence[objects.KubeObject]) -> None:
    """The NodeClaims are gone, with their nodes and the pods on them."""
    nodes = {claim["status"]["nodeName"] for claim in claims}
    for pod in kubernetes.objects("Pod"):
        if pod["spec"].get("nodeName") in nodes:
            kubernetes.delete("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
    for claim in claims:
        kubernetes.delete("Node", claim["status"]["nodeName"])
        kubernetes.delete("NodeClaim", claim["metadata"]["name"])


class Player:
    """Acts on a running sandbox. Each scene takes a number of its own, of which its names and ids are made."""

    def __init__(self, sandbox: SandboxState) -> None:
        self._sandbox = sandbox
        self._events = MiniStackControl(sandbox)
        self._ec2_events = Ec2Events(sandbox.account, sandbox.region)
        self._ec2 = Ec2Control(sandbox)
        self._kubernetes = up.kubernetes(sandbox)
        self._claims: dict[str, objects.KubeObject] = {}

    def handled_in_time(self, number: int, warned_at: datetime) -> Played:
        """Karpenter hears of the warning, drains the node in 41 s and ends the instance."""
        instance_id = self._node(
            number, warned_at, deleted_at=warned_at + timedelta(seconds=3), drained_at=warned_at + timedelta(seconds=41)
        )
        ended = warned_at + timedelta(seconds=58)
        self._ec2.ended_by_karpenter(instance_id, ended)
        self._deliver(instance_id, warned_at, ended)
        self.karpenter_reads_its_queue()
        return Played(
            "handled in time",
            "Karpenter read the warning, drained the node in 41 s and ended the instance.",
            instance_id,
            warned_at,
            Verdict.HANDLED_IN_TIME,
            None,
            "handled in time",
        )

    def blocked_by_pdb(self, number: int, warned_at: datetime) -> Played:
        """Karpenter begins at once, but a PodDisruptionBudget lets nothing go until EC2 takes the machine."""
        instance_id = self._node(number, warned_at, deleted_at=warned_at + timedelta(seconds=4), is_held=True)
        self._reclaimed(instance_id, warned_at)
        self.karpenter_reads_its_queue()
        return Played(
            "held by a PDB",
            "Karpenter began at once; a PodDisruptionBudget held the pods until EC2 took the machine.",
            instance_id,
            warned_at,
            Verdict.RECLAIMED_BEFORE_DRAIN,
            Cause.BLOCKED_BY_PDB,
            "reclaimed before the drain was over",
        )

    def missed(self, number: int, warned_at: datetime) -> Played:
        """Nobody reads Karpenter's queue: the NodeClaim stays as it was, EC2 takes the machine."""
        instance_id = self._node(number, warned_at)
        self._reclaimed(instance_id, warned_at)
        return Played(
            "missed",
            "The warning lay in Karpenter's queue and nobody read it; EC2 took the machine.",
            instance_id,
            warned_at,
            Verdict.MISSED,
            Cause.CONSUMER_ABSENT,
            "missed by Karpenter",
        )

    def poison(self, number: int, at: datetime) -> Played:
        """A warning that names no instance."""
        event = self._ec2_events.event(
            number, "EC2 Spot Instance Interruption Warning", at, {"instance-action": "terminate"}
        )
        self._events.deliver([event])
        return Played(
            "poison",
            "A warning without an instance id: nobody can act on it.",
            None,
            at,
            None,
            None,
            "is no event that can be read",
        )

    def nodeclaims_go(self) -> None:
        """What was played is over: NodeClaims, nodes and what was on them go, as Karpenter and Kubernetes see to.

        Only once the verdicts are in: everything was played in the past, so Holdfast still had to see it there.
        """
        remove_nodes(self._kubernetes, tuple(self._claims.values()))
        self._claims.clear()

    def karpenter_reads_its_queue(self) -> int:
        """Receives and deletes every message of Karpenter's queue, with the controller's role; how many there were.

        Raises:
            SandboxError: the queue does not get empty.
        """
        credentials = aws.client(self._sandbox, "sts").assume_role(
            RoleArn=f"arn:aws:iam::{self._sandbox.account}:role/{up.CONTROLLER_ROLE}", RoleSessionName="karpenter"
        )["Credentials"]
        sqs = boto3.client(
            "sqs",
            region_name=self._sandbox.region,
            endpoint_url=self._sandbox.service("ministack").url,
            verify=str(self._sandbox.ca),
            aws_access_key_id=credentials["AccessKeyId"],
            aws_secret_access_key=credentials["SecretAccessKey"],
            aws_session_token=credentials["SessionToken"],
        )
        queue = sqs.get_queue_url(QueueName=up.CLUSTER)["QueueUrl"]
        read = 0
        for _ in range(_POLLS):
            messages = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10, VisibilityTimeout=20).get(
                "Messages", []
            )
            if not messages:
                return read
            entries: list[Any] = [
                {"Id": str(i), "ReceiptHandle": one["ReceiptHandle"]} for i, one in enumerate(messages)
            ]
            failed = sqs.delete_message_batch(QueueUrl=queue, Entries=entries).get("Failed", [])
            if failed:
                raise SandboxError(f"queue {up.CLUSTER} did not let Karpenter delete {len(failed)} messages: {failed}")
            read += len(messages)
        raise SandboxError(f"queue {up.CLUSTER} still had messages after {read}: somebody keeps sending")

    def _node(
        self,
        number: int,
        warned_at: datetime,
        *,
        deleted_at: datetime | None = None,
        drained_at: datetime | None = None,
        is_held: bool = False,
    ) -> str:
        """A Spot node of pool orders-spot with its instance; pods of `orders` on it unless it was drained."""
        instance_id = instance_id_of(number)
        born = warned_at - timedelta(hours=3)
        claim = objects.nodeclaim(
            f"orders-spot-demo{number}",
            instance_id=instance_id,
            created_at=born,
            zone="ap-southeast-1b",
            deleted_at=deleted_at,
            drained_at=drained_at,
        )
        node = objects.node(claim)
        things: list[objects.KubeObject] = [claim, node]
        if drained_at is None:
            app = "orders-db" if is_held else "orders-worker"
            name = f"{app}-{number}"
            labels = {**HELD_LABELS, "scene": name} if is_held else {"scene": name}
            deployment = objects.deployment(name, namespace="orders", created_at=born, replicas=1, labels=labels)
            replicas = objects.replicaset(deployment)
            pod = objects.pod(
                f"{replicas['metadata']['name']}-x2k9q",
                namespace="orders",
                node_name=node["metadata"]["name"],
                created_at=born,
                owner=replicas,
            )
            things += [deployment, replicas, pod]
        self._claims[instance_id] = claim
        self._kubernetes.apply(*things)
        self._ec2.put_instance(instance_of(claim, up.CLUSTER))
        return instance_id

    def _reclaimed(self, instance_id: str, warned_at: datetime) -> None:
        self._ec2.reclaimed(instance_id)
        self._deliver(instance_id, warned_at, warned_at + timedelta(seconds=121))

    def _deliver(self, instance_id: str, warned_at: datetime, ended_at: datetime) -> None:
        self._events.deliver(self._ec2_events.of_interruption(instance_id, warned_at, ended_at))
