"""The outside world in memory: every port, with its contract, and with faults on demand.

All fakes of one test share one `Faults`, which numbers each call to the outside. It can end the process before or after
any of them (`Killed`, which nothing may catch), or let a call fail with an error of ours before or after it took effect.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Concatenate

from holdfast.alerts.alert import Alert
from holdfast.errors import Conflict, HoldfastError, NotFound
from holdfast.interruption.event import Fact, Home, Rejection
from holdfast.interruption.observation import Answer, InstanceView, Observation, QueueView
from holdfast.interruption.record import CaseRecord
from holdfast.karpenter.nodeclaim import NodeClaim
from holdfast.karpenter.nodepool import NodePool
from holdfast.karpenter.pods import Pod, PodDisruptionBudget
from holdfast.karpenter.workload import ReplicaList, Replicas
from holdfast.ports import (
    Busy,
    Delivery,
    DeliveryStatus,
    History,
    InstanceKey,
    Lease,
    Look,
    Remembered,
    RuleView,
    Stored,
    Watch,
)

MAX_DELAY = timedelta(minutes=15)
"""SQS delays a message by no more."""


class Killed(BaseException):
    """The process died here. Not an Exception: only the harness may catch it."""


@dataclass
class Faults:
    """Counts the calls to the outside and decides what becomes of each.

    `kill_before` and `kill_after` are the number of the call (from 0) at which the process dies; from then on every
    call dies too, as a dead process makes none, until `revive`.
    """

    kill_before: int | None = None
    kill_after: int | None = None
    calls: list[str] = field(default_factory=list)
    dead: bool = False
    _errors: dict[str, deque[tuple[HoldfastError | None, bool]]] = field(default_factory=dict)

    def fail(self, name: str, *errors: HoldfastError | None, after: bool = False) -> None:
        """The next calls of `name` end with these errors, one each (None: it works); with `after`, having taken effect."""
        self._errors.setdefault(name, deque()).extend((error, after) for error in errors)

    def revive(self) -> None:
        """A new process: it is not killed again."""
        self.dead = False
        self.kill_before = self.kill_after = None

    def run[T](self, name: str, action: Callable[[], T]) -> T:
        """Makes one call to the outside, unless it is its time to die or to fail."""
        if self.dead:
            raise Killed(name)
        number = len(self.calls)
        self.calls.append(name)
        self._die(number == self.kill_before, name)
        waiting = self._errors.get(name)
        error, after = waiting.popleft() if waiting else (None, False)
        if error is not None and not after:
            raise error
        result = action()
        self._die(number == self.kill_after, name)
        if error is not None:
            raise error
        return result

    def _die(self, now: bool, name: str) -> None:
        if now:
            self.dead = True
            raise Killed(name)


class _Fake:
    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()


def outside[F: _Fake, **P, T](method: Callable[Concatenate[F, P], T]) -> Callable[Concatenate[F, P], T]:
    """A method of a fake that is a call to the outside."""

    @functools.wraps(method)
    def called(self: F, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.faults.run(method.__name__, lambda: method(self, *args, **kwargs))

    return called


@dataclass
class Clock:
    """A clock that stands still until it is moved."""

    now: datetime

    def __call__(self) -> datetime:
        return self.now

    def forward(self, wait: timedelta) -> None:
        self.now += wait


@dataclass
class Poison:
    """A rejection's row."""

    rejection: Rejection
    message_id: str
    deliveries: int = 1


@dataclass
class Shelf:
    """The rows of the outbox: what `FakeLedger` puts there and `FakeOutbox` tells."""

    alerts: dict[str, tuple[datetime, Alert]] = field(default_factory=dict)
    told: dict[str, datetime] = field(default_factory=dict)
    put_off: dict[str, datetime] = field(default_factory=dict)

    def put(self, alert: Alert, now: datetime) -> None:
        self.alerts.setdefault(alert.id, (now, alert))

    def waiting(self) -> list[tuple[datetime, Alert]]:
        """With the time since when each could be told, oldest first."""
        rows = [
            (self.put_off.get(alert_id, put_at), alert)
            for alert_id, (put_at, alert) in self.alerts.items()
            if alert_id not in self.told
        ]
        return sorted(rows, key=lambda row: (row[0], row[1].id))


