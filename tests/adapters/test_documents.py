"""The JSON form of stored documents: nothing is lost on the way there and back, nothing doubtful is let in."""

import inspect
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.adapters.documents import dump, load, observation_schema
from holdfast.alerts.alert import Alert
from holdfast.errors import InvalidDocument
from holdfast.interruption.event import Fact, Kind, Rejection
from holdfast.interruption.observation import Answer, Observation
from holdfast.interruption.record import CaseRecord
from holdfast.ports import Look
from tests.adapters import samples

DOCUMENTS: list[Any] = [
    samples.FACT,
    samples.REJECTION,
    samples.LOOK,
    samples.record(),
    samples.ALERT,
    Look(samples.KEY, samples.NOW, "orders"),
]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda item: type(item).__name__)
def test_what_is_written_is_read_back_equal_and_as_one_compact_line(document: Any) -> None:
    text = dump(document)
    assert load(type(document), text, "here") == document
    assert text == json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)


def test_what_does_not_belong_to_a_facts_identity_is_kept_too() -> None:
    read = load(Fact, dump(samples.FACT), "here")
    assert (read.sent_at, read.received_at) == (samples.FACT.sent_at, samples.FACT.received_at)


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
times = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
facts = st.builds(
    Fact,
    kind=st.sampled_from(Kind),
    account=text,
    region=text,
    subject=text,
    at=times,
    event_id=text,
    action=st.none() | text,
    announced=st.none() | times,
    notes=st.lists(text, max_size=3).map(tuple),
    sent_at=st.none() | times,
    received_at=st.none() | times,
)


@given(facts)
def test_any_fact_survives_the_round_trip_to_the_microsecond(fact: Fact) -> None:
    read = load(Fact, dump(fact), "here")
    assert (read, read.sent_at, read.received_at) == (fact, fact.sent_at, fact.received_at)


def test_times_come_back_in_utc_whatever_their_offset() -> None:
    singapore = timezone(timedelta(hours=8))
    shifted = replace(samples.LOOK, at=samples.NOW.astimezone(singapore))
    read = load(Observation, dump(shifted), "here")
    assert read.at.tzinfo is UTC
    assert read.ec2 is not None
    assert read.ec2.launched_at is not None
    assert read.ec2.launched_at.tzinfo is UTC


def _changed(document: Any, **changes: Any) -> str:
    return json.dumps(json.loads(dump(document)) | changes)


@pytest.mark.parametrize(
    ("kind", "body", "said"),
    [
        (Fact, _changed(samples.FACT, color="red"), "color: Unexpected keyword argument"),
        (CaseRecord, _changed(samples.record(), extra=1), "extra: Unexpected keyword argument"),
        (Alert, _changed(samples.ALERT, severity="mild"), "severity: Input should be 'page', 'warning' or 'info'"),
        (Rejection, _changed(samples.REJECTION, digest=None), "digest: Input should be a valid string"),
        (Look, "{}", "key: Field required; due_at: Field required"),
        (Look, "not JSON", "Invalid JSON"),
        (Look, "", "Field required"),
        (Look, b"\xff\xfe", "Invalid JSON"),
        (Look, f"{dump(Look(samples.KEY, samples.NOW))},1", "Unexpected positional argument|at most 1 item"),
        (Observation, _changed(samples.LOOK, at="2026-09-01T04:12:30"), "has no offset; write Z for UTC"),
        (Observation, _changed(samples.LOOK, at=1788000000), "at: Input should be a valid datetime"),
        (Observation, _changed(samples.LOOK, ec2={"answer": "ok", "stat": "running"}), "ec2.stat: Unexpected"),
    ],
)
def test_a_document_of_another_shape_is_refused_with_its_place_and_field(kind: type, body: str, said: str) -> None:
    with pytest.raises(InvalidDocument, match=said) as caught:
        load(kind, body, "row pk=I#1 sk=W")
    assert str(caught.value).startswith("row pk=I#1 sk=W is no ")


def test_the_schema_accepts_what_is_written_and_refuses_an_unknown_key() -> None:
    schema = observation_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    validator.validate(json.loads(dump(samples.LOOK)))
    validator.validate({"instance_id": "i-0a11111111111111a", "at": "2026-09-01T04:12:30Z"})
    assert not validator.is_valid(json.loads(_changed(samples.LOOK, color="red")))
    assert not validator.is_valid({"at": "2026-09-01T04:12:30Z"})


def test_the_schema_explains_its_parts() -> None:
    schema = observation_schema()
    assert schema["description"] == inspect.cleandoc(Observation.__doc__ or "")
    assert schema["$defs"]["InstanceView"]["description"].startswith("What EC2 DescribeInstances said.")
    assert schema["$defs"]["Answer"]["enum"] == [answer.value for answer in Answer]
