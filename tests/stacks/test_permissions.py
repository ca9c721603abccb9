"""Who may do what: every statement has its reason, no function may more than its adapters call, nobody reads for Karpenter."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, get_args, get_type_hints

import pytest

from holdfast.adapters.actions import actions_of, declarations
from holdfast.adapters.outbox import DynamoOutbox
from holdfast.adapters.slack import SlackMessenger
from holdfast.adapters.sns import SnsMessenger
from holdfast.adapters.wakeups import SqsWakeups
from holdfast.runtime import wiring, wiring_kubernetes
from holdfast.runtime.config import HoldfastConfig
from stacks import permissions_page
from stacks.statement import Statement, policy_json
from tests.stacks.templates import ACCOUNT, ROOT, SILENT, Assembly, of_type, one

PACKAGE = ROOT / "layers" / "holdfast" / "python" / "holdfast"


class Destination:
    """What stands behind a destination of alerts where both kinds are configured (runtime.wiring_slack)."""

    outbox: DynamoOutbox
    messenger: SlackMessenger | SnsMessenger
    wakeups: SqsWakeups


# Function → what it works with, and the modules that call it.
FUNCTIONS: dict[str, tuple[type, tuple[str, ...]]] = {
    "AuditIngest": (wiring.Ingest, ("interruption/ingest.py", "interruption/look.py")),
    "AuditJudge": (
        wiring_kubernetes.Judge,
        ("interruption/audit.py", "interruption/look.py", "runtime/current_mode.py"),
    ),
    "AuditSweeper": (
        wiring.Sweeper,
        tuple(f"interruption/{module}.py" for module in ("sweep", "selfcheck", "canary", "drift")),
    ),
    "AlertsNotifier": (Destination, ("alerts/deliver.py",)),
}
# What Lambda itself does with a function's role: log, poll the function's queue, reach into a VPC, keep failed runs;
# and SNS, which encrypts what a role publishes in that role's name.
BY_LAMBDA = {
    "AllowLambda",
    "WriteOwnLog",
    "ReadEvents",
    "ReadLooks",
    "ReadWakeups",
    "LambdaNetworkInterfaces",
    "DenyOwnNetworkInterfaces",
    "PutFailedSweepsAside",
    "EncryptForTopic",
}
# The statements that may name every resource, since their actions take none; and the keys' own `*`, which is the key.
EVERY_RESOURCE = {
    "DescribeInstances",
    "LambdaNetworkInterfaces",
    "DenyOwnNetworkInterfaces",
    "AllowAccount",
    "AllowAlarms",
}
READING = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:PurgeQueue", "sqs:ChangeMessageVisibility")
KARPENTERS = (
    f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:open",
    f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:closed-interruptions",
    f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:theirs",
    f"arn:aws-cn:sqs:cn-north-1:{ACCOUNT}:beijing",
    f"arn:aws-us-gov:sqs:us-gov-west-1:{ACCOUNT}:gov",
)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def statements(assembly: Assembly) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, str]]]:
    """Where, statement, reasons: of every policy in every template."""
    for stack, template in assembly.templates.items():
        for logical_id, found, reasons in permissions_page.policies(template):
            for statement in found:
                yield f"{stack}/{logical_id}", statement, reasons


def roles(assembly: Assembly) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for stack, logical_id, role in assembly.resources("AWS::IAM::Role"):
        for policy in role["Properties"]["Policies"]:
            for statement in policy["PolicyDocument"]["Statement"]:
                yield f"{stack}/{logical_id}", statement


def granted(assembly: Assembly, function: str, *stack: str) -> dict[str, set[str]]:
    """Sid → actions of a function's role."""
    role = one(assembly.template(*stack), "AWS::IAM::Role", function)
    (policy,) = role["Properties"]["Policies"]
    return {item["Sid"]: set(listed(item["Action"])) for item in policy["PolicyDocument"]["Statement"]}


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_every_statement_has_a_sid_and_a_reason(assembly: str, request: pytest.FixtureRequest):
    seen = 0
    for where, statement, reasons in statements(request.getfixturevalue(assembly)):
        assert statement.get("Sid"), where
        assert reasons.get(statement["Sid"], "").endswith("."), f"{where}: {statement['Sid']}"
        seen += 1
    assert seen > 40


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_no_reason_is_left_from_a_statement_that_is_gone(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    for template in made.templates.values():
        for logical_id, found, reasons in permissions_page.policies(template):
            assert {statement["Sid"] for statement in found} == reasons.keys(), logical_id


def test_no_permission_comes_from_elsewhere(example: Assembly, wide: Assembly):
    """No managed policies and no policies beside the roles: what a role may do stands in it."""
    for assembly in (example, wide):
        assert not assembly.resources("AWS::IAM::Policy")
        assert not assembly.resources("AWS::IAM::ManagedPolicy")
        for _, name, role in assembly.resources("AWS::IAM::Role"):
            assert "ManagedPolicyArns" not in role["Properties"], name


def test_only_lambda_takes_our_roles(wide: Assembly):
    for _, name, role in wide.resources("AWS::IAM::Role"):
        (trust,) = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "lambda.amazonaws.com"}, name


