"""The sandbox's AWS: MiniStack, and moto beside it for EC2, each on a loopback port of its own."""

import os
import secrets
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config
from botocore.session import Session as BotocoreSession

from holdfast_cli.sandbox import certificates, control, ministack_environment, processes, state
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState, Service

# A busy machine of two cores needs ten seconds at worst; nobody waits longer for a server that will not come.
_READY_SECONDS = 60.0
# No program has anything to save, and MiniStack waits for idle connections of its clients for ever.
_GRACE_SECONDS = 1.0
_LAUNCHER = Path(__file__).with_name("ministack_launcher.py")

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One program of the sandbox as it is now."""

    name: str
    url: str
    pid: int
    alive: bool


def start(
    folder: Path | None = None, *, python_environment: Path | None = None, progress: Progress = print
) -> SandboxState:
    """A running, empty AWS. Its state file lists every program that was started, whatever happens then.

    `folder` holds everything the sandbox writes (`.sandbox` in the project by default), `python_environment`
    MiniStack's Python. When this fails or is interrupted, what it had started is stopped again.

    Raises:
        SandboxError: one runs there already, or a part of it could not be started.
    """
    folder = (folder or state.default_folder()).resolve()
    _refuse_second(folder)
    stop(folder)  # the remains of a sandbox that died
    now = datetime.now(UTC)
    sandbox = SandboxState(folder, state.ACCOUNT_ID, state.REGION, secrets.token_urlsafe(32), now, {})
    for path in (sandbox.logs, sandbox.tmp, sandbox.home):
        path.mkdir(parents=True, exist_ok=True)
    certificates.ensure(sandbox.ca.parent, now)
    python = ministack_environment.ensure(
        python_environment or ministack_environment.default_environment(), progress=progress
    )
    try:
        progress("Starting MiniStack and moto")
        sandbox = _start_moto(sandbox)
        sandbox = _start_ministack(sandbox, python)
        for name, probe, ca in (
            ("ministack", "/_ministack/health", sandbox.ca),
            ("moto", "/moto-api/", None),
        ):
            service = sandbox.service(name)
            ready = partial(control.answers, f"{service.url}{probe}", ca)
            processes.wait_ready(service.process, ready, seconds=_READY_SECONDS)
    except BaseException:
        stop(folder)
        raise
    return sandbox


def stop(folder: Path | None = None) -> bool:
    """Whether there was a sandbox: all its programs, whoever added them, and its temporary files are gone.

    Logs, certificates and MiniStack's environment stay.

    Raises:
        SandboxError: a program could not be stopped; the state file stays, so it can be tried again.
    """
    folder = (folder or state.default_folder()).resolve()
    sandbox = state.load(folder)
    if sandbox is None:
        return False
    processes.stop([service.process for service in sandbox.services.values()], grace=_GRACE_SECONDS)
    for folder_of_run in (sandbox.tmp, sandbox.home):
        if folder_of_run.exists():
            shutil.rmtree(folder_of_run)
    state.forget(folder)
    return True


def status(folder: Path | None = None) -> tuple[ServiceStatus, ...]:
    """Every program of the sandbox in the order it was started; empty when there is none.

    Raises:
        SandboxError: the state file is not readable.
    """
    sandbox = state.load((folder or state.default_folder()).resolve())
    if sandbox is None:
        return ()
    return tuple(
        ServiceStatus(service.name, service.url, service.process.pid, processes.alive(service.process))
        for service in sandbox.services.values()
    )


def reset(sandbox: SandboxState) -> None:
    """MiniStack and moto are as empty as after `start`: seed the cluster, bootstrap and deploy again.

    Raises:
        SandboxError: one of them did not do it.
    """
    for name, path, ca in (("ministack", "/_ministack/reset", sandbox.ca), ("moto", "/moto-api/reset", None)):
        control.post(f"{sandbox.service(name).url}{path}", {}, ca=ca)
    # The CDK's command line remembers there what it has published; nothing of it exists any more.
    shutil.rmtree(sandbox.home)
    sandbox.home.mkdir()


def environment(sandbox: SandboxState) -> dict[str, str]:
    """The whole environment for a client of the sandbox: the person's, with our AWS settings for theirs."""
    ca = str(sandbox.ca)
    return {
        **_client_environment(sandbox),
        "AWS_ENDPOINT_URL": sandbox.service("ministack").url,
        "AWS_ENDPOINT_URL_EC2": sandbox.service("moto").url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": sandbox.region,
        "AWS_DEFAULT_REGION": sandbox.region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CA_BUNDLE": ca,
        "NODE_EXTRA_CA_CERTS": ca,
        # Unpacking the CDK's libraries takes long; they are the same for every sandbox of the project.
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(state.default_folder() / "jsii-cache"),
        "CDK_DISABLE_CLI_TELEMETRY": "true",
        "CDK_DISABLE_VERSION_CHECK": "true",
        # Banners about Node's version are not for the reader of a demonstration; `make` checks the version.
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
        "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
        "NODE_NO_WARNINGS": "1",
    }


