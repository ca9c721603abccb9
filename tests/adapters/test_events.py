"""EventBridge: rules as they are (moto), and what becomes of an event that is not taken (stubbed)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import Stubber
from moto import mock_aws

from holdfast.adapters.events import EventBridge
from holdfast.errors import Denied, HoldfastError, NotFound, Throttled, Unavailable
from holdfast.ports import RuleTarget, RuleView
from tests.adapters import samples

PATTERN = {"source": ["aws.ec2"], "detail": {"state": ["stopped", "terminated"]}}
QUEUE, LOST = (f"arn:aws:sqs:{samples.REGION}:123456789012:{name}" for name in ("audit", "audit-undelivered"))


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        yield samples.client("events")


def test_a_rule_is_given_with_its_state_its_pattern_and_its_targets(client: Any) -> None:
    client.put_rule(Name="rule", EventPattern=json.dumps(PATTERN), State="ENABLED")
    targets = [{"Id": "1", "Arn": QUEUE, "DeadLetterConfig": {"Arn": LOST}}, {"Id": "2", "Arn": LOST}]
    client.put_targets(Rule="rule", Targets=targets)

    view = EventBridge(client).describe("rule")

    assert view == RuleView(True, PATTERN, (RuleTarget(QUEUE, LOST), RuleTarget(LOST, None)))


def test_a_disabled_rule_without_a_pattern(client: Any) -> None:
    client.put_rule(Name="rule", ScheduleExpression="rate(1 minute)", State="DISABLED")

    assert EventBridge(client).describe("rule") == RuleView(False, None, ())


def test_a_rule_that_is_not_there_is_an_answer(client: Any) -> None:
    with pytest.raises(NotFound, match="reading rule gone"):
        EventBridge(client).describe("gone")


@pytest.mark.parametrize(
    ("code", "error"), [("AccessDeniedException", Denied), ("ThrottlingException", Throttled), ("Boom", Unavailable)]
)
def test_what_cannot_be_learned_is_an_error_that_names_the_rule(code: str, error: type[HoldfastError]) -> None:
    client = samples.client("events")
    with Stubber(client) as stubber:
        stubber.add_client_error("describe_rule", service_error_code=code)
        with pytest.raises(error, match="reading rule rule"):
            EventBridge(client).describe("rule")


def test_targets_come_in_pages() -> None:
    client = samples.client("events")
    with Stubber(client) as stubber:
        stubber.add_response("describe_rule", {"State": "ENABLED", "EventPattern": "{}"})
        stubber.add_response("list_targets_by_rule", {"Targets": [{"Id": "1", "Arn": QUEUE}], "NextToken": "n"})
        stubber.add_response(
            "list_targets_by_rule", {"Targets": [{"Id": "2", "Arn": LOST}]}, {"Rule": "rule", "NextToken": "n"}
        )

        assert [target.arn for target in EventBridge(client).describe("rule").targets] == [QUEUE, LOST]


def test_an_event_is_sent_to_the_default_bus() -> None:
    client = samples.client("events")
    entry = {"Source": "holdfast.canary", "DetailType": "Holdfast Canary", "Detail": '{"a": "1", "b": "2"}'}
    with Stubber(client) as stubber:
        stubber.add_response("put_events", {"FailedEntryCount": 0, "Entries": [{"EventId": "e"}]}, {"Entries": [entry]})

        EventBridge(client).send(source="holdfast.canary", detail_type="Holdfast Canary", detail={"b": "2", "a": "1"})


@pytest.mark.parametrize(("code", "error"), [("ThrottlingException", Throttled), ("InternalFailure", Unavailable)])
def test_an_event_that_was_not_taken_is_an_error(code: str, error: type[HoldfastError]) -> None:
    client = samples.client("events")
    refused = {"FailedEntryCount": 1, "Entries": [{"ErrorCode": code, "ErrorMessage": "why"}]}
    with Stubber(client) as stubber:
        stubber.add_response("put_events", refused)

        with pytest.raises(error, match=f"{code}: why"):
            EventBridge(client).send(source="holdfast.canary", detail_type="Holdfast Canary", detail={})
