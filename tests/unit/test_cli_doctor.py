"""`holdfast doctor` on a deployment in moto: healthy, and broken in the ways that happen.

moto has no access entries, so EKS is a fake with answers in the shape of its API reference. What CloudFormation makes
of the real templates, tests/stacks/test_doctor.py holds the checks to.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from typer.testing import CliRunner

from holdfast.adapters import table
from holdfast.render.rbac import AUDIT_GROUP, audit_objects
from holdfast.runtime import event_patterns, names
from holdfast.runtime.config import AuthenticationMode
from holdfast_cli import doctor_checks as checks
from holdfast_cli import doctor_look
from holdfast_cli.doctor_checks import State
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app

ACCOUNT, REGION = "123456789012", "ap-southeast-1"  # moto's account
CLUSTER = "eksworkshop"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole"
SECRET = "holdfast/slack-webhook"
WEBHOOK = "https://hooks.slack.com/services/T000/B000/never-shown"
STATE = names.state_stack_id("holdfast", ACCOUNT, REGION)
CONTROL = names.control_plane_stack_id("holdfast", ACCOUNT, REGION)
CLUSTER_STACK = names.cluster_stack_id("holdfast", ACCOUNT, REGION, CLUSTER)

CONFIG = f"""
clusters:
  - name: {CLUSTER}
    region: {REGION}
    account: "{ACCOUNT}"
    karpenter:
      controllerRoleArn: {ROLE}
alerts:
  slack:
    webhookSecretName: {SECRET}
