"""The whole sandbox: AWS, the cluster's Kubernetes API, a Slack, and Holdfast deployed into them by the real CDK."""

import json
import platform
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from holdfast.render.rbac import render_rbac
from holdfast_cli.sandbox import aws, cdk, processes, state
from holdfast_cli.sandbox.control import ClusterSeed, MiniStackControl
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.kube.control import ControlClient
from holdfast_cli.sandbox.kube_seed import seed_cluster
from holdfast_cli.sandbox.slack_receiver import SlackClient
from holdfast_cli.sandbox.state import SandboxState, Service

CLUSTER = "eksworkshop"
"""The cluster of the sandbox's configuration: the one that the seed objects describe."""

CONTROLLER_ROLE = f"KarpenterControllerRole-{CLUSTER}"
WEBHOOK_SECRET = "holdfast/slack-webhook"  # noqa: S105 - the name of a secret
CONFIG_FILE = "holdfast.yaml"

_READY_SECONDS = 30.0

Progress = Callable[[str], None]


def project() -> Path:
    """The root of the project: where app.py and the example configuration are."""
    return state.default_folder().parent


def up(folder: Path | None = None, *, progress: Progress = print, on_cdk_line: Progress | None = None) -> SandboxState:
    """Starts everything and deploys Holdfast.

    When this fails or is interrupted, what it had started is stopped again.

    Raises:
        SandboxError: one runs already, or a part could not be started or deployed.
    """
    sandbox = aws.start(folder, progress=progress)
    try:
        sandbox = start_services(sandbox, progress=progress)
        deploy(sandbox, progress=progress, on_cdk_line=on_cdk_line)
    except BaseException:
        aws.stop(sandbox.folder)
        raise
    return sandbox


def start_services(sandbox: SandboxState, *, progress: Progress = print) -> SandboxState:
    """The running AWS with a cluster in it, its Kubernetes API and the Slack receiver beside it."""
    progress(f"Starting the Kubernetes API of cluster {CLUSTER} and a Slack that listens")
    create_roles(sandbox)
    port = processes.free_port()
    endpoint = f"https://localhost:{port}"
    review_url = MiniStackControl(sandbox).seed_cluster(
        ClusterSeed(
            name=CLUSTER,
            endpoint=endpoint,
            ca_pem=sandbox.ca.read_text(),
            version="1.36",
            role_arn=f"arn:aws:iam::{sandbox.account}:role/eks-{CLUSTER}",
        )
    )
    sandbox = _start_program(
        sandbox,
        "kubernetes",
        "holdfast_cli.sandbox.kube_api",
        {
            "port": port,
            "control_port": 0,
            "control_token": sandbox.control_token,
            "certificate": str(sandbox.certificate),
            "key": str(sandbox.key),
            "ca": str(sandbox.ca),
            "token_review_url": review_url,
            "request_log": str(sandbox.logs / "kubernetes-requests.jsonl"),
        },
    )
    sandbox = _start_program(
        sandbox,
        "slack",
        "holdfast_cli.sandbox.slack_receiver",
        {
            "port": 0,
            "control_token": sandbox.control_token,
            "path_token": secrets.token_urlsafe(18),
            "messages_file": str(sandbox.folder / "slack-messages.jsonl"),
        },
    )
    create_secret(sandbox)
    kubernetes(sandbox).apply(*seed_cluster(datetime.now(UTC), cluster=CLUSTER))
    return sandbox


