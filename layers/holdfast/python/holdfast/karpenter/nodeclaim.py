"""What a NodeClaim says, read from the object the Kubernetes API returns (karpenter.sh/v1, Karpenter 1.14)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from holdfast.karpenter.nodepool import quantities
from holdfast.times import parse_time

TERMINATION_TIMESTAMP = "karpenter.sh/nodeclaim-termination-timestamp"
"""Annotation: when Karpenter stops waiting for the drain (deletion plus terminationGracePeriod, or at once when forceful)."""

NODEPOOL_LABEL = "karpenter.sh/nodepool"
CAPACITY_TYPE_LABEL = "karpenter.sh/capacity-type"

_DURATION_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(f"(?:{_DURATION_PART.pattern})+")
_UNIT = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LONGEST_SECONDS = 2**63 / 1e9
"""Go counts durations in nanoseconds, in 64 bits: about 292 years."""


@dataclass(frozen=True, slots=True)
class StatusCondition:
    """One entry of `status.conditions`."""

    type: str
    status: str
    reason: str
    since: datetime | None
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """The parts of a NodeClaim that an interruption depends on.

    `instance_id` is None until Karpenter has written `status.providerID`: Karpenter itself cannot match a message to it
    before that either. `capacity` are the quantities of the node, as they are written.
    """

    name: str
    instance_id: str | None
    nodepool: str | None
    node: str | None
    instance_type: str | None
    zone: str | None
    capacity_type: str | None
    created_at: datetime | None
    deleted_at: datetime | None
    termination_at: datetime | None
    grace_period: timedelta | None
    conditions: tuple[StatusCondition, ...]
    capacity: Mapping[str, str] = field(default_factory=dict)

    def condition(self, name: str) -> StatusCondition | None:
        """The condition of that type, or None when the NodeClaim does not carry it."""
        return next((item for item in self.conditions if item.type == name), None)


def parse_nodeclaim(item: Mapping[str, Any]) -> NodeClaim:
    """The NodeClaim in one item of a list; missing or unreadable fields become None, never an error."""
    metadata = _mapping(item.get("metadata"))
    labels = _mapping(metadata.get("labels"))
    annotations = _mapping(metadata.get("annotations"))
    spec = _mapping(item.get("spec"))
    status = _mapping(item.get("status"))
    raw_conditions = status.get("conditions")
    return NodeClaim(
        name=str(metadata.get("name", "")),
        instance_id=instance_of(status.get("providerID")),
        nodepool=labels.get(NODEPOOL_LABEL),
        node=status.get("nodeName") or None,
        instance_type=labels.get("node.kubernetes.io/instance-type"),
        zone=labels.get("topology.kubernetes.io/zone"),
        capacity_type=labels.get(CAPACITY_TYPE_LABEL),
        created_at=time_or_none(metadata.get("creationTimestamp")),
        deleted_at=time_or_none(metadata.get("deletionTimestamp")),
        termination_at=time_or_none(annotations.get(TERMINATION_TIMESTAMP)),
        grace_period=parse_duration(spec.get("terminationGracePeriod")),
        conditions=tuple(
            StatusCondition(
                type=str(entry.get("type", "")),
                status=str(entry.get("status", "")),
                reason=str(entry.get("reason", "")),
                since=time_or_none(entry.get("lastTransitionTime")),
                message=str(entry.get("message", "")),
            )
            for entry in (raw_conditions if isinstance(raw_conditions, list) else ())
            if isinstance(entry, dict)
        ),
        capacity=quantities(status.get("capacity")),
    )


def instance_of(provider_id: object) -> str | None:
    """The EC2 instance id at the end of a provider id such as `aws:///ap-southeast-1a/i-0a11111111111111a`."""
    if not isinstance(provider_id, str):
        return None
    last = provider_id.rsplit("/", 1)[-1]
    return last if last.startswith("i-") else None


def parse_duration(value: object) -> timedelta | None:
    """A duration as Go and so Karpenter reads it, such as `1h30m` or `1.5h`; None when absent, no duration, or negative."""
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return None
    seconds = sum(float(number) * _UNIT[unit] for number, unit in _DURATION_PART.findall(value))
    return timedelta(seconds=seconds) if seconds < _LONGEST_SECONDS else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def time_or_none(value: object) -> datetime | None:
    """The point in time of a Kubernetes timestamp; None when it is absent or unreadable."""
    if not isinstance(value, str):
        return None
    try:
        return parse_time(value)
    except ValueError:
        return None
