"""Karpenter's queue and rules: the deployment specification, setting by setting."""

import json
from typing import Any

import pytest

from holdfast.runtime.config import KARPENTER_VISIBILITY
from tests.stacks.templates import ACCOUNT, BREAK_GLASS_ARN, KEY_ARN, Assembly, controller, of_type, one

QUEUE_ARN = f"arn:aws:sqs:ap-southeast-1:{ACCOUNT}:eksworkshop"
RULES = [f"holdfast-eksworkshop-{kind}" for kind in ("spot", "rebalance", "state", "capacity", "health")]
RULE_ARNS = [f"arn:aws:events:ap-southeast-1:{ACCOUNT}:rule/{name}" for name in RULES]


def queue(assembly: Assembly, name: str) -> dict[str, Any]:
    (found,) = (
        resource
        for _, _, resource in assembly.resources("AWS::SQS::Queue")
        if resource["Properties"]["QueueName"] == name
    )
    return dict(found)


def statements(assembly: Assembly, policy: str, *stack: str) -> dict[str, Any]:
    document = one(assembly.template(*stack or ("cluster",)), "AWS::SQS::QueuePolicy", policy)["Properties"][
        "PolicyDocument"
    ]
    return {statement["Sid"]: statement for statement in document["Statement"]}


@pytest.mark.report("prowler-cloud/prowler#2565")
def test_karpenters_queue_is_as_its_reader_and_its_redrive_need_it(example: Assembly):
    properties = queue(example, "eksworkshop")["Properties"]

    assert properties["MessageRetentionPeriod"] == 900  # the example's 15m
    assert properties["VisibilityTimeout"] == 30
    assert properties["RedrivePolicy"]["maxReceiveCount"] == 10
    assert properties["SqsManagedSseEnabled"] is True
    # A message must reach the dead-letter queue before it expires.
    assert 10 * KARPENTER_VISIBILITY.total_seconds() < properties["MessageRetentionPeriod"]


def test_the_default_retention_is_karpenters(wide: Assembly):
    """300 s, as in Karpenter's getting-started template."""
    assert queue(wide, "open")["Properties"]["MessageRetentionPeriod"] == 300


@pytest.mark.report("aws/aws-node-termination-handler#562")
@pytest.mark.parametrize("setting", ["DelaySeconds", "MaximumMessageSize", "FifoQueue"])
def test_no_queue_delays_or_refuses_a_message(setting: str, example: Assembly, wide: Assembly):
    """A small limit refused notices elsewhere (aws-node-termination-handler#562), and a delay eats the two minutes."""
    for assembly in (example, wide):
        assert all(setting not in item["Properties"] for _, _, item in assembly.resources("AWS::SQS::Queue"))


def test_karpenters_queue_and_its_dead_letters_stay_when_the_stack_goes(example: Assembly):
    for name in ("eksworkshop", "eksworkshop-dlq", "eksworkshop-undelivered"):
        assert queue(example, name)["DeletionPolicy"] == queue(example, name)["UpdateReplacePolicy"] == "Retain"


def test_dead_letters_are_kept_for_14_days_and_only_for_their_queue(example: Assembly):
    for name in ("eksworkshop-dlq", "eksworkshop-undelivered"):
        assert queue(example, name)["Properties"]["MessageRetentionPeriod"] == 14 * 86_400
    assert queue(example, "eksworkshop-dlq")["Properties"]["RedriveAllowPolicy"] == {
        "redrivePermission": "byQueue",
        "sourceQueueArns": [QUEUE_ARN],
    }
    assert queue(example, "eksworkshop-undelivered")["Properties"]["RedriveAllowPolicy"] == {
        "redrivePermission": "denyAll"
    }


def test_only_our_rules_of_this_account_may_send(example: Assembly):
    for policy, arn in (
        ("InterruptionPolicy", QUEUE_ARN),
        ("InterruptionUndeliveredPolicy", f"{QUEUE_ARN}-undelivered"),
    ):
        allowed = statements(example, policy)["AllowRules"]
        assert allowed["Effect"] == "Allow"
        assert allowed["Principal"] == {"Service": "events.amazonaws.com"}
        assert allowed["Action"] == "sqs:SendMessage"
        assert allowed["Resource"] == arn
        assert allowed["Condition"] == {
            "ArnEquals": {"aws:SourceArn": RULE_ARNS},
            "StringEquals": {"aws:SourceAccount": ACCOUNT},
        }


def test_nobody_but_karpenter_and_the_break_glass_roles_takes_messages_out(wide: Assembly):
    denied = statements(wide, "InterruptionPolicy", "cluster", "closed")["DenyOtherReaders"]

    assert (denied["Effect"], denied["Principal"]) == ("Deny", "*")
    assert set(denied["Action"]) == {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:PurgeQueue",
        "sqs:ChangeMessageVisibility",
    }
    assert denied["Condition"] == {"ArnNotEquals": {"aws:PrincipalArn": [controller("closed"), BREAK_GLASS_ARN]}}


@pytest.mark.report("terraform-aws-modules/terraform-aws-eks#3674")
def test_each_rule_has_one_target_with_a_short_life_and_a_dead_letter_queue(example: Assembly):
    template = example.template("cluster")
    rules = of_type(template, "AWS::Events::Rule")
    undelivered = next(
        name
        for name, item in of_type(template, "AWS::SQS::Queue").items()
        if item["Properties"]["QueueName"].endswith("-undelivered")
    )

    assert sorted(rule["Properties"]["Name"] for rule in rules.values()) == sorted(RULES)
    for rule in rules.values():
        (target,) = rule["Properties"]["Targets"]
        assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 300}
        assert target["DeadLetterConfig"] == {"Arn": {"Fn::GetAtt": [undelivered, "Arn"]}}
        assert not target.keys() & {"InputTransformer", "InputPath", "Input"}  # Karpenter reads the event as it is