class FakeLedger(_Fake):
    """The Ledger port. `facts`, `observations`, `watches`, `records`, `poison` and `shelf` are its rows."""

    def __init__(self, clock: Callable[[], datetime], faults: Faults | None = None) -> None:
        super().__init__(faults)
        self._clock = clock
        self.facts: dict[tuple[Any, ...], Fact] = {}
        self.observations: dict[InstanceKey, list[Observation]] = {}
        self.watches: dict[InstanceKey, Watch] = {}
        self.records: dict[InstanceKey, dict[str, CaseRecord]] = {}
        self.poison: dict[str, Poison] = {}
        self.shelf = Shelf()

    @outside
    def put_fact(self, fact: Fact) -> bool:
        key = (fact.account, fact.region, fact.subject, fact.at, fact.kind, fact.event_id)
        if key in self.facts:
            return False
        self.facts[key] = fact
        return True

    @outside
    def put_rejection(self, rejection: Rejection, *, day: datetime, message_id: str, alert: Alert | None) -> bool:
        key = f"{day:%Y-%m-%d}/{rejection.digest}"
        known = self.poison.get(key)
        if known is None:
            self.poison[key] = Poison(rejection, message_id)
        else:
            known.deliveries += 1
        if alert is not None:
            self.shelf.put(alert, self._clock())
        return known is None

    @outside
    def put_observation(self, key: InstanceKey, observation: Observation) -> None:
        held = self.observations.setdefault(key, [])
        if observation not in held:
            held.append(observation)

    @outside
    def open_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        if key in self.watches:
            return False
        self.watches[key] = Watch(key, 1, due_at)
        return True

    @outside
    def touch_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        watch = self.watches.get(key)
        if watch is None:
            return False
        due = due_at if watch.due_at is None else min(watch.due_at, due_at)
        self.watches[key] = replace(watch, version=watch.version + 1, due_at=due)
        return True

    @outside
    def history(self, key: InstanceKey) -> History:
        return History(
            key,
            tuple(fact for fact in self.facts.values() if InstanceKey(fact.account, fact.region, fact.subject) == key),
            tuple(self.observations.get(key, ())),
            self.watches.get(key),
            tuple(self.records.get(key, {}).values()),
        )

    @outside
    def save(
        self, watch: Watch, records: Sequence[CaseRecord], alerts: Sequence[Alert], *, obsolete: Sequence[str]
    ) -> None:
        stored = self.watches.get(watch.key)
        if stored is None or stored.version != watch.version:
            raise Conflict(f"the watch of {watch.key.instance_id} was changed since it was read")
        cycles = [*(record.case.cycle for record in records), *obsolete]
        if len(set(cycles)) != len(cycles):
            # DynamoDB refuses two operations on one row in a transaction.
            raise AssertionError(f"one transaction touches a case row twice: {cycles}")
        self.watches[watch.key] = replace(watch, version=watch.version + 1)
        rows = self.records.setdefault(watch.key, {})
        for cycle in obsolete:
            rows.pop(cycle, None)
        rows.update({record.case.cycle: record for record in records})
        for alert in alerts:
            self.shelf.put(alert, self._clock())

    @outside
    def overdue(self, before: datetime, *, limit: int) -> Sequence[Look]:
        late = [
            Look(watch.key, watch.due_at, watch.cluster)
            for watch in self.watches.values()
            if watch.due_at is not None and watch.due_at < before
        ]
        return tuple(sorted(late, key=lambda look: (look.due_at, look.key))[:limit])

    @outside
    def put_alert(self, alert: Alert) -> bool:
        new = alert.id not in self.shelf.alerts
        self.shelf.put(alert, self._clock())
        return new

    @outside
    def canary(self, home: Home, canary_id: str) -> Fact | None:
        wanted = (home.account, home.region, canary_id)
        return next((fact for fact in self.facts.values() if (fact.account, fact.region, fact.subject) == wanted), None)

    @outside
    def count_open(self, before: datetime, *, limit: int) -> int:
        due = [watch for watch in self.watches.values() if watch.due_at is not None and watch.due_at < before]
        return min(len(due), limit)


class FakeStates(_Fake):
    """The States port. `rows` holds what is remembered, by the name of the row."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.rows: dict[str, Stored[Any]] = {}

    @outside
    def read[T: Remembered](self, kind: type[T]) -> Stored[T] | None:
        return self.rows.get(kind.row)

    @outside
    def write(self, value: Remembered, *, version: int) -> None:
        held = self.rows.get(value.row)
        if (0 if held is None else held.version) != version:
            raise Conflict(f"{value.row} was written by somebody else")
        self.rows[value.row] = Stored(value, version + 1)

    @outside
    def put(self, value: Remembered) -> None:
        self.rows[value.row] = Stored(value, 1)


class FakeRules(_Fake):
    """The Rules port. `views` are the rules there are."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.views: dict[str, RuleView] = {}

    @outside
    def describe(self, name: str) -> RuleView:
        if name not in self.views:
            raise NotFound(f"rule {name} does not exist")
        return self.views[name]