def adapters_of(parts: type) -> Iterator[tuple[str, type]]:
    """Name and class of what calls AWS."""
    for name, hint in get_type_hints(parts).items():
        yield from ((name, one) for one in get_args(hint) or (hint,) if isinstance(one, type) and declarations(one))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_function_may_do_exactly_what_its_adapters_call(function: str, example: Assembly, wide: Assembly):
    """Both ways: a missing permission fails in production, one too many is an opening.

    The notifier is looked at where Slack and SNS are configured.
    """
    made, stack = (wide, f"control-plane-{ACCOUNT}-ap") if function == "AlertsNotifier" else (example, "control-plane")
    parts, modules = FUNCTIONS[function]
    source = "\n".join((PACKAGE / module).read_text() for module in modules)
    needed: set[str] = set()
    for name, adapter in adapters_of(parts):
        called = set(re.findall(rf"\b{name}\.(\w+)\(", source))
        if called & declarations(adapter).keys():
            needed |= actions_of(adapter, *(called & declarations(adapter).keys()))

    allowed = {
        action for sid, actions in granted(made, function, stack).items() if sid not in BY_LAMBDA for action in actions
    }

    assert allowed == needed


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_adapter_that_a_function_works_with_is_called_by_it(function: str):
    """So that the comparison of permissions misses no adapter for a renamed parameter."""
    parts, modules = FUNCTIONS[function]
    source = "\n".join((PACKAGE / module).read_text() for module in modules)
    for name, adapter in adapters_of(parts):
        assert set(re.findall(rf"\b{name}\.(\w+)\(", source)) & declarations(adapter).keys(), name


def test_lambda_reads_each_functions_own_queue_only(wide: Assembly):
    own = {"ReadEvents": "AuditEventsQueue", "ReadLooks": "AuditLooks", "ReadWakeups": "AlertsWakeupsQueue"}
    readers = [(where, item) for where, item in roles(wide) if "sqs:ReceiveMessage" in listed(item["Action"])]

    assert readers
    for where, statement in readers:
        (resource,) = listed(statement["Resource"])
        assert resource["Fn::GetAtt"][0].startswith(own[statement["Sid"]]), where


