"""The one place that reads the clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


def now() -> datetime:
    """The current time, aware, in UTC."""
    return datetime.now(UTC)


def pause(duration: timedelta) -> None:
    """Waits."""
    time.sleep(max(0.0, duration.total_seconds()))
