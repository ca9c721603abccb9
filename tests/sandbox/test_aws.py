"""The sandbox's AWS comes up, goes down and leaves nothing behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast_cli.sandbox import aws, processes, state
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState

from .conftest import Deployer, wait_for

pytestmark = pytest.mark.sandbox


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "sandbox"
    aws.stop(tmp_path / "sandbox")


def members(group: int) -> list[int]:
    """The living processes of a process group (fields 3 and 5 of proc(5)'s stat; a zombie lives no more)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if fields[0] != "Z" and int(fields[2]) == group:
                found.append(int(entry.name))
    return found


def running(sandbox: SandboxState) -> list[str]:
    return [service.name for service in sandbox.services.values() if processes.alive(service.process)]


def test_stop_leaves_no_process_and_only_logs_and_certificates(folder: Path) -> None:
    sandbox = aws.start(folder)
    assert running(sandbox) == ["moto", "ministack"]
    # A function's worker is a process of MiniStack's with files of its own.
    deployer = Deployer(sandbox)
    deployer.invoke(deployer.function("def handler(event, context): return 1", deployer.role()[1]), {})
    group = sandbox.service("ministack").process.pid
    assert len(members(group)) > 1

    assert aws.stop(folder) is True

    assert running(sandbox) == []
    assert aws.status(folder) == ()
    wait_for(lambda: members(group) == [], "the end of the functions", seconds=5)
    assert sorted(path.name for path in folder.iterdir()) == ["logs", "tls"]


def test_stop_of_nothing_says_so(folder: Path) -> None:
    assert aws.stop(folder) is False


def test_second_start_is_refused_and_the_first_lives_on(sandbox: SandboxState) -> None:
    with pytest.raises(SandboxError, match=r"a sandbox runs in .* already"):
        aws.start(sandbox.folder)

    assert running(sandbox) == ["moto", "ministack"]


def test_sandbox_that_died_is_seen_and_replaced(folder: Path) -> None:
    dead = aws.start(folder)
    for service in dead.services.values():
        os.killpg(service.process.pid, signal.SIGKILL)
    wait_for(lambda: running(dead) == [], "the end")
    assert [service.alive for service in aws.status(folder)] == [False, False]

    fresh = aws.start(folder)

    assert running(fresh) == ["moto", "ministack"]
    assert fresh.control_token != dead.control_token


def test_interrupted_start_leaves_nothing_running(folder: Path) -> None:
    code = f"from pathlib import Path; from holdfast_cli.sandbox import aws; aws.start(Path({str(folder)!r}))"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) as starting:
        interrupted = wait_for(lambda: state.load(folder), "the first program")
        starting.send_signal(signal.SIGINT)
        _, words = starting.communicate(timeout=30)

    assert words.rstrip().endswith("KeyboardInterrupt")
    assert interrupted is not None
    assert running(interrupted) == []
    assert state.load(folder) is None


def test_reset_empties_both_servers(folder: Path) -> None:
    sandbox = aws.start(folder)
    aws.client(sandbox, "sqs").create_queue(QueueName="q")
    aws.client(sandbox, "ec2").create_key_pair(KeyName="k")

    aws.reset(sandbox)

    assert aws.client(sandbox, "sqs").list_queues().get("QueueUrls", []) == []
    assert aws.client(sandbox, "ec2").describe_key_pairs()["KeyPairs"] == []


def test_clients_get_the_sandbox_and_nothing_of_the_persons_account(
    sandbox: SandboxState, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "production")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "theirs")
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", "999999999999")
    monkeypatch.setenv("EDITOR", "vi")

    found = aws.environment(sandbox)

    assert not found.keys() & {"AWS_PROFILE", "AWS_SESSION_TOKEN", "CDK_DEFAULT_ACCOUNT"}
    assert found["EDITOR"] == "vi"
    assert found["AWS_ENDPOINT_URL"] == sandbox.service("ministack").url
    assert found["AWS_ENDPOINT_URL_EC2"].startswith("http://localhost:")
    assert Path(found["HOME"]) == sandbox.home
    assert aws.client(sandbox, "sts").get_caller_identity()["Account"] == "111122223333"


def test_everything_listens_on_loopback_only(sandbox: SandboxState) -> None:
    pids = [service.process.pid for service in sandbox.services.values()]
    listening = [socket for pid in pids for socket in listeners(pid)]

    assert sorted(set(listening)) == sorted(
        f"127.0.0.1:{service.url.rpartition(':')[2]}" for service in sandbox.services.values()
    )


def listeners(pid: int) -> list[str]:
    """Addresses that the process listens on, out of /proc/net/tcp and tcp6 (state 0A is LISTEN)."""
    targets = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    inodes = {target[8:-1] for target in targets if target.startswith("socket:[")}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            address, _, port = fields[1].partition(":")
            if fields[3] == "0A" and fields[9] in inodes:
                host = ".".join(str(byte) for byte in bytes.fromhex(address)[::-1])
                found.append(f"{host}:{int(port, 16)}")
    return found
