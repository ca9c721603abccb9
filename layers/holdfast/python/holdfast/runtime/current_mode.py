"""Whether the audit is in degraded mode, for the functions that go by it: read every few seconds, not at every look."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from aws_lambda_powertools import Logger

from holdfast.errors import HoldfastError
from holdfast.interruption.mode import Mode
from holdfast.ports import States

_KEPT_FOR: Final = timedelta(seconds=5)


class CurrentMode:
    """The mode that the sweeper decided last. What cannot be read counts as normal: the work goes on as ever."""

    def __init__(self, states: States, logger: Logger) -> None:
        """Nothing is read yet."""
        self.states = states
        self._logger = logger
        self._read_at: datetime | None = None
        self._mode: Mode | None = None

    def degraded(self, now: datetime) -> str | None:
        """Why the audit is in degraded mode; None when it is not, or when that cannot be found out."""
        if self._read_at is None or now - self._read_at >= _KEPT_FOR:
            self._read_at = now
            try:
                stored = self.states.read(Mode)
                self._mode = None if stored is None else stored.value
            except HoldfastError as error:
                self._logger.error("whether the audit is degraded is not known: %s", error)
                self._mode = None
        return None if self._mode is None else self._mode.degraded(now)
