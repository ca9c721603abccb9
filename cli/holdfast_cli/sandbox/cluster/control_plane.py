"""Starting and stopping a Kubernetes cluster whose programs are the real ones; only its nodes are played, by kwok.

The order matters: an API server whose etcd is gone neither works nor ends, so it is stopped first and waited for.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from holdfast_cli.sandbox import processes
from holdfast_cli.sandbox.certificates import Certificates
from holdfast_cli.sandbox.cluster.api import Api
from holdfast_cli.sandbox.cluster.build import Binary
from holdfast_cli.sandbox.processes import ManagedProcess

READY_SECONDS: Final = 60.0
"""An API server of its own is ready in three seconds; two busy cores need their time."""

API_SERVER_GRACE: Final = 20.0
_GRACE: Final = 5.0
_ADMIN: Final = "holdfast-sandbox-admin"
_SERVICE_NETWORK: Final = "10.96.0.0/24"

Progress = Callable[[str], None]
Record = Callable[[str, str, ManagedProcess], None]
"""Writes down a program by its name, its address and its process, before anything else may happen."""


@dataclass(frozen=True, slots=True)
class TokenWebhook:
    """Who judges bearer tokens: the URL of a TokenReview webhook and the authority of its certificate."""

    url: str
    ca: Path | None = None


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A cluster that answers. `started` are its programs in the order they were started."""

    folder: Path
    url: str
    ca: Path
    admin_token: str
    kubeconfig: Path
    audit_log: Path
    started: tuple[ManagedProcess, ...]

    def api(self) -> Api:
        """The cluster's API as its administrator."""
        return Api(self.url, self.ca, self.admin_token)


