"""The control plane: the audit's queues, its functions and how they are started."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.alerts.deliver import LEASE
from holdfast.render.rbac import render_rbac
from holdfast.runtime.deployed_rules import deployed_rules
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.names import AuditRuleKind, RuleKind
from holdfast.runtime.settings import (
    IngestSettings,
    JudgeSettings,
    NotifierSettings,
    Settings,
    SweeperSettings,
    parse_look_queues,
)
from stacks.constructs.alarms import Runbook
from stacks.features.alerts import NOTIFIER_TIMEOUT
from stacks.features.interruption import KUBERNETES_GROUP
from tests.stacks.templates import ACCOUNT, ROOT, Assembly, Resource, network, of_type, one

SETTINGS: dict[str, type[Settings]] = {
    "AuditIngest": IngestSettings,
    "AuditJudge": JudgeSettings,
    "AuditSweeper": SweeperSettings,
    "AlertsNotifier": NotifierSettings,
}
HERE = "control-plane-111122223333-ap-southeast-1"


def functions(template: Mapping[str, Any]) -> dict[str, Resource]:
    return of_type(template, "AWS::Lambda::Function")


def queues(template: Mapping[str, Any]) -> dict[str, Resource]:
    """By queue name."""
    return {item["Properties"]["QueueName"]: item for item in of_type(template, "AWS::SQS::Queue").values()}


def filled_in(value: Any) -> str:
    """A value of the template with something in place of what CloudFormation resolves."""
    match value:
        case str():
            return value
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(filled_in(part) for part in parts)
        case _:
            return "filled-in-by-cloudformation"


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_every_function_is_made_alike(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    for stack, name, function in made.resources("AWS::Lambda::Function"):
        properties = function["Properties"]
        assert properties["Runtime"] == "python3.13"
        assert properties["Handler"] == "handler.lambda_handler"
        assert properties["Architectures"] == [made.config.architecture]
        assert properties["MemorySize"] == 512
        assert len(properties["Layers"]) == 3
        assert properties["Description"], name
        assert properties["LoggingConfig"]["LogFormat"] == "JSON"
        # A reservation below the mapping's concurrency throttles messages into the dead-letter queue.
        assert "ReservedConcurrentExecutions" not in properties
        log_group = made.templates[stack]["Resources"][properties["LoggingConfig"]["LogGroup"]["Ref"]]
        assert log_group["Properties"]["RetentionInDays"] == made.config.log_retention_days
        assert log_group["DeletionPolicy"] == "Delete"


def test_no_resource_is_made_behind_our_back(example: Assembly, wide: Assembly):
    """Custom resources of the CDK bring functions and roles that nobody reviews."""
    for assembly in (example, wide):
        kinds = {item["Type"] for template in assembly.templates.values() for item in template["Resources"].values()}
        assert not {kind for kind in kinds if kind.startswith(("Custom::", "AWS::CloudFormation::"))}


@pytest.mark.parametrize("assembly", ["example", "wide", "silent"])
def test_the_handlers_settings_can_be_read_from_every_environment(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    seen = 0
    for _, name, function in made.resources("AWS::Lambda::Function"):
        (settings,) = (kind for prefix, kind in SETTINGS.items() if name.startswith(prefix))
        environment = {
            key: filled_in(value) for key, value in function["Properties"]["Environment"]["Variables"].items()
        }
        read = settings.from_env(environment)
        assert read.to_env() == environment
        if "HOLDFAST_LOOK_QUEUES" in environment:
            assert parse_look_queues(environment["HOLDFAST_LOOK_QUEUES"])
        seen += 1
    assert seen


def test_looks_are_routed_by_network_in_the_order_of_the_configuration(wide: Assembly):
    """An instance of no known cluster is looked at from the first network."""
    template = wide.template(HERE)
    wanted = [cluster.network_id for cluster in wide.config.clusters_in(ACCOUNT, "ap-southeast-1")]

    for name, function in functions(template).items():
        variables = function["Properties"]["Environment"]["Variables"]
        if not name.startswith("AlertsNotifier"):
            assert list(parse_look_queues(filled_in(variables["HOLDFAST_LOOK_QUEUES"]))) == wanted
    assert {f"hf-looks-{network_id}" for network_id in wanted} <= queues(template).keys()


def test_each_network_has_a_judge_of_its_own_in_it(wide: Assembly):
    template = wide.template(HERE)
    judges = {
        function["Properties"]["Environment"]["Variables"]["HOLDFAST_NETWORK"]: function["Properties"]
        for name, function in functions(template).items()
        if name.startswith("AuditJudge")
    }
    open_, closed, adopted = (cluster.network_id for cluster in wide.config.clusters_in(ACCOUNT, "ap-southeast-1"))

    assert judges.keys() == {open_, closed, adopted}
    assert "VpcConfig" not in judges[open_]
    for network_id, number in ((closed, 1), (adopted, 2)):
        assert judges[network_id]["VpcConfig"] == {
            "SubnetIds": network(number)["subnetIds"],
            "SecurityGroupIds": network(number)["securityGroupIds"],
        }
    others = [item for name, item in functions(template).items() if not name.startswith("AuditJudge")]
    assert all("VpcConfig" not in item["Properties"] for item in others)


def test_the_audits_queues_keep_what_their_functions_need(example: Assembly):
    made = queues(example.template("control-plane"))
    for name in ("holdfast-audit", "holdfast-looks-public"):
        properties = made[name]["Properties"]
        assert properties["MessageRetentionPeriod"] == 4 * 86_400
        assert properties["VisibilityTimeout"] == 180
        assert properties["RedrivePolicy"]["maxReceiveCount"] == 5
    assert made["holdfast-alerts"]["Properties"]["RedrivePolicy"]["maxReceiveCount"] == 5
    for name in (name for name in made if name.endswith(("-dlq", "-undelivered", "-failed-sweeps"))):
        assert made[name]["Properties"]["MessageRetentionPeriod"] == 14 * 86_400
    assert all(item["Properties"]["SqsManagedSseEnabled"] for item in made.values())


@pytest.mark.report("github-aws-runners/terraform-aws-github-runner#5193")
@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_a_message_is_hidden_for_six_times_its_functions_timeout(assembly: str, request: pytest.FixtureRequest):
    """With less it comes back while it is worked on (terraform-aws-github-runner#5193; Lambda guide)."""
    made: Assembly = request.getfixturevalue(assembly)
    for stack, _, mapping in made.resources("AWS::Lambda::EventSourceMapping"):
        resources = made.templates[stack]["Resources"]
        properties = mapping["Properties"]
        queue = resources[properties["EventSourceArn"]["Fn::GetAtt"][0]]["Properties"]
        function = resources[properties["FunctionName"]["Ref"]]["Properties"]
        window = properties["MaximumBatchingWindowInSeconds"]
        assert queue["VisibilityTimeout"] >= 6 * function["Timeout"] + window


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_batches_are_small_and_fail_item_by_item(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    mappings = made.resources("AWS::Lambda::EventSourceMapping")
    for _, name, mapping in mappings:
        properties = mapping["Properties"]
        assert properties["BatchSize"] == 10
        assert properties["MaximumBatchingWindowInSeconds"] == 0
        assert properties["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        wanted = 2 if name.startswith("AlertsNotifier") else made.config.audit.max_concurrency
        assert properties["ScalingConfig"] == {"MaximumConcurrency": wanted}
    assert mappings


def test_the_notifier_ends_before_its_lease_on_the_webhook():
    assert NOTIFIER_TIMEOUT < LEASE


def test_the_sweeper_runs_every_minute_and_a_failed_sweep_is_kept(example: Assembly):
    template = example.template("control-plane")
    rule = one(template, "AWS::Events::Rule", "AuditSweeper")["Properties"]
    (target,) = rule["Targets"]
    (invoke,) = of_type(template, "AWS::Lambda::EventInvokeConfig").values()
    (permission,) = of_type(template, "AWS::Lambda::Permission").values()
    failed = {
        "Fn::GetAtt": [
            next(
                name
                for name, item in of_type(template, "AWS::SQS::Queue").items()
                if item["Properties"]["QueueName"] == "holdfast-failed-sweeps"
            ),
            "Arn",
        ]
    }

    assert rule["ScheduleExpression"] == "rate(1 minute)"
    assert target["DeadLetterConfig"] == {"Arn": failed}
    assert invoke["Properties"]["DestinationConfig"] == {"OnFailure": {"Destination": failed}}
    assert invoke["Properties"]["MaximumRetryAttempts"] == 2
    assert permission["Properties"]["Principal"] == "events.amazonaws.com"
    assert permission["Properties"]["SourceAccount"] == ACCOUNT
    (timeout,) = (
        item["Properties"]["Timeout"] for name, item in functions(template).items() if name.startswith("AuditSweeper")
    )
    assert timeout < 60  # a sweep is over before the next begins


def test_events_for_the_audit_are_tried_for_a_day(example: Assembly):
    rules = [
        item["Properties"]
        for item in of_type(example.template("control-plane"), "AWS::Events::Rule").values()
        if "EventPattern" in item["Properties"]
    ]

    assert len(rules) == 8
    for rule in rules:
        (target,) = rule["Targets"]
        assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 86_400}
        assert "DeadLetterConfig" in target


def test_the_archive_is_on_the_default_bus_and_keeps_what_is_configured(example: Assembly, wide: Assembly):
    for template, region, days in (
        (example.template("control-plane"), "ap-southeast-1", 30),
        (wide.template(HERE), "ap-southeast-1", 7),
    ):
        (archive,) = of_type(template, "AWS::Events::Archive").values()
        assert archive["Properties"]["SourceArn"] == f"arn:aws:events:{region}:{ACCOUNT}:event-bus/default"
        assert archive["Properties"]["RetentionDays"] == days


def test_judges_get_a_kubernetes_group_and_nothing_else(wide: Assembly):
    """No access policy: what the group may do is in the cluster's own RBAC."""
    template = wide.template(HERE)
    entries = {
        item["Properties"]["ClusterName"]: item["Properties"]
        for item in of_type(template, "AWS::EKS::AccessEntry").values()
    }

    assert entries.keys() == {"open", "adopted"}  # `closed` is in CONFIG_MAP mode
    for entry in entries.values():
        assert entry["KubernetesGroups"] == ["holdfast:audit"]
        assert entry["Type"] == "STANDARD"
        assert not entry.keys() & {"AccessPolicies", "Username"}
        role = entry["PrincipalArn"]["Fn::GetAtt"][0]
        assert role.startswith("AuditJudge")


def test_the_group_is_the_one_that_the_rendered_rbac_binds():
    assert f"name: {KUBERNETES_GROUP}\n" in render_rbac().replace('"', "")


def test_in_config_map_mode_the_row_of_aws_auth_is_printed(wide: Assembly):
    outputs = wide.template(HERE)["Outputs"]
    (row,) = (output for name, output in outputs.items() if "AwsAuthRow" in name)

    text = filled_in(row["Value"])
    assert text == (
        "- rolearn: filled-in-by-cloudformation\n  username: holdfast:audit\n  groups:\n  - holdfast:audit\n"
    )
    assert "closed" in row["Description"]


def test_the_way_into_a_private_endpoint_is_printed(wide: Assembly):
    outputs = wide.template(HERE)["Outputs"]
    commands = [output["Value"] for name, output in outputs.items() if "LetIn" in name]

    assert len(commands) == 2
    assert all("--port 443" in command and "--source-group sg-0000000" in command for command in commands)


def test_without_slack_alerts_are_kept_and_synth_says_that_nobody_is_told(silent: Assembly, example: Assembly):
    template = silent.template("control-plane")

    assert not [name for name in functions(template) if "Notifier" in name]
    assert "holdfast-alerts" in queues(template)
    assert any("nobody is told" in warning for warning in silent.warnings)
    assert example.warnings == ()


def test_every_alarm_reaches_the_topic_and_the_runbook(example: Assembly):
    alarms = example.resources("AWS::CloudWatch::Alarm")
    topics = {json.dumps(alarm["Properties"]["AlarmActions"]) for _, _, alarm in alarms}
    anchors = {alarm["Properties"]["AlarmDescription"].partition("docs/runbook.md#")[2] for _, _, alarm in alarms}

    assert len(topics) == 1
    assert "AlarmsTopic" in topics.pop()
    assert anchors == set(Runbook)
    for _, _, alarm in alarms:
        assert alarm["Properties"]["AlarmDescription"].startswith(("PAGE: ", "WARNING: "))


def test_the_runbook_has_a_heading_for_every_alarm():
    headings = {
        line.lstrip("# ").strip().lower().replace(" ", "-")
        for line in (ROOT / "docs" / "runbook.md").read_text().splitlines()
        if line.startswith("#")
    }

    assert set(Runbook) <= headings


def limits(assembly: Assembly, metric: str) -> dict[str, tuple[float, str, int]]:
    """Logical id → threshold, what no data means, and periods, of the alarms on a plain metric."""
    return {
        name: (
            item["Properties"]["Threshold"],
            item["Properties"]["TreatMissingData"],
            item["Properties"]["EvaluationPeriods"],
        )
        for _, name, item in assembly.resources("AWS::CloudWatch::Alarm")
        if item["Properties"].get("MetricName") == metric
    }


@pytest.mark.report(
    "aws/karpenter-provider-aws#5400", "aws/karpenter-provider-aws/pkg/controllers/interruption/controller.go"
)
def test_the_age_of_messages_is_watched(example: Assembly):
    found = sorted(limits(example, "ApproximateAgeOfOldestMessage").values())

    assert found == [(30, "notBreaching", 1), (60, "notBreaching", 1), (120, "notBreaching", 1)]


def test_every_dead_letter_queue_is_watched_by_its_depth(example: Assembly):
    """NumberOfMessagesSent does not count what a redrive moves."""
    watched = {
        dimension["Value"]["Fn::GetAtt"][0]
        for _, _, item in example.resources("AWS::CloudWatch::Alarm")
        if item["Properties"].get("MetricName") == "ApproximateNumberOfMessagesVisible"
        for dimension in item["Properties"]["Dimensions"]
    }
    dead_letter_queues = {
        name
        for _, name, item in example.resources("AWS::SQS::Queue")
        if item["Properties"]["QueueName"].endswith(("-dlq", "-undelivered", "-failed-sweeps"))
    }

    assert len(dead_letter_queues) == 7
    assert watched == dead_letter_queues
    assert set(limits(example, "ApproximateNumberOfMessagesVisible").values()) == {(0, "notBreaching", 1)}


@pytest.mark.report("aws/karpenter-provider-aws#3005", "kubernetes-sigs/karpenter#1799")
def test_a_karpenter_that_does_not_poll_is_noticed_in_five_minutes(example: Assembly):
    (alarm,) = (
        item["Properties"]
        for _, name, item in example.resources("AWS::CloudWatch::Alarm")
        if name.startswith("NotPolling")
    )
    metrics = {item["MetricStat"]["Metric"]["MetricName"] for item in alarm["Metrics"] if "MetricStat" in item}

    assert metrics == {"NumberOfEmptyReceives", "NumberOfMessagesReceived"}
    assert (alarm["EvaluationPeriods"], alarm["Threshold"]) == (5, 1)
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    assert alarm["TreatMissingData"] == "breaching"


@pytest.mark.parametrize("stack", ["cluster", "control-plane"])
def test_every_rule_is_watched_for_failed_lost_and_late_events(stack: str, example: Assembly):
    template = example.template(stack)
    rules = {
        item["Properties"]["Name"]
        for item in of_type(template, "AWS::Events::Rule").values()
        if "EventPattern" in item["Properties"]
    }
    watched: dict[str, set[str]] = {}
    for alarm in of_type(template, "AWS::CloudWatch::Alarm").values():
        for metric in alarm["Properties"].get("Metrics", []):
            stat = metric.get("MetricStat", {}).get("Metric", {})
            if stat.get("Namespace") == "AWS/Events":
                watched.setdefault(stat["MetricName"], set()).add(stat["Dimensions"][0]["Value"])

    # The canary's rule has the canary itself.
    rules -= {"holdfast.audit.canary"}
    assert watched == dict.fromkeys(
        ("FailedInvocations", "InvocationsSentToDlq", "InvocationsFailedToBeSentToDlq", "ThrottledRules"), rules
    )


def test_a_canary_that_is_late_or_not_known_of_is_noticed(example: Assembly):
    assert list(limits(example, "CanarySeconds").values()) == [(60, "breaching", 3)]


def test_rules_that_differ_or_are_not_known_are_noticed_after_the_second_comparison(example: Assembly):
    assert list(limits(example, "RuleDrift").values()) == [(0, "breaching", 10)]


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_the_sweeper_expects_the_rules_that_are_deployed_and_no_others(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    deployed = [
        (rule["Name"], rule["EventPattern"], rule["Targets"][0])
        for _, _, item in made.resources("AWS::Events::Rule")
        if "EventPattern" in (rule := item["Properties"])
    ]
    config = made.config
    expected = [rule for account, region in config.environments for rule in deployed_rules(config, account, region)]

    assert sorted(rule.name for rule in expected) == sorted(name for name, _, _ in deployed)
    patterns = {(name, json.dumps(pattern, sort_keys=True)) for name, pattern, _ in deployed}
    assert {(rule.name, json.dumps(rule.pattern, sort_keys=True)) for rule in expected} == patterns


def test_the_sweeper_reads_exactly_these_rules_and_sends_only_canaries(example: Assembly):
    template = example.template("control-plane")
    role = one(template, "AWS::IAM::Role", "AuditSweeper")
    document = role["Properties"]["Policies"][0]["PolicyDocument"]
    statements = {statement["Sid"]: statement for statement in document["Statement"]}

    assert statements["CompareRules"]["Action"] == ["events:DescribeRule", "events:ListTargetsByRule"]
    arn = f"arn:aws:events:ap-southeast-1:{ACCOUNT}:rule"
    audit = [f"{arn}/holdfast.audit.{kind}" for kind in AuditRuleKind]
    karpenter = [f"{arn}/holdfast-eksworkshop-{kind}" for kind in RuleKind]
    assert sorted(statements["CompareRules"]["Resource"]) == sorted([*audit, *karpenter])
    assert statements["SendCanary"]["Resource"] == f"arn:aws:events:ap-southeast-1:{ACCOUNT}:event-bus/default"
    assert statements["SendCanary"]["Condition"] == {
        "ForAllValues:StringEquals": {"events:source": ["holdfast.canary"]}
    }


def test_a_silent_sweeper_is_noticed(example: Assembly):
    assert list(limits(example, "SweeperHeartbeat").values()) == [(1, "breaching", 5)]


def test_alarms_read_metrics_of_our_own_as_the_functions_write_them(example: Assembly):
    """tests/unit/test_metric_names.py holds the functions to the registry."""
    read = [
        metric
        for _, _, item in example.resources("AWS::CloudWatch::Alarm")
        for metric in read_by(item["Properties"])
        if metric["Namespace"] == "Holdfast"
    ]

    assert read
    for metric in read:
        written = MetricName(metric["MetricName"])
        dimensions = {dimension["Name"]: dimension["Value"] for dimension in metric["Dimensions"]}
        assert dimensions["service"] == written.service
        assert tuple(sorted(dimensions)) in [tuple(sorted(names)) for names in written.dimensions]


def read_by(properties: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The metrics that an alarm reads."""
    found = [item["MetricStat"]["Metric"] for item in properties.get("Metrics", []) if "MetricStat" in item]
    return found or [properties]


@pytest.mark.report("aws/karpenter-provider-aws#9523")
def test_no_alarm_reads_a_metric_of_karpenters(example: Assembly):
    """karpenter_interruption_message_queue_duration_seconds has absurd values in 1.14.0 and 1.14.1."""
    alarms = [item["Properties"] for _, _, item in example.resources("AWS::CloudWatch::Alarm")]
    read = [(metric["Namespace"], metric["MetricName"]) for alarm in alarms for metric in read_by(alarm)]

    assert len(read) >= len(alarms)
    assert all(namespace.startswith("AWS/") or namespace == "Holdfast" for namespace, _ in read)
    assert not [name for _, name in read if "karpenter" in name.lower()]


def test_every_function_is_watched_for_errors(example: Assembly):
    watched = {
        item["Properties"]["Dimensions"][0]["Value"]["Ref"]
        for _, _, item in example.resources("AWS::CloudWatch::Alarm")
        if item["Properties"].get("Namespace") == "AWS/Lambda"
    }

    assert watched == set(functions(example.template("control-plane")))
