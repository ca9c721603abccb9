"""Plays a Slack incoming webhook: checks messages as Slack does, keeps them, and fails when told to.

`python -m holdfast_cli.sandbox.slack_receiver --config FILE` serves until SIGTERM; FILE is a `Config` as JSON.
"""

import argparse
import hmac
import json
import secrets
import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from holdfast_cli.sandbox import remote
from holdfast_cli.sandbox.loopback import LoopbackServer, Request, Response
from holdfast_cli.sandbox.remote import Method
from holdfast_cli.sandbox.slack_payload import refusal

_FOLDER = "/services/T000/B000/"
_BODIES: Mapping[int, str] = {
    403: "action_prohibited",
    404: "no_service",
    410: "channel_is_archived",
    429: "rate_limited",
    500: "rollup_error",
    503: "service_unavailable",
}


@dataclass(frozen=True, slots=True)
class Message:
    """A message that Slack would show."""

    time: datetime
    path: str
    payload: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request was answered; status 0: nothing, it ran into a timeout."""

    time: datetime
    status: int
    body: str


@dataclass(frozen=True, slots=True)
class SlackFault:
    """What happens to the next `times` requests: `status` is answered, or nothing for `timeout` seconds.

    `retry_after` goes with a 429. `delivered`: the message is shown all the same, as when Slack's answer is lost.
    """

    status: int | None = None
    retry_after: int | None = None
    timeout: float | None = None
    times: int = 1
    delivered: bool = False

    def __post_init__(self) -> None:
        if (self.status is None) == (self.timeout is None):
            raise ValueError("a fault has a status or a timeout")
        if self.status is not None and self.status not in _BODIES:
            raise ValueError(f"a fault answers one of {sorted(_BODIES)}, not {self.status}")


class SlackReceiver:
    """The webhook on a loopback port; a context manager.

    Messages are kept in memory and, if `messages_file` is given, as lines of JSON. With a `control_token`, a
    SlackClient in another process may do what this object can, on the same port.
    """

    def __init__(
        self,
        *,
        messages_file: Path | None = None,
        port: int = 0,
        path_token: str | None = None,
        control_token: str | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Binds the port (0: a free one). OSError if it is taken."""
        self._path = _FOLDER + (path_token or secrets.token_urlsafe(18))
        self._file = messages_file
        self._now = now
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._answers: list[Answer] = []
        self._faults: list[SlackFault] = []
        self._control = remote.endpoint(_methods(self), control_token) if control_token else None
        self._server = LoopbackServer(self._respond, port=port)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def webhook_url(self) -> str:
        return self.url + self._path

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def messages(self) -> list[Message]:
        """What Slack would show, oldest first."""
        with self._lock:
            return list(self._messages)

    def answers(self) -> list[Answer]:
        """How every request was answered, refused ones too, oldest first."""
        with self._lock:
            return list(self._answers)

    def inject(self, fault: SlackFault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear_faults(self) -> None:
        """From now on requests are answered as they deserve."""
        with self._lock:
            self._faults.clear()

    def clear(self) -> None:
        """Forgets messages, answers and faults; the file is kept."""
        with self._lock:
            for kept in (self._messages, self._answers, self._faults):
                kept.clear()

    def _respond(self, request: Request) -> Response | None:
        if self._control is not None and not request.target.startswith("/services/"):
            return self._control(request)
        fault = self._take_fault()
        if fault is not None and fault.timeout is not None:
            self._server.stopping.wait(fault.timeout)
        status, body, payload = self._judge(request)
        if fault is None or fault.delivered:
            self._keep(status, payload)
        if fault is not None:
            status = fault.status or 0
            body = _BODIES[fault.status] if fault.status else ""
        with self._lock:
            self._answers.append(Answer(self._now(), status, body))
        if not status:
            return None
        headers = {} if fault is None or fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        return Response(status, body.encode(), "text/html", headers)

    def _take_fault(self) -> SlackFault | None:
        with self._lock:
            if not self._faults:
                return None
            fault = self._faults[0]
            if fault.times > 1:
                self._faults[0] = replace(fault, times=fault.times - 1)
            else:
                del self._faults[0]
            return fault

    def _judge(self, request: Request) -> tuple[int, str, Any]:
        if not request.target.startswith(_FOLDER):
            return 404, "no_service", None
        if not hmac.compare_digest(request.target, self._path):
            return 403, "invalid_token", None
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if request.method != "POST" or kind != "application/json":
            return 400, "invalid_payload", None
        try:
            payload = json.loads(request.body)
        except ValueError:
            return 400, "invalid_payload", None
        refused = refusal(payload)
        return (200, "ok", payload) if refused is None else (400, refused, payload)

    def _keep(self, status: int, payload: Any) -> None:
        if status != 200:
            return
        message = Message(self._now(), self._path, payload)
        with self._lock:
            self._messages.append(message)
            if self._file is not None:
                with self._file.open("a", encoding="utf-8") as lines:
                    lines.write(json.dumps(_row(message)) + "\n")


@dataclass(frozen=True, slots=True)
class SlackClient:
    """The receiver's control side from another process. SandboxError if it does not answer."""

    url: str
    token: str

    def messages(self) -> list[Message]:
        return [
            Message(datetime.fromisoformat(row["time"]), row["path"], row["payload"])
            for row in remote.call(self.url, self.token, "messages")
        ]

    def answers(self) -> list[Answer]:
        return [
            Answer(datetime.fromisoformat(row["time"]), row["status"], row["body"])
            for row in remote.call(self.url, self.token, "answers")
        ]

    def inject(self, fault: SlackFault) -> None:
        remote.call(self.url, self.token, "inject", fault=asdict(fault))

    def clear_faults(self) -> None:
        remote.call(self.url, self.token, "clear_faults")

    def clear(self) -> None:
        remote.call(self.url, self.token, "clear")


class Config(BaseModel):
    """How the process runs. Port 0 is chosen free and written to `ready_file` once it serves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: int = 0
    control_token: str
    path_token: str
    messages_file: Path | None = None
    ready_file: Path


def serve(config: Config, stop: threading.Event) -> None:
    """Serves until `stop` is set."""
    with SlackReceiver(
        messages_file=config.messages_file,
        port=config.port,
        path_token=config.path_token,
        control_token=config.control_token,
    ) as slack:
        remote.write_ready(config.ready_file, {"url": slack.url, "webhook_url": slack.webhook_url})
        stop.wait()


def _methods(slack: SlackReceiver) -> Mapping[str, Method]:
    return {
        "messages": lambda _: [_row(message) for message in slack.messages()],
        "answers": lambda _: [_row(answer) for answer in slack.answers()],
        "inject": lambda a: slack.inject(SlackFault(**a["fault"])),
        "clear_faults": lambda _: slack.clear_faults(),
        "clear": lambda _: slack.clear(),
    }


def _row(kept: Message | Answer) -> dict[str, Any]:
    return asdict(kept) | {"time": kept.time.isoformat()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    serve(Config.model_validate_json(parser.parse_args().config.read_bytes()), stop)


if __name__ == "__main__":
    main()