def create_roles(sandbox: SandboxState) -> None:
    """The roles that exist in an account before Holdfast comes: the cluster's and Karpenter's controller's."""
    iam = aws.client(sandbox, "iam")
    for role, service in ((f"eks-{CLUSTER}", "eks.amazonaws.com"), (CONTROLLER_ROLE, "pods.eks.amazonaws.com")):
        trust: dict[str, Any] = {
            "Version": "2012-10-17",
            "Statement": [
                {"Effect": "Allow", "Principal": {"Service": service}, "Action": "sts:AssumeRole"},
                {
                    "Effect": "Allow",
                    "Principal": {"AWS": f"arn:aws:iam::{sandbox.account}:root"},
                    "Action": "sts:AssumeRole",
                },
            ],
        }
        iam.create_role(RoleName=role, AssumeRolePolicyDocument=json.dumps(trust))
    iam.put_role_policy(
        RoleName=CONTROLLER_ROLE,
        PolicyName="AllowInterruptionQueueActions",
        PolicyDocument=json.dumps(
            {
                "Version": "2012-10-17",
                "Statement": [
                    {
                        "Effect": "Allow",
                        "Action": ["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
                        "Resource": f"arn:aws:sqs:{sandbox.region}:{sandbox.account}:{CLUSTER}",
                    }
                ],
            }
        ),
    )


def create_secret(sandbox: SandboxState) -> None:
    """The webhook's URL where the notifier looks for it."""
    ready = _ready_file(sandbox, "slack")
    aws.client(sandbox, "secretsmanager").create_secret(Name=WEBHOOK_SECRET, SecretString=ready["webhook_url"])


def deploy(sandbox: SandboxState, *, progress: Progress = print, on_cdk_line: Progress | None = None) -> None:
    """Holdfast deployed by the CDK, and its RBAC applied to the cluster: what an operator does."""
    write_config(sandbox)
    on_line = on_cdk_line or (lambda _line: None)
    progress("Bootstrapping the account (cdk bootstrap)")
    cdk.bootstrap(sandbox, on_line=on_line)
    progress("Building the layers and deploying Holdfast (cdk deploy --all)")
    cdk.deploy(sandbox, project(), *config_arguments(sandbox), on_line=on_line)
    progress("Applying the rendered RBAC (kubectl apply)")
    kubernetes(sandbox).apply_yaml(render_rbac())


def config_arguments(sandbox: SandboxState) -> tuple[str, ...]:
    """The CDK arguments that name the sandbox's configuration."""
    return ("--context", f"config={sandbox.folder / CONFIG_FILE}")


def write_config(sandbox: SandboxState, **audit: str | int) -> Path:
    """The example configuration, with the sandbox's account and this machine's architecture.

    `audit` overrides keys of the audit section. The functions have less time there than in AWS, so that a message that
    failed comes back sooner, and few run at once: a small machine starts them one after the other.
    """
    document = yaml.safe_load((project() / "holdfast.yaml").read_text())
    document.pop("$schema", None)
    document["architecture"] = "arm64" if platform.machine() in {"arm64", "aarch64"} else "x86_64"
    document["clusters"][0] |= {"name": CLUSTER, "account": sandbox.account, "region": sandbox.region}
    document["clusters"][0]["karpenter"]["controllerRoleArn"] = f"arn:aws:iam::{sandbox.account}:role/{CONTROLLER_ROLE}"
    document["audit"] = {"functionTimeout": "20s", "queueVisibilityTimeout": "120s", "maxConcurrency": 2, **audit}
    document["alerts"] = {"slack": {"webhookSecretName": WEBHOOK_SECRET}, "digestWindow": "5s"}
    path = sandbox.folder / CONFIG_FILE
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def kubernetes(sandbox: SandboxState) -> ControlClient:
    """The side door of the Kubernetes API, for whoever plays Karpenter and the cluster's operators."""
    return ControlClient(_ready_file(sandbox, "kubernetes")["control_url"], sandbox.control_token)


def slack(sandbox: SandboxState) -> SlackClient:
    """What the Slack receiver got."""
    return SlackClient(_ready_file(sandbox, "slack")["url"], sandbox.control_token)


def _start_program(sandbox: SandboxState, name: str, module: str, config: dict[str, Any]) -> SandboxState:
    ready_file = _ready_path(sandbox, name)
    ready_file.unlink(missing_ok=True)
    config_file = sandbox.folder / f"{name}.json"
    config_file.touch(mode=0o600)
    config_file.write_text(json.dumps({**config, "ready_file": str(ready_file)}))
    recorded = sandbox

    def record(process: processes.ManagedProcess) -> None:
        nonlocal recorded
        recorded = sandbox.with_service(Service(name, "", process))
        state.save(recorded)

    process = processes.start(
        name,
        [sys.executable, "-m", module, "--config", str(config_file)],
        logs=sandbox.logs,
        env=aws.environment(sandbox),
        record=record,
    )
    processes.wait_ready(process, ready_file.exists, seconds=_READY_SECONDS)
    ready = recorded.with_service(Service(name, _ready_file(sandbox, name)["url"], process))
    state.save(ready)
    return ready


def _ready_path(sandbox: SandboxState, name: str) -> Path:
    return sandbox.folder / f"{name}-ready.json"


def _ready_file(sandbox: SandboxState, name: str) -> dict[str, Any]:
    path = _ready_path(sandbox, name)
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SandboxError(f"{name} left no readable {path}: `holdfast sandbox down`, then up again") from error
    return document
