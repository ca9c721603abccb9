"""The canary: once an hour Holdfast sends an event to itself and sees whether it arrives in the ledger.

It goes the way of every other event: default bus, a rule of the audit, the audit queue, ingest. No rule of Karpenter's
matches it. What it proves is that an hour without interruptions was quiet, and not deaf.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

from holdfast.errors import Conflict, HoldfastError
from holdfast.interruption.event import CANARY_DETAIL_TYPE, CANARY_SOURCE, Home
from holdfast.ports import Bus, Ledger, States
from holdfast.times import format_time

EVERY = timedelta(hours=1)
LATE = timedelta(seconds=60)
"""A canary that has not arrived by then is late, and is sent again."""


@dataclass(frozen=True, slots=True)
class Canary:
    """The last canary: when it was first sent, and when it was in the ledger; None while it is under way."""

    row: ClassVar[str] = "canary"

    id: str
    started_at: datetime
    landed_at: datetime | None = None

    def waited(self, now: datetime) -> timedelta:
        """From the sending to the arrival, or until now."""
        return (self.landed_at or now) - self.started_at


@dataclass(frozen=True, slots=True)
class CanaryResult:
    """`waited` is what the last canary took, or has taken so far, or how overdue the next one is; None: not known."""

    waited: timedelta | None
    problems: tuple[str, ...] = ()


def tend(*, now: datetime, home: Home, deployment: str, ledger: Ledger, states: States, bus: Bus) -> CanaryResult:
    """Looks for the canary under way, and sends one when it is time or when the last one is late.

    One that is late is not replaced before it arrives, so that its age tells how long the way has been broken. Of several
    sweeps at once one sends: whoever wrote the row.

    Raises:
        HoldfastError: the row of the last canary cannot be read: nothing is known.
    """
    stored = states.read(Canary)
    if stored is None or _is_next_due(stored.value, now):
        canary = Canary(f"canary-{format_time(now)}", now)
        try:
            states.write(canary, version=0 if stored is None else stored.version)
        except Conflict:
            # Another sweep sends it, or this one, whose answer was lost: then it is sent again when it is late.
            return CanaryResult(timedelta(0))
        except HoldfastError as error:
            overdue = None if stored is None else now - stored.value.started_at - EVERY
            return CanaryResult(overdue, (f"beginning a canary: {error}",))
        return CanaryResult(timedelta(0), _send(canary, deployment, bus))
    canary = stored.value
    if canary.landed_at is not None:
        return CanaryResult(canary.waited(now))
    try:
        found = ledger.canary(home, canary.id)
        if found is not None:
            canary = replace(canary, landed_at=found.received_at or now)
            states.write(canary, version=stored.version)
    except Conflict:
        # Another sweep saw it arrive.
        return CanaryResult(canary.waited(now))
    except HoldfastError as error:
        return CanaryResult(canary.waited(now), (f"looking for the canary: {error}",))
    late = canary.landed_at is None and canary.waited(now) >= LATE
    return CanaryResult(canary.waited(now), _send(canary, deployment, bus) if late else ())


def _is_next_due(last: Canary, now: datetime) -> bool:
    return last.landed_at is not None and now - last.started_at >= EVERY


def _send(canary: Canary, deployment: str, bus: Bus) -> tuple[str, ...]:
    try:
        bus.send(
            source=CANARY_SOURCE,
            detail_type=CANARY_DETAIL_TYPE,
            detail={"id": canary.id, "deployment": deployment},
        )
    except HoldfastError as error:
        return (f"sending the canary: {error}",)
    return ()
