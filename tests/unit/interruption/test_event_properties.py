"""No body stops the parser, none is lost without a row, and what it gives every store can hold."""

import copy
import json
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.interruption.event import parse
from tests.builders import HOME, at

EVENTS = [json.loads(path.read_text()) for path in sorted((Path(__file__).parents[2] / "events").glob("*.json"))]
NAMES = sorted({key for event in EVENTS for key in event} | {"detail_type", "Type", "Message", "Event", "replay-name"})
INTERESTING: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, 0, -1, 10**400, 1e300, float("nan"), [], {}, [None], {"items": [1]}),
        *("", " ", "i-0a11111111111111a", "closed", "\ud800", "x" * 3000),
        *("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "Fri, 31 Dec 9999 23:59:59 GMT"),
    ]
)
ANY_TEXT = st.text(st.characters(), max_size=30)  # lone surrogates too
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT | INTERESTING
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4), max_leaves=8
)
FAST = settings(max_examples=80)


def texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, tuple):
        return [text for item in value for text in texts(item)]
    if is_dataclass(value):
        return [text for item in fields(value) for text in texts(getattr(value, item.name))]
    return []


SENT = at(1)


def holds(text: str | bytes, sent_at: datetime | None = SENT) -> None:
    parsed = parse(text, HOME, sent_at=sent_at)

    assert parsed.facts or parsed.rejection
    for said in texts(parsed):
        said.encode("utf-8")
    if parsed.rejection is not None:
        assert len(parsed.rejection.body.encode()) <= 2048
        assert len(parsed.rejection.reason.encode()) <= 512
        assert parsed.rejection.reason
    for fact in parsed.facts:
        assert fact.subject
        assert fact.event_id
        assert 1970 <= fact.at.year < 9000
        assert fact.at.tzinfo is UTC
        assert fact.announced is None or 1970 <= fact.announced.year < 9000
    again = parse(text, HOME, sent_at=sent_at)
    assert again == parsed


@FAST
@given(JSON)
def test_any_json_value_leaves_a_row(value: Any):
    holds(json.dumps(value))
    holds(json.dumps(value, ensure_ascii=False), sent_at=None)


@FAST
@given(st.binary(max_size=400))
def test_any_bytes_leave_a_row(data: bytes):
    holds(data)


@FAST
@given(st.text(st.characters(), max_size=400))
def test_any_text_leaves_a_row(text: str):
    holds(text)


def containers(value: Any) -> list[Any]:
    """All objects and lists inside a JSON value."""
    if not isinstance(value, dict | list):
        return []
    return [
        value,
        *(held for item in (value.values() if isinstance(value, dict) else value) for held in containers(item)),
    ]


def copied(value: Any) -> Any:
    """A value of its own: a later mutation must not reach what hypothesis draws again."""
    return copy.deepcopy(value)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A real event of which some members were replaced, added, renamed or removed."""
    event = copied(draw(st.sampled_from(EVENTS)))
    for _ in range(draw(st.integers(1, 3))):
        held = draw(st.sampled_from(containers(event)))
        if isinstance(held, list):
            held.append(copied(draw(JSON)))
            continue
        name = draw(st.sampled_from([*held, *NAMES]) | ANY_TEXT)
        match draw(st.sampled_from(["set", "remove", "wrap", "encode"])):
            case "set":
                held[name] = copied(draw(JSON))
            case "remove":
                held.pop(name, None)
            case "wrap":
                held[name] = [held.get(name)]
            case "encode":
                held[name] = json.dumps(held.get(name))
    return json.dumps(event)


@settings(max_examples=150)
@given(mutated())
def test_any_mutation_of_an_event_leaves_a_row(text: str):
    holds(text)
    holds(text, sent_at=None)


@FAST
@given(st.sampled_from(EVENTS), st.data())
def test_a_body_cut_or_scrambled_anywhere_leaves_a_row(event: Any, data: st.DataObject):
    text = json.dumps(event)
    start, end = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    holds(text[:start] + data.draw(ANY_TEXT) + text[end:])


@FAST
@given(st.sampled_from(["[", '{"a":']), st.integers(1, 30_000), st.sampled_from(["time", "version", "detail", "id"]))
def test_nesting_of_any_depth_leaves_a_row(bracket: str, depth: int, name: str):
    closing = {"[": "]", '{"a":': "}"}[bracket]
    event = json.dumps(EVENTS[-1] | {name: "@"})
    holds(event.replace('"@"', bracket * depth + "0" + closing * depth))
