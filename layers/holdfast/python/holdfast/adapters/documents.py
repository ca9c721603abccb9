"""The JSON form of what the ledger, the queues and the observation files hold.

Reading is strict: an unknown key, a missing one, a wrong type or a time without an offset is refused with the name of
the row or file, because a document half understood would be judged as if it were whole. Written JSON is compact and
the same for equal values, so that it can be hashed and compared.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema

from holdfast.errors import InvalidDocument

if TYPE_CHECKING:
    # Who reads or writes a document has its class; to the others it would only cost time at their cold start.
    from holdfast.alerts.alert import Alert
    from holdfast.interruption.event import Fact, Rejection
    from holdfast.interruption.observation import Observation
    from holdfast.interruption.record import CaseRecord
    from holdfast.ports import Look, Remembered

type Document = Fact | Rejection | Observation | CaseRecord | Alert | Look | Remembered

_SHOWN_ERRORS = 5
_ADAPTERS: dict[type, TypeAdapter[tuple[Any]]] = {}


def dump(document: Document) -> str:
    """The document as compact JSON, the same for equal documents."""
    return _adapter(type(document)).dump_json((document,))[1:-1].decode()


def load[D: Document](kind: type[D], text: str | bytes, where: str) -> D:
    """The document in `text`, its times in UTC. `where` names the row or file for the error message.

    Raises:
        InvalidDocument: `text` is not JSON or not such a document; names `where` and the fields.
    """
    body = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
    try:
        (document,) = _adapter(kind).validate_json(b"[" + body + b"]", strict=True)
    except ValidationError as error:
        problems = "; ".join(_problem(item) for item in error.errors(include_url=False)[:_SHOWN_ERRORS])
        raise InvalidDocument(f"{where} is no {_name(kind)}: {problems}") from error
    try:
        _make_utc(document)
    except ValueError as error:
        raise InvalidDocument(f"{where} is no {_name(kind)}: {error}") from error
    read: D = document
    return read


def observation_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of an observation, the file format of `holdfast interruptions judge`."""
    from holdfast.interruption.observation import Observation  # noqa: PLC0415 - only the command line asks for it

    schema = TypeAdapter(Observation).json_schema(schema_generator=_Schema)
    return {"$schema": _Schema.schema_dialect, **schema}


class _Schema(GenerateJsonSchema):
    def field_title_should_be_set(self, _schema: Any) -> bool:
        # A title that repeats the key in capitals helps nobody.
        return False


def _adapter(kind: type) -> TypeAdapter[tuple[Any]]:
    # Built on first use: a function pays only for the documents it reads. pydantic takes no configuration for a plain
    # dataclass, but hands a tuple's on to the dataclass in it; so the document travels in a tuple of one.
    if kind not in _ADAPTERS:
        wrapped: Any = tuple[kind]  # type: ignore[valid-type] # which class it is, only the caller knows
        _ADAPTERS[kind] = TypeAdapter(wrapped, config=ConfigDict(extra="forbid"))
    return _ADAPTERS[kind]


def _make_utc(document: Any) -> None:
    """Turns the times of a document that was just read, and that nobody else has seen, into UTC.

    In place although documents are frozen: a report of a year reads tens of thousands, and copying each of them for its
    times would cost three times what reading it costs.
    """
    for name in _fields_with_times(document.__class__):
        value = getattr(document, name)
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise ValueError(f"the time {value.isoformat()} has no offset; write Z for UTC")
            object.__setattr__(document, name, value.astimezone(UTC))
        elif value is not None:
            for part in value if isinstance(value, tuple) else (value,):
                _make_utc(part)


@cache
def _fields_with_times(kind: type) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(kind).items() if _has_times(hint))


def _has_times(hint: Any) -> bool:
    if is_dataclass(hint) and isinstance(hint, type):
        return bool(_fields_with_times(hint))
    return hint is datetime or any(_has_times(part) for part in get_args(hint))


def _problem(error: Any) -> str:
    place = ".".join(str(part) for part in error["loc"][1:])
    return f"{place}: {error['msg']}" if place else str(error["msg"])


def _name(kind: type) -> str:
    return {"CaseRecord": "case record"}.get(kind.__name__, kind.__name__.lower())
