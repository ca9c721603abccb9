"""What each event body says, and that no body at all stops the parser."""

import json
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast.interruption.event import Disposition, Fact, Home, Kind, Parsed, parse
from tests.builders import HOME, W, at, body, state_body, warning_body

EVENTS = Path(__file__).parents[2] / "events"
SENT = at(1.21)


@dataclass(frozen=True)
class Read:
    """What a body has to say: its kind, its subjects, the fields that are not None, and the rejection beside them."""

    kind: Kind | None = None
    subjects: tuple[str, ...] = ()
    says: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()
    refused: tuple[Disposition, str] | None = None


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)


ARN = "arn:aws:health:ap-southeast-1::event/EC2/{0}/{0}_fake{1}"
RETIREMENT = {
    "announced": utc(2026, 9, 15, 7),
    "event_arn": ARN.format("AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED", "0001"),
    "event_code": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
}
REBOOT = {
    "announced": utc(2026, 9, 5, 15, 10, 9),
    "event_arn": ARN.format("AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED", "0002"),
    "event_code": "AWS_EC2_SYSTEM_REBOOT_MAINTENANCE_SCHEDULED",
}
IGNORED, POISON = Disposition.IGNORED, Disposition.POISON
SPOT, STATE, CAPACITY = Kind.SPOT_WARNING, Kind.STATE_CHANGE, Kind.CAPACITY_WARNING
NO_EVENT = Read(refused=(POISON, "no_source_or_type"))