"""

FUNCTIONS = {
    "AuditIngestFunction4A": "holdfast-audit",
    "AuditJudgepublicFunction4B": "holdfast-looks-public",
    "AuditSweeperFunction4C": None,
    "AlertsNotifierFunction4D": "holdfast-alerts",
}


def arn(service: str, rest: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{rest}"


def aws(service: str) -> Any:
    client: Any = boto3.client
    return client(service, region_name=REGION)


def policy(queue: str, rules: Sequence[str], *, role: str | None = None) -> str:
    """The policy in the shape that the stacks write (tests/stacks/test_doctor.py has the real one)."""
    statements: list[dict[str, Any]] = [
        {
            "Sid": "AllowRules",
            "Effect": "Allow",
            "Principal": {"Service": "events.amazonaws.com"},
            "Action": "sqs:SendMessage",
            "Resource": arn("sqs", queue),
            "Condition": {
                "ArnEquals": {"aws:SourceArn": [arn("events", f"rule/{rule}") for rule in rules]},
                "StringEquals": {"aws:SourceAccount": ACCOUNT},
            },
        },
        {
            "Sid": "DenyHttp",
            "Effect": "Deny",
            "Principal": "*",
            "Action": "sqs:*",
            "Resource": arn("sqs", queue),
            "Condition": {"Bool": {"aws:SecureTransport": "false"}},
        },
    ]
    if role is not None:
        statements.append(
            {
                "Sid": "DenyOtherReaders",
                "Effect": "Deny",
                "Principal": "*",
                "Action": ["sqs:DeleteMessage", "sqs:ReceiveMessage"],
                "Resource": arn("sqs", queue),
                "Condition": {"ArnNotEquals": {"aws:PrincipalArn": [role]}},
            }
        )
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


class FakeEks:
    """EKS with one cluster, and the access entries of its API."""

    def __init__(self) -> None:
        self.mode = "API"
        self.groups: list[str] | None = [AUDIT_GROUP]

    def describe_cluster(self, *, name: str) -> dict[str, Any]:
        assert name == CLUSTER
        cluster = {"name": name, "status": "ACTIVE", "version": "1.36", "endpoint": "https://example.eks.amazonaws.com"}
        return {"cluster": cluster | {"accessConfig": {"authenticationMode": self.mode}}}

    def describe_access_entry(self, *, clusterName: str, principalArn: str) -> dict[str, Any]:  # noqa: N803
        assert clusterName == CLUSTER
        assert principalArn.startswith(f"arn:aws:iam::{ACCOUNT}:role/")
        if self.groups is None:
            raise ClientError({"Error": {"Code": "ResourceNotFoundException", "Message": "no entry"}}, "Describe")
        return {"accessEntry": {"kubernetesGroups": self.groups}}


class Deployment:
    """What a deployment leaves behind, as far as the doctor looks at it."""

    def __init__(self) -> None:
        self.eks = FakeEks()
        self.rules = {
            names.rule_name("holdfast", CLUSTER, kind): (CLUSTER, pattern)
            for kind, pattern in event_patterns.KARPENTER.items()
        } | {
            names.audit_rule_name("holdfast", kind): ("holdfast-audit", pattern)
            for kind, pattern in event_patterns.audit("holdfast", include_terminate_calls=False).items()
        }
        self._queues()
        self._rules()
        self._stacks()
        self._mappings()
        aws("secretsmanager").create_secret(Name=SECRET, SecretString=WEBHOOK)
        self.metric("AWS/SQS", "NumberOfEmptyReceives", 3, QueueName=CLUSTER)
        for queue in (CLUSTER, "holdfast-audit"):
            self.metric("AWS/SQS", "ApproximateAgeOfOldestMessage", 0, QueueName=queue)
        self.metric("Holdfast", "SweeperHeartbeat", 1, service="interruption_sweeper")
        self.metric("AWS/Lambda", "Invocations", 1, FunctionName=self.functions["AuditSweeperFunction4C"])

    def _queues(self) -> None:
        sqs = aws("sqs")
        self.urls: dict[str, str] = {}
        sources = (CLUSTER, "holdfast-audit", "holdfast-looks-public", "holdfast-alerts")
        others = [names.dlq_name(queue) for queue in sources] + [names.target_dlq_name(one) for one in sources[:2]]
        for name in (*others, "holdfast-failed-sweeps"):
            self.urls[name] = sqs.create_queue(QueueName=name)["QueueUrl"]
        for name in sources:
            redrive = {"deadLetterTargetArn": arn("sqs", names.dlq_name(name)), "maxReceiveCount": 10}
            attributes = {"MessageRetentionPeriod": "300", "RedrivePolicy": json.dumps(redrive)}
            rules = [rule for rule, (queue, _) in self.rules.items() if queue == name]
            attributes["Policy"] = policy(name, rules, role=ROLE if name == CLUSTER else None)
            self.urls[name] = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]

    def _rules(self) -> None:
        events = aws("events")
        for name, (queue, pattern) in self.rules.items():
            events.put_rule(Name=name, EventPattern=json.dumps(pattern))
            target = {"Id": "Queue", "Arn": arn("sqs", queue)}
            target["DeadLetterConfig"] = {"Arn": arn("sqs", names.target_dlq_name(queue))}  # type: ignore[assignment]
            events.put_targets(Rule=name, Targets=[target])

    def _stacks(self) -> None:
        role = {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
        }
        function = {
            "Type": "AWS::Lambda::Function",
            "Properties": {
                "Code": {"ZipFile": "def handler(event, context): ..."},
                "Handler": "index.handler",
                "Runtime": "python3.13",
                "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            },
        }
        self.stack(STATE, {"Ledger5F": ledger_resource()})
        self.stack(CONTROL, {"Role": role} | dict.fromkeys(FUNCTIONS, function))
        self.stack(CLUSTER_STACK, {"Topic": {"Type": "AWS::SNS::Topic"}})
        self.functions = {
            one["LogicalResourceId"]: one["PhysicalResourceId"]
            for one in aws("cloudformation").describe_stack_resources(StackName=CONTROL)["StackResources"]
            if one["ResourceType"] == "AWS::Lambda::Function"
        }

    def stack(self, name: str, resources: dict[str, Any]) -> None:
        aws("cloudformation").create_stack(StackName=name, TemplateBody=json.dumps({"Resources": resources}))

    def _mappings(self) -> None:
        self.mappings = {
            queue: aws("lambda").create_event_source_mapping(
                FunctionName=self.functions[logical], EventSourceArn=arn("sqs", queue)
            )["UUID"]
            for logical, queue in FUNCTIONS.items()
            if queue is not None
        }

    def metric(self, namespace: str, name: str, value: float, **dimensions: str) -> None:
        point = {
            "MetricName": name,
            "Value": value,
            "Timestamp": datetime.now(UTC) - timedelta(minutes=2),
            "Dimensions": [{"Name": key, "Value": one} for key, one in dimensions.items()],
        }
        aws("cloudwatch").put_metric_data(Namespace=namespace, MetricData=[point])


def ledger_resource() -> dict[str, Any]:
    keys = {table.PARTITION_KEY, table.SORT_KEY}
    keys |= {key for index in table.INDEXES for key in (index.partition_key, index.sort_key)}

    def schema(partition: str, sort: str) -> list[dict[str, str]]:
        return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]

    return {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "BillingMode": "PAY_PER_REQUEST",
            "DeletionProtectionEnabled": True,
            "AttributeDefinitions": [{"AttributeName": key, "AttributeType": "S"} for key in sorted(keys)],
            "KeySchema": schema(table.PARTITION_KEY, table.SORT_KEY),
            "GlobalSecondaryIndexes": [
                {
                    "IndexName": index.name,
                    "KeySchema": schema(index.partition_key, index.sort_key),
                    "Projection": {"ProjectionType": "ALL"},
                }
                for index in table.INDEXES
            ],
        },
    }


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    monkeypatch.chdir(tmp_path)
    Path("holdfast.yaml").write_text(CONFIG)
    with mock_aws():
        made = Deployment()
        genuine = doctor_look.Clients.get

        def get(self: doctor_look.Clients, service: str, region: str) -> Any:
            return made.eks if service == "eks" else genuine(self, service, region)

        monkeypatch.setattr(doctor_look.Clients, "get", get)
        yield made


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["doctor", *args], env={"COLUMNS": "80"})


def not_ok(*args: str) -> dict[str, tuple[str, str, str | None]]:
    """The checks that are not ok, by their name; the exit code is as they say."""
    result = run(*args, "--output", "json")
    document = json.loads(result.stdout)
    bad = {
        one["check"]: (one["state"], one["found"], one["way_out"]) for one in document["checks"] if one["state"] != "ok"
    }
    good = all(state == "warning" for state, _, _ in bad.values())
    assert result.exit_code == (ExitCode.OK if good else ExitCode.NOT_GOOD), result.output
    assert document["good"] is good
    return bad


@pytest.mark.usefixtures("deployment")
def test_a_healthy_deployment_is_all_ok_and_the_table_fits_80_columns() -> None:
    assert not_ok() == {}
    result = run()
    assert result.exit_code == ExitCode.OK
    assert max(map(len, result.stdout.splitlines())) <= 80
    # 1 credentials, 2 stacks, ledger, outbox, 8 rules, 2 of the audit's queue, 5 queues put aside, 3 x 3 and 2 of the
    # functions, the heartbeat, the secret; of the cluster: stack, 5 rules, 5 of its queue, 2 queues put aside, 2 of EKS.
    assert "48 ok." in result.stdout
    assert "give --kube-context" in " ".join(result.stdout.split())


@pytest.mark.usefixtures("deployment")
def test_the_webhook_is_never_shown() -> None:
    for args in ((), ("--output", "json")):
        result = run(*args)
        assert "never-shown" not in result.output
        assert "hooks.slack.com" not in result.output


def test_a_disabled_rule_is_broken(deployment: Deployment) -> None:
    name = f"holdfast-{CLUSTER}-spot"
    aws("events").disable_rule(Name=name)
    assert not_ok() == {
        f"rule {name}": (
            "broken",
            "disabled: its events go nowhere",
            f"aws events enable-rule --region {REGION} --name {name}",
        )
    }


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ({"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warnings"]}, "its pattern is not"),
        (None, "there is no such rule"),
    ],
)
def test_a_changed_or_deleted_rule_is_broken(deployment: Deployment, pattern: Any, words: str) -> None:
    name, events = "holdfast.audit.warning", aws("events")
    if pattern is None:
        events.remove_targets(Rule=name, Ids=["Queue"])
        events.delete_rule(Name=name)
    else:
        events.put_rule(Name=name, EventPattern=json.dumps(pattern))
    ((check, (state, found, way_out)),) = not_ok().items()
    assert (check, state) == (f"rule {name}", "broken")
    assert words in found
    assert way_out is not None
    assert CONTROL in way_out


def test_a_rule_without_its_target_and_a_queue_without_its_policy_are_broken(deployment: Deployment) -> None:
    name = f"holdfast-{CLUSTER}-health"
    aws("events").remove_targets(Rule=name, Ids=["Queue"])
    rules = [rule for rule, (queue, _) in deployment.rules.items() if queue == CLUSTER and not rule.endswith("spot")]
    aws("sqs").set_queue_attributes(
        QueueUrl=deployment.urls[CLUSTER], Attributes={"Policy": policy(CLUSTER, rules, role=ROLE)}
    )
    bad = not_ok()
    assert {check: state for check, (state, _, _) in bad.items()} == {
        f"rule {name}": "broken",
        f"queue {CLUSTER}: policy": "broken",
    }
    assert f"{CLUSTER} is not its target; its targets: none" in bad[f"rule {name}"][1]
    assert f"holdfast-{CLUSTER}-spot" in bad[f"queue {CLUSTER}: policy"][1]


@pytest.mark.report("aws/karpenter-provider-aws#3005", "kubernetes-sigs/karpenter#1799")
def test_a_dead_poller_is_broken_and_no_data_is_unknown(deployment: Deployment) -> None:
    """Zero receives are known; that CloudWatch says nothing is not zero."""
    from moto.cloudwatch.models import cloudwatch_backends

    data = cloudwatch_backends[ACCOUNT][REGION].metric_data
    data[:] = [datum for datum in data if datum.name != "NumberOfEmptyReceives"]
    assert not_ok()["Karpenter polls"][0] == "unknown"
    for metric in ("NumberOfEmptyReceives", "NumberOfMessagesReceived"):
        deployment.metric("AWS/SQS", metric, 0, QueueName=CLUSTER)
    state, found, way_out = not_ok()["Karpenter polls"]
    assert (state, way_out) == ("broken", "docs/runbook.md#karpenter-not-polling")
    assert "no interruption is handled" in found
    # A busy poller makes no empty receives.
    deployment.metric("AWS/SQS", "NumberOfMessagesReceived", 7, QueueName=CLUSTER)
    assert not_ok() == {}


@pytest.mark.parametrize(
    ("groups", "words"), [(None, "has no access entry"), (["system:masters"], f"is not in group {AUDIT_GROUP}")]
)
def test_a_missing_access_entry_is_broken(deployment: Deployment, groups: list[str] | None, words: str) -> None:
    deployment.eks.groups = groups
    ((check, (state, found, _)),) = not_ok().items()
    assert (check, state) == ("judge's access", "broken")
    assert words in found


def test_a_missing_secret_is_broken(deployment: Deployment) -> None:
    aws("secretsmanager").delete_secret(SecretId=SECRET, ForceDeleteWithoutRecovery=True)
    ((check, (state, found, way_out)),) = not_ok().items()
    assert (check, state) == ("Slack: secret", "broken")
    assert found == f"there is no secret {SECRET}: nobody is told"
    assert way_out is not None
    assert "create-secret" in way_out


def test_a_secret_that_is_no_url_is_broken_and_not_shown(deployment: Deployment) -> None:
    aws("secretsmanager").put_secret_value(SecretId=SECRET, SecretString="xoxb-a-token-never-shown")
    state, found, _ = not_ok()["Slack: secret"]
    assert state == "broken"
    assert "never-shown" not in found


@pytest.mark.parametrize("queue", [f"{CLUSTER}-undelivered", f"{CLUSTER}-dlq", "holdfast-audit-dlq"])
def test_a_message_put_aside_is_broken_and_names_redrive(deployment: Deployment, queue: str) -> None:
    aws("sqs").send_message(QueueUrl=deployment.urls[queue], MessageBody="{}")
    ((check, (state, found, way_out)),) = not_ok().items()
    assert (check, state, found) == (f"queue {queue}", "broken", "1 message put aside")
    assert way_out is not None
    assert way_out.endswith(f"holdfast redrive {queue}")


def test_a_function_that_does_not_read_is_broken_and_one_with_errors_a_warning(deployment: Deployment) -> None:
    aws("lambda").update_event_source_mapping(UUID=deployment.mappings["holdfast-audit"], Enabled=False)
    deployment.metric("AWS/Lambda", "Errors", 2, FunctionName=deployment.functions["AuditSweeperFunction4C"])
    bad = not_ok()
    assert {check: state for check, (state, _, _) in bad.items()} == {
        "ingest: queue": "broken",
        "sweeper: errors": "warning",
    }
    assert bad["ingest: queue"][2] == (
        f"aws lambda update-event-source-mapping --region {REGION} --enabled --uuid {deployment.mappings['holdfast-audit']}"
    )


def test_warnings_alone_are_good(deployment: Deployment) -> None:
    deployment.metric("AWS/Lambda", "Errors", 1, FunctionName=deployment.functions["AuditSweeperFunction4C"])
    assert run().exit_code == ExitCode.OK


@pytest.mark.report("aws/karpenter-provider-aws#7209")
def test_the_aws_managed_key_is_broken(deployment: Deployment) -> None:
    aws("sqs").set_queue_attributes(QueueUrl=deployment.urls[CLUSTER], Attributes={"KmsMasterKeyId": "alias/aws/sqs"})
    state, found, _ = not_ok()[f"queue {CLUSTER}: settings"]
    assert state == "broken"
    assert "EventBridge cannot use it" in found


def test_what_the_person_may_not_ask_is_unknown_and_names_the_action(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    genuine = doctor_look.Clients.get

    class Refusing:
        """A client whose every call is refused."""

        def __getattr__(self, _name: str) -> Any:
            def call(**_: Any) -> Any:
                raise ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "Call")

            return call

    def get(self: doctor_look.Clients, service: str, region: str) -> Any:
        return Refusing() if service in {"events", "cloudwatch"} else genuine(self, service, region)

    monkeypatch.setattr(doctor_look.Clients, "get", get)
    bad = not_ok()
    assert {state for state, _, _ in bad.values()} == {"unknown"}
    assert len([check for check in bad if check.startswith("rule ")]) == len(deployment.rules)
    assert bad["Karpenter polls"][2] == "allow yourself cloudwatch:GetMetricStatistics on *"
    assert bad["rule holdfast.audit.health"][2] == ("allow yourself events:DescribeRule on rule holdfast.audit.health")


def test_nothing_deployed_is_broken_with_the_command_that_deploys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("holdfast.yaml").write_text(CONFIG)
    with mock_aws():
        bad = not_ok()
    assert bad["stack state"] == ("broken", "not deployed", f"node_modules/.bin/cdk deploy {STATE}")
    assert bad["EKS"][1] == "EKS knows no such cluster"
    assert "ok" not in {state for state, _, _ in bad.values()}


@pytest.mark.usefixtures("deployment")
def test_a_place_in_another_account_is_unknown_and_not_asked_for() -> None:
    Path("holdfast.yaml").write_text(CONFIG.replace(ACCOUNT, "999999999999"))
    bad = not_ok()
    assert list(bad) == ["credentials"]
    state, found, way_out = bad["credentials"]
    assert (state, way_out) == ("unknown", "use --profile with one for account 999999999999")
    assert f"the credentials are for account {ACCOUNT}" in found


@pytest.mark.usefixtures("deployment")
@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--cluster", "eksworkshp"], "Configured are: eksworkshop"),
        (["--region", "eu-west-1"], "leave --region out"),
        (["--kube-context", "no-such-context"], "--kube-context no-such-context"),
        (["--config", "nowhere.yaml"], "nowhere.yaml"),
    ],
)
def test_a_mistake_is_told_before_anything_is_asked(args: list[str], words: str) -> None:
    result = run(*args)
    assert result.exit_code == ExitCode.USAGE
    assert words in " ".join(result.stderr.split())


def test_a_test_message_is_sent_only_when_asked_for(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    from slack_sdk.webhook import WebhookClient, WebhookResponse

    sent: list[dict[str, Any]] = []

    def send_dict(self: WebhookClient, body: dict[str, Any]) -> WebhookResponse:
        sent.append(body)
        return WebhookResponse(url="", status_code=200, body="ok", headers={})

    monkeypatch.setattr(WebhookClient, "send_dict", send_dict)
    assert (not_ok(), sent) == ({}, [])
    assert not_ok("--send-test") == {}
    assert [REGION in body["text"] for body in sent] == [True]


def test_looking_changes_nothing(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call is one that reads, and none of them receives a message."""
    called: set[str] = set()
    lock = threading.Lock()
    genuine = doctor_look.Clients.get

    def get(self: doctor_look.Clients, service: str, region: str) -> Any:
        client = genuine(self, service, region)
        if service != "eks":

            def note(event_name: str, **_: Any) -> None:
                with lock:
                    called.add(event_name.rpartition(".")[2])

            client.meta.events.register("provide-client-params", note)
        return client

    monkeypatch.setattr(doctor_look.Clients, "get", get)
    assert not_ok() == {}
    assert {name for name in called if not name.startswith(("Describe", "Get", "List"))} == {"Query"}


