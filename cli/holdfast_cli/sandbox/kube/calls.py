"""The log of what clients did, the stand-in for the audit log."""

import json
from collections import deque
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import Any

from holdfast_cli.sandbox.kube.times import moment

_KEPT = 20_000  # a sandbox left running for days must not grow without bound


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """One call and its answer. `code` 0: closed unanswered. `user` "": no token was accepted."""

    time: datetime
    verb: str
    user: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    user_agent: str
    uri: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"time": self.time.isoformat()}

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> "LoggedCall":
        return cls(**(row | {"time": moment(row["time"])}))


class CallLog:
    """The newest calls in memory and, if a file is given, every call as a line of JSON."""

    def __init__(self, file: Path | None = None) -> None:
        self._calls: deque[LoggedCall] = deque(maxlen=_KEPT)
        self._file = file
        self._lock = Lock()

    def add(self, call: LoggedCall) -> None:
        with self._lock:
            self._calls.append(call)
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(call.to_json()) + "\n")

    def all(self) -> list[LoggedCall]:
        """Oldest first."""
        with self._lock:
            return list(self._calls)

    def clear(self) -> None:
        """Forgets the calls in memory; the file is kept."""
        with self._lock:
            self._calls.clear()