FILES: dict[str, Read] = {
    "spot_warning": Read(SPOT, ("i-0a11111111111111a",), {"action": "terminate"}),
    "spot_warning_full_arn_stop": Read(SPOT, ("i-0a22222222222222b",), {"action": "stop"}),
    "spot_warning_hibernate": Read(SPOT, ("i-0a33333333333333c",), {"action": "hibernate"}),
    "spot_warning_unknown_action_extra_fields": Read(
        SPOT, ("i-0a44444444444444d",), {"action": "some-future-action"}, ("unknown_action",)
    ),
    "spot_warning_missing_instance_id": Read(refused=(POISON, "no_instance_id")),
    "rebalance": Read(Kind.REBALANCE, ("i-0a11111111111111a",), {}),
    "state_shutting_down": Read(STATE, ("i-0a11111111111111a",), {"state": "shutting-down"}),
    "state_terminated": Read(STATE, ("i-0a11111111111111a",), {"state": "terminated"}),
    "state_stopping": Read(STATE, ("i-0a55555555555555e",), {"state": "stopping"}),
    "state_stopped_no_version": Read(STATE, ("i-0a55555555555555e",), {"state": "stopped"}, ("version_missing",)),
    "state_running_noise": Read(STATE, ("i-0b99999999999999f",), {"state": "running"}),
    "capacity_reservation_resources_string": Read(
        CAPACITY,
        ("i-0c66666666666666a",),
        {"action": "terminate", "announced": utc(2026, 9, 1, 6, 2)},
        ("resources_not_a_list",),
    ),
    "capacity_reservation_resources_list": Read(
        CAPACITY, ("i-0c77777777777777b",), {"action": "terminate", "announced": utc(2026, 9, 1, 6, 2)}
    ),
    "capacity_block_instance_warning": Read(
        CAPACITY, ("i-0c88888888888888c",), {"action": "terminate", "announced": utc(2026, 9, 1, 10, 30)}
    ),
    "capacity_block_underscore_key": Read(
        CAPACITY,
        ("i-0c99999999999999d",),
        {"action": "terminate", "announced": utc(2026, 9, 1, 10, 30)},
        ("underscore_detail_type",),
    ),
    "capacity_block_expiration_no_instance": Read(
        Kind.RESERVATION_NOTICE,
        ("cr-0fake0000000000a",),
        {"announced": utc(2026, 9, 1, 11), "status": "Capacity Block Expiration Warning"},
        ("underscore_detail_type", "version_missing"),
    ),
    "health_scheduled_single": Read(
        Kind.SCHEDULED_CHANGE, ("i-0d11111111111111a",), {**RETIREMENT, "status": "upcoming"}
    ),
    "health_scheduled_multi_page2": Read(
        Kind.SCHEDULED_CHANGE,
        ("i-0d22222222222222b", "i-0d33333333333333c"),
        {**REBOOT, "status": "upcoming"},
        refused=(IGNORED, "health_other_entities"),
    ),
    "health_scheduled_closed_update": Read(
        Kind.SCHEDULED_CHANGE, ("i-0d11111111111111a",), {**RETIREMENT, "status": "closed"}
    ),
    "health_ec2_issue_public": Read(refused=(IGNORED, "health_not_ec2_scheduled")),
    "health_other_service_ecs_arn_entities": Read(refused=(IGNORED, "health_not_ec2_scheduled")),
    "health_lambda_account_notification": Read(refused=(IGNORED, "health_not_ec2_scheduled")),
    "health_abuse_event": Read(refused=(IGNORED, "health_other_type")),
    "health_backup_region_duplicate": Read(
        Kind.SCHEDULED_CHANGE, ("i-0d11111111111111a",), {**RETIREMENT, "status": "upcoming"}
    ),
    "health_org_view_management_account": Read(
        Kind.SCHEDULED_CHANGE, ("i-0d11111111111111a",), {**RETIREMENT, "status": "upcoming"}
    ),
    "replayed_spot_warning": Read(
        SPOT, ("i-0a11111111111111a",), {"action": "terminate", "replay": "audit-backfill-2026-09-02"}
    ),
    "fis_state_change": Read(Kind.EXPERIMENT, ("EXPfake1234567890",), {"status": "running"}),
    "cloudtrail_bid_evicted": Read(Kind.BID_EVICTED, ("i-0a11111111111111a", "i-0e77777777777777c"), {}),
    "cloudtrail_terminate_by_karpenter": Read(
        Kind.TERMINATE_CALL,
        ("i-0a11111111111111a",),
        {"actor": "arn:aws:iam::111122223333:role/KarpenterControllerRole-cluster-a"},
    ),
    "spot_request_fulfillment": Read(Kind.SPOT_FULFILLED, ("i-0b99999999999999f",), {}),
    # Not events: what surrounds them. Whoever feeds one to the parser gets a row that says so.
    "eventbridge_dlq_message": NO_EVENT,
    "lambda_sqs_batch": NO_EVENT,
    "lambda_partial_batch_response": NO_EVENT,
    "fis_template": NO_EVENT,
    "rule_patterns_karpenter": NO_EVENT,
}

ALWAYS = {"kind", "account", "region", "subject", "at", "event_id", "notes", "sent_at", "received_at"}


def said(fact: Fact) -> dict[str, Any]:
    values = {item.name: getattr(fact, item.name) for item in fields(fact) if item.name not in ALWAYS}
    return {name: value for name, value in values.items() if value is not None}


def refusal(parsed: Parsed) -> tuple[Disposition, str] | None:
    return None if parsed.rejection is None else (parsed.rejection.disposition, parsed.rejection.code)


def code(text: str | bytes, sent_at: datetime | None = SENT) -> str | None:
    parsed = parse(text, HOME, sent_at=sent_at)
    assert not (parsed.rejection is None and not parsed.facts)
    return None if parsed.rejection is None else parsed.rejection.code


def only(text: str | bytes, sent_at: datetime | None = SENT) -> Fact:
    (fact,) = parse(text, HOME, sent_at=sent_at).facts
    return fact


def test_every_event_file_has_its_expected_reading():
    assert {path.stem for path in EVENTS.glob("*.json")} == set(FILES)


