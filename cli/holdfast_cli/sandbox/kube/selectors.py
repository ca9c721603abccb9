"""Label and field selectors, with the messages a kube-apiserver refuses bad ones by."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from holdfast_cli.sandbox.kube.resources import Resource

type Predicate = Callable[[Mapping[str, Any]], bool]


class SelectorError(ValueError):
    """The message of a 400."""


class UnsupportedSelectorError(ValueError):
    """A selector that a real server understands and this stand-in does not."""


_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_SYMBOLS = frozenset({"==", "!=", "=", "!", "(", ")", ",", "<", ">", ""})
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


class _Tokens:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        """The next token; "" at the end."""
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._next += 1
        return token


def labels(text: str) -> Predicate:
    """`a=b, c!=d, e in (f, g), h notin (i), j, !k` as a test of an object.

    Raises:
        SelectorError: it cannot be parsed.
        UnsupportedSelectorError: an operator that only a real server knows.
    """
    tokens = _Tokens(text)
    requirements: list[Callable[[Mapping[str, str]], bool]] = []
    while tokens.peek():
        if tokens.peek() in _SYMBOLS - {"!"}:
            raise SelectorError(f"found '{tokens.peek()}', expected: !, identifier, or 'end of string'")
        try:
            requirements.append(_requirement(tokens))
        except SelectorError as error:
            raise SelectorError(f"unable to parse requirement: {error}") from None
        match tokens.take():
            case "":
                break
            case ",":
                if tokens.peek() in _SYMBOLS - {"!"}:
                    raise SelectorError(f"found '{tokens.peek()}', expected: identifier after ','")
            case other:
                raise SelectorError(f"found '{other}', expected: ',' or 'end of string'")

    def matches(item: Mapping[str, Any]) -> bool:
        own = item["metadata"].get("labels") or {}
        return all(requirement(own) for requirement in requirements)

    return matches


def _requirement(tokens: _Tokens) -> Callable[[Mapping[str, str]], bool]:
    negated = tokens.peek() == "!"
    if negated:
        tokens.take()
    key = _identifier(tokens)
    if negated:
        return lambda own: key not in own
    if tokens.peek() in {"", ","}:
        return lambda own: key in own
    operator = tokens.take()
    match operator:
        case "=" | "==":
            value = _value(tokens)
            return lambda own: own.get(key) == value
        case "!=":
            value = _value(tokens)
            return lambda own: own.get(key) != value
        case "in":
            values = _values(tokens)
            return lambda own: own.get(key) in values
        case "notin":
            values = _values(tokens)
            return lambda own: own.get(key) not in values
        case "<" | ">":
            raise UnsupportedSelectorError(f"label selector operator {operator}")
    raise SelectorError(f"found '{operator}', expected: {_OPERATORS}")


def _identifier(tokens: _Tokens) -> str:
    token = tokens.take()
    if token in _SYMBOLS:
        raise SelectorError(f"found '{token}', expected: identifier")
    return token


def _value(tokens: _Tokens) -> str:
    return "" if tokens.peek() in {"", ","} else _identifier(tokens)


def _values(tokens: _Tokens) -> frozenset[str]:
    opening = tokens.take()
    if opening != "(":
        raise SelectorError(f"found '{opening}' expected: '('")
    values = []
    while True:
        values.append("" if tokens.peek() in {",", ")"} else _identifier(tokens))
        match tokens.take():
            case ")":
                return frozenset(values)
            case ",":
                continue
            case other:
                raise SelectorError(f"found '{other}', expected: ',' or ')'")


def fields(text: str, resource: Resource) -> Predicate:
    """`spec.nodeName=n,status.phase!=Running` as a test of an object.

    Raises:
        SelectorError: it cannot be parsed, or the resource does not take one of the fields.
    """
    terms: list[tuple[tuple[str, ...], str, bool]] = []
    for part in sorted(filter(None, text.split(","))):
        field, equal, value = _split_term(part, text)
        if field not in resource.selectable:
            raise SelectorError(resource.refuse_field(field))
        terms.append((tuple(field.split(".")), value, equal))

    def matches(item: Mapping[str, Any]) -> bool:
        return all((_field(item, path) == value) is equal for path, value, equal in terms)

    return matches


def _split_term(part: str, whole: str) -> tuple[str, bool, str]:
    for operator, equal in (("!=", False), ("==", True), ("=", True)):
        pieces = part.split(operator)
        if len(pieces) == 2:
            return pieces[0], equal, pieces[1]
    raise SelectorError(f"invalid selector: '{whole}'; can't understand '{part}'")


def _field(item: Mapping[str, Any], path: tuple[str, ...]) -> str:
    value: Any = item
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    if isinstance(value, bool) or (value is None and path[-1] in {"unschedulable", "hostNetwork"}):
        return "true" if value else "false"
    return "" if value is None else str(value)
