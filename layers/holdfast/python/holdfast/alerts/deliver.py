"""Telling the alerts in the outboxes: every destination for itself, one function at a time in each.

An alert is marked as told only after the destination took it: a crash in between tells it twice, never not at all. Slack
takes about one message a second per webhook; whoever holds the lease keeps to that, and to what a 429 asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from holdfast.alerts.alert import Alert
from holdfast.alerts.forms import Form, messages
from holdfast.alerts.quiet import HUSHED, QuietHours
from holdfast.errors import HoldfastError
from holdfast.ports import Busy, Delivery, DeliveryStatus, Lease, Messenger, Outbox, Wakeup, Wakeups

LEASE = timedelta(seconds=45)
"""Longer than the function may run, so that a lease never ends while its holder still posts."""

MAX_ALERTS = 2000
"""Alerts told under one lease; the rest is told under the next."""

WINDOW = timedelta(seconds=60)
"""After telling something, how long the alerts that come are gathered before the next message."""

RETRY_AFTER = timedelta(seconds=30)
"""How long to wait after an outage of the destination that named no time."""

LONGEST_WAIT = timedelta(seconds=900)
"""SQS delays a wake-up by no more."""

MARGIN = timedelta(seconds=12)
"""The function stops before its time is over: one post may take this long, with marking what it told."""


class Parallel(Protocol):
    """Runs independent actions side by side."""

    def __call__(self, actions: Sequence[Callable[[], None]], /) -> Sequence[Exception | None]:
        """The exception of each action, or None, in their order."""


@dataclass(frozen=True, slots=True)
class Destination:
    """A place where people read alerts: its outbox, the way to it, its looks, and the wake-ups for it alone."""

    name: str
    outbox: Outbox
    messenger: Messenger
    form: Form
    wakeups: Wakeups


@dataclass(frozen=True, slots=True)
class Pace:
    """When to tell: `window` gathers after each message; in `quiet` hours what is only good to know waits."""

    window: timedelta = WINDOW
    quiet: QuietHours | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the function: who it is, what time it is, until when it may go on, and how it waits."""

    owner: str
    clock: Callable[[], datetime]
    until: datetime
    pause: Callable[[timedelta], None]


@dataclass(frozen=True, slots=True)
class DeliverResult:
    """What became of a wake-up: alerts told, how many still wait, and in words what stands in the way, if anything.

    `waits` are the times from decided to told of those told alerts that should not wait, and of which it is known.
    """

    told: tuple[str, ...]
    waiting: int
    problem: str | None = None
    undeliverable: bool = False
    waits: tuple[timedelta, ...] = ()


def deliver_all(
    wakeups: Sequence[Wakeup],
    destinations: Sequence[Destination],
    *,
    run: Run,
    pace: Pace,
    parallel: Parallel,
) -> Mapping[str, DeliverResult | HoldfastError]:
    """Tells what waits at each destination that a wake-up is for, all side by side: none is held up by another.

    Gives by destination what became of it, or the error that ended it. A wake-up for a destination that is no longer
    there is for nobody.

    Raises:
        Exception: a defect, after all destinations had their turn.
    """
    results: dict[str, DeliverResult | HoldfastError] = {}

    def tell(destination: Destination, alert_ids: Sequence[str]) -> None:
        try:
            results[destination.name] = deliver(alert_ids, destination, run=run, pace=pace)
        except HoldfastError as error:
            results[destination.name] = error

    wanted = [
        (destination, [wakeup for wakeup in wakeups if wakeup.destination in {None, destination.name}])
        for destination in destinations
    ]
    actions = [
        partial(tell, destination, tuple(dict.fromkeys(name for wakeup in found for name in wakeup.alert_ids)))
        for destination, found in wanted
        if found
    ]
    for defect in parallel(actions):
        if defect is not None:
            raise defect
    return results


def deliver(alert_ids: Sequence[str], destination: Destination, *, run: Run, pace: Pace) -> DeliverResult:
    """Tells the destination's waiting alerts, oldest first, until none is left or the function's time runs out.

    Up to three alerts of a cluster have a message each, more are one digest; then `pace.window` is for gathering.
    `alert_ids` are those the wake-up named; they are found even where the outbox's index does not show them yet.
    """
    clock, wakeups, outbox = run.clock, destination.wakeups, destination.outbox
    lease = outbox.acquire(run.owner, now=clock(), lifetime=LEASE)
    if isinstance(lease, Busy):
        # The holder may have read the outbox already, so these alerts need a wake-up of their own afterwards.
        wakeups.wake(alert_ids, delay=_bounded(lease.until - clock()))
        return DeliverResult(
            (),
            0,
            f"{destination.name}: another notifier has the lease, or it is time to be silent, until"
            f" {lease.until:%H:%M:%S}",
        )
    return _under_lease(lease, alert_ids, destination, run, pace)