class FakeBus(_Fake):
    """The Bus port. `sent` is what it took."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.sent: list[tuple[str, str, Mapping[str, str]]] = []

    @outside
    def send(self, *, source: str, detail_type: str, detail: Mapping[str, str]) -> None:
        self.sent.append((source, detail_type, detail))


class FakeLooks(_Fake):
    """The Looks port: a queue whose messages arrive when they are due, at most 15 minutes after they were sent."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.sent: list[Look] = []
        self._queue: list[tuple[datetime, Look]] = []

    @outside
    def send(self, looks: Sequence[Look], *, now: datetime) -> None:
        for look in looks:
            delay = min(max(look.due_at - now, timedelta(0)), MAX_DELAY)
            self._queue.append((now + delay, look))
            self.sent.append(look)

    def next_at(self) -> datetime | None:
        """When the next message arrives."""
        return min((moment for moment, _ in self._queue), default=None)

    def receive(self, now: datetime, limit: int = 10) -> list[Look]:
        """The messages that have arrived, oldest first; they are off the queue."""
        self._queue.sort(key=lambda item: (item[0], item[1].due_at, item[1].key))
        arrived = [look for moment, look in self._queue if moment <= now][:limit]
        for look in arrived:
            self._queue.remove(next(item for item in self._queue if item[1] == look and item[0] <= now))
        return arrived

    def put_back(self, looks: Sequence[Look], moment: datetime) -> None:
        """Messages that were received and not finished: they come again at `moment`."""
        self._queue.extend((moment, look) for look in looks)


class FakeWakeups(_Fake):
    """The Wakeups port. `sent` holds what was asked for, with its delay."""

    def __init__(self, clock: Callable[[], datetime], faults: Faults | None = None) -> None:
        super().__init__(faults)
        self._clock = clock
        self.sent: list[tuple[tuple[str, ...], timedelta]] = []
        self._queue: list[tuple[datetime, tuple[str, ...]]] = []

    @outside
    def wake(self, alert_ids: Sequence[str], *, delay: timedelta = timedelta(0)) -> None:
        assert timedelta(0) <= delay <= MAX_DELAY, delay
        self.sent.append((tuple(alert_ids), delay))
        self._queue.append((self._clock() + delay, tuple(alert_ids)))

    def next_at(self) -> datetime | None:
        """When the next wake-up arrives."""
        return min((moment for moment, _ in self._queue), default=None)

    def receive(self, now: datetime) -> list[tuple[str, ...]]:
        """The wake-ups that have arrived; they are off the queue."""
        arrived = [ids for moment, ids in self._queue if moment <= now]
        self._queue = [item for item in self._queue if item[0] > now]
        return arrived

    def put_back(self, wakeups: Sequence[tuple[str, ...]], moment: datetime) -> None:
        """Wake-ups that were received and not finished: they come again at `moment`."""
        self._queue.extend((moment, ids) for ids in wakeups)


class FakeInstances(_Fake):
    """EC2. `views` holds an answer, or a function that gives one, for each instance it knows."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.views: dict[str, InstanceView | Callable[[], InstanceView | None]] = {}
        self.asked: list[tuple[str, ...]] = []

    @outside
    def describe(self, instance_ids: Sequence[str]) -> Mapping[str, InstanceView]:
        self.asked.append(tuple(instance_ids))
        answers: dict[str, InstanceView | None] = {
            name: _now(self.views[name]) for name in instance_ids if name in self.views
        }
        return {name: view for name, view in answers.items() if view is not None}


class FakeClusters(_Fake):
    """The Kubernetes APIs. `claims` holds each cluster's NodeClaims, or a function that gives them; `owners` its
    ReplicaSets and StatefulSets, `age` old unless somebody asks for younger ones.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.claims: dict[str, Sequence[NodeClaim] | Callable[[], Sequence[NodeClaim]]] = {}
        self.bound: dict[tuple[str, str], Sequence[Pod] | Callable[[], Sequence[Pod]]] = {}
        self.budgets: dict[str, Sequence[PodDisruptionBudget]] = {}
        self.owners: dict[str, Sequence[Replicas] | Callable[[], Sequence[Replicas]]] = {}
        self.age = timedelta(0)
        self.pools: dict[str, Sequence[NodePool]] = {}
        self.pending: dict[str, Sequence[Pod] | Callable[[], Sequence[Pod]]] = {}

    def names(self) -> Sequence[str]:
        # Its own configuration: no call to the outside.
        return tuple(self.claims)

    @outside
    def nodeclaims(self, cluster: str) -> Sequence[NodeClaim]:
        if cluster not in self.claims:
            raise NotFound(f"{cluster} serves no NodeClaims")
        found: Sequence[NodeClaim] = _now(self.claims[cluster])
        return found

    @outside
    def pods(self, cluster: str, node: str) -> Sequence[Pod]:
        found: Sequence[Pod] = _now(self.bound.get((cluster, node), ()))
        return found

    @outside
    def disruption_budgets(self, cluster: str) -> Sequence[PodDisruptionBudget]:
        return self.budgets.get(cluster, ())

    @outside
    def replicas(self, cluster: str, *, max_age: timedelta) -> ReplicaList:
        return ReplicaList(min(self.age, max_age), tuple(_now(self.owners.get(cluster, ()))))

    @outside
    def nodepools(self, cluster: str) -> Sequence[NodePool]:
        return self.pools.get(cluster, ())

    @outside
    def pending_pods(self, cluster: str) -> Sequence[Pod]:
        found: Sequence[Pod] = _now(self.pending.get(cluster, ()))
        return found


