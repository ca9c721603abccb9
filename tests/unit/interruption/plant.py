"""The whole path on fakes: queues, functions, schedule and clock, with a world in which time passes.

Messages arrive when they are due; a function that dies or fails gives its messages back after the visibility timeout;
the sweeper and the notifier run as in AWS. `run` goes on until nothing is left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from holdfast.alerts.deliver import Destination, Pace, Run, deliver
from holdfast.alerts.forms import SlackForm
from holdfast.alerts.links import Links
from holdfast.errors import HoldfastError
from holdfast.interruption.audit import AuditResult, audit
from holdfast.interruption.case import Scope
from holdfast.interruption.ingest import IngestResult, Message, ingest
from holdfast.interruption.sweep import sweep
from holdfast.ports import InstanceKey, Look
from tests.builders import SCOPE, at
from tests.fakes import (
    Clock,
    FakeClusters,
    FakeInstances,
    FakeLedger,
    FakeLooks,
    FakeMessenger,
    FakeOutbox,
    FakeQueues,
    FakeStates,
    FakeWakeups,
    Faults,
    Killed,
    one_after_another,
)

VISIBILITY = timedelta(seconds=180)
SWEEP = timedelta(seconds=60)


@dataclass
class Plant:
    """Everything on one clock and one set of faults. `scope` says which clusters are ours.

    Every alert is told as soon as it can be, unless a test is about gathering them for a `window`.
    """

    start: float = 0
    scope: Scope = SCOPE
    window: timedelta = timedelta(0)
    clock: Clock = field(init=False)
    faults: Faults = field(default_factory=Faults)

    def __post_init__(self) -> None:
        self.clock = Clock(at(self.start))
        self.ledger = FakeLedger(self.clock, self.faults)
        self.outbox = FakeOutbox(self.ledger.shelf, self.faults)
        self.looks = FakeLooks(self.faults)
        self.wakeups = FakeWakeups(self.clock, self.faults)
        self.instances = FakeInstances(self.faults)
        self.clusters = FakeClusters(self.faults)
        self.queues = FakeQueues(self.faults)
        self.states = FakeStates(self.faults)
        self.messenger = FakeMessenger(self.faults)
        self.inbox: list[tuple[datetime, Message]] = []
        self.problems: list[str] = []
        self.deaths = 0

    # The functions, each called as its handler would.

    def ingest(self, *messages: Message) -> IngestResult:
        return ingest(
            messages,
            home=self.scope.home,
            now=self.clock(),
            ledger=self.ledger,
            instances=self.instances,
            looks=self.looks,
            wakeups=self.wakeups,
            parallel=one_after_another,
            states=self.states,
        )

    def audit(self, *looks: Look, degraded: str | None = None) -> AuditResult:
        return audit(
            looks,
            now=self.clock(),
            scope=self.scope,
            ledger=self.ledger,
            instances=self.instances,
            clusters=self.clusters,
            queues=self.queues,
            looks=self.looks,
            wakeups=self.wakeups,
            degraded=degraded,
        )

    def deliver(self, *ids: str) -> None:
        owner, until = f"notifier-{len(self.faults.calls)}", self.clock() + timedelta(seconds=40)
        deliver(
            ids,
            Destination("slack", self.outbox, self.messenger, SlackForm(Links()), self.wakeups),
            run=Run(owner, self.clock, until, self.clock.forward),
            pace=Pace(self.window),
        )

    def sweep(self) -> None:
        result = sweep(now=self.clock(), ledger=self.ledger, outbox=self.outbox, looks=self.looks, wakeups=self.wakeups)
        self.problems += result.problems

    # Time.

    def arrive(self, seconds: float, *messages: Message) -> None:
        """The messages come into the audit queue at that second."""
        self.inbox += [(at(seconds), message) for message in messages]

    def run(self, until: float = 2 * 3600, *, sweeping: bool = True) -> None:
        """Everything that happens until then."""
        last = at(until)
        next_sweep = self.clock() + SWEEP
        while True:
            due = [moment for moment, _ in self.inbox]
            due += [moment for moment in (self.looks.next_at(), self.wakeups.next_at()) if moment is not None]
            if sweeping and self._open():
                due.append(next_sweep)
            moment = min(due, default=None)
            if moment is None or moment > last:
                return
            self.clock.now = max(self.clock.now, moment)
            self._inbox()
            self._judge()
            self._notify()
            if sweeping and self.clock() >= next_sweep:
                next_sweep = self.clock() + SWEEP
                self._guarded(self.sweep)

    def _open(self) -> bool:
        watched = any(watch.due_at is not None for watch in self.ledger.watches.values())
        return watched or bool(self.ledger.shelf.waiting())

    def _inbox(self) -> None:
        arrived = [message for moment, message in self.inbox if moment <= self.clock()][:10]
        self.inbox = [item for item in self.inbox if item[1] not in arrived]
        if not arrived:
            return
        result = self._guarded(lambda: self.ingest(*arrived))
        failed = {message.id for message in arrived} if result is None else set(result.failed)
        back = self.clock() + VISIBILITY
        self.inbox += [
            (back, replace(message, receive_count=message.receive_count + 1))
            for message in arrived
            if message.id in failed
        ]

    def _judge(self) -> None:
        looks = self.looks.receive(self.clock())
        if not looks:
            return
        result = self._guarded(lambda: self.audit(*looks))
        failed = {look.key for look in looks} if result is None else set(result.failed)
        self.looks.put_back([look for look in looks if look.key in failed], self.clock() + VISIBILITY)

    def _notify(self) -> None:
        for ids in self.wakeups.receive(self.clock()):
            if self._guarded(lambda ids=ids: self.deliver(*ids) or True) is None:  # type: ignore[misc]
                self.wakeups.put_back([ids], self.clock() + VISIBILITY)

    def _guarded[T](self, call: Callable[[], T]) -> T | None:
        """The call's result; None when it raised or the process died in it, which ends the process's faults."""
        try:
            return call()
        except Killed:
            self.deaths += 1
            self.faults.revive()
        except HoldfastError as error:
            self.problems.append(str(error))
        return None

    # What came of it.

    def outcome(self) -> Mapping[str, Any]:
        """All that has to be the same however the work was disturbed: times of looks and versions may differ."""
        return {
            "facts": sorted(self.ledger.facts.values(), key=repr),
            "cases": {key: self.verdicts(key) for key in sorted(self.ledger.records)},
            "told": sorted(self.ledger.shelf.told),
            "waiting": [alert.id for _, alert in self.ledger.shelf.waiting()],
            "poison": sorted(self.ledger.poison),
            "open": [key for key, watch in self.ledger.watches.items() if watch.due_at is not None],
        }

    def verdicts(self, key: InstanceKey) -> dict[str, tuple[str, str | None, bool]]:
        """Verdict, cause and finality of each case of the instance, by cycle."""
        return {
            cycle: (record.judgement.verdict, record.judgement.cause, record.judgement.final)
            for cycle, record in sorted(self.ledger.records[key].items())
        }

    def posted(self) -> list[str]:
        """The first words of every message the webhook took."""
        return [payload["text"] for payload in self.messenger.posted]
