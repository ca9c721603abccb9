"""What a look at one instance saw: EC2's answer, the Kubernetes API's, and the state of Karpenter's queue.

This is also the documented file format of `holdfast interruptions judge`; docs/observation.schema.json is generated from
these classes. A part that was not looked at is absent; a part that was looked at without success says how it failed, so
that "never looked", "looked and was refused" and "looked and it is not there" stay three different things.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

MAX_BLOCKERS = 20
"""Blocking pods that an observation names; the rest is a count, so that a row stays under 16 KB."""

MAX_BLOCKER_TEXT = 9_000
"""Characters of their names together; what JSON puts around them comes on top."""

MAX_WORKLOADS = 20
"""Workloads that an observation names and follows; the rest is a count."""

MAX_WORKLOAD_TEXT = 2_000
"""Characters of their names together."""

MAX_REPLACEMENTS = 5
"""NodeClaims that an observation names as probable replacements; the rest is a count."""

MAX_MESSAGE = 200
"""Characters of a message of Kubernetes that an observation keeps."""


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
    when the pods were not read; `pods_reason` then says why. `bound_after_deletion` are the pods among those left that came
    to the node after its NodeClaim was deleted, so the node took pods while it was drained.
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
    bound_after_deletion: int | None = None

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
class WorkloadView:
    """The replicas of one workload with pods on the node.

    `desired` and `ready` are summed over the ReplicaSets of what controls them; both are null when it no longer exists.
    `leaving` are pods of it on this node that are being evicted and still ready: a ReplicaSet no longer counts them.
    """

    kind: str
    namespace: str
    name: str
    desired: int | None
    ready: int | None
    leaving: int = 0

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class Replacement:
    """A NodeClaim of the same NodePool that was made around the interruption. Karpenter does not say what replaces what.

    `state` is `created`, `launched`, `registered`, `initialized` or `deleting`; `reason` why it was not launched.
    """

    nodeclaim: str
    created_at: datetime
    state: str
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None
    reason: str = ""

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class ShortageView:
    """What keeps pods of the workloads waiting, looked up when they are not back after minutes.

    `waiting` are their pods in phase Pending, `message` is the scheduler's word on one of them. `limits` are the limits of
    the NodePool that leave no room, `refused` the NodeClaims that EC2 had no capacity for. Null: not known.
    """

    answer: Answer
    reason: str = ""
    waiting: int | None = None
    message: str = ""
    limits: tuple[str, ...] | None = None
    refused: tuple[str, ...] | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


@dataclass(frozen=True, slots=True)
class WorkloadsView:
    """How many replicas of the workloads with pods on the node are ready.

    `at` is when the replicas were read, up to half a minute before the look. `found` says that the pods of the node were
    read and tell which workloads these are; else the ones that an earlier look found were looked up again. `here` counts
    their pods on the node; null when the pods were not read. `ownerless` are pods on it that nobody starts again (bare
    pods, pods of Jobs), `unread` pods whose owner is of a kind, or a name, of which no replicas are known.
    """

    answer: Answer
    reason: str = ""
    at: datetime | None = None
    found: bool = False
    here: int | None = None
    workloads: tuple[WorkloadView, ...] = ()
    workloads_unnamed: int = 0
    ownerless: int = 0
    unread: int = 0
    replacements: tuple[Replacement, ...] = ()
    replacements_unnamed: int = 0
    shortage: ShortageView | None = None

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
    workloads: WorkloadsView | None = None

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012


def that_fit[T](items: Sequence[T], *, most: int, room: int, text: Callable[[T], str]) -> tuple[T, ...]:
    """The first of the items: so many as an observation may name, and fewer where names are as long as Kubernetes allows.

    `room` is for the characters of their `text` together.
    """
    fitting: list[T] = []
    for item in items[:most]:
        room -= len(text(item))
        if room < 0:
            break
        fitting.append(item)
    return tuple(fitting)