# ---- What no deployment in moto shows ----


@pytest.mark.parametrize(
    ("errors", "metrics_come", "state"),
    [
        (None, True, State.OK),
        (None, False, State.UNKNOWN),
        (0, True, State.OK),
        (1, True, State.WARNING),
        (1, False, State.WARNING),
    ],
)
def test_no_run_is_no_error_only_where_cloudwatch_tells_of_runs(
    errors: float | None, metrics_come: bool, state: State
) -> None:
    assert checks.function_errors(errors, metrics_come=metrics_come)[0] is state


@pytest.mark.parametrize(
    ("index_status", "state"),
    [("ACTIVE", State.OK), ("CREATING", State.BROKEN), (None, State.UNKNOWN), ("absent", State.BROKEN)],
)
def test_the_ledger_needs_its_indexes(index_status: str | None, state: State) -> None:
    index = {"IndexName": "open"} | ({} if index_status is None else {"IndexStatus": index_status})
    seen = {
        "TableStatus": "ACTIVE",
        "DeletionProtectionEnabled": True,
        "GlobalSecondaryIndexes": [] if index_status == "absent" else [index],
    }
    assert checks.ledger("t", seen, ["open"], "s")[0] is state


def test_an_answer_of_another_shape_is_unknown_and_the_others_are_told() -> None:
    def odd() -> checks.Told:
        raise KeyError("Policy")

    probes = [doctor_look.Probe("p", "odd", odd), doctor_look.Probe("p", "fine", lambda: (State.OK, "there", None))]
    told = doctor_look.run(probes, done=lambda: None)
    assert [(check.name, check.state) for check in told] == [("odd", State.UNKNOWN), ("fine", State.OK)]
    assert "KeyError: 'Policy'" in told[0].found


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ("UPDATE_COMPLETE", State.OK),
        ("UPDATE_ROLLBACK_COMPLETE", State.WARNING),
        ("UPDATE_IN_PROGRESS", State.WARNING),
        ("ROLLBACK_COMPLETE", State.BROKEN),
        ("UPDATE_ROLLBACK_FAILED", State.BROKEN),
        ("DELETE_IN_PROGRESS", State.BROKEN),
        (None, State.BROKEN),
    ],
)
def test_a_stack_is_as_its_status_says(status: str | None, state: State) -> None:
    assert checks.stack("s", status)[0] is state


