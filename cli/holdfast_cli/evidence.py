"""Files of event bodies and observations, read into what can be judged.

A file may hold one JSON document, JSON arrays, or JSON lines, mixed and in any order. What a document is shows in its
shape: an event body, an observation, an exported case or a line of one, the batch that SQS hands to Lambda, or what `aws sqs
receive-message` prints (so a dead-letter queue can be read too). Nothing is skipped: what is none of these is a body
that the event parser gets to refuse, with its place in the file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from holdfast.adapters.documents import load
from holdfast.errors import InvalidDocument
from holdfast.interruption.event import Fact
from holdfast.interruption.observation import Observation
from holdfast.times import parse_time

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_PARTS = frozenset({"ec2", "kubernetes", "queue", "workloads"})


@dataclass(frozen=True, slots=True)
class Body:
    """One event body, where it stood, and when the queue took it, if that is known."""

    text: str
    place: str
    sent_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """Something that has the shape of an observation or an exported case and is none, with the reasons."""

    place: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterOf:
    """A cluster that the exporting audit counted as its own, with Karpenter's controller role there."""

    name: str
    controller_role_arn: str | None = None


@dataclass(frozen=True, slots=True)
class ScopeOf:
    """Where the exporting audit stood, and its clusters."""

    account: str
    region: str
    clusters: tuple[ClusterOf, ...]


@dataclass(frozen=True, slots=True)
class StoredVerdict:
    """What the ledger said of a case when it was exported."""

    place: str
    key: str
    verdict: str
    cause: str | None
    final: bool
    restoration: str | None = None


@dataclass(slots=True)
class Evidence:
    """What some files hold. `remarks` are facts about the files that no verdict depends on."""

    bodies: list[Body] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    observations: list[tuple[str, Observation]] = field(default_factory=list)
    scopes: list[ScopeOf] = field(default_factory=list)
    verdicts: list[StoredVerdict] = field(default_factory=list)
    invalid: list[Invalid] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


_SCOPE = TypeAdapter(ScopeOf)
_VERDICT = TypeAdapter(StoredVerdict)


def read_evidence(name: str, raw: bytes, into: Evidence) -> None:
    """Adds what `raw` holds to `into`; `name` is how the file is called in messages. Never raises for any content."""
    text = raw.decode("utf-8-sig", "backslashreplace")
    try:
        whole = _DECODER.decode(text)
    except (ValueError, RecursionError):
        for line, value in _values(text):
            _add_any(value, f"{name}:{line}", into)
    else:
        _add_any(_Raw(text) if isinstance(whole, str) else whole, name, into)


@dataclass(frozen=True, slots=True)
class _Raw:
    """Text that is no JSON document of its own, or a JSON string that may hold one: the parser decides."""

    text: str


def _values(text: str) -> Iterator[tuple[int, Any]]:
    """The JSON values that follow each other in `text`, each with its line; what is no JSON comes as raw text."""
    position, line = _skip_blank(text, 0), 1 + text.count("\n", 0, _skip_blank(text, 0))
    if position == len(text):
        yield 1, _Raw("")
    while position < len(text):
        value, end = _value_at(text, position)
        yield line, value
        following = _skip_blank(text, end)
        line += text.count("\n", position, following)
        position = following


def _value_at(text: str, start: int) -> tuple[Any, int]:
    end_of_line = _end_of_line(text, start)
    try:
        value, end = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        # A broken document that spans lines is one body up to where the next one begins.
        return _raw_at(text, start, end_of_line if error.pos <= end_of_line else _next_document(text, error.pos))
    except (ValueError, RecursionError):  # a number of thousands of digits, a thousand brackets
        return _raw_at(text, start, end_of_line)
    follows = text[end : _end_of_line(text, end)].lstrip()
    if follows and (not isinstance(value, dict | list) or follows[0] not in "{["):
        return _raw_at(text, start, _end_of_line(text, end))
    return (_Raw(text[start:end]) if isinstance(value, str) else value), end