def client(sandbox: SandboxState, service: str) -> Any:
    """A boto3 client of the sandbox with its root key; it reads no setting of the person who runs it."""
    here = sandbox.service("moto" if service == "ec2" else "ministack")
    nothing = (None, None, os.devnull, None)
    core = BotocoreSession(
        session_vars={
            "profile": (None, None, None, None),
            "config_file": nothing,
            "credentials_file": nothing,
        }
    )
    session = boto3.Session("test", "test", botocore_session=core, region_name=sandbox.region)
    return session.client(
        service,  # type: ignore[call-overload]
        endpoint_url=here.url,
        verify=str(sandbox.ca) if here.url.startswith("https") else None,
        config=Config(retries={"total_max_attempts": 1}),
    )


def _refuse_second(folder: Path) -> None:
    if any(service.alive for service in status(folder)):
        raise SandboxError(
            f"a sandbox runs in {folder} already: `holdfast sandbox status` shows it, `holdfast sandbox down` ends it."
        )


def _start_moto(sandbox: SandboxState) -> SandboxState:
    port = processes.free_port()
    return _start(
        sandbox,
        "moto",
        # By name: an address in place of a host name is parsed as part of an S3 or EKS host name.
        f"http://localhost:{port}",
        [sys.executable, "-m", "holdfast_cli.sandbox.moto_server", str(port), sandbox.region],
        {"MOTO_ACCOUNT_ID": sandbox.account},
    )


def _start_ministack(sandbox: SandboxState, python: Path) -> SandboxState:
    port = processes.free_port()
    url = f"https://localhost:{port}"
    ca = str(sandbox.ca)
    return _start(
        sandbox,
        "ministack",
        url,
        [python, "-I", _LAUNCHER],
        {
            "GATEWAY_PORT": str(port),
            "BIND_HOST": "127.0.0.1",
            # IAM is enforced; over plain HTTP the bootstrap bucket's policy would then refuse every asset.
            "AUTH": "true",
            "USE_SSL": "1",
            "MINISTACK_SSL_CERT": str(sandbox.certificate),
            "MINISTACK_SSL_KEY": str(sandbox.key),
            "MINISTACK_ACCOUNT_ID": sandbox.account,
            "MINISTACK_REGION": sandbox.region,
            "S3_DATA_DIR": str(sandbox.tmp / "s3"),
            "STATE_DIR": str(sandbox.tmp / "state"),
            # Listeners nobody asked for, and containers: functions run as plain processes everywhere alike.
            "IOT_MTLS_ENABLED": "0",
            "SFTP_ENABLED": "0",
            "DOCKER_HOST": f"unix://{sandbox.tmp}/no-docker",
            # MiniStack hands its environment to the functions: this is how they find the sandbox.
            "AWS_ENDPOINT_URL": url,
            "AWS_ENDPOINT_URL_EC2": sandbox.service("moto").url,
            "AWS_CA_BUNDLE": ca,
            "SSL_CERT_FILE": ca,
            "AWS_EC2_METADATA_DISABLED": "true",
        },
    )


def _start(sandbox: SandboxState, name: str, url: str, command: list[str | Path], env: dict[str, str]) -> SandboxState:
    """`sandbox` with the program, written down before anything can interrupt us."""

    def record(process: processes.ManagedProcess) -> None:
        state.save(sandbox.with_service(Service(name, url, process)))

    process = processes.start(
        name,
        command,
        logs=sandbox.logs,
        env={**_server_environment(sandbox), **env, "HOLDFAST_SANDBOX_TOKEN": sandbox.control_token},
        record=record,
    )
    return sandbox.with_service(Service(name, url, process))


def _server_environment(sandbox: SandboxState) -> dict[str, str]:
    """Only what a program needs to run: MiniStack hands its environment on to the functions."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TZ") if name in os.environ}
    return {**kept, "HOME": str(sandbox.home), "TMPDIR": str(sandbox.tmp)}


# What would steer AWS clients, the CDK or certificates elsewhere.
_FOREIGN = ("AWS_", "CDK_", "BOTO_", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_")


def _client_environment(sandbox: SandboxState) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    here = str(Path(sys.executable).parent)
    return {
        **kept,
        # The app's `python` is the one this runs in.
        "PATH": os.pathsep.join([here, kept.get("PATH", os.defpath)]),
        "HOME": str(sandbox.home),
        "TMPDIR": str(sandbox.tmp),
        "NO_PROXY": "localhost,127.0.0.1",
        "no_proxy": "localhost,127.0.0.1",
    }
