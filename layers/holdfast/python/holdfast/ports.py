"""What the capabilities need from the outside world, in their own words.

Adapters implement these Protocols and translate every vendor error into one of `holdfast.errors`; fakes implement them
in tests. Every method may raise `Unavailable` (try again later) or `Denied` (a permission is missing).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    # The ports only name these types. The notifier, which handles none of them but alerts, starts faster without.
    from holdfast.alerts.alert import Alert
    from holdfast.interruption.event import Fact, Home, Rejection
    from holdfast.interruption.observation import InstanceView, Observation, QueueView
    from holdfast.interruption.record import CaseRecord
    from holdfast.karpenter.nodeclaim import NodeClaim
    from holdfast.karpenter.nodepool import NodePool
    from holdfast.karpenter.pods import Pod, PodDisruptionBudget
    from holdfast.karpenter.workload import ReplicaList


@dataclass(frozen=True, slots=True, order=True)
class InstanceKey:
    """The identity of an instance in the ledger."""

    account: str
    region: str
    instance_id: str


@dataclass(frozen=True, slots=True)
class Watch:
    """The ledger's bookmark on one instance: when to look next, and what was already told about it.

    `version` guards every write; `due_at` is None when nothing is open. `told` holds `cycle/verdict/cause` of each alert
    that has been put into the outbox, so that it is put there once.
    """

    key: InstanceKey
    version: int
    due_at: datetime | None
    cluster: str | None = None
    told: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """All rows of one instance, read consistently."""

    key: InstanceKey
    facts: tuple[Fact, ...]
    observations: tuple[Observation, ...]
    watch: Watch | None
    records: tuple[CaseRecord, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """A request to judge an instance again."""

    key: InstanceKey
    due_at: datetime
    cluster: str | None = None


class Ledger(Protocol):
    """The append-only facts and the cases folded from them."""

    def put_fact(self, fact: Fact) -> bool:
        """Stores the fact unless it is there; True when it is new. Returns only once the row is durable."""

    def put_rejection(self, rejection: Rejection, *, day: datetime, message_id: str, alert: Alert | None) -> bool:
        """Stores what a body was that became no fact, counts it when known already, and puts `alert` into the outbox
        unless an alert of that id was there before. True when this row is new.
        """

    def put_observation(self, key: InstanceKey, observation: Observation) -> None:
        """Stores a look; the same look again is no error."""

    def open_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        """Begins watching the instance; False, and nothing changed, when it is watched already."""

    def touch_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        """Makes an existing watch due at `due_at` or earlier and raises its version; False when there is none."""

    def history(self, key: InstanceKey) -> History:
        """All rows of the instance, by a consistent read."""

    def save(
        self, watch: Watch, records: Sequence[CaseRecord], alerts: Sequence[Alert], *, obsolete: Sequence[str]
    ) -> None:
        """In one transaction: the watch (whose stored version must be `watch.version`; it becomes one more), the case
        rows, the removal of the case rows of the `obsolete` cycles, and the alerts into the outbox.

        Raises:
            Conflict: somebody changed the watch since it was read; nothing was written.
        """

    def overdue(self, before: datetime, *, limit: int) -> Sequence[Look]:
        """Watches that were due before `before`, oldest first."""

    def put_alert(self, alert: Alert) -> bool:
        """Puts the alert into the outbox unless one of its id was there before; True when this call put it."""

    def canary(self, home: Home, canary_id: str) -> Fact | None:
        """The fact of a canary, by a consistent read; None when it has not arrived."""

    def count_open(self, before: datetime, *, limit: int) -> int:
        """How many watches are due before `before`, at most `limit`."""


class Remembered(Protocol):
    """Something that Holdfast remembers of itself from one run to the next: one row of each kind, named `row`."""

    row: ClassVar[str]


@dataclass(frozen=True, slots=True)
class Stored[T]:
    """What a row holds, and the version that guards its next write."""

    value: T
    version: int


class States(Protocol):
    """The rows in which Holdfast remembers what it does to watch over itself."""

    def read[T: Remembered](self, kind: type[T]) -> Stored[T] | None:
        """The row of that kind, by a consistent read; None when there is none."""

    def write(self, value: Remembered, *, version: int) -> None:
        """Writes the row if its version is still `version`, 0 for a row that is not there yet.

        Raises:
            Conflict: somebody else wrote it; nothing was written.
        """

    def put(self, value: Remembered) -> None:
        """Writes the row, whatever it holds."""


@dataclass(frozen=True, slots=True)
class RuleTarget:
    """Where a rule sends events, and where EventBridge puts those it cannot deliver there; ARNs."""

    arn: str
    undelivered: str | None


@dataclass(frozen=True, slots=True)
class RuleView:
    """A rule as EventBridge has it. `pattern` is None for a rule without one."""

    enabled: bool
    pattern: Any
    targets: tuple[RuleTarget, ...]


class Rules(Protocol):
    """The rules of the default event bus."""

    def describe(self, name: str) -> RuleView:
        """The rule.

        Raises:
            NotFound: there is none of that name.
        """


class Bus(Protocol):
    """The default event bus."""

    def send(self, *, source: str, detail_type: str, detail: Mapping[str, str]) -> None:
        """Puts one event on the bus; it takes it or the call raises."""


class Looks(Protocol):
    """The recheck queues."""

    def send(self, looks: Sequence[Look], *, now: datetime) -> None:
        """Sends each look so that it arrives when it is due (at once when overdue; at most 15 minutes ahead).

        Raises:
            Unavailable: at least one was not taken; sending all of them again is harmless.
        """


class Wakeups(Protocol):
    """The notifier's wake-up queue."""

    def wake(self, alert_ids: Sequence[str], *, delay: timedelta = timedelta(0)) -> None:
        """Asks the notifier to look into the outbox, for these alerts first."""


