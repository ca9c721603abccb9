"""`holdfast doctor` on the deployed product: healthy, and with one thing broken at a time."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from holdfast.render.rbac import AUDIT_ROLE, render_rbac
from holdfast.runtime import names
from holdfast.runtime.metric_names import NAMESPACE, MetricName
from holdfast_cli.doctor_checks import KARPENTER_QUEUE_PAGE, State
from holdfast_cli.sandbox import aws, demo, function_logs, up
from holdfast_cli.sandbox.player import Player
from holdfast_cli.sandbox.slack_receiver import SlackFault
from holdfast_cli.sandbox.state import SandboxState

from .conftest import PATIENCE, wait_for

pytestmark = pytest.mark.sandbox

CONTEXT = "sandbox"
RULE = "holdfast-eksworkshop-spot"
FUNCTIONS = ("AuditIngestFunction", "AuditJudgepublicFunction", "AuditSweeperFunction", "AlertsNotifierFunction")


@dataclass(frozen=True)
class Line:
    state: State
    found: str
    way_out: str | None


@dataclass(frozen=True)
class Examination:
    """What doctor said: its exit code, and its lines by place and check."""

    exit_code: int
    lines: dict[tuple[str, str], Line]

    def states(self) -> dict[tuple[str, str], State]:
        return {name: line.state for name, line in self.lines.items()}

    def named(self, check: str) -> Line:
        (line,) = [line for (_, name), line in self.lines.items() if name == check]
        return line


def run_doctor(sandbox: SandboxState, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a person runs it, in the sandbox's environment."""
    environment = aws.environment(sandbox) | {
        "KUBECONFIG": str(kubeconfig(sandbox)),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "COLUMNS": "150",
    }
    command = ["doctor", "--config", str(sandbox.folder / up.CONFIG_FILE), "--kube-context", CONTEXT, *arguments]
    return subprocess.run(
        [sys.executable, "-c", "from holdfast_cli.main import main; main()", *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def examine(sandbox: SandboxState, *arguments: str) -> Examination:
    answer = run_doctor(sandbox, "--output", "json", *arguments)
    assert answer.stdout.startswith("{"), answer.stderr
    return Examination(
        answer.returncode,
        {
            (one["place"], one["check"]): Line(State(one["state"]), one["found"], one["way_out"])
            for one in json.loads(answer.stdout)["checks"]
        },
    )


def kubeconfig(sandbox: SandboxState) -> Path:
    """A kubeconfig for an administrator of the sandbox's cluster."""
    path = sandbox.folder / "kubeconfig"
    if not path.exists():
        endpoint = aws.client(sandbox, "eks").describe_cluster(name=up.CLUSTER)["cluster"]["endpoint"]
        token = up.kubernetes(sandbox).issue_token("administrator", ["system:masters"])
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": CONTEXT, "cluster": {"server": endpoint, "certificate-authority": str(sandbox.ca)}}],
            "users": [{"name": CONTEXT, "user": {"token": token}}],
            "contexts": [{"name": CONTEXT, "context": {"cluster": CONTEXT, "user": CONTEXT}}],
        }
        path.write_text(yaml.safe_dump(document))
    return path


def play_metrics(sandbox: SandboxState, *, oldest_in_karpenters_queue: float = 0) -> None:
    """What CloudWatch would know by now, which the embedded one is not told: of queues, of runs, of our own metrics."""
    cloudwatch = aws.client(sandbox, "cloudwatch")

    def put(namespace: str, metric: str, dimension: tuple[str, str], value: float) -> None:
        named = [{"Name": dimension[0], "Value": dimension[1]}]
        cloudwatch.put_metric_data(
            Namespace=namespace, MetricData=[{"MetricName": metric, "Dimensions": named, "Value": value}]
        )

    read = 0 if oldest_in_karpenters_queue else Player(sandbox).karpenter_reads_its_queue()
    put("AWS/SQS", "NumberOfMessagesReceived", ("QueueName", up.CLUSTER), read)
    put("AWS/SQS", "NumberOfEmptyReceives", ("QueueName", up.CLUSTER), 0 if oldest_in_karpenters_queue else 1)
    put("AWS/SQS", "ApproximateAgeOfOldestMessage", ("QueueName", up.CLUSTER), oldest_in_karpenters_queue)
    put("AWS/SQS", "ApproximateAgeOfOldestMessage", ("QueueName", names.audit_queue_name("holdfast")), 0)
    for function in FUNCTIONS:
        name = function_logs.physical_id(sandbox, function, "AWS::Lambda::Function")
        put("AWS/Lambda", "Invocations", ("FunctionName", name), 1)
        put("AWS/Lambda", "Errors", ("FunctionName", name), 0)
    since = datetime.now(UTC) - timedelta(minutes=10)
    beat = MetricName.SWEEPER_HEARTBEAT
    beats = wait_for(lambda: function_logs.total(sandbox, beat, since=since), "a sweep", PATIENCE, 2)
    put(NAMESPACE, beat.value, ("service", beat.service), beats)


# One thing broken at a time, and mended.


@contextmanager
def a_rule_is_disabled(sandbox: SandboxState) -> Iterator[None]:
    events = aws.client(sandbox, "events")
    events.disable_rule(Name=RULE)
    try:
        yield
    finally:
        events.enable_rule(Name=RULE)


@contextmanager
def a_rule_lost_its_target(sandbox: SandboxState) -> Iterator[None]:
    events = aws.client(sandbox, "events")
    targets = events.list_targets_by_rule(Rule=RULE)["Targets"]
    events.remove_targets(Rule=RULE, Ids=[target["Id"] for target in targets])
    try:
        yield
    finally:
        events.put_targets(Rule=RULE, Targets=targets)


@contextmanager
def the_queue_policy_lets_nobody_send(sandbox: SandboxState) -> Iterator[None]:
    sqs = aws.client(sandbox, "sqs")
    queue = sqs.get_queue_url(QueueName=up.CLUSTER)["QueueUrl"]
    policy = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])["Attributes"]["Policy"]
    document = json.loads(policy)
    denials = [one for one in document["Statement"] if one["Effect"] == "Deny"]
    assert denials != document["Statement"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(document | {"Statement": denials})})
    try:
        yield
    finally:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})