@pytest.mark.parametrize("name", FILES)
def test_an_event_file_reads_as_its_reference_says(name: str):
    text = (EVENTS / f"{name}.json").read_text(encoding="utf-8")
    expected, parsed = FILES[name], parse(text, HOME, sent_at=SENT)

    assert refusal(parsed) == expected.refused
    assert tuple(fact.subject for fact in parsed.facts) == expected.subjects
    for fact in parsed.facts:
        assert (fact.kind, said(fact), fact.notes) == (expected.kind, expected.says, expected.notes)
        envelope = json.loads(text)
        assert fact.at == datetime.fromisoformat(envelope["time"])
        assert fact.event_id == envelope.get("id", envelope.get("customer_event_id"))
        assert fact.account == "111122223333"
        assert fact.region == envelope["detail"].get("eventRegion", envelope.get("region", HOME.region))


def test_a_batch_that_lambda_receives_holds_a_fact_and_a_body_that_is_none():
    first, second = json.loads((EVENTS / "lambda_sqs_batch.json").read_text())["Records"]

    assert only(first["body"]).subject == "i-0a11111111111111a"
    parsed = parse(second["body"], HOME, sent_at=SENT)
    assert (parsed.facts, refusal(parsed)) == ((), (POISON, "not_json"))
    assert parsed.rejection is not None
    assert parsed.rejection.body == "abcd"
    # printf abcd | sha256sum
    assert parsed.rejection.digest == "88d4266fd4e6338d13b845fcf289579d209c897823b9217da3e161936f031589"


def test_a_body_from_a_targets_dead_letter_queue_is_the_event_itself():
    document = json.loads((EVENTS / "eventbridge_dlq_message.json").read_text())

    assert only(document["Body"]).kind is SPOT


@pytest.mark.parametrize("home", [Home("111122223333", "us-west-2"), Home("111122223333", "us-east-1")])
def test_health_events_about_another_region_are_ignored_wherever_they_are_delivered(home: Home):
    for name in ("health_backup_region_duplicate", "health_scheduled_single"):
        parsed = parse((EVENTS / f"{name}.json").read_text(), home)
        assert (parsed.facts, refusal(parsed)) == ((), (IGNORED, "health_other_region"))


def test_an_event_of_the_organization_view_belongs_to_the_affected_account():
    assert only((EVENTS / "health_org_view_management_account.json").read_text()).account == "111122223333"


EVENT = json.loads(warning_body())
OTHER_BODIES: dict[str, tuple[str | bytes, str | None]] = {
    "empty": ("", "empty"),
    "blank": (" \n\t", "empty"),
    "null": ("null", "not_an_object"),
    "list": ("[]", "not_an_object"),
    "list of events": (json.dumps([EVENT]), "not_an_object"),
    "number": ("123", "not_an_object"),
    "a JSON string": ('"a JSON string"', "not_json"),
    "an empty JSON string": ('""', "empty"),
    "NaN": ("NaN", "not_an_object"),
    "abcd": ("abcd", "not_json"),
    "cut off": (warning_body()[:-1], "not_json"),
    "a number of 5,000 digits": ("9" * 5000, "not_json"),
    "20,000 brackets": ("[" * 20_000, "not_json"),
    "empty object": ("{}", "no_source_or_type"),
    "s3 test event": ('{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-09-01T04:10:00Z"}', "s3_test_event"),
    "detail is a list": (json.dumps(EVENT | {"detail": [EVENT["detail"]]}), "bad_detail"),
    "detail is text": (json.dumps(EVENT | {"detail": "x"}), "bad_detail"),
    "no detail": (json.dumps(EVENT | {"detail": None}), "bad_detail"),
    "version 1": (json.dumps(EVENT | {"version": "1"}), "unknown_version"),
    "version is a number": (json.dumps(EVENT | {"version": 0}), "unknown_version"),
    "empty source": ('{"source":""}', "no_source_or_type"),
    "no source": (json.dumps({key: value for key, value in EVENT.items() if key != "source"}), "no_source_or_type"),
    "source is a number": (json.dumps(EVENT | {"source": 1}), "no_source_or_type"),
    "detail-type is a list": (json.dumps(EVENT | {"detail-type": []}), "no_source_or_type"),
    "another source": (json.dumps(EVENT | {"source": "holdfast.drill"}), "not_audited"),
    "another type": (json.dumps(EVENT | {"detail-type": "EC2 Fleet Error"}), "not_audited"),
    "bytes that are no text": (b"\xff\xfe\x00", "not_json"),
    "lone surrogates": ('{"source":"\ud800","detail-type":"\udfff"}', "not_audited"),
    "escaped lone surrogates": (r'{"source":"\ud800","detail-type":"\udfff"}', "not_audited"),
    "null detail-type, named with an underscore": (
        json.dumps({**EVENT, "detail-type": None, "detail_type": EVENT["detail-type"]}),
        None,
    ),
}


