"""What EC2 knows of instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import batched
from typing import TYPE_CHECKING, Final

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.errors import HoldfastError
from holdfast.interruption.event import ENDING_STATES
from holdfast.interruption.observation import Answer, InstanceView
from holdfast.times import parse_time

if TYPE_CHECKING:
    from types_boto3_ec2 import EC2Client
    from types_boto3_ec2.type_defs import InstanceTypeDef

_IDS_A_CALL: Final = 200
"""Values that one EC2 filter takes. Ids go by filter: with `InstanceIds` one unknown id fails the whole call."""

_PAGE: Final = 1000
_TRANSITIONED = re.compile(r"\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)")
_OWNED = "kubernetes.io/cluster/"
_CAPACITY_TYPES: Final[Mapping[str, str]] = {
    "spot": "spot",
    "capacity-block": "reserved",
    "interruptible-capacity-reservation": "reserved",
}


class Ec2Instances:
    """The `Instances` port on DescribeInstances."""

    def __init__(self, client: EC2Client) -> None:
        """Asks in the client's region."""
        self._client = client

    @calls("ec2:DescribeInstances", "ec2:DescribeSpotInstanceRequests")
    def describe(self, instance_ids: Sequence[str]) -> Mapping[str, InstanceView]:
        """What EC2 knows of each instance; an id absent from the answer is unknown to EC2, or no longer known.

        The status of the Spot request is asked for instances that have ended. Where that fails, the rest of the view
        stands and its reason says so.
        """
        views: dict[str, InstanceView] = {}
        requests: dict[str, str] = {}
        for instance in self._instances(dict.fromkeys(instance_ids)):
            instance_id = instance["InstanceId"]
            views[instance_id] = view = _view(instance)
            request = instance.get("SpotInstanceRequestId")
            if request and view.state in ENDING_STATES:
                requests[request] = instance_id
        if requests:
            try:
                statuses = self._spot_statuses(tuple(requests))
            except HoldfastError as error:
                for instance_id in requests.values():
                    views[instance_id] = replace(views[instance_id], reason=f"Spot status not known: {error}")
            else:
                for request, status in statuses.items():
                    views[requests[request]] = replace(views[requests[request]], spot_status=status)
        return views

    def _instances(self, instance_ids: Iterable[str]) -> Iterable[InstanceTypeDef]:
        paginator = self._client.get_paginator("describe_instances")
        for ids in batched(instance_ids, _IDS_A_CALL, strict=False):
            with translated(f"describing {len(ids)} instances", action="ec2:DescribeInstances", on="*"):
                pages = paginator.paginate(
                    Filters=[{"Name": "instance-id", "Values": list(ids)}], PaginationConfig={"PageSize": _PAGE}
                )
                for page in pages:
                    for reservation in page["Reservations"]:
                        yield from reservation["Instances"]

    def _spot_statuses(self, requests: Sequence[str]) -> Mapping[str, str]:
        statuses: dict[str, str] = {}
        paginator = self._client.get_paginator("describe_spot_instance_requests")
        for ids in batched(requests, _IDS_A_CALL, strict=False):
            doing = f"describing {len(ids)} Spot requests"
            with translated(doing, action="ec2:DescribeSpotInstanceRequests", on="*"):
                pages = paginator.paginate(
                    Filters=[{"Name": "spot-instance-request-id", "Values": list(ids)}],
                    PaginationConfig={"PageSize": _PAGE},
                )
                statuses |= {
                    item["SpotInstanceRequestId"]: item["Status"]["Code"]
                    for page in pages
                    for item in page["SpotInstanceRequests"]
                    if item.get("Status", {}).get("Code")
                }
        return statuses


def _view(instance: InstanceTypeDef) -> InstanceView:
    tags = {tag["Key"]: tag["Value"] for tag in instance.get("Tags", [])}
    launched_at = instance.get("LaunchTime")
    return InstanceView(
        answer=Answer.OK,
        state=instance.get("State", {}).get("Name"),
        state_reason=instance.get("StateReason", {}).get("Code") or None,
        transitioned_at=_transitioned_at(instance.get("StateTransitionReason", "")),
        launched_at=None if launched_at is None else launched_at.astimezone(UTC),
        instance_type=instance.get("InstanceType"),
        zone=instance.get("Placement", {}).get("AvailabilityZone"),
        capacity_type=_CAPACITY_TYPES.get(instance.get("InstanceLifecycle", ""), "on-demand"),
        cluster=_cluster(tags),
        nodepool=tags.get("karpenter.sh/nodepool"),
        nodeclaim=tags.get("karpenter.sh/nodeclaim"),
    )


def _transitioned_at(reason: str) -> datetime | None:
    """The time in a text such as `User initiated (2026-09-01 04:11:01 GMT)`; None where EC2 wrote none."""
    found = _TRANSITIONED.search(reason)
    return None if found is None else parse_time(found[1])


def _cluster(tags: Mapping[str, str]) -> str | None:
    """The cluster by the tags that Karpenter puts on at launch; None when they name none, or several."""
    name = tags.get("eks:eks-cluster-name")
    if name:
        return name
    owners = [key.removeprefix(_OWNED) for key, value in tags.items() if key.startswith(_OWNED) and value == "owned"]
    return owners[0] if len(owners) == 1 else None