@contextmanager
def the_rbac_binding_is_deleted(sandbox: SandboxState) -> Iterator[None]:
    kubernetes = up.kubernetes(sandbox)
    kubernetes.delete("ClusterRoleBinding", AUDIT_ROLE)
    try:
        yield
    finally:
        kubernetes.apply_yaml(render_rbac())


@contextmanager
def the_webhook_is_revoked(sandbox: SandboxState) -> Iterator[None]:
    slack = up.slack(sandbox)
    slack.inject(SlackFault(status=404, times=1000))
    try:
        yield
    finally:
        slack.clear_faults()


@contextmanager
def the_secret_is_missing(sandbox: SandboxState) -> Iterator[None]:
    secrets = aws.client(sandbox, "secretsmanager")
    secrets.delete_secret(SecretId=up.WEBHOOK_SECRET, ForceDeleteWithoutRecovery=True)
    try:
        yield
    finally:
        up.create_secret(sandbox)


@contextmanager
def kubernetes_is_unreachable(sandbox: SandboxState) -> Iterator[None]:
    kubernetes = up.kubernetes(sandbox)
    kubernetes.refuse_connections()
    try:
        yield
    finally:
        kubernetes.accept_connections()


@contextmanager
def the_access_entry_is_missing(sandbox: SandboxState) -> Iterator[None]:
    eks = aws.client(sandbox, "eks")
    role = aws.client(sandbox, "lambda").get_function_configuration(
        FunctionName=function_logs.physical_id(sandbox, "AuditJudgepublicFunction", "AWS::Lambda::Function")
    )["Role"]
    entry = eks.describe_access_entry(clusterName=up.CLUSTER, principalArn=role)["accessEntry"]
    eks.delete_access_entry(clusterName=up.CLUSTER, principalArn=role)
    try:
        yield
    finally:
        eks.create_access_entry(clusterName=up.CLUSTER, principalArn=role, kubernetesGroups=entry["kubernetesGroups"])


