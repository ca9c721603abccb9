"""Programs of the sandbox are started, awaited and ended for certain."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast_cli.sandbox import processes
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.processes import ManagedProcess

from .conftest import wait_for

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
# Says so once the signal is ignored, or the test could be faster than the program.
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEP
# Prints the pid of a child that ignores SIGTERM.
PARENT = f"""
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""


class Starter:
    """Starts Python programs whose output goes to `logs`."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.recorded: list[ManagedProcess] = []

    def start(self, code: str, **env: str) -> ManagedProcess:
        return processes.start(
            "program", [sys.executable, "-c", code], logs=self.logs, env=env, record=self.recorded.append
        )

    def output(self) -> str:
        return (self.logs / "program.log").read_text()


@pytest.fixture
def starter(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    processes.stop(starter.recorded, grace=0)


def is_running(pid: int) -> bool:
    try:
        # A zombie is gone but for its parent's asking.
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_program_runs_in_a_session_of_its_own_with_only_the_given_environment(starter: Starter) -> None:
    starter.start("import os; print(os.getsid(0) == os.getpid(), sorted(os.environ))", ONLY="this")

    # LC_CTYPE is what Python itself adds under the C locale.
    wait_for(lambda: starter.output().startswith("True ['LC_CTYPE', 'ONLY']"), "the program's answer")


def test_started_program_is_recorded(starter: Starter) -> None:
    process = starter.start(SLEEP)

    assert starter.recorded == [process]
    assert processes.alive(process)


def test_stopped_program_is_gone(starter: Starter) -> None:
    process = starter.start(SLEEP)

    processes.stop([process])

    assert not processes.alive(process)
    assert not is_running(process.pid)


def test_program_that_ignores_sigterm_is_killed(starter: Starter) -> None:
    process = starter.start(STUBBORN)
    wait_for(lambda: "up" in starter.output(), "the program")

    processes.stop([process], grace=0.2)

    assert not is_running(process.pid)


def test_what_the_program_started_ends_with_it(starter: Starter) -> None:
    process = starter.start(PARENT)
    child = int(wait_for(starter.output, "the child's pid"))

    processes.stop([process], grace=0.2)

    wait_for(lambda: not is_running(child), "the end of the child")


def test_another_process_with_the_same_pid_is_not_ours(starter: Starter) -> None:
    process = starter.start(SLEEP)
    stale = replace(process, birth="before")

    processes.stop([stale])

    assert not processes.alive(stale)
    assert processes.alive(process)


def test_waiting_ends_when_the_program_is_ready(starter: Starter) -> None:
    process = starter.start(SLEEP)

    processes.wait_ready(process, lambda: "up" in starter.output(), seconds=20)

    assert processes.alive(process)


def test_program_that_ends_before_it_is_ready_is_reported_with_its_last_words(starter: Starter) -> None:
    process = starter.start("raise SystemExit('no such port')")

    with pytest.raises(SandboxError, match=r"program ended before it was ready(.|\n)*no such port"):
        processes.wait_ready(process, lambda: False, seconds=20)


def test_program_that_is_never_ready_is_reported(starter: Starter) -> None:
    process = starter.start(SLEEP)

    with pytest.raises(SandboxError, match=r"program was not ready within 0\.1 s"):
        processes.wait_ready(process, lambda: False, seconds=0.1)


def test_program_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="program could not be started"):
        processes.start("program", [tmp_path / "absent"], logs=tmp_path, env={}, record=lambda _: None)


def test_interruption_while_starting_comes_after_the_record(tmp_path: Path) -> None:
    recorded: list[ManagedProcess] = []

    def record(process: ManagedProcess) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        recorded.append(process)

    command = [sys.executable, "-c", SLEEP]
    with pytest.raises(KeyboardInterrupt):
        processes.start("program", command, logs=tmp_path, env={}, record=record)

    assert len(recorded) == 1
    processes.stop(recorded, grace=0)


def test_ports_are_never_given_twice() -> None:
    ports = [processes.free_port() for _ in range(50)]

    assert len(set(ports)) == 50