@pytest.mark.report("aws/karpenter-provider-aws#5536")
@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_no_function_takes_a_message_from_a_queue_of_karpenters(assembly: str, request: pytest.FixtureRequest):
    """What one reader receives the other does not (karpenter-provider-aws#5536)."""
    made: Assembly = request.getfixturevalue(assembly)
    karpenters = [f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:eksworkshop"] if assembly == "example" else list(KARPENTERS)
    karpenters += [f"{arn}-dlq" for arn in karpenters] + [f"{arn}-undelivered" for arn in karpenters]
    asked = 0
    for where, statement in roles(made):
        if statement["Effect"] == "Deny":
            continue
        for resource in listed(statement["Resource"]):
            # A reference can only be to a queue of the same stack, and Karpenter's are in stacks of their own.
            if not isinstance(resource, str) or not any(fnmatchcase(arn, resource) for arn in karpenters):
                continue
            actions = listed(statement["Action"])
            assert not any(fnmatchcase(action, pattern) for action in READING for pattern in actions), where
            if resource != "*":
                assert set(actions) == {"sqs:GetQueueAttributes", "sqs:GetQueueUrl"}, where
                asked += 1
    assert asked


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_no_event_source_mapping_reads_a_queue_of_karpenters(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    for stack, name, mapping in made.resources("AWS::Lambda::EventSourceMapping"):
        queue = made.templates[stack]["Resources"][mapping["Properties"]["EventSourceArn"]["Fn::GetAtt"][0]]
        assert queue["Properties"]["QueueName"].startswith(f"{made.config.name}-"), name


def test_a_judge_measures_the_queues_and_finds_the_clusters_of_its_own_network_only(wide: Assembly):
    template = wide.template("control-plane-111122223333-ap")
    network_id = next(cluster.network_id for cluster in wide.config.clusters if cluster.name == "adopted")
    role = one(template, "AWS::IAM::Role", f"AuditJudge{network_id}")
    found = {item["Sid"]: item for item in role["Properties"]["Policies"][0]["PolicyDocument"]["Statement"]}

    assert found["FindClusters"]["Resource"] == f"arn:aws:eks:ap-southeast-1:{ACCOUNT}:cluster/adopted"
    assert found["MeasureKarpenterQueues"]["Resource"] == [
        f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:theirs",
        f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:theirs-dead",
    ]


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_a_wildcard_has_a_reason_to_be_one(assembly: str, request: pytest.FixtureRequest):
    for where, statement, _ in statements(request.getfixturevalue(assembly)):
        for action in listed(statement["Action"]):
            if statement["Effect"] == "Allow" and "*" in action:
                assert (statement["Sid"], action) == ("AllowAccount", "kms:*"), where
        if "*" in listed(statement.get("Resource", [])):
            assert statement["Sid"] in EVERY_RESOURCE, where


def test_the_notifier_alone_reads_a_secret_and_only_the_webhooks(wide: Assembly):
    readers = [(where, item) for where, item in roles(wide) if "secretsmanager" in json.dumps(item["Action"])]

    assert all("AlertsNotifier" in where for where, _ in readers)
    assert [item["Resource"] for _, item in readers if "ap-southeast-1" in json.dumps(item["Resource"])] == [
        [f"arn:aws:secretsmanager:ap-southeast-1:{ACCOUNT}:secret:team/{name}-??????" for name in ("oncall", "webhook")]
    ]


def test_a_channel_for_some_clusters_is_known_only_where_they_are(wide: Assembly):
    """Its secret may be read, and has to exist, in the account and region of its clusters alone."""
    readers = {where: json.dumps(item) for where, item in roles(wide) if "team/gov" in json.dumps(item)}

    assert len(readers) == 1
    assert all("us-gov-west-1" in where for where in readers)


def test_the_notifier_publishes_to_the_alarm_topic_with_its_key_and_to_no_other(wide: Assembly):
    for where, item in roles(wide):
        if item["Sid"] == "PublishAlerts":
            assert (item["Action"], "AlertsNotifier" in where) == ("sns:Publish", True)
            assert "AlarmsTopic" in json.dumps(item["Resource"]), where
        if item["Sid"] == "EncryptForTopic":
            assert item["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
            assert "AlarmsKey" in json.dumps(item["Resource"]), where
    assert sum(item["Sid"] in {"PublishAlerts", "EncryptForTopic"} for _, item in roles(wide)) == 2 * len(
        wide.config.environments
    )


def test_an_own_topic_is_published_to_with_the_key_it_is_said_to_have(synthesize: Callable[[HoldfastConfig], Assembly]):
    topic = f"arn:aws:sns:eu-west-1:{ACCOUNT}:oncall"
    key = f"arn:aws:kms:eu-west-1:{ACCOUNT}:key/0fa6e000-0000-4000-8000-000000000000"
    alerts = {"sns": {"topicArn": topic, "keyArn": key}}
    found = {
        item["Sid"]: item for _, item in roles(synthesize(HoldfastConfig.read(json.dumps(SILENT | {"alerts": alerts}))))
    }

    assert (found["PublishAlerts"]["Resource"], found["EncryptForTopic"]["Resource"]) == (topic, key)
    assert "ReadWebhook" not in found


def test_a_functions_own_code_may_not_touch_network_interfaces(wide: Assembly):
    """Lambda needs these permissions of the role; the code that runs under it does not (Lambda guide, VPC)."""
    for where, statement in roles(wide):
        if statement["Sid"] == "DenyOwnNetworkInterfaces":
            assert statement["Effect"] == "Deny", where
            assert list(statement["Condition"]["ArnLike"]) == ["lambda:SourceFunctionArn"], where
    with_interfaces = {where for where, item in roles(wide) if item["Sid"] == "LambdaNetworkInterfaces"}
    denied = {where for where, item in roles(wide) if item["Sid"] == "DenyOwnNetworkInterfaces"}
    assert with_interfaces == denied
    assert len(denied) == 3  # the judges of the three networks


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_every_queue_refuses_clear_text(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    for template in made.templates.values():
        protected = {
            queue["Ref"]
            for policy in of_type(template, "AWS::SQS::QueuePolicy").values()
            for queue in policy["Properties"]["Queues"]
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]
            if statement["Sid"] == "DenyHTTP"
            and (statement["Effect"], statement["Principal"], statement["Action"]) == ("Deny", "*", "sqs:*")
            and statement["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
        }
        assert protected == set(of_type(template, "AWS::SQS::Queue"))


def test_the_permission_boundary_bounds_every_role(wide: Assembly, example: Assembly):
    wanted = {"aws", "aws-cn", "aws-us-gov"}
    bounds = {role["Properties"].get("PermissionsBoundary") for _, _, role in wide.resources("AWS::IAM::Role")}

    assert bounds == {f"arn:{partition}:iam::{ACCOUNT}:policy/platform-boundary" for partition in wanted}
    assert all("PermissionsBoundary" not in role["Properties"] for _, _, role in example.resources("AWS::IAM::Role"))


def test_the_page_says_what_is_deployed():
    page = (ROOT / permissions_page.PAGE_FILE).read_text()

    assert page == permissions_page.page(), "run: .venv/bin/python -m stacks.permissions_page"


def test_write_makes_the_page(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(permissions_page, "page", lambda: "the page")

    permissions_page.write(tmp_path)

    assert (tmp_path / "docs" / "permissions.md").read_text() == "the page"


def test_the_page_refuses_a_value_it_has_no_words_for():
    with pytest.raises(ValueError, match="no words for"):
        permissions_page._text({"Fn::Select": [0, []]})


def test_a_policy_refuses_two_statements_of_one_sid():
    twice = Statement(sid="Same", reason="Because.", actions=["sqs:SendMessage"], resources=["*"])

    with pytest.raises(ValueError, match="Same"):
        policy_json([twice, twice])
