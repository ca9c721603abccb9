"""Degraded mode: when so much happens at once that the audit spares the API servers and the people.

Looks then leave out the pods of most nodes, alerts are told in digests, and every look and verdict says so. What is
known stays known; what was left out makes a verdict less precise, never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import ClassVar

LAG_LIMIT = timedelta(seconds=30)
"""The audit is behind when a message waited longer in its queue."""

OPEN_LIMIT = 1000
"""More open cases than this are a mass interruption."""

CALM = timedelta(minutes=5)
"""Degraded mode ends after so long without a reason for it."""

LAG_COUNTS_FOR = timedelta(seconds=120)
"""Ingest tells of its lag only while it is behind: an older word is of a backlog that is gone."""

VALID_FOR = timedelta(minutes=5)
"""A mode that nobody renewed for so long is not known to hold any more."""


@dataclass(frozen=True, slots=True)
class Lag:
    """How long a message of the audit queue had waited when ingest got it, and when that was."""

    row: ClassVar[str] = "lag"

    waited: float
    at: datetime

    @property
    def duration(self) -> timedelta:
        """`waited`, which is seconds."""
        return timedelta(seconds=self.waited)


@dataclass(frozen=True, slots=True)
class Samples:
    """What the mode is decided by. `lag` is None while ingest is not behind; `open_cases` is None when not known."""

    lag: timedelta | None
    open_cases: int | None


@dataclass(frozen=True, slots=True)
class Mode:
    """Whether the audit is degraded: since when, why, and since when there is no reason for it any more.

    `since` is None in normal mode; `ended_at` then says when degraded mode, begun at `began_at`, last ended.
    """

    row: ClassVar[str] = "mode"

    decided_at: datetime
    since: datetime | None = None
    reason: str = ""
    calm_since: datetime | None = None
    began_at: datetime | None = None
    ended_at: datetime | None = None

    def degraded(self, now: datetime) -> str | None:
        """Why the audit is degraded; None when it is not, or when that is not known because nobody decided lately."""
        return self.reason if self.since is not None and now - self.decided_at < VALID_FOR else None


def mode(now: datetime, samples: Samples, previous: Mode | None) -> Mode:
    """The mode from now on. A sample that is not known neither begins degraded mode nor counts as calm."""
    held = previous if previous is not None else Mode(now)
    reason = _reason(samples)
    if reason is not None:
        return replace(held, decided_at=now, since=held.since or now, reason=reason, calm_since=None)
    if held.since is None:
        return replace(held, decided_at=now)
    if samples.open_cases is None:
        return replace(held, decided_at=now, calm_since=None)
    calm_since = held.calm_since or now
    if now - calm_since < CALM:
        return replace(held, decided_at=now, calm_since=calm_since)
    return Mode(now, began_at=held.since, ended_at=now)


def lag_of(told: Lag | None, now: datetime) -> timedelta | None:
    """How far ingest is behind, by the last word it left; None when it left none lately."""
    return told.duration if told is not None and now - told.at < LAG_COUNTS_FOR else None


def _reason(samples: Samples) -> str | None:
    reasons: list[str] = []
    if samples.lag is not None and samples.lag > LAG_LIMIT:
        reasons.append(f"the audit queue is {samples.lag.total_seconds():.0f} s behind")
    if samples.open_cases is not None and samples.open_cases > OPEN_LIMIT:
        reasons.append(f"more than {OPEN_LIMIT} cases are open")
    return " and ".join(reasons) or None