@pytest.mark.report("kubernetes-sigs/karpenter#1799", "aws/aws-cdk#28257")
def test_a_rule_comes_after_the_policies_that_let_it_deliver(example: Assembly):
    """EventBridge gives up at once on NO_PERMISSIONS, so a rule before its policy loses events."""
    template = example.template("cluster")
    policies = {
        name for name in of_type(template, "AWS::SQS::QueuePolicy") if not name.startswith("InterruptionDeadLetters")
    }

    assert len(policies) == 2
    for rule in of_type(template, "AWS::Events::Rule").values():
        assert policies <= set(rule["DependsOn"])


@pytest.mark.report("aws/aws-cdk#28257")
def test_a_rule_and_the_queues_it_writes_to_are_in_one_stack(example: Assembly, wide: Assembly):
    """Across stacks and regions the policies were missing or wrong elsewhere (aws-cdk#28257, #30238)."""
    for assembly in (example, wide):
        for stack, _, rule in assembly.resources("AWS::Events::Rule"):
            resources = assembly.templates[stack]["Resources"]
            for target in rule["Properties"]["Targets"]:
                for arn in (target["Arn"], target["DeadLetterConfig"]["Arn"]):
                    assert resources[arn["Fn::GetAtt"][0]]["Type"] in {"AWS::SQS::Queue", "AWS::Lambda::Function"}


@pytest.mark.report("aws/karpenter-provider-aws#6024", "awslabs/cdk-eks-blueprints#566")
def test_the_outputs_are_what_helm_and_the_controller_role_need(example: Assembly):
    outputs = example.template("cluster")["Outputs"]
    queue_id = outputs["KarpenterInterruptionQueueName"]["Value"]["Fn::GetAtt"][0]

    assert example.template("cluster")["Resources"][queue_id]["Properties"]["QueueName"] == "eksworkshop"
    assert outputs["KarpenterInterruptionQueueArn"]["Value"] == {"Fn::GetAtt": [queue_id, "Arn"]}
    (statement,) = json.loads(outputs["KarpenterControllerStatements"]["Value"])
    # Karpenter 1.14's InterruptionPolicy.
    assert set(statement["Action"]) == {"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"}
    assert statement["Resource"] == QUEUE_ARN


@pytest.mark.report("aws/aws-node-termination-handler#526", "aws/aws-cdk#33169")
def test_a_customer_key_is_on_every_queue_and_what_it_needs_is_printed(wide: Assembly):
    """EventBridge needs the key of the queue and of the dead-letter queue; CDK grants neither (aws-cdk#33169)."""
    template = wide.template("cluster", "closed")
    queues = of_type(template, "AWS::SQS::Queue")

    assert len(queues) == 3
    assert {item["Properties"]["KmsMasterKeyId"] for item in queues.values()} == {KEY_ARN}
    (grant,) = json.loads(template["Outputs"]["QueueKeyStatements"]["Value"])
    assert grant["Principal"] == {"Service": "events.amazonaws.com"}
    assert set(grant["Action"]) == {"kms:GenerateDataKey", "kms:Decrypt"}
    assert grant["Condition"] == {
        "ArnEquals": {
            "aws:SourceArn": [
                f"arn:aws:events:ap-southeast-1:{ACCOUNT}:rule/hf-closed-{kind}"
                for kind in ("spot", "rebalance", "state", "capacity", "health")
            ]
        },
        "StringEquals": {"aws:SourceAccount": ACCOUNT},
    }
    reads = json.loads(template["Outputs"]["KarpenterControllerStatements"]["Value"])
    assert {"kms:Decrypt"} == {item["Action"] for item in reads if item["Resource"] == KEY_ARN}


@pytest.mark.report("aws/karpenter-provider-aws#7209")
def test_no_queue_uses_the_key_that_eventbridge_cannot(example: Assembly, wide: Assembly):
    """With alias/aws/sqs deliveries fail without a sign (karpenter#7209, aws-cdk#30549)."""
    for assembly in (example, wide):
        for _, _, item in assembly.resources("AWS::SQS::Queue"):
            assert item["Properties"].get("KmsMasterKeyId") in {None, KEY_ARN}
            assert ("KmsMasterKeyId" in item["Properties"]) != item["Properties"].get("SqsManagedSseEnabled", False)


def test_nothing_is_deployed_for_a_queue_of_somebody_elses(wide: Assembly):
    text = json.dumps([template for name, template in wide.templates.items() if "control-plane" not in name])

    assert not any(name.startswith("hf-cluster") and "adopted" in name for name in wide.templates)
    assert "theirs" not in text


@pytest.mark.report("aws-ia/terraform-aws-eks-blueprints-addons#10")
def test_two_clusters_share_no_name(wide: Assembly):
    """Rule names clashed for the second cluster elsewhere (terraform-aws-eks-blueprints-addons#10)."""
    for kind, key in (("AWS::Events::Rule", "Name"), ("AWS::SQS::Queue", "QueueName")):
        found = [
            (stack.split(f"{ACCOUNT}-")[1].split("-hf")[0][:14], item["Properties"][key])
            for stack, _, item in wide.resources(kind)
            if key in item["Properties"]
        ]
        assert len(found) == len(set(found))
        assert all(len(name) <= (64 if key == "Name" else 80) for _, name in found)
