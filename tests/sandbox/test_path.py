"""The product whole: deployed by the real CDK into the embedded AWS, with its own roles, from the event to Slack."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.interruption.verdict import Verdict
from holdfast.ports import InstanceKey
from holdfast_cli.sandbox import aws, cdk, demo, function_logs, up
from holdfast_cli.sandbox.player import Player
from holdfast_cli.sandbox.state import SandboxState

from .conftest import PATIENCE, wait_for

pytestmark = pytest.mark.sandbox


@pytest.fixture
def player(whole: SandboxState) -> Iterator[Player]:
    player = Player(whole)
    yield player
    player.nodeclaims_go()


def test_each_played_interruption_gets_its_verdict_and_one_slack_message(whole: SandboxState) -> None:
    outcomes = demo.play(whole, progress=lambda _: None)

    assert [(outcome.played.name, outcome.wrong) for outcome in outcomes if outcome.wrong] == []
    assert [outcome.record.judgement.verdict if outcome.record else None for outcome in outcomes] == [
        Verdict.HANDLED_IN_TIME,
        Verdict.RECLAIMED_BEFORE_DRAIN,
        Verdict.MISSED,
        None,
    ]


def test_what_was_delivered_twice_is_told_once(whole: SandboxState, player: Player) -> None:
    """EventBridge delivers at least once."""
    warned_at = demo.long_ago()
    played = player.handled_in_time(21, warned_at)
    player.handled_in_time(21, warned_at)

    outcomes = demo.wait_for(whole, [played], patience=timedelta(seconds=PATIENCE))
    assert outcomes[0].wrong == ()
    queues = aws.client(whole, "sqs")

    def quiet() -> bool:
        counts = [
            queues.get_queue_attributes(
                QueueUrl=queues.get_queue_url(QueueName=name)["QueueUrl"], AttributeNames=["All"]
            )["Attributes"]
            for name in ("holdfast-audit", "holdfast-looks-public", "holdfast-alerts")
        ]
        return not any(
            int(count["ApproximateNumberOfMessages"]) + int(count["ApproximateNumberOfMessagesNotVisible"])
            for count in counts
        )

    wait_for(quiet, "the queues are empty", PATIENCE, 0.5)
    told = [message for message in up.slack(whole).messages() if str(played.instance_id) in str(message.payload)]
    assert len(told) == 1


def test_a_permission_taken_away_fails_loudly_and_loses_nothing(whole: SandboxState, player: Player) -> None:
    """Without dynamodb:PutItem ingest keeps nothing and says so; with it again the messages come back."""
    iam = aws.client(whole, "iam")
    role = function_logs.physical_id(whole, "AuditIngestRole", "AWS::IAM::Role")
    (policy_name,) = iam.list_role_policies(RoleName=role)["PolicyNames"]
    policy = iam.get_role_policy(RoleName=role, PolicyName=policy_name)["PolicyDocument"]
    crippled = {
        **policy,
        "Statement": [item for item in policy["Statement"] if "dynamodb:PutItem" not in item["Action"]],
    }
    assert crippled != policy

    iam.put_role_policy(RoleName=role, PolicyName=policy_name, PolicyDocument=json.dumps(crippled))
    try:
        played = player.missed(31, demo.long_ago())
        wait_for(
            lambda: [
                line
                for line in function_logs.lines(whole, "interruption_ingest")
                if line.get("level") == "ERROR" and "dynamodb:PutItem" in str(line.get("message"))
            ],
            "ingest says which permission it lacks",
            PATIENCE,
            0.5,
        )
        assert played.instance_id is not None
        key = InstanceKey(whole.account, whole.region, played.instance_id)
        assert demo.ledger_of(whole).history(key).records == ()
    finally:
        iam.put_role_policy(RoleName=role, PolicyName=policy_name, PolicyDocument=json.dumps(policy))

    (outcome,) = demo.wait_for(whole, [played], patience=timedelta(seconds=PATIENCE))
    assert outcome.wrong == ()


def test_a_changed_setting_is_deployed_over_and_nothing_else_differs(whole: SandboxState, tmp_path: Path) -> None:
    lines: list[str] = []
    up.write_config(whole, maxConcurrency=3)
    cdk.deploy(whole, up.project(), *up.config_arguments(whole), on_line=lines.append)
    mappings = aws.client(whole, "lambda").list_event_source_mappings()["EventSourceMappings"]
    audit = [item for item in mappings if item["EventSourceArn"].endswith(":holdfast-audit")]
    assert [item["ScalingConfig"]["MaximumConcurrency"] for item in audit] == [3]

    differences: list[str] = []
    cdk.diff(whole, up.project(), *up.config_arguments(whole), on_line=differences.append)
    assert any("0" in line and "differences" in line for line in differences), differences