@pytest.mark.parametrize("name", OTHER_BODIES)
def test_every_other_bad_body_leaves_a_row_that_says_what_it_was(name: str):
    text, expected = OTHER_BODIES[name]

    assert code(text) == expected


def test_a_version_that_karpenter_does_not_read_is_a_fact_and_a_poison_row():
    parsed = parse(json.dumps(EVENT | {"version": "1"}), HOME)

    assert refusal(parsed) == (POISON, "unknown_version")
    assert [fact.notes for fact in parsed.facts] == [("unknown_version",)]


def wrapped(text: str) -> str:
    return json.dumps({"Type": "Notification", "MessageId": "m", "TopicArn": "arn:aws:sns:x:1:t", "Message": text})


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (json.dumps(warning_body()), ("double_encoded",)),
        (json.dumps(json.dumps(warning_body())), ("double_encoded", "double_encoded")),
        (wrapped(warning_body()), ("sns_envelope",)),
        (json.dumps(wrapped(warning_body())), ("double_encoded", "sns_envelope")),
        ("\ufeff" + warning_body(), ()),
        (b"\xef\xbb\xbf" + warning_body().encode(), ()),
        (warning_body().encode(), ()),
        (f"\n {warning_body()} \n", ()),
    ],
)
def test_an_event_is_read_inside_a_wrapping_that_karpenter_would_drop(text: str | bytes, notes: tuple[str, ...]):
    fact = only(text)

    assert (fact.subject, fact.at, fact.notes) == ("i-0a11111111111111a", W, notes)


def test_wrappings_within_wrappings_end():
    text = warning_body()
    for _ in range(9):
        text = json.dumps(text)

    assert code(text) == "not_an_object"


@pytest.mark.parametrize(
    ("time", "moment", "notes"),
    [
        ("2026-09-01T04:10:00Z", W, ()),
        ("2026-09-01T04:10:00.500Z", at(0.5), ()),
        ("2026-09-01T12:10:00+08:00", W, ()),
        ("2026-09-01T04:10:00", W, ()),
        (1788235800, W, ()),
        (1788235800000, W, ()),
        ("1788235800000", W, ()),
        (" 2026-09-01T04:10:00Z ", W, ()),
        ("soon", SENT, ("time_from_arrival",)),
        ("", SENT, ("time_from_arrival",)),
        (None, SENT, ("time_from_arrival",)),
        (True, SENT, ("time_from_arrival",)),
        ([], SENT, ("time_from_arrival",)),
        ({"a": 1}, SENT, ("time_from_arrival",)),
        (-1, SENT, ("time_from_arrival",)),
        (10**400, SENT, ("time_from_arrival",)),
        (1e300, SENT, ("time_from_arrival",)),
        ("0001-01-01T00:00:00Z", SENT, ("time_from_arrival",)),
        ("9999-12-31T23:59:59Z", SENT, ("time_from_arrival",)),
        ("0001-01-01T00:00:00+14:00", SENT, ("time_from_arrival",)),
    ],
)
def test_the_time_of_an_event_is_its_own_or_that_of_its_arrival(time: Any, moment: datetime, notes: tuple[str, ...]):
    fact = only(json.dumps(EVENT | {"time": time}))

    assert (fact.at, fact.notes) == (moment, notes)


def test_without_any_time_an_event_is_no_fact():
    assert code(json.dumps(EVENT | {"time": None}), sent_at=None) == "no_time"


