"""What a player does that no AWS API allows: events of AWS services, EC2's own decisions, an EKS cluster."""

import base64
import json
import secrets
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState

_TIMEOUT_SECONDS = 60  # moto loads EC2's tables at the first request, seconds on a busy machine


@dataclass(frozen=True, slots=True)
class ClusterSeed:
    """An EKS cluster as DescribeCluster shall answer it. `role_arn` must exist in the sandbox's IAM."""

    name: str
    endpoint: str
    ca_pem: str
    version: str
    role_arn: str
    authentication_mode: str = "API_AND_CONFIG_MAP"
    vpc_id: str = "vpc-0123456789abcdef0"
    subnet_ids: tuple[str, ...] = ()
    cluster_security_group_id: str = "sg-0123456789abcdef0"
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Ec2Instance:
    """An instance as DescribeInstances shall answer it; On-Demand unless `spot_request` names a request."""

    id: str
    type: str
    zone: str
    launched: datetime
    spot_request: str | None = None
    state: str = "running"
    private_ip: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a verified EKS token belongs to, in Kubernetes' words."""

    username: str
    groups: tuple[str, ...]


class MiniStackControl:
    """The control endpoint of our MiniStack launcher."""

    def __init__(self, state: SandboxState) -> None:
        self._state = state

    def deliver(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Put whole EventBridge bodies on the default bus of their account and region, in this order.

        Ids and times are kept and `aws.` sources allowed, which PutEvents refuses; rules, targets and
        archives are MiniStack's own. An event is on its targets' queues when this returns.

        Raises:
            SandboxError: MiniStack did not take one; the ones before it are delivered.
        """
        self._post("events", [dict(event) for event in events])

    def seed_cluster(self, seed: ClusterSeed) -> str:
        """The URL of the cluster's TokenReview webhook; DescribeCluster answers the seed from now on.

        A cluster of that name is changed and keeps its access entries; the URL is a new one.

        Raises:
            SandboxError: MiniStack refused it, say because the role does not exist.
        """
        answer = self._post(
            "eks-cluster",
            {
                "review_secret": secrets.token_urlsafe(32),
                "cluster": {
                    "name": seed.name,
                    "endpoint": seed.endpoint,
                    "certificateAuthority": {"data": base64.b64encode(seed.ca_pem.encode()).decode()},
                    "version": seed.version,
                    "roleArn": seed.role_arn,
                    "accessConfig": {"authenticationMode": seed.authentication_mode},
                    "resourcesVpcConfig": {
                        "vpcId": seed.vpc_id,
                        "subnetIds": list(seed.subnet_ids),
                        "clusterSecurityGroupId": seed.cluster_security_group_id,
                    },
                    "tags": dict(seed.tags),
                },
            },
        )
        return f"{self._state.service('ministack').url}{answer['review_path']}"

    def _post(self, action: str, document: Any) -> dict[str, Any]:
        url = f"{self._state.service('ministack').url}/_holdfast/{action}"
        return post(url, document, token=self._state.control_token, ca=self._state.ca)


class Ec2Control:
    """The control endpoint of our moto server: EC2 of the sandbox's account in one region."""

    def __init__(self, state: SandboxState, region: str | None = None) -> None:
        self._state = state
        self._region = region or state.region

    def put_instance(self, instance: Ec2Instance) -> None:
        """From now on DescribeInstances answers this instance, in place of one with the same id.

        Raises:
            SandboxError: moto refused it, say because the zone is not in the region.
        """
        self._post(
            "instance",
            {
                "id": instance.id,
                "type": instance.type,
                "zone": instance.zone,
                "launched": instance.launched.isoformat(),
                "spot_request": instance.spot_request,
                "state": instance.state,
                "private_ip": instance.private_ip,
                "tags": dict(instance.tags),
            },
        )

    def set_state(
        self,
        instance_id: str,
        state: str,
        *,
        reason_code: str = "",
        reason_message: str = "",
        transition: str = "",
    ) -> None:
        """State, StateReason and StateTransitionReason of an instance.

        EC2 writes the time of a user's action into `transition`: `User initiated (2026-03-01 10:00:00 GMT)`.

        Raises:
            SandboxError: no such instance, or no such state.
        """
        self._post(
            "state",
            {
                "id": instance_id,
                "state": state,
                "reason_code": reason_code,
                "reason_message": reason_message,
                "transition": transition,
            },
        )

    def ended_by_karpenter(self, instance_id: str, at: datetime) -> None:
        """The instance is terminated, by a call of TerminateInstances at that time.

        Raises:
            SandboxError: no such instance.
        """
        self.set_state(
            instance_id,
            "terminated",
            reason_code="Client.UserInitiatedShutdown",
            reason_message="Client.UserInitiatedShutdown: User initiated shutdown",
            transition=f"User initiated ({at:%Y-%m-%d %H:%M:%S} GMT)",
        )

    def reclaimed(self, instance_id: str) -> None:
        """The instance is terminated, because EC2 wanted its capacity back.

        Raises:
            SandboxError: no such instance.
        """
        self.set_state(
            instance_id,
            "terminated",
            reason_code="Server.SpotInstanceTermination",
            reason_message="Server.SpotInstanceTermination: Spot instance termination",
        )

    def set_spot_request(
        self, instance_id: str, state: str, status_code: str, *, updated: datetime, status_message: str = ""
    ) -> None:
        """State and status of the instance's Spot request, as DescribeSpotInstanceRequests answers them.

        Raises:
            SandboxError: no such instance, or it has no Spot request.
        """
        self._post(
            "spot-request",
            {
                "id": instance_id,
                "state": state,
                "status_code": status_code,
                "status_message": status_message,
                "updated": updated.isoformat(),
            },
        )

    def forget(self, instance_id: str) -> None:
        """From now on EC2 does not know the instance, as about an hour after its termination.

        Raises:
            SandboxError: no such instance.
        """
        self._post("forget", {"id": instance_id})

    def _post(self, action: str, order: dict[str, Any]) -> None:
        url = f"{self._state.service('moto').url}/_holdfast/ec2/{action}"
        post(url, {**order, "region": self._region}, token=self._state.control_token)


def token_review(url: str, ca: Path, token: str) -> Identity | None:
    """Who the EKS bearer token belongs to; None when the authenticator refuses it.

    `url` is what `seed_cluster` gave. MiniStack checks the token's form, age (15 minutes), cluster header and
    SigV4 signature against the secret it issued, then that an access entry of the cluster names the role.

    Raises:
        SandboxError: MiniStack does not answer.
    """
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    status = post(url, review, ca=ca)["status"]
    if not status["authenticated"]:
        return None
    return Identity(status["user"]["username"], tuple(status["user"]["groups"]))


def answers(url: str, ca: Path | None = None) -> bool:
    """Whether a server answers a GET of this URL with success."""
    try:
        with opener(ca).open(url, timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, ValueError):
        return False


def post(url: str, document: Any, *, token: str | None = None, ca: Path | None = None) -> dict[str, Any]:
    """The JSON object that the server answers to this JSON document.

    Raises:
        SandboxError: it refused the document, or does not answer.
    """
    headers = {"Content-Type": "application/json"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)  # noqa: S310
    try:
        with opener(ca).open(request, timeout=_TIMEOUT_SECONDS) as response:
            answer: dict[str, Any] = json.load(response)
            return answer
    except urllib.error.HTTPError as error:
        with error:
            words = error.read().decode(errors="replace")
        raise SandboxError(f"the sandbox refused {request.selector}: {words}") from error
    except OSError as error:
        raise SandboxError(f"{url} does not answer ({error}). Is the sandbox up?") from error


def opener(ca: Path | None) -> urllib.request.OpenerDirector:
    """Opens loopback URLs: no proxy of the person's environment, only the sandbox's authority is trusted."""
    return _made_opener(ca, ca.stat().st_mtime_ns if ca else 0)


@cache
def _made_opener(ca: Path | None, _written: int) -> urllib.request.OpenerDirector:
    # Reading the machine's authorities takes longer than most calls; one that was made anew is read anew.
    context = ssl.create_default_context(cafile=ca) if ca else None
    return urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
