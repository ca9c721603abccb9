"""Quiet hours by the wall clock of a place, over midnight and on the days the clocks change."""

from datetime import UTC, datetime, time
from zoneinfo import ZoneInfo

import pytest

from holdfast.alerts.quiet import QuietHours

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = QuietHours(time(22), time(7), BERLIN)
DAY = QuietHours(time(9), time(17, 30), BERLIN)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        # Winter: Berlin is an hour ahead of UTC.
        (NIGHT, "2026-12-01T20:59:59", None),
        (NIGHT, "2026-12-01T21:00:00", "2026-12-02T06:00:00"),
        (NIGHT, "2026-12-02T03:00:00", "2026-12-02T06:00:00"),
        (NIGHT, "2026-12-02T05:59:59", "2026-12-02T06:00:00"),
        (NIGHT, "2026-12-02T06:00:00", None),
        # Summer: two hours.
        (NIGHT, "2026-07-01T19:59:59", None),
        (NIGHT, "2026-07-01T20:00:00", "2026-07-02T05:00:00"),
        (NIGHT, "2026-07-02T05:00:00", None),
        (DAY, "2026-07-01T06:59:59", None),
        (DAY, "2026-07-01T07:00:00", "2026-07-01T15:30:00"),
        (DAY, "2026-07-01T15:30:00", None),
        # The night of 29 March 2026 is an hour shorter, that of 25 October an hour longer.
        (NIGHT, "2026-03-28T21:00:00", "2026-03-29T05:00:00"),
        (NIGHT, "2026-03-29T04:59:59", "2026-03-29T05:00:00"),
        (NIGHT, "2026-03-29T05:00:00", None),
        (NIGHT, "2026-10-24T20:00:00", "2026-10-25T06:00:00"),
        (NIGHT, "2026-10-25T05:59:59", "2026-10-25T06:00:00"),
        # 02:30 is left out on 29 March (it counts as 03:30) and comes twice on 25 October (its first counts).
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-03-29T01:29:59", "2026-03-29T01:30:00"),
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-03-29T01:30:00", None),
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-10-25T00:29:59", "2026-10-25T00:30:00"),
        (QuietHours(time(22), time(2, 30), BERLIN), "2026-10-25T00:30:00", None),
        (QuietHours(time(2, 30), time(5), BERLIN), "2026-10-25T01:00:00", "2026-10-25T04:00:00"),
        # Far from UTC, the day there is another.
        (QuietHours(time(22), time(7), ZoneInfo("Pacific/Auckland")), "2026-07-01T12:00:00", "2026-07-01T19:00:00"),
    ],
)
def test_quiet_lasts_from_one_wall_clock_time_to_the_other(hours: QuietHours, now: str, until: str | None):
    assert hours.until(utc(now)) == (None if until is None else utc(until))