@pytest.mark.parametrize(
    ("value", "subject"),
    [
        ("i-0a11111111111111a", "i-0a11111111111111a"),
        (" i-0a11111111111111a\n", "i-0a11111111111111a"),
        ("i-12ab34cd", "i-12ab34cd"),
        ("I-0A11111111111111A", None),
        ("i-0A11111111111111A", None),
        ("i-0a1111111111 1111", None),
        ("arn:aws:ec2:ap-southeast-1:111122223333:instance/i-0a11111111111111a", None),
        ("instance/i-0a11111111111111a", None),
        ("../i-0a11111111111111a", None),
        ("i-12ab34cde", None),
        ("i-0a11111111111111a\u0661", None),
        ("", None),
        (None, None),
        (7, None),
        (["i-0a11111111111111a"], None),
    ],
)
def test_an_instance_id_is_eight_or_seventeen_lower_case_digits(value: Any, subject: str | None):
    parsed = parse(warning_body(instance=value), HOME)

    assert [fact.subject for fact in parsed.facts] == ([] if subject is None else [subject])
    assert refusal(parsed) == (None if subject else (POISON, "no_instance_id" if value is None else "bad_instance_id"))


def test_resources_are_never_read_for_the_subject():
    text = warning_body(resources=["arn:aws:ec2:ap-southeast-1:111122223333:instance/i-0b99999999999999f"])

    assert only(text).subject == "i-0a11111111111111a"


@pytest.mark.parametrize("resources", ["arn", {"a": "arn"}, [1], None, 3])
def test_resources_that_karpenters_parser_refuses_are_noted(resources: Any):
    fact = only(json.dumps(EVENT | {"resources": resources}))

    assert fact.notes == ("resources_not_a_list",)


def test_what_the_envelope_leaves_out_is_where_the_audit_stands():
    fact = only(warning_body(account=None, region=" "))

    assert (fact.account, fact.region) == (HOME.account, HOME.region)


def test_an_event_without_an_id_is_named_by_its_body():
    first, again, other = (only(warning_body(seconds=second, id=None)) for second in (0, 0, 1))

    assert first.notes == ("id_missing",)
    assert first.event_id == again.event_id != other.event_id
    assert len(first.event_id) == 32


@pytest.mark.parametrize("name", ["Stopping", "SHUTTING-DOWN", "terminated"])
def test_states_are_read_in_any_case(name: str):
    assert only(state_body(name)).state == name.lower()


@pytest.mark.parametrize("name", ["rebooting", "", None, 3])
def test_a_state_that_ec2_does_not_have_is_poison(name: Any):
    assert code(state_body(name)) == "unknown_state"


@pytest.mark.parametrize(
    ("detail_type", "kind"),
    [
        ("EC2 Spot Instance Rebalance Recommended", Kind.REBALANCE),
        ("Capacity Block Delivered", Kind.RESERVATION_NOTICE),
        ("Capacity Block Reservation Delivered", Kind.RESERVATION_NOTICE),
        ("Capacity Block Reservation Expiration Warning", Kind.RESERVATION_NOTICE),
        ("EC2 Interruptible Capacity Reservation Allocation Reclamation Completed", Kind.RESERVATION_NOTICE),
    ],
)
def test_other_spellings_of_event_names_are_read_too(detail_type: str, kind: Kind):
    text = body(detail_type, {"instance-id": "i-0a11111111111111a", "capacity-reservation-id": "cr-1"})

    assert only(text).kind is kind


@pytest.mark.parametrize(
    ("end", "announced", "notes"),
    [
        ({}, None, ()),
        ({"end-date": "2026-09-01T11:00:00Z"}, utc(2026, 9, 1, 11), ()),
        ({"end-date": "soon"}, None, ("unreadable_end_date",)),
    ],
)
def test_a_reservation_notice_keeps_its_end(end: dict[str, str], announced: datetime | None, notes: tuple[str, ...]):
    fact = only(body("Capacity Block Expiration Warning", {"capacity-reservation-id": "cr-1", **end}))

    assert (fact.announced, fact.notes, fact.is_instance) == (announced, notes, False)