def start(
    folder: Path,
    binaries: Mapping[str, Binary],
    *,
    served_with: Certificates,
    webhook: TokenWebhook,
    audited_groups: Sequence[str],
    bare: bool = False,
    api_server_arguments: Sequence[str] = (),
    record: Record,
    progress: Progress,
) -> RunningCluster:
    """A cluster with Karpenter's CRDs, the scheduler, the controllers and kwok.

    A `bare` one is the API alone: nobody changes what is written there.
    Every call of somebody in `audited_groups` is in the audit log with its bodies.

    Raises:
        SandboxError: a program did not start or did not become ready; then with the end of its log.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    started: list[ManagedProcess] = []
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "TMPDIR": str(folder)}

    def run(name: str, url: str, *arguments: str, **more: str) -> ManagedProcess:
        process = processes.start(
            name,
            [binaries[name].path, *arguments],
            logs=logs,
            env=environment | more,
            record=lambda made: record(name, url, made),
        )
        started.append(process)
        return process

    try:
        etcd_url = _etcd(folder, run)
        url = f"https://localhost:{processes.free_port()}"
        token = secrets.token_urlsafe(24)
        files = _files(folder, url, token, served_with, webhook, audited_groups)
        progress("Starting kube-apiserver")
        server = run("kube-apiserver", url, *_api_server(url, etcd_url, served_with, files, api_server_arguments))
        api = Api(url, served_with.ca, token)
        processes.wait_ready(server, api.ready, seconds=READY_SECONDS)
        crds = binaries["karpenter"].path.parent / "crds"
        api.install(*(yaml.safe_load(file.read_text()) for file in sorted(crds.glob("*.yaml"))), seconds=READY_SECONDS)
        if not bare:
            progress("Starting kube-scheduler, kube-controller-manager and kwok")
            _controllers(run, files)
    except BaseException:
        stop(started)
        raise
    return RunningCluster(folder, url, served_with.ca, token, files.kubeconfig, files.audit_log, tuple(started))


def stop(started: Sequence[ManagedProcess]) -> None:
    """Ends the programs of a cluster in the order they can bear: the last one first, the API server before etcd."""
    order = {"kube-apiserver": 1, "etcd": 2}
    for place in (0, 1, 2):
        group = [process for process in started if order.get(process.name, 0) == place]
        processes.stop(group, grace=API_SERVER_GRACE if place == 1 else _GRACE)


@dataclass(frozen=True, slots=True)
class _Files:
    kubeconfig: Path
    tokens: Path
    webhook: Path
    audit_policy: Path
    audit_log: Path
    service_account_key: Path
    certificates: Path


def _etcd(folder: Path, run: Callable[..., ManagedProcess]) -> str:
    client, peer = processes.free_port(), processes.free_port()
    url = f"http://127.0.0.1:{client}"
    data = folder / "etcd"
    run(
        "etcd",
        url,
        f"--data-dir={data}",
        f"--listen-client-urls={url}",
        f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        # Nothing here outlives the machine, and waiting for its disk is most of what etcd does.
        "--unsafe-no-fsync",
    )
    return url


def _files(
    folder: Path,
    url: str,
    token: str,
    served_with: Certificates,
    webhook: TokenWebhook,
    audited_groups: Sequence[str],
) -> _Files:
    files = _Files(
        kubeconfig=folder / "admin.kubeconfig",
        tokens=folder / "tokens.csv",
        webhook=folder / "webhook.kubeconfig",
        audit_policy=folder / "audit-policy.json",
        audit_log=folder / "logs" / "audit.jsonl",
        service_account_key=folder / "service-accounts.key",
        certificates=folder / "certificates",
    )
    _write(files.kubeconfig, yaml.safe_dump(kubeconfig(url, served_with.ca, token)))
    _write(files.tokens, f'{token},{_ADMIN},{_ADMIN},"system:masters"\n')
    _write(files.webhook, yaml.safe_dump(kubeconfig(webhook.url, webhook.ca)))
    policy: dict[str, Any] = {
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived", "ResponseStarted"],
        "rules": [{"level": "RequestResponse", "userGroups": list(audited_groups)}, {"level": "None"}],
    }
    _write(files.audit_policy, json.dumps(policy))
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    _write(
        files.service_account_key,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
        ).decode(),
    )
    return files


def kubeconfig(url: str, ca: Path | None, token: str | None = None) -> dict[str, Any]:
    """A kubeconfig for one server, with the authority of its certificate and a bearer token where it has them."""
    cluster = {"server": url} | ({"certificate-authority": str(ca)} if ca is not None else {})
    user = {"token": token} if token is not None else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "sandbox", "cluster": cluster}],
        "users": [{"name": "sandbox", "user": user}],
        "contexts": [{"name": "sandbox", "context": {"cluster": "sandbox", "user": "sandbox"}}],
        "current-context": "sandbox",
    }


def _write(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)


def _api_server(
    url: str, etcd_url: str, served_with: Certificates, files: _Files, more: Sequence[str]
) -> tuple[str, ...]:
    return (
        f"--etcd-servers={etcd_url}",
        f"--cert-dir={files.certificates}",
        f"--tls-cert-file={served_with.certificate}",
        f"--tls-private-key-file={served_with.key}",
        "--bind-address=127.0.0.1",
        f"--secure-port={url.rpartition(':')[2]}",
        f"--service-account-key-file={files.service_account_key}",
        f"--service-account-signing-key-file={files.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={_SERVICE_NETWORK}",
        f"--token-auth-file={files.tokens}",
        "--authorization-mode=RBAC,Node",
        # Pods of the scenes name no service account, and nobody makes one for them in time.
        "--disable-admission-plugins=ServiceAccount",
        f"--authentication-token-webhook-config-file={files.webhook}",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-cache-ttl=2s",
        f"--audit-policy-file={files.audit_policy}",
        f"--audit-log-path={files.audit_log}",
        *more,
    )


def _controllers(run: Callable[..., ManagedProcess], files: _Files) -> None:
    common = (f"--kubeconfig={files.kubeconfig}", "--authentication-skip-lookup=true", "--leader-elect=false")
    for name, arguments in (
        ("kube-scheduler", ()),
        (
            "kube-controller-manager",
            # Nodes have no pod network here, and the HPA of a scene shall not wait for its usual fifteen seconds.
            ("--controllers=*,-nodeipam,-ttl", "--horizontal-pod-autoscaler-sync-period=5s"),
        ),
    ):
        port = processes.free_port()
        run(
            name,
            f"https://127.0.0.1:{port}",
            *common,
            f"--authorization-kubeconfig={files.kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={files.certificates}-{name}",
            *arguments,
        )
    run(
        "kwok",
        "",
        f"--kubeconfig={files.kubeconfig}",
        "--manage-all-nodes=true",
        # Without leases nodes turn NotReady after 40 s, and a drain of a node that is not ready waits for nothing.
        "--node-lease-duration-seconds=40",
    )
