"""Telling the alerts in the outbox, one function at a time.

An alert is marked as told only after the webhook took it: a crash in between tells it twice, never not at all. Slack
takes about one message a second per webhook; whoever holds the lease keeps to that, and to what a 429 asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.alerts.message import plain_payload, slack_payload
from holdfast.ports import Busy, Delivery, DeliveryStatus, Messenger, Outbox, Wakeups

LEASE = timedelta(seconds=45)
"""Longer than the function may run, so that a lease never ends while its holder still posts."""

MAX_MESSAGES = 20
"""Alerts told under one lease; the rest is told under the next."""

RETRY_AFTER = timedelta(seconds=30)
"""How long to wait after an outage of the webhook that named no time."""

LONGEST_WAIT = timedelta(seconds=900)
"""SQS delays a wake-up by no more."""

MARGIN = timedelta(seconds=8)
"""The function stops before its time is over: one post may take this long."""


@dataclass(frozen=True, slots=True)
class DeliverResult:
    """What became of a wake-up: alerts told, how many still wait, and in words what stands in the way, if anything."""

    told: tuple[str, ...]
    waiting: int
    problem: str | None = None
    undeliverable: bool = False


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
    runbook_url: str | None = None,
) -> DeliverResult:
    """Tells the waiting alerts, oldest first, until none is left or the function's time (`until`) runs out.

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
        told, waiting, outcome = _tell(alert_ids, clock, until, outbox, messenger, pause, runbook_url)
        if outcome is not None and outcome.status is not DeliveryStatus.DELIVERED:
            wait = _bounded(timedelta(seconds=outcome.retry_after)) if outcome.retry_after is not None else RETRY_AFTER
            not_before = clock() + wait
            wakeups.wake((), delay=wait)
            return DeliverResult(
                tuple(told), waiting, outcome.reason, undeliverable=outcome.status is not DeliveryStatus.RETRY
            )
        if waiting:
            wakeups.wake(())
        return DeliverResult(tuple(told), waiting)
    finally:
        outbox.release(lease, not_before=not_before)


def _tell(
    alert_ids: Sequence[str],
    clock: Callable[[], datetime],
    until: datetime,
    outbox: Outbox,
    messenger: Messenger,
    pause: Callable[[timedelta], None],
    runbook_url: str | None,
) -> tuple[list[str], int, Delivery | None]:
    """The ids told, the number of alerts left, and the delivery that stopped us, if one did."""
    told: list[str] = []
    alerts = outbox.pending(alert_ids, limit=MAX_MESSAGES + 1)
    for position, alert in enumerate(alerts):
        if position >= MAX_MESSAGES or clock() + MARGIN >= until:
            return told, len(alerts) - position, None
        if position:
            pause(timedelta(seconds=1))
        outcome = messenger.post(slack_payload(alert, runbook_url=runbook_url))
        if outcome.status is DeliveryStatus.REFUSED:
            # The blocks were not to Slack's liking; the words still have to arrive.
            outcome = messenger.post(plain_payload(alert))
        if outcome.status is not DeliveryStatus.DELIVERED:
            return told, len(alerts) - position, outcome
        outbox.mark_told(alert.id, now=clock())
        told.append(alert.id)
    return told, 0, None


def _bounded(wait: timedelta) -> timedelta:
    return min(max(wait, timedelta(seconds=1)), LONGEST_WAIT)