def _skip_blank(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


def _raw_at(text: str, start: int, end: int) -> tuple[_Raw, int]:
    return _Raw(text[start:end].rstrip()), end


def _end_of_line(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _next_document(text: str, position: int) -> int:
    starts = [found for mark in ("\n{", "\n[") if (found := text.find(mark, position)) >= 0]
    return min(starts, default=len(text))


def _add_any(value: Any, place: str, into: Evidence) -> None:
    try:
        _add(value, place, into)
    except RecursionError:
        into.invalid.append(Invalid(place, "is nested too deeply to be an event or an observation"))


def _add(value: Any, place: str, into: Evidence) -> None:
    match value:
        case _Raw(text=text):
            into.bodies.append(Body(text, place))
        case list():
            if not value:
                into.bodies.append(Body("[]", place))
            for index, item in enumerate(value):
                _add(_Raw(json.dumps(item)) if isinstance(item, str | list) else item, f"{place}[{index}]", into)
        case {"Records": list() as records} if _are_messages(records, "body"):
            for index, record in enumerate(records):
                _message(record["body"], record.get("attributes"), f"{place} Records[{index}]", into)
        case {"Messages": list() as messages} if _are_messages(messages, "Body"):
            for index, message in enumerate(messages):
                _received(message, f"{place} Messages[{index}]", into)
        case {"MessageId": _, "Body": str()}:
            _received(value, place, into)
        case {"messageId": _, "body": str()}:
            _message(value["body"], value.get("attributes"), place, into)
        case {"facts": list(), "observations": list()}:
            _exported(value, place, into)
        case {"fact": dict() as told} if len(value) == 1:
            fact = _loaded(Fact, told, place, into)
            if fact is not None:
                into.facts.append(fact)
        case {"scope": dict() as told} if len(value) == 1:
            _scope(told, place, into)
        case {"case": dict() as told} if len(value) == 1:
            _verdict(told, place, into)
        case dict() if _is_observation(value):
            _observed(value, place, into)
        case _:
            into.bodies.append(Body(json.dumps(value), place))


def _are_messages(items: Sequence[Any], key: str) -> bool:
    return bool(items) and all(isinstance(item, dict) and isinstance(item.get(key), str) for item in items)


def _received(message: Mapping[str, Any], place: str, into: Evidence) -> None:
    told = message.get("MessageAttributes")
    attributes = told if isinstance(told, dict) else {}
    code, target = _string(attributes.get("ERROR_CODE")), _string(attributes.get("TARGET_ARN"))
    if code is not None:
        into.remarks.append(f"{place}: EventBridge could not deliver this event to {target or 'its target'}: {code}")
    _message(message["Body"], message.get("Attributes"), place, into)


def _string(attribute: object) -> str | None:
    value = attribute.get("StringValue") if isinstance(attribute, dict) else None
    return value if isinstance(value, str) else None


def _message(body: str, attributes: object, place: str, into: Evidence) -> None:
    sent_at = None
    if isinstance(attributes, dict) and "SentTimestamp" in attributes:
        try:
            sent_at = parse_time(attributes["SentTimestamp"])
        except ValueError:
            into.remarks.append(f"{place}: SentTimestamp {attributes['SentTimestamp']!r} is not a time")
    into.bodies.append(Body(body, place, sent_at))


def _is_observation(value: Mapping[str, Any]) -> bool:
    if value.keys() & {"detail-type", "detail_type", "source"}:
        return False
    return "instance_id" in value or bool(value.keys() & _PARTS)


def _exported(value: Mapping[str, Any], place: str, into: Evidence) -> None:
    for index, item in enumerate(value["facts"]):
        fact = _loaded(Fact, item, f"{place} facts[{index}]", into)
        if fact is not None:
            into.facts.append(fact)
    for index, item in enumerate(value["observations"]):
        _observed(item, f"{place} observations[{index}]", into)


def _scope(told: Mapping[str, Any], place: str, into: Evidence) -> None:
    try:
        into.scopes.append(_SCOPE.validate_json(json.dumps(told), strict=True))
    except ValidationError as error:
        into.invalid.append(Invalid(place, f"this is no scope: {_first(error)}"))


def _verdict(told: Mapping[str, Any], place: str, into: Evidence) -> None:
    # Of the many keys of a case only these are compared; the evidence itself says the rest.
    compared = {key: told.get(key) for key in ("key", "verdict", "cause", "final")}
    restoration = told.get("restoration")
    if isinstance(restoration, dict):
        compared["restoration"] = restoration.get("state")
    try:
        into.verdicts.append(_VERDICT.validate_json(json.dumps({"place": place, **compared}), strict=True))
    except ValidationError as error:
        into.invalid.append(Invalid(place, f"this is no case: {_first(error)}"))


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    return f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def _observed(value: Any, place: str, into: Evidence) -> None:
    observation = _loaded(Observation, value, place, into)
    if observation is not None:
        into.observations.append((place, observation))


def _loaded[D: (Fact, Observation)](kind: type[D], value: Any, place: str, into: Evidence) -> D | None:
    try:
        return load(kind, json.dumps(value), "this")
    except InvalidDocument as error:
        into.invalid.append(Invalid(place, str(error)))
        return None
