"""Reads `holdfast.yaml`: all that is wrong with it at once, each with line, key, value and what is right.

The model and its rules are in `holdfast.runtime.config`; here a file becomes one, and its errors become words.
"""

import difflib
import json
import re
from collections.abc import Iterator
from pathlib import Path as FilePath

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from holdfast.runtime.config import HoldfastConfig
from stacks import config_yaml
from stacks.config_problem import HIDDEN, ConfigError, Problem, dotted, shown
from stacks.config_schema import REFUSED_KEYS, Path, choices, expected, json_schema, keys, schema_at
from stacks.config_yaml import Document

__all__ = ["ConfigError", "Problem", "json_schema", "load", "parse", "to_resolved_json"]


def load(path: FilePath | str) -> HoldfastConfig:
    """The configuration in the file `path`.

    Raises:
        ConfigError: with every problem of the file, or the one that it cannot be read.
    """
    source = str(path)
    try:
        raw = FilePath(path).read_bytes()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigError(source, (Problem("", 1, None, f"cannot be read: {reason}"),)) from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise ConfigError(source, (Problem("", line, None, "is not UTF-8 text"),)) from error
    return parse(text, source)


def parse(text: str, source: str = "holdfast.yaml") -> HoldfastConfig:
    """The configuration in a YAML text; `source` names it in errors.

    Raises:
        ConfigError: with every problem of the text.
    """
    document = config_yaml.read(text)
    problems = list(document.problems)
    if document.data is not None:
        # What could be read is checked as far as it goes, so that all problems come at once.
        try:
            config = HoldfastConfig.model_validate(document.data)
        except ValidationError as error:
            problems += _translated(error, document)
        else:
            if not problems:
                return config
    raise ConfigError(source, tuple(problems))


def to_resolved_json(config: HoldfastConfig) -> str:
    """The whole configuration, defaults included, as JSON: the same text for the same configuration."""
    values = config.model_dump(mode="json", by_alias=True)
    return json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


# What follows turns pydantic's errors into words.


def _translated(error: ValidationError, document: Document) -> Iterator[Problem]:
    placed = [(_path(detail, document), detail) for detail in error.errors(include_url=False)]
    meant = {
        (*path[:-1], near)
        for path, detail in placed
        if detail["type"] == "extra_forbidden" and (near := _near_key(path)) is not None
    }
    for path, detail in placed:
        match detail["type"]:
            case _ if path in document.unread:
                continue  # reported as that
            case "default_factory_not_called":
                continue  # follows from another problem of the same section
            case "missing" if path in meant or path in document.lines:
                continue  # it is there, misspelt or unreadable, and reported as that
            case "too_short" if any(path == other[: len(path)] and path != other for other, _ in placed):
                continue  # pydantic counts only the good items
            case "missing":
                what = schema_at(path).get("description", "it has no default")
                yield _problem(path, document, f"is required: {what[:1].lower()}{what[1:]}")
            case "extra_forbidden":
                yield _unknown_key(path, document)
            case "holdfast":
                yield _problem(path, document, detail["ctx"]["message"], detail["ctx"]["suggestion"])
            case _:
                yield _wrong_kind(path, document, detail["input"])


def _path(detail: ErrorDetails, document: Document) -> Path:
    path: Path = ()
    for part in detail["loc"]:
        if part == "[key]":  # pydantic's mark of an error in a mapping's key, whose path this is already
            break
        # For a default pydantic names the field, which is not in the document; the key is its camel case.
        known = isinstance(part, int) or (*path, part) in document.lines
        path = (*path, part if known else to_camel(str(part)))
    return path


def _problem(path: Path, document: Document, message: str, suggestion: str | None = None) -> Problem:
    return Problem(dotted(path), document.line(path), _value(path, document), message, suggestion)


def _value(path: Path, document: Document) -> str | None:
    """What stands at `path`, or the default that stands for it; None where neither is one value."""
    if path in document.texts:
        # A webhook's address is a secret in any form, and under alerts is where people put it.
        return HIDDEN if path[:1] == ("alerts",) else shown(document.texts[path])
    default = schema_at(path).get("default")
    return f"{default} (the default)" if isinstance(default, str | int) and path not in document.lines else None


def _wrong_kind(path: Path, document: Document, value: object) -> Problem:
    right, text = expected(schema_at(path)), document.texts.get(path, "")
    if value is None:
        return _problem(path, document, f"must be {right}, not empty")
    if right == "text" and isinstance(value, bool | int | float):
        read_as = "true or false" if isinstance(value, bool) else "a number"
        octal = " (an octal one, for its leading 0)" if re.fullmatch(r"0[0-7_]+", text) else ""
        return _problem(
            path, document, f"must be in quotes: without them YAML reads {read_as}{octal}", f'"{shown(text)}"'
        )
    return _problem(path, document, f"must be {right}", _near_value(path, value))


def _near_value(path: Path, value: object) -> str | None:
    schema = schema_at(path)
    if isinstance(value, int):
        numbers = [choice for choice in choices(schema) if isinstance(choice, int)]
        return str(min(numbers, key=lambda number: abs(number - value))) if numbers else None
    if not isinstance(value, str) or shown(value) != value:
        return None
    if schema.get("type") == "array":
        return f"[{value}]"
    if schema.get("type") == "integer" and value.isascii() and value.isdigit():
        return value
    plain = {_plain(str(choice)): str(choice) for choice in choices(schema)}
    near = difflib.get_close_matches(_plain(value), plain, n=1)
    return plain[near[0]] if near else None


def _unknown_key(path: Path, document: Document) -> Problem:
    key, section = str(path[-1]), schema_at(path[:-1])
    for (owner, refused), reason in REFUSED_KEYS.items():
        if owner == section.get("title") and _plain(key).startswith(_plain(refused)):
            return _problem(path, document, reason)
    near = _near_key(path)
    if near is not None:
        return _problem(path, document, "is not a setting", near)
    elsewhere = next((place for place in keys() if place.rpartition(".")[2] == key), None)
    if elsewhere is not None:
        return _problem(path, document, "is not a setting here", elsewhere)
    known = ", ".join(known for known in section.get("properties", ()) if known != "$schema")
    return _problem(path, document, f"is not a setting. Here are: {known}")


def _near_key(path: Path) -> str | None:
    plain = {_plain(key): key for key in schema_at(path[:-1]).get("properties", ())}
    near = difflib.get_close_matches(_plain(str(path[-1])), plain, n=1, cutoff=0.7)
    return plain[near[0]] if near else None


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()
