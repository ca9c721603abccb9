"""Messages of the audit queue → facts and rejections in the ledger, and looks for the instances that need judging.

Record first, enrich later: once a fact is durable, no outage of EC2 or of the recheck queue takes it back or fails its
message. What a crash leaves undone (a watch without a look) the sweeper finds by the watch's due time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from holdfast.alerts.alert import Alert, Severity
from holdfast.errors import HoldfastError
from holdfast.interruption.case import NEVER_RAN
from holdfast.interruption.event import (
    ENDING_STATES,
    WARNINGS,
    Disposition,
    Fact,
    Home,
    Kind,
    Rejection,
    arrived,
    parse,
)
from holdfast.interruption.look import describe
from holdfast.interruption.mode import LAG_LIMIT, Lag
from holdfast.interruption.observation import Answer, InstanceView
from holdfast.ports import InstanceKey, Instances, Ledger, Look, Looks, States, Wakeups

REDRIVEN_AFTER = timedelta(minutes=2)
"""A message that SQS took so long after its event was put back from a dead-letter queue: events arrive within seconds,
also when EventBridge delivers them twice, and a message gets there only after five visibility timeouts."""

_REOPENING = frozenset({Kind.REBALANCE, Kind.BID_EVICTED, Kind.TERMINATE_CALL})


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the audit queue. `sent_at` is when SQS took it; `receive_count` counts this delivery too."""

    id: str
    body: str
    sent_at: datetime | None
    receive_count: int = 1


@dataclass(frozen=True, slots=True)
class Stored:
    """A fact in the ledger, the message it came with, and whether it is new there."""

    fact: Fact
    message_id: str
    new: bool


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What became of a batch.

    `failed` maps message ids to the reason why they have to come back; `watched` are the instances a look was asked
    for; `problems` are failures that need no redelivery, since the sweeper finds what they left undone. `canaries` are
    stored too, but count nowhere else: they tell of Holdfast, not of the cluster.
    """

    failed: Mapping[str, str]
    stored: tuple[Stored, ...]
    rejected: tuple[Rejection, ...]
    watched: tuple[InstanceKey, ...]
    problems: tuple[str, ...]
    canaries: int = 0

    @property
    def poison(self) -> int:
        """Bodies of this batch that nobody can read."""
        return sum(1 for rejection in self.rejected if rejection.disposition is Disposition.POISON)

    @property
    def duplicates(self) -> int:
        """Facts of this batch that the ledger already held."""
        return sum(1 for item in self.stored if not item.new)


class Parallel(Protocol):
    """Runs independent actions, possibly side by side, and gives each one's exception, or None."""

    def __call__(self, actions: Sequence[Callable[[], None]], /) -> Sequence[Exception | None]:
        """The outcomes, in the order of the actions."""


@dataclass(frozen=True, slots=True)
class _End:
    """An instance that ended and is not watched: EC2 has to say whether it was an interruption."""

    key: InstanceKey
    at: datetime
    message_id: str


@dataclass(slots=True)
class _Batch:
    stored: list[Stored] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)
    poison_alerts: set[str] = field(default_factory=set)
    due: dict[InstanceKey, datetime] = field(default_factory=dict)
    ends: list[_End] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    canaries: int = 0


def ingest(
    messages: Sequence[Message],
    *,
    home: Home,
    now: datetime,
    ledger: Ledger,
    instances: Instances,
    looks: Looks,
    wakeups: Wakeups,
    parallel: Parallel,
    states: States | None = None,
) -> IngestResult:
    """Stores what the messages say and asks for the looks that follow from it.

    Only a message whose facts, rejection or watch could not be stored is in `failed`; the others may be acknowledged.
    `states` is where the sweeper reads that this function is behind; without it nobody is told.
    """
    batch = _Batch()
    outcomes = parallel([partial(_record, message, batch, home, now, ledger) for message in messages])
    failed: dict[str, str] = {}
    for message, outcome in zip(messages, outcomes, strict=True):
        if isinstance(outcome, HoldfastError):
            failed[message.id] = str(outcome)
        elif outcome is not None:
            raise outcome
    failed |= _open_unwarned(batch, ledger, instances)
    if batch.due:
        try:
            looks.send([Look(key, at) for key, at in sorted(batch.due.items())], now=now)
        except HoldfastError as error:
            batch.problems.append(f"sending looks: {error}; the sweeper will")
    if batch.poison_alerts:
        try:
            wakeups.wake(sorted(batch.poison_alerts))
        except HoldfastError as error:
            batch.problems.append(f"waking the notifier: {error}; the sweeper will")
    if states is not None and (waited := _waited(messages, now)) > LAG_LIMIT:
        try:
            states.put(Lag(waited.total_seconds(), now))
        except HoldfastError as error:
            batch.problems.append(f"telling that the audit is behind: {error}; the next batch will")
    return IngestResult(
        failed,
        tuple(batch.stored),
        tuple(batch.rejected),
        tuple(batch.due),
        tuple(batch.problems),
        batch.canaries,
    )


