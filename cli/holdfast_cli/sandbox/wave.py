"""A Spot wave whose truth is known: EC2 wants many nodes of one pool in one zone back at once.

The world is made first, at `prepare`: the nodes, their instances, and the pods that hold some of them up. The events
follow at `send`, each one as often as the wave says and in no order, as EventBridge may deliver them.
"""

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import batched

from holdfast.interruption.verdict import Cause, Verdict
from holdfast_cli.sandbox import up
from holdfast_cli.sandbox.control import Ec2Control, MiniStackControl
from holdfast_cli.sandbox.ec2_events import Ec2Events, Event
from holdfast_cli.sandbox.kube import objects
from holdfast_cli.sandbox.kube_seed import HELD_LABELS, instance_of
from holdfast_cli.sandbox.player import instance_id_of, remove_nodes
from holdfast_cli.sandbox.state import SandboxState

POOL = "orders-spot"
ZONE = "ap-southeast-1b"

_NAMESPACE = "orders"
_AT_ONCE = 40
"""Events, or objects, in one call: MiniStack does nothing else meanwhile."""


@dataclass(frozen=True, slots=True)
class Truth:
    """What Holdfast has to find out about one instance."""

    verdict: Verdict
    cause: Cause | None = None


_HANDLED = Truth(Verdict.HANDLED_IN_TIME)
_HELD = Truth(Verdict.RECLAIMED_BEFORE_DRAIN, Cause.BLOCKED_BY_PDB)
_MISSED = Truth(Verdict.MISSED, Cause.CONSUMER_ABSENT)


@dataclass(frozen=True, slots=True)
class Wave:
    """The truth of each instance, its NodeClaim, the events as they are delivered, and how many of them are different."""

    truths: Mapping[str, Truth]
    claims: tuple[objects.KubeObject, ...]
    deliveries: tuple[Event, ...]
    distinct: int

    @property
    def duplicates(self) -> int:
        """Deliveries of events that were delivered before."""
        return len(self.deliveries) - self.distinct


def prepare(
    sandbox: SandboxState,
    *,
    first: int,
    nodes: int,
    held: int = 0,
    missed: int = 0,
    again: float,
    warned_at: datetime,
    seed: int = 1,
) -> Wave:
    """Makes the world of a wave over `nodes` nodes, numbered from `first`; nobody hears of it before `send`.

    Karpenter drains them in 41 s and ends their instances, but for the last ones. Of these it never touches `missed`, as
    when it died meanwhile: leave its queue unread until the verdicts are in. The pods of `held` a PodDisruptionBudget
    keeps until EC2 takes the machines. The share `again` of the events is delivered twice; `seed` makes the order.

    Raises:
        SandboxError: a part of the sandbox did not answer.
    """
    ec2 = Ec2Control(sandbox)
    source = Ec2Events(sandbox.account, sandbox.region)
    truths: dict[str, Truth] = {}
    claims: list[objects.KubeObject] = []
    things: list[objects.KubeObject] = []
    events: list[Event] = []
    replicas = None
    if held:
        deployment = objects.deployment(
            f"orders-db-wave{first}",
            namespace=_NAMESPACE,
            created_at=warned_at - timedelta(hours=3),
            replicas=held,
            labels={**HELD_LABELS, "wave": str(first)},
        )
        replicas = objects.replicaset(deployment)
        things += [deployment, replicas]
    for position in range(nodes):
        number = first + position
        truth = _HANDLED
        if position >= nodes - held:
            truth = _HELD
        elif position >= nodes - held - missed:
            truth = _MISSED
        claim = _claim(number, warned_at, truth)
        node = objects.node(claim)
        claims.append(claim)
        things += [claim, node]
        instance_id = instance_id_of(number)
        ec2.put_instance(instance_of(claim, up.CLUSTER))
        if truth is _HANDLED:
            ended = warned_at + timedelta(seconds=58)
            ec2.ended_by_karpenter(instance_id, ended)
        else:
            ended = warned_at + timedelta(seconds=121)
            ec2.reclaimed(instance_id)
        if truth is _HELD and replicas is not None:
            things.append(
                objects.pod(
                    f"{replicas['metadata']['name']}-{number}",
                    namespace=_NAMESPACE,
                    node_name=node["metadata"]["name"],
                    created_at=warned_at - timedelta(hours=3),
                    owner=replicas,
                )
            )
        truths[instance_id] = truth
        events += source.of_interruption(instance_id, warned_at, ended)
    kubernetes = up.kubernetes(sandbox)
    for part in batched(things, _AT_ONCE, strict=False):
        kubernetes.apply(*part)
    return Wave(truths, tuple(claims), tuple(delivered(events, again=again, seed=seed)), len(events))


def send(sandbox: SandboxState, wave: Wave, *, each: Callable[[int], None] = lambda _: None) -> None:
    """Delivers the wave's events; `each` is told after every part how many there were so far.

    Raises:
        SandboxError: MiniStack did not take one.
    """
    control = MiniStackControl(sandbox)
    sent = 0
    for part in batched(wave.deliveries, _AT_ONCE, strict=False):
        control.deliver(part)
        sent += len(part)
        each(sent)


def over(sandbox: SandboxState, wave: Wave, instances: Collection[str]) -> None:
    """The NodeClaims of these instances go, with nodes and pods. Only once their verdicts are in, as
    `Player.nodeclaims_go` tells.

    Raises:
        SandboxError: one is not there any more.
    """
    claims = [claim for instance_id, claim in zip(wave.truths, wave.claims, strict=True) if instance_id in instances]
    remove_nodes(up.kubernetes(sandbox), claims)


def delivered(events: Sequence[Event], *, again: float, seed: int) -> list[Event]:
    """The events in no order, the share `again` of them twice; the same ones for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - the same disorder each time, not a secret
    all_of_them = [*events, *chance.sample(events, round(len(events) * again))]
    chance.shuffle(all_of_them)
    return all_of_them


def _claim(number: int, warned_at: datetime, truth: Truth) -> objects.KubeObject:
    return objects.nodeclaim(
        f"{POOL}-wave{number}",
        instance_id=instance_id_of(number),
        created_at=warned_at - timedelta(hours=3),
        nodepool=POOL,
        zone=ZONE,
        # A name of its own: those made of the instance's id are alike for some of many hundreds.
        node_name=f"ip-10-8-{number // 250}-{number % 250 + 4}.{ZONE[:-1]}.compute.internal",
        deleted_at=None if truth is _MISSED else warned_at + timedelta(seconds=3),
        drained_at=warned_at + timedelta(seconds=41) if truth is _HANDLED else None,
    )