def _under_lease(
    lease: Lease, alert_ids: Sequence[str], destination: Destination, run: Run, pace: Pace
) -> DeliverResult:
    clock, wakeups, outbox = run.clock, destination.wakeups, destination.outbox
    not_before: datetime | None = None
    try:
        tally = _tell(alert_ids, destination, run, pace.quiet)
        stopped = tally.stopped
        if stopped is not None:
            wait = RETRY_AFTER if stopped.retry_after is None else _bounded(timedelta(seconds=stopped.retry_after))
            not_before = clock() + wait
            wakeups.wake((), delay=wait)
            gone = stopped.status is DeliveryStatus.REVOKED
            problem = f"{destination.name}: {stopped.reason}"
            return DeliverResult(
                tuple(tally.told), tally.waiting, problem, undeliverable=gone, waits=tuple(tally.waits)
            )
        if tally.told:
            not_before = clock() + pace.window
        if tally.waiting > len(tally.refused):
            wakeups.wake((), delay=_bounded(pace.window) if tally.told else timedelta(0))
        problem = "; ".join(tally.refused)
        return DeliverResult(
            tuple(tally.told),
            tally.waiting,
            f"{destination.name}: {problem}" if problem else None,
            undeliverable=bool(tally.refused),
            waits=tuple(tally.waits),
        )
    finally:
        outbox.release(lease, not_before=not_before)


@dataclass(slots=True)
class _Tally:
    """Alerts told and how long they waited, alerts that were taken in no form, how many are left, and what stopped us, if
    anything.
    """

    told: list[str] = field(default_factory=list)
    waits: list[timedelta] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: int = 0
    stopped: Delivery | None = None


def _tell(alert_ids: Sequence[str], destination: Destination, run: Run, quiet: QuietHours | None) -> _Tally:
    tally = _Tally()
    outbox, messenger = destination.outbox, destination.messenger
    found = outbox.pending(alert_ids, now=run.clock(), limit=MAX_ALERTS + 1)
    loud = _hush(found, outbox, run, quiet)
    for position, message in enumerate(messages(loud[:MAX_ALERTS], destination.form)):
        if run.clock() + MARGIN >= run.until:
            break
        if position:
            run.pause(timedelta(seconds=1))
        outcome = messenger.post(message.payload)
        if outcome.status is DeliveryStatus.REFUSED:
            # The form was not to the receiver's liking; the words still have to arrive.
            outcome = messenger.post(message.plain)
        if outcome.status is DeliveryStatus.REFUSED:
            # What cannot be told must not keep the others back; it stays in the outbox.
            tally.refused.extend(
                f"{alert.id} was refused, as plain text too: {outcome.reason}" for alert in message.alerts
            )
            continue
        if outcome.status is not DeliveryStatus.DELIVERED:
            tally.stopped = outcome
            break
        now = run.clock()
        ids = [alert.id for alert in message.alerts]
        outbox.mark_told(ids, now=now)
        tally.told += ids
        # Information may wait on purpose; what is urgent may not.
        tally.waits += [
            max(now - alert.decided_at, timedelta(0))
            for alert in message.alerts
            if alert.decided_at is not None and alert.severity is not HUSHED
        ]
    # Where all that was found had to be put off, there may be more behind it.
    more = len(found) > MAX_ALERTS and not loud
    tally.waiting = len(loud) - len(tally.told) + more
    return tally


def _hush(alerts: Sequence[Alert], outbox: Outbox, run: Run, quiet: QuietHours | None) -> Sequence[Alert]:
    """The alerts that may be told now; the others are put off until the quiet is over."""
    over = None if quiet is None else quiet.until(run.clock())
    if over is None:
        return alerts
    hushed = [alert.id for alert in alerts if alert.severity is HUSHED]
    if hushed:
        outbox.put_off(hushed, until=over)
    return [alert for alert in alerts if alert.severity is not HUSHED]


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, timedelta(seconds=1)), LONGEST_WAIT)
