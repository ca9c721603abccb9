"""The safety net: whatever was due and did not happen is asked for again, and what is open is counted."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from holdfast.errors import HoldfastError
from holdfast.ports import Ledger, Looks, Waiting, Wakeups

OVERDUE_AFTER = timedelta(seconds=60)
"""A look that is this late was lost; its message has had ample time to arrive."""

MAX_LOOKS = 500
"""Looks asked for in one sweep; the next one goes on."""


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What a sweep found: looks asked for again, how late the oldest was, how long the oldest alert waits
    that might be told.

    `problems` names what could not be done; the next sweep tries again.
    """

    overdue: int
    oldest_overdue: timedelta | None
    outbox_age: timedelta | None
    problems: tuple[str, ...]


def sweep(*, now: datetime, ledger: Ledger, outbox: Waiting, looks: Looks, wakeups: Wakeups) -> SweepResult:
    """Sends the overdue looks and wakes the notifier when alerts wait."""
    problems: list[str] = []
    overdue = ledger.overdue(now - OVERDUE_AFTER, limit=MAX_LOOKS)
    if overdue:
        try:
            looks.send(overdue, now=now)
        except HoldfastError as error:
            problems.append(f"sending overdue looks: {error}")
    waiting = outbox.oldest(now=now)
    if waiting is not None:
        try:
            wakeups.wake(())
        except HoldfastError as error:
            problems.append(f"waking the notifier: {error}")
    return SweepResult(
        overdue=len(overdue),
        oldest_overdue=now - overdue[0].due_at if overdue else None,
        outbox_age=now - waiting if waiting is not None else None,
        problems=tuple(problems),
    )