@pytest.mark.parametrize(
    ("age", "state"),
    [(30, State.OK), (31, State.WARNING), (60, State.WARNING), (61, State.BROKEN), (None, State.UNKNOWN)],
)
def test_a_notice_has_waited_too_long_when_half_of_its_time_is_gone(age: float | None, state: State) -> None:
    told = checks.waiting(
        {"ApproximateNumberOfMessages": "0"},
        age,
        warning=checks.KARPENTER_QUEUE_WARNING,
        broken=checks.KARPENTER_QUEUE_PAGE,
    )
    assert told[0] is state


QUEUE, RULE = arn("sqs", "q"), arn("events", "rule/r")


def allow(**changes: Any) -> dict[str, Any]:
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": "events.amazonaws.com"},
        "Action": "sqs:SendMessage",
        "Resource": QUEUE,
    }
    return statement | changes


@pytest.mark.parametrize(
    ("statements", "state"),
    [
        ([], State.BROKEN),
        ([allow()], State.OK),
        ([allow(Action="SQS:*", Resource="*", Principal="*")], State.OK),
        ([allow(Principal={"Service": "sns.amazonaws.com"})], State.BROKEN),
        ([allow(Action="sqs:ReceiveMessage")], State.BROKEN),
        ([allow(Resource=arn("sqs", "another"))], State.BROKEN),
        ([allow(Condition={"ArnLike": {"aws:SourceArn": arn("events", "rule/*")}})], State.OK),
        ([allow(Condition={"ArnEquals": {"aws:SourceArn": arn("events", "rule/other")}})], State.BROKEN),
        ([allow(Condition={"StringEquals": {"AWS:SourceAccount": "999999999999"}})], State.BROKEN),
        ([allow(Condition={"StringEquals": {"aws:SourceOrgID": "o-1"}})], State.UNKNOWN),
        ([allow(Condition={"StringEquals": {"aws:SourceOrgID": "o-1"}}), allow()], State.OK),
        ([allow(), allow(Effect="Deny", Sid="Somebody")], State.UNKNOWN),
        ([allow(), allow(Effect="Deny", Condition={"Bool": {"aws:SecureTransport": "false"}})], State.OK),
    ],
)
def test_a_policy_lets_eventbridge_send_or_does_not(statements: list[dict[str, Any]], state: State) -> None:
    attributes = {"Policy": json.dumps({"Statement": statements})}
    assert checks.queue_policy(attributes, QUEUE, [RULE], ACCOUNT, "repair")[0] is state