def test_a_reservation_notice_without_a_reservation_is_poison():
    assert code(body("Capacity Block Delivered", {"instance-id": "i-0a11111111111111a"})) == "no_reservation_id"


def test_a_warning_of_a_type_that_is_new_counts_as_a_warning():
    detail = {"instance-id": "i-0a11111111111111a", "instance-termination-time": "2026-09-01T04:15:00Z"}
    fact = only(body("EC2 Sunspot Interruption Warning", detail))

    assert (fact.kind, fact.announced, fact.notes) == (Kind.UNKNOWN_WARNING, at(300), ("unknown_detail_type",))


def test_a_warning_of_a_new_type_without_an_instance_is_poison():
    assert code(body("EC2 Sunspot Interruption Warning", {"reservation": "cr-1"})) == "no_instance_id"


@pytest.mark.parametrize("value", ["soon", None, [], "9999-12-31T23:59:59Z"])
def test_a_termination_time_that_cannot_be_read_is_noted_and_leaves_the_two_minutes(value: Any):
    detail = {"instance-id": "i-0a11111111111111a", "instance-termination-time": value}
    fact = only(body("EC2 Capacity Reservation Instance Interruption Warning", detail))

    assert (fact.announced, fact.notes) == (None, ("unreadable_termination_time",))


def health(**detail: Any) -> str:
    event = json.loads((EVENTS / "health_scheduled_single.json").read_text())
    event["detail"] |= detail
    return json.dumps(event)