def _waited(messages: Sequence[Message], now: datetime) -> timedelta:
    """The longest that one of them waited in the queue. One that was tried before also waited for its next try."""
    waits = (
        now - message.sent_at for message in messages if message.sent_at is not None and message.receive_count == 1
    )
    return max(waits, default=timedelta(0))


def _record(message: Message, batch: _Batch, home: Home, now: datetime, ledger: Ledger) -> None:
    """Everything of one message that has to be durable before it may be acknowledged."""
    parsed = parse(message.body, home, sent_at=message.sent_at)
    for fact in parsed.facts:
        new = ledger.put_fact(arrived(fact, sent_at=message.sent_at, received_at=now))
        if fact.kind is Kind.CANARY:
            batch.canaries += 1
            continue
        batch.stored.append(Stored(fact, message.id, new))
        # A fact of a redelivered message may be one whose first delivery died before it was watched.
        if fact.is_instance and (new or message.receive_count > 1):
            _watch(fact, message, batch, now, ledger)
        elif fact.kind in WARNINGS:
            # So may one that was redriven from the dead-letter queue, which counts its deliveries from one again.
            key = InstanceKey(fact.account, fact.region, fact.subject)
            if ledger.open_watch(key, fact.at):
                batch.due[key] = fact.at
        elif fact.is_instance and _redriven(fact, message):
            # Of an end EC2 has to be asked: not for each ordinary duplicate, of which the first copy went well.
            _watch(fact, message, batch, now, ledger)
    if parsed.rejection is not None:
        alert = poison_alert(parsed.rejection, message, home, now)
        ledger.put_rejection(parsed.rejection, day=message.sent_at or now, message_id=message.id, alert=alert)
        batch.rejected.append(parsed.rejection)
        if alert is not None:
            batch.poison_alerts.add(alert.id)


def _redriven(fact: Fact, message: Message) -> bool:
    # A replay of the archive is late too, and repeats what was heard long ago.
    return fact.replay is None and message.sent_at is not None and message.sent_at > fact.at + REDRIVEN_AFTER


def _watch(fact: Fact, message: Message, batch: _Batch, now: datetime, ledger: Ledger) -> None:
    key = InstanceKey(fact.account, fact.region, fact.subject)
    if fact.kind in WARNINGS:
        if ledger.open_watch(key, fact.at):
            batch.due[key] = fact.at
        else:
            ledger.touch_watch(key, now)
            batch.due.setdefault(key, now)
    elif fact.state in ENDING_STATES or fact.kind in _REOPENING:
        if ledger.touch_watch(key, now):
            batch.due.setdefault(key, now)
        elif fact.replay is None and (fact.state in ENDING_STATES or fact.kind is Kind.BID_EVICTED):
            batch.ends.append(_End(key, fact.at, message.id))


def _open_unwarned(batch: _Batch, ledger: Ledger, instances: Instances) -> dict[str, str]:
    """Watches the ended instances that EC2 may have taken; ordinary terminations and foreign instances are left alone."""
    failed: dict[str, str] = {}
    ends = [end for end in batch.ends if end.key not in batch.due]
    if not ends:
        return failed
    views = describe(sorted({end.key.instance_id for end in ends}), instances)
    for end in ends:
        view = views[end.key.instance_id]
        if not _may_be_interruption(view):
            continue
        try:
            ledger.open_watch(end.key, end.at)
        except HoldfastError as error:
            failed[end.message_id] = str(error)
        else:
            batch.due.setdefault(end.key, end.at)
    return failed


def _may_be_interruption(view: InstanceView) -> bool:
    """Whether EC2's answer leaves it possible that EC2 itself ended one of Karpenter's instances.

    Only StateReason tells: state changes alone inflated counts of Spot interruptions more than a hundredfold elsewhere
    (terraform-aws-github-runner#5244).
    """
    if view.answer is not Answer.OK:
        return True
    if view.nodepool is None or view.state_reason == NEVER_RAN:
        return False
    return view.state_reason is None or view.state_reason.startswith("Server.")


def poison_alert(rejection: Rejection, message: Message, home: Home, now: datetime) -> Alert | None:
    """The alert on a body nobody can read: one an hour for each kind of defect. None for bodies that are merely ignored."""
    if rejection.disposition is not Disposition.POISON:
        return None
    at = message.sent_at or now
    return Alert(
        id=f"poison/{home.account}/{home.region}/{at:%Y-%m-%dT%H}/{rejection.code}",
        severity=Severity.WARNING,
        title="A message in the audit queue is no event that can be read",
        what=f"{rejection.reason[:1].upper()}{rejection.reason[1:]}.",
        meaning=(
            "If it was an interruption notice, the audit does not know which instance it was about, and Karpenter "
            "deletes such a message without acting on it. The body is kept in the ledger."
        ),
        action="Find out who sends to the bus or the queue; more of the same kind within this hour are counted, not told.",
        at=at,
        fields=(("Defect", rejection.code), ("Message", message.id), ("SHA-256", rejection.digest[:16])),
        subject=message.id,
        group=("unreadable message", rejection.code),
        runbook="poison-message",
        source=f"rejection {rejection.digest}",
        command="holdfast interruptions rejected",
        overview="holdfast interruptions rejected",
        decided_at=now,
    )
