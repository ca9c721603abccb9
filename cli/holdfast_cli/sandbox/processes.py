"""Background programs: started in a session of their own, awaited by condition, stopped for certain."""

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from holdfast_cli.sandbox.errors import SandboxError

_POLL_SECONDS = 0.05
_LOG_TAIL_LINES = 15
_KILL_SECONDS = 5.0  # nothing survives SIGKILL, but a busy machine takes its time

# Children of this very process: it must reap them, or they stay as zombies and keep their pids.
_children: dict[int, subprocess.Popen[bytes]] = {}
_ports_given: set[int] = set()


@dataclass(frozen=True, slots=True)
class ManagedProcess:
    """A program that was started in a session of its own; `birth` tells it from a later owner of its pid."""

    name: str
    pid: int
    birth: str
    log: Path


def free_port() -> int:
    """A loopback TCP port nobody listens on; never the same one twice from one process."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port: int = probe.getsockname()[1]
        if port not in _ports_given:
            _ports_given.add(port)
            return port


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    logs: Path,
    env: Mapping[str, str],
    record: Callable[[ManagedProcess], None],
) -> ManagedProcess:
    """The started program; its output goes to `logs`/`name`.log, its environment is `env` and nothing else.

    `record` is called before an interruption (Ctrl-C, SIGTERM) may pass, so that no program is ever running
    that nobody wrote down.

    Raises:
        SandboxError: the program could not be started or was gone at once.
    """
    log = logs / f"{name}.log"
    with _interruptions_held(), log.open("wb") as output:
        try:
            child = subprocess.Popen(
                [str(part) for part in command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env),
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"{name} could not be started: {error}") from error
        _children[child.pid] = child
        birth = _birth(child.pid)
        if birth is None:
            raise SandboxError(f"{name} ended at once.{_tail(log)}")
        process = ManagedProcess(name, child.pid, birth, log)
        record(process)
    return process


def wait_ready(process: ManagedProcess, ready: Callable[[], bool], *, seconds: float) -> None:
    """Return as soon as `ready` says so.

    Raises:
        SandboxError: the program ended, or `seconds` passed; the message carries the end of its log.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if not alive(process):
            raise SandboxError(f"{process.name} ended before it was ready.{_tail(process.log)}")
        if time.monotonic() > deadline:
            raise SandboxError(f"{process.name} was not ready within {seconds:g} s.{_tail(process.log)}")
        time.sleep(_POLL_SECONDS)


def alive(process: ManagedProcess) -> bool:
    """Whether this program still runs; a later program with the same pid does not count."""
    child = _children.get(process.pid)
    if child is not None and child.poll() is not None:
        del _children[process.pid]
        return False
    return _birth(process.pid) == process.birth


def stop(processes: Sequence[ManagedProcess], *, grace: float = 5.0) -> None:
    """End these programs and what they started: SIGTERM to each group, SIGKILL to the rest after `grace` s.

    Raises:
        SandboxError: one is still there after SIGKILL.
    """
    running = [process for process in processes if alive(process)]
    for process in running:
        _signal_group(process, signal.SIGTERM)
    _wait_until(lambda: not any(alive(process) for process in running), grace)
    for process in running:
        # Also when the leader is gone: what it started shares its group (functions that still run, say).
        _signal_group(process, signal.SIGKILL)
    if not _wait_until(lambda: not any(alive(process) for process in running), _KILL_SECONDS):
        left = ", ".join(f"{process.name} (pid {process.pid})" for process in running if alive(process))
        raise SandboxError(f"still running after SIGKILL: {left}")


def _signal_group(process: ManagedProcess, number: signal.Signals) -> None:
    # macOS answers EPERM, not ESRCH, for a group of which only zombies are left.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def _birth(pid: int) -> str | None:
    """When the process began, in the system's own words; None when there is none, or only a zombie."""
    if Path("/proc/self/stat").exists():
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return None
        # proc(5): the name in parentheses may hold anything; after it come state (3) and start time (22).
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in {"Z", "X"} else fields[19]
    answer = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.strip()
    state, _, started = answer.partition(" ")
    return None if not answer or state.startswith("Z") else started.strip()


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", errors="replace").splitlines()[-_LOG_TAIL_LINES:]
    return "\n".join([f" The end of {log}:", *(f"  {line}" for line in lines)]) if lines else f" {log} is empty."


@contextmanager
def _interruptions_held() -> Iterator[None]:
    """SIGINT and SIGTERM wait until the block is done; they interrupt no thread but the main one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        held.append(number)

    handlers = {number: signal.signal(number, hold) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for held_number in held:
            signal.raise_signal(held_number)