@pytest.mark.parametrize(
    ("date", "announced", "notes"),
    [
        ("Sat, 05 Sep 2026 15:10:09 GMT", utc(2026, 9, 5, 15, 10, 9), ()),
        ("Sat, 5 Sep 2026 15:10:09 GMT", utc(2026, 9, 5, 15, 10, 9), ()),
        ("Sat, 05 Sep 2026 17:10:09 +0200", utc(2026, 9, 5, 15, 10, 9), ()),
        ("Sat, 05 Sep 2026 15:10:09", utc(2026, 9, 5, 15, 10, 9), ()),
        ("next week", None, ("unreadable_start_time",)),
        ("Sat, 99 Sep 2026 15:10:09 GMT", None, ("unreadable_start_time",)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", None, ("unreadable_start_time",)),
        (None, None, ("unreadable_start_time",)),
        (1788235800, None, ("unreadable_start_time",)),
    ],
)
def test_the_start_of_maintenance_is_read_or_noted(date: Any, announced: datetime | None, notes: tuple[str, ...]):
    fact = only(health(startTime=date))

    assert (fact.announced, fact.notes) == (announced, notes)


@pytest.mark.parametrize("entities", [None, [], "i-0d11111111111111a", {}])
def test_a_health_event_that_names_no_entity_is_ignored(entities: Any):
    assert code(health(affectedEntities=entities)) == "health_no_entities"


def test_entities_that_are_no_instances_are_named_in_the_row():
    entities = [None, {"entityValue": 7}, {"entityValue": "vol-1"}, {"entityValue": " i-0d11111111111111a "}]
    parsed = parse(health(affectedEntities=entities), HOME)

    assert [fact.subject for fact in parsed.facts] == ["i-0d11111111111111a"]
    assert parsed.rejection is not None
    assert parsed.rejection.reason.endswith("no instances: None, 7, vol-1")


def test_a_health_event_without_its_own_region_counts_for_the_one_it_was_delivered_in():
    assert only(health(eventRegion=None)).region == HOME.region


@pytest.mark.parametrize("ids", [None, [], "i-0a11111111111111a", {}])
def test_an_eviction_that_names_no_instance_is_poison(ids: Any):
    detail = {"eventName": "BidEvictedEvent", "serviceEventDetails": {"instanceIdSet": ids}}

    assert code(body("AWS Service Event via CloudTrail", detail)) == "no_instance_id"
    assert code(body("AWS Service Event via CloudTrail", {"eventName": "BidEvictedEvent"})) == "no_instance_id"


def test_of_several_evicted_instances_the_readable_ones_are_kept():
    detail = {
        "eventName": "BidEvictedEvent",
        "serviceEventDetails": {"instanceIdSet": ["i-0a11111111111111a", "x", None, "i-12ab34cd"]},
    }
    parsed = parse(body("AWS Service Event via CloudTrail", detail), HOME)

    assert [fact.subject for fact in parsed.facts] == ["i-0a11111111111111a", "i-12ab34cd"]
    assert refusal(parsed) == (POISON, "bad_instance_id")


def test_other_service_events_are_ignored():
    assert code(body("AWS Service Event via CloudTrail", {"eventName": "SpotDataFeed"})) == "cloudtrail_other"


def call(name: str = "TerminateInstances", **detail: Any) -> str:
    parameters = {"instancesSet": {"items": [{"instanceId": "i-0a11111111111111a"}]}}
    return body("AWS API Call via CloudTrail", {"eventName": name, "requestParameters": parameters, **detail})


@pytest.mark.parametrize("text", [call("RunInstances"), call(errorCode="Client.UnauthorizedOperation"), call(None)])
def test_calls_that_ended_no_instance_are_ignored(text: str):
    assert code(text) == "cloudtrail_other"


@pytest.mark.parametrize(
    "parameters",
    [None, {}, {"instancesSet": None}, {"instancesSet": {}}, {"instancesSet": {"items": {}}}, []],
)
def test_a_terminate_call_that_names_no_instance_is_poison(parameters: Any):
    assert code(call(requestParameters=parameters)) == "no_instance_id"


def test_items_of_a_terminate_call_that_are_no_objects_are_refused():
    assert code(call(requestParameters={"instancesSet": {"items": ["i-0a11111111111111a"]}})) == "bad_instance_id"


@pytest.mark.parametrize(
    ("identity", "actor"),
    [
        ({"arn": "arn:user", "sessionContext": {"sessionIssuer": {"arn": "arn:role"}}}, "arn:role"),
        ({"arn": "arn:user", "sessionContext": {}}, "arn:user"),
        ({"arn": "arn:user", "sessionContext": {"sessionIssuer": {}}}, "arn:user"),
        ({"invokedBy": "autoscaling.amazonaws.com"}, "autoscaling.amazonaws.com"),
        ({}, None),
        ("root", None),
        (None, None),
    ],
)
def test_the_caller_is_the_role_behind_the_session(identity: Any, actor: str | None):
    assert only(call(userIdentity=identity)).actor == actor


@pytest.mark.parametrize(
    "detail",
    [
        {},
        {"experiment-id": "EXP1"},
        {"experiment-id": "EXP1", "new-state": "running"},
        {"experiment-id": "EXP1", "new-state": {}},
        {"new-state": {"status": "running"}},
    ],
)
def test_an_experiment_without_its_id_or_state_is_poison(detail: dict[str, Any]):
    assert code(body("FIS Experiment State Change", detail, source="aws.fis")) == "bad_experiment"


def test_a_body_of_256_kilobytes_is_read_and_only_its_beginning_is_kept():
    entities = [{"entityValue": f"i-{number:017x}"} for number in range(4000)]
    text = health(affectedEntities=[*entities, {"entityValue": "vol-1"}], eventDescription="x" * 110_000)
    parsed = parse(text, HOME)

    assert len(text) > 256 * 1024
    assert len({fact.subject for fact in parsed.facts}) == 4000
    assert parsed.rejection is not None
    assert parsed.rejection.body == text[:2048]


@pytest.mark.parametrize("letter", ["x", "é", "\U0001f600", "\ud800"])
def test_of_a_refused_body_two_kilobytes_are_kept(letter: str):
    parsed = parse(letter * 5000, HOME)

    assert parsed.rejection is not None
    assert 2040 < len(parsed.rejection.body.encode()) <= 2048
