"""The hours in which nobody wants to hear what is only good to know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo

from holdfast.alerts.alert import Severity

HUSHED = Severity.INFO
"""The only severity that waits; a page or a warning never does."""

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Every day from `start` to `end` on the wall clock of `zone`; over midnight where `end` is the earlier one.

    On the day the clocks go forward, a time that is left out counts as by the clock before the change (02:30 is the
    moment 03:30); on the day they go back, a time that comes twice is its first.
    """

    start: time
    end: time
    zone: tzinfo

    def until(self, now: datetime) -> datetime | None:
        """When the quiet that `now` lies in is over, in UTC; None when it lies in none."""
        today = now.astimezone(self.zone).date()
        for day in (today - _DAY, today):
            begins = self._moment(datetime.combine(day, self.start))
            ends = self._moment(datetime.combine(day if self.start < self.end else day + _DAY, self.end))
            if begins <= now < ends:
                return ends
        return None

    def _moment(self, wall: datetime) -> datetime:
        return wall.replace(tzinfo=self.zone).astimezone(UTC)