def test_a_queue_without_a_policy_or_with_an_unreadable_one_is_not_ok() -> None:
    assert checks.queue_policy({}, QUEUE, [RULE], ACCOUNT, "repair")[0] is State.BROKEN
    for text in ("{", "[]", '{"Statement": ["x"]}'):
        assert checks.queue_policy({"Policy": text}, QUEUE, [RULE], ACCOUNT, "repair")[0] is State.UNKNOWN


@pytest.mark.parametrize(
    ("wanted", "mode", "state"),
    [
        (AuthenticationMode.API, "API", State.OK),
        (AuthenticationMode.API, "API_AND_CONFIG_MAP", State.WARNING),
        (AuthenticationMode.API, "CONFIG_MAP", State.BROKEN),
        (AuthenticationMode.CONFIG_MAP, "API", State.BROKEN),
        (AuthenticationMode.API, None, State.UNKNOWN),
    ],
)
def test_the_access_mode_has_to_know_access_entries(wanted: AuthenticationMode, mode: str | None, state: State) -> None:
    seen = {"status": "ACTIVE", "accessConfig": {"authenticationMode": mode}}
    assert checks.cluster(wanted, seen)[0] is state


def test_rules_of_somebody_else_have_to_cover_what_karpenter_hears() -> None:
    patterns: dict[str, Any] = {str(kind): pattern for kind, pattern in event_patterns.KARPENTER.items()}

    def seen(*kinds: str, enabled: bool = True) -> list[checks.RuleSeen]:
        return [checks.RuleSeen(f"r-{kind}", enabled, patterns[kind], (checks.Target(QUEUE),)) for kind in kinds]

    assert checks.foreign_rules(QUEUE, patterns, seen(*patterns))[0] is State.OK
    state, found, _ = checks.foreign_rules(QUEUE, patterns, seen("spot", "state"))
    assert state is State.WARNING
    assert "rebalance, capacity, health" in found
    assert checks.foreign_rules(QUEUE, patterns, seen(*patterns, enabled=False))[0] is State.BROKEN
    assert checks.foreign_rules(arn("sqs", "another"), patterns, seen(*patterns))[0] is State.BROKEN


def test_the_rbac_is_applied_when_all_it_reads_is_allowed_to_its_group() -> None:
    role, binding = audit_objects()
    assert checks.rbac(role, binding)[0] is State.OK
    assert checks.rbac(None, binding)[0] is State.BROKEN
    assert checks.rbac(role, None)[0] is State.BROKEN
    for left_out in range(len(role["rules"])):
        rules = [one for number, one in enumerate(role["rules"]) if number != left_out]
        state, found, _ = checks.rbac({**role, "rules": rules}, binding)
        assert state is State.BROKEN
        assert role["rules"][left_out]["resources"][0] in found
    assert checks.rbac(role, {**binding, "subjects": []})[0] is State.BROKEN
    one_object = [{**rule, "resourceNames": ["x"]} for rule in role["rules"]]
    assert checks.rbac({**role, "rules": one_object}, binding)[0] is State.BROKEN
    everything = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    assert checks.rbac({**role, "rules": everything}, binding)[0] is State.OK