class Instances(Protocol):
    """EC2."""

    def describe(self, instance_ids: Sequence[str]) -> Mapping[str, InstanceView]:
        """What EC2 knows of each instance; an id that is absent from the answer is unknown to EC2."""


class Clusters(Protocol):
    """The Kubernetes APIs of the configured clusters."""

    def names(self) -> Sequence[str]:
        """The clusters that this function can reach."""

    def nodeclaims(self, cluster: str) -> Sequence[NodeClaim]:
        """All NodeClaims of the cluster, by one list.

        Raises:
            NotFound: the cluster serves no NodeClaims: Karpenter's CRDs are not installed.
        """

    def pods(self, cluster: str, node: str) -> Sequence[Pod]:
        """The pods bound to the node."""

    def disruption_budgets(self, cluster: str) -> Sequence[PodDisruptionBudget]:
        """All PodDisruptionBudgets of the cluster, at most 30 seconds old."""

    def replicas(self, cluster: str, *, max_age: timedelta) -> ReplicaList:
        """All ReplicaSets and StatefulSets of the cluster, with their age: at most `max_age`, and never over 30 seconds."""

    def nodepools(self, cluster: str) -> Sequence[NodePool]:
        """All NodePools of the cluster."""

    def pending_pods(self, cluster: str) -> Sequence[Pod]:
        """The pods of the cluster in phase Pending."""


class Queues(Protocol):
    """Karpenter's queues: read by attributes only, never received from."""

    def depths(self, cluster: str) -> QueueView:
        """The approximate message counts of the cluster's queue and dead-letter queues."""


@dataclass(frozen=True, slots=True)
class Wakeup:
    """A request to look into the outboxes: of one `destination`, or of all of them, for the named alerts first."""

    alert_ids: tuple[str, ...] = ()
    destination: str | None = None


class DeliveryStatus(StrEnum):
    """What became of one message: taken, not now, not in this form, or not until somebody mends the way to it."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Delivery:
    """The outcome of one post: with RETRY, how many seconds the receiver asked us to wait (None when it did not say)."""

    status: DeliveryStatus
    reason: str = ""
    retry_after: float | None = None


class Messenger(Protocol):
    """A chat webhook, or a topic."""

    def post(self, payload: Mapping[str, Any]) -> Delivery:
        """Posts one message. A refusal or an outage is an outcome, not an exception."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to post to a destination, until `expires_at`."""

    owner: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else holds the lease, or the destination asked for silence, until `until`."""

    until: datetime


class Waiting(Protocol):
    """Alerts that were decided and have to be told."""

    def oldest(self, *, now: datetime) -> datetime | None:
        """Since when the oldest alert waits that could be told by `now`; None when there is none."""


class Outbox(Waiting, Protocol):
    """The alerts of one destination, and the lease that lets one function tell them at a time."""

    def acquire(self, owner: str, *, now: datetime, lifetime: timedelta) -> Lease | Busy:
        """Takes the lease, or says until when it cannot be had."""

    def release(self, lease: Lease, *, not_before: datetime | None = None) -> None:
        """Gives the lease back; nobody gets it before `not_before`."""

    def pending(self, alert_ids: Sequence[str], *, now: datetime, limit: int) -> Sequence[Alert]:
        """Alerts not told yet and not put off beyond `now`, oldest first: those named (by a consistent read), then all
        others.
        """

    def mark_told(self, alert_ids: Sequence[str], *, now: datetime) -> None:
        """Notes that the alerts were delivered; again is no error."""

    def put_off(self, alert_ids: Sequence[str], *, until: datetime) -> None:
        """Lets the alerts wait until then: they are neither pending nor counted before. What was told stays told."""
