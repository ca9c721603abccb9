"""What a look at one instance saw: EC2's answer, the Kubernetes API's, and the state of Karpenter's queue.

This is also the documented file format of `holdfast interruptions judge`; docs/observation.schema.json is generated from
these classes. A part that was not looked at is absent; a part that was looked at without success says how it failed, so
that "never looked", "looked and was refused" and "looked and it is not there" stay three different things.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_BLOCKERS = 20
"""Blocking pods that an observation names; the rest is a count, so that a row stays under 16 KB."""

MAX_BLOCKER_TEXT = 11_000
"""Characters of their names together; what JSON puts around them comes on top."""


class Answer(StrEnum):
    """How one question of a look ended."""

    OK = "ok"
    NOT_FOUND = "not_found"
    DENIED = "denied"
    THROTTLED = "throttled"
    ERROR = "error"
    SKIPPED = "skipped"


SILENT = frozenset({Answer.DENIED, Answer.THROTTLED, Answer.ERROR})
"""The answers that leave a question open: asking again may bring one."""


@dataclass(frozen=True, slots=True)
class InstanceView:
    """What EC2 DescribeInstances said. With `not_found`, EC2 no longer knows the instance (about an hour after its end).

    `state_reason` is `StateReason.Code`; `transitioned_at` the time inside `StateTransitionReason`; `spot_status` the
    status code of the Spot request; `cluster`, `nodepool` and `nodeclaim` come from the tags Karpenter sets.
    """

    answer: Answer
    reason: str = ""
    state: str | None = None
    state_reason: str | None = None
    transitioned_at: datetime | None = None
    launched_at: datetime | None = None
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    spot_status: str | None = None
    cluster: str | None = None
    nodepool: str | None = None
    nodeclaim: str | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 - read by pydantic, never written


class BlockerReason(StrEnum):
    """Why a pod does not leave a node that Karpenter drains."""

    PDB = "pdb"
    DO_NOT_DISRUPT = "do_not_disrupt"
    GRACE_PERIOD = "grace_period"


@dataclass(frozen=True, slots=True)
class Blocker:
    """A pod still on the node, and what holds it: the PodDisruptionBudget's name, the annotation, or its grace seconds."""

    namespace: str
    pod: str
    reason: BlockerReason
    detail: str
    owner: str | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Condition:
    """A status condition of the NodeClaim: `Launched`, `Drained`, `VolumesDetached` or `InstanceTerminating`."""

    type: str
    status: str
    reason: str = ""
    since: datetime | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What the Kubernetes API said about the instance's NodeClaim and the pods on its node.

    `not_found` means the list was read and no NodeClaim carries this instance's provider id. `termination_at` is the
    annotation `karpenter.sh/nodeclaim-termination-timestamp`, `grace_period` the NodeClaim's `terminationGracePeriod` in
    seconds. `pods_left` counts the pods a drain has to move (no DaemonSet, mirror or finished pods, none that tolerate
    `karpenter.sh/disrupted`); `longest_grace` is the longest grace period among them in seconds. The pod fields are null
    when the pods were not read; `pods_reason` then says why.
    """

    answer: Answer
    reason: str = ""
    cluster: str | None = None
    nodeclaim: str | None = None
    nodepool: str | None = None
    node: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    created_at: datetime | None = None
    deleted_at: datetime | None = None
    termination_at: datetime | None = None
    grace_period: int | None = None
    conditions: tuple[Condition, ...] = ()
    pods_answer: Answer = Answer.SKIPPED
    pods_reason: str = ""
    pods_left: int | None = None
    longest_grace: int | None = None
    blockers: tuple[Blocker, ...] = ()
    blockers_unnamed: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012

    def condition(self, name: str) -> Condition | None:
        """The condition of that type, or None when the NodeClaim does not carry it."""
        return next((item for item in self.conditions if item.type == name), None)


@dataclass(frozen=True, slots=True)
class QueueView:
    """Approximate message counts of Karpenter's queue and of its dead-letter queues; null where one does not exist.

    `retention` is how many seconds Karpenter's queue keeps a message.
    """

    answer: Answer
    reason: str = ""
    visible: int | None = None
    in_flight: int | None = None
    dead_letters: int | None = None
    undelivered: int | None = None
    retention: int | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at one instance at one time.

    `degraded` is why the audit was in degraded mode, in which most looks leave out the pods; null when it was not.
    """

    instance_id: str
    at: datetime
    account: str | None = None
    region: str | None = None
    ec2: InstanceView | None = None
    kubernetes: ClusterView | None = None
    queue: QueueView | None = None
    degraded: str | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012