class FakeQueues(_Fake):
    """Karpenter's queues."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.views: dict[str, QueueView | Callable[[], QueueView]] = {}

    @outside
    def depths(self, cluster: str) -> QueueView:
        view: QueueView = _now(self.views.get(cluster, QueueView(Answer.OK, "", 0, 0, 0, 0)))
        return view


class FakeMessenger(_Fake):
    """A webhook that takes everything, unless `outcomes` says what it answers next. `posted` is what it took."""

    def __init__(self, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.outcomes: deque[Delivery] = deque()
        self.posted: list[Mapping[str, Any]] = []
        self.offered: list[Mapping[str, Any]] = []

    @outside
    def post(self, payload: Mapping[str, Any]) -> Delivery:
        self.offered.append(payload)
        outcome = self.outcomes.popleft() if self.outcomes else Delivery(DeliveryStatus.DELIVERED)
        if outcome.status is DeliveryStatus.DELIVERED:
            self.posted.append(payload)
        return outcome


class FakeOutbox(_Fake):
    """The Outbox port on the shelf that a `FakeLedger` fills."""

    def __init__(self, shelf: Shelf, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self._shelf = shelf
        self._lease: Lease | None = None
        self._not_before: datetime | None = None

    @outside
    def acquire(self, owner: str, *, now: datetime, lifetime: timedelta) -> Lease | Busy:
        held = [] if self._lease is None else [self._lease.expires_at]
        silent = [] if self._not_before is None else [self._not_before]
        until = max([moment for moment in (*held, *silent) if moment > now], default=None)
        if until is not None:
            return Busy(until)
        self._lease, self._not_before = Lease(owner, now + lifetime), None
        return self._lease

    @outside
    def release(self, lease: Lease, *, not_before: datetime | None = None) -> None:
        if self._lease == lease:
            self._lease, self._not_before = None, not_before

    @outside
    def pending(self, alert_ids: Sequence[str], *, now: datetime, limit: int) -> Sequence[Alert]:
        waiting = [alert for moment, alert in self._shelf.waiting() if moment <= now]
        asked = set(alert_ids)
        named = [alert for alert in waiting if alert.id in asked]
        return tuple([*named, *(alert for alert in waiting if alert.id not in asked)][:limit])

    @outside
    def mark_told(self, alert_ids: Sequence[str], *, now: datetime) -> None:
        for alert_id in alert_ids:
            if alert_id in self._shelf.alerts:
                self._shelf.told.setdefault(alert_id, now)

    @outside
    def put_off(self, alert_ids: Sequence[str], *, until: datetime) -> None:
        for alert_id in alert_ids:
            if alert_id in self._shelf.alerts and alert_id not in self._shelf.told:
                self._shelf.put_off[alert_id] = until

    @outside
    def oldest(self, *, now: datetime) -> datetime | None:
        return next((moment for moment, _ in self._shelf.waiting() if moment <= now), None)


def one_after_another(actions: Sequence[Callable[[], None]]) -> Sequence[Exception | None]:
    """The Parallel protocol without threads."""
    return list(_outcomes(actions))


def _outcomes(actions: Sequence[Callable[[], None]]) -> Iterator[Exception | None]:
    for action in actions:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - that is its contract
            yield error
        else:
            yield None


def _now(answer: Any) -> Any:
    return answer() if callable(answer) else answer
