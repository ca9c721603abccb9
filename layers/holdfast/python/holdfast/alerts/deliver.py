"""Telling the alerts in the outbox, one function at a time.

An alert is marked as told only after the webhook took it: a crash in between tells it twice, never not at all. Slack
takes about one message a second per webhook; whoever holds the lease keeps to that, and to what a 429 asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from holdfast.alerts.alert import Alert, Severity
from holdfast.alerts.digest import SINGLY, by_cluster, digest_payload, plain_digest
from holdfast.alerts.message import plain_payload, slack_payload
from holdfast.ports import Busy, Delivery, DeliveryStatus, Messenger, Outbox, Wakeups

LEASE = timedelta(seconds=45)
"""Longer than the function may run, so that a lease never ends while its holder still posts."""

MAX_ALERTS = 500
"""Alerts told under one lease; the rest is told under the next."""

WINDOW = timedelta(seconds=60)
"""After telling something, how long the alerts that come are gathered before the next message."""

RETRY_AFTER = timedelta(seconds=30)
"""How long to wait after an outage of the webhook that named no time."""

LONGEST_WAIT = timedelta(seconds=900)
"""SQS delays a wake-up by no more."""

MARGIN = timedelta(seconds=8)
"""The function stops before its time is over: one post may take this long."""


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


def deliver(
    alert_ids: Sequence[str],
    *,
    owner: str,
    clock: Callable[[], datetime],
    until: datetime,
    outbox: Outbox,
    messenger: Messenger,
    wakeups: Wakeups,
    pause: Callable[[timedelta], None],
    window: timedelta = WINDOW,
    runbook_url: str | None = None,
) -> DeliverResult:
    """Tells the waiting alerts, oldest first, until none is left or the function's time (`until`) runs out.

    Up to three alerts of a cluster have a message each, more are one digest; then `window` is for gathering.
    `alert_ids` are those the wake-up named; they are found even where the outbox's index does not show them yet.
    """
    lease = outbox.acquire(owner, now=clock(), lifetime=LEASE)
    if isinstance(lease, Busy):
        # The holder may have read the outbox already, so these alerts need a wake-up of their own afterwards.
        wakeups.wake(alert_ids, delay=_bounded(lease.until - clock()))
        return DeliverResult(
            (),
            0,
            f"another notifier has the lease, or the webhook asked for silence, until {lease.until:%H:%M:%S}",
        )
    not_before: datetime | None = None
    try:
        tally = _tell(alert_ids, clock, until, outbox, messenger, pause, runbook_url)
        stopped = tally.stopped
        if stopped is not None:
            wait = RETRY_AFTER if stopped.retry_after is None else _bounded(timedelta(seconds=stopped.retry_after))
            not_before = clock() + wait
            wakeups.wake((), delay=wait)
            revoked = stopped.status is DeliveryStatus.REVOKED
            return DeliverResult(
                tuple(tally.told), tally.waiting, stopped.reason, undeliverable=revoked, waits=tuple(tally.waits)
            )
        if tally.told:
            not_before = clock() + window
        if tally.waiting > len(tally.refused):
            wakeups.wake((), delay=_bounded(window) if tally.told else timedelta(0))
        problem = "; ".join(tally.refused) or None
        return DeliverResult(
            tuple(tally.told),
            tally.waiting,
            problem,
            undeliverable=bool(tally.refused),
            waits=tuple(tally.waits),
        )
    finally:
        outbox.release(lease, not_before=not_before)


@dataclass(slots=True)
class _Tally:
    """Alerts told and how long they waited, alerts the webhook would not take in any form, how many are left, and what
    stopped us, if anything.
    """

    told: list[str] = field(default_factory=list)
    waits: list[timedelta] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    waiting: int = 0
    stopped: Delivery | None = None


def _tell(
    alert_ids: Sequence[str],
    clock: Callable[[], datetime],
    until: datetime,
    outbox: Outbox,
    messenger: Messenger,
    pause: Callable[[timedelta], None],
    runbook_url: str | None,
) -> _Tally:
    tally = _Tally()
    alerts = outbox.pending(alert_ids, limit=MAX_ALERTS + 1)
    messages = _messages(alerts[:MAX_ALERTS], runbook_url)
    for position, message in enumerate(messages):
        if clock() + MARGIN >= until:
            break
        if position:
            pause(timedelta(seconds=1))
        outcome = messenger.post(message.payload)
        if outcome.status is DeliveryStatus.REFUSED:
            # The blocks were not to Slack's liking; the words still have to arrive.
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
        for alert in message.alerts:
            now = clock()
            outbox.mark_told(alert.id, now=now)
            tally.told.append(alert.id)
            # Information may wait on purpose; what is urgent may not.
            if alert.decided_at is not None and alert.severity is not Severity.INFO:
                tally.waits.append(max(now - alert.decided_at, timedelta(0)))
    tally.waiting = len(alerts) - len(tally.told)
    return tally


@dataclass(frozen=True, slots=True)
class _Message:
    """One post: the alerts it tells, as blocks and as plain text."""

    alerts: tuple[Alert, ...]
    payload: Mapping[str, Any]
    plain: Mapping[str, Any]


def _messages(alerts: Sequence[Alert], runbook_url: str | None) -> list[_Message]:
    messages: list[_Message] = []
    for members in by_cluster(alerts).values():
        if len(members) > SINGLY:
            messages.append(_Message(members, digest_payload(members), plain_digest(members)))
        else:
            messages.extend(
                _Message((alert,), slack_payload(alert, runbook_url=runbook_url), plain_payload(alert))
                for alert in members
            )
    return messages


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, timedelta(seconds=1)), LONGEST_WAIT)