@contextmanager
def karpenter_does_not_read_its_queue(sandbox: SandboxState) -> Iterator[None]:
    """A warning lies there for longer than pages somebody; CloudWatch tells its age, which is the true one."""
    player = Player(sandbox)
    since = time.monotonic()
    played = player.missed(901, demo.long_ago())
    try:
        (outcome,) = demo.wait_for(sandbox, [played], patience=timedelta(minutes=5))
        assert outcome.wrong == ()
        time.sleep(max(0, KARPENTER_QUEUE_PAGE.total_seconds() + 1 - (time.monotonic() - since)))
        play_metrics(sandbox, oldest_in_karpenters_queue=time.monotonic() - since)
        yield
    finally:
        player.nodeclaims_go()
        player.karpenter_reads_its_queue()


@dataclass(frozen=True)
class Fault:
    """What is broken, the line that has to say so, and words of what it found and of the way out."""

    make: Callable[[SandboxState], AbstractContextManager[None]]
    check: str
    state: State
    found: str
    way_out: str
    arguments: tuple[str, ...] = ()


FAULTS = (
    Fault(
        a_rule_is_disabled,
        f"rule {RULE}",
        State.BROKEN,
        "disabled",
        f"aws events enable-rule --region ap-southeast-1 --name {RULE}",
    ),
    Fault(
        a_rule_lost_its_target, f"rule {RULE}", State.BROKEN, f"{up.CLUSTER} is not its target", "docs/runbook.md#drift"
    ),
    Fault(
        the_queue_policy_lets_nobody_send, f"queue {up.CLUSTER}: policy", State.BROKEN, RULE, "docs/runbook.md#drift"
    ),
    Fault(
        the_rbac_binding_is_deleted,
        "RBAC",
        State.BROKEN,
        f"there is no ClusterRoleBinding {AUDIT_ROLE}",
        "holdfast render rbac | kubectl apply -f -",
    ),
    Fault(
        the_webhook_is_revoked,
        "Slack: test message",
        State.BROKEN,
        "404 no_service",
        "docs/runbook.md#alerts-undeliverable",
        ("--send-test",),
    ),
    Fault(
        the_secret_is_missing,
        "Slack: secret",
        State.BROKEN,
        f"there is no secret {up.WEBHOOK_SECRET}",
        f"aws secretsmanager create-secret --region ap-southeast-1 --name {up.WEBHOOK_SECRET}",
    ),
    Fault(kubernetes_is_unreachable, "RBAC", State.UNKNOWN, f"context {CONTEXT}", "try again"),
    Fault(
        the_access_entry_is_missing,
        "judge's access",
        State.BROKEN,
        "has no access entry: every look is blind",
        "docs/runbook.md#drift",
    ),
    # The last one: CloudWatch remembers the age for ten minutes.
    Fault(
        karpenter_does_not_read_its_queue,
        f"queue {up.CLUSTER}: waiting",
        State.BROKEN,
        "waiting, the oldest of the last 10 minutes was",
        "docs/runbook.md#karpenter-queue-age",
    ),
)

NOT_TOLD_HERE = {
    "queue holdfast-audit: waiting",
    "ingest: errors",
    "judge public: errors",
    "sweeper: errors",
    "notifier: errors",
    "sweeper: heartbeat",
    f"queue {up.CLUSTER}: waiting",
    "Karpenter polls",
}
"""What only CloudWatch knows, which nobody tells anything here until `play_metrics` does."""


def test_doctor_tells_a_healthy_deployment_from_one_with_one_thing_broken(whole: SandboxState) -> None:
    Player(whole).karpenter_reads_its_queue()
    blind = examine(whole)
    assert {name for (_, name), state in blind.states().items() if state is not State.OK} == NOT_TOLD_HERE
    assert blind.exit_code == 1, "what is unknown is not good"

    play_metrics(whole)
    healthy = examine(whole, "--send-test")
    assert {name: line for name, line in healthy.lines.items() if line.state is not State.OK} == {}
    assert healthy.exit_code == 0

    for fault in FAULTS:
        with fault.make(whole):
            broken = examine(whole, *fault.arguments)
        line = broken.named(fault.check)
        assert (line.state, broken.exit_code) == (fault.state, 1), fault
        assert fault.found in line.found, fault
        assert fault.way_out in (line.way_out or ""), fault
        others = {name: state for name, state in broken.states().items() if name[1] != fault.check}
        expected = {name: state for name, state in healthy.states().items() if name in others}
        assert others == expected, fault
