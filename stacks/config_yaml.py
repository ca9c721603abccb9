"""Reads a YAML file into plain values and remembers where each stands and how it was written.

PyYAML's own loader forgets the lines, keeps the last of two equal keys without a word, and expands aliases
without end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from stacks.config_problem import Problem, dotted, shown
from stacks.config_schema import Path

_MOST_VALUES = 20_000
_DEEPEST = 40
_TAG = "tag:yaml.org,2002:"


@dataclass(slots=True)
class Document:
    """A file's values, with the line and the text of each.

    Attributes:
        data: mappings, lists, strings, numbers, booleans and None; what could not be read is left out.
        lines: the line of each key or list item, from 1.
        texts: each scalar as it was written, before YAML made a number or a boolean of it.
        unread: where something stands that could not be read.
        problems: what could not be read, and keys that are there twice.
    """

    data: object = None
    lines: dict[Path, int] = field(default_factory=dict)
    texts: dict[Path, str] = field(default_factory=dict)
    unread: set[Path] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """The line of `path`, or of the nearest thing above it that is there."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(text: str) -> Document:
    """The values of a YAML text; never raises, what is wrong is in the document's `problems`."""
    document = Document()
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.problems.append(_syntax(error.problem or error.context or "", mark.line + 1 if mark else 1))
    except yaml.YAMLError as error:  # a character that YAML does not allow; carries no line
        document.problems.append(_syntax(getattr(error, "reason", None) or "not readable", 1))
    except RecursionError:
        document.problems.append(_syntax("it is nested too deeply", 1))
    except (
        ValueError,
        OverflowError,
    ) as error:  # PyYAML lets chr() and int() of an escape or a version through
        document.problems.append(_syntax(str(error), 1))
    else:
        if node is not None:
            _Walk(document).start(node)
        if document.data is None and not document.problems:
            document.problems.append(Problem("", 1, None, "is empty: it needs clusters at least"))
    return document


def _syntax(reason: str, line: int) -> Problem:
    return Problem("", line, None, f"is not YAML from this line on: {shown(reason)}")


class _TooMuchError(Exception):
    """The document has more values than any configuration; aliases of aliases grow like that."""


_OMITTED = object()


class _Walk:
    """Turns composed nodes into values, in one pass that keeps lines and finds what a loader would hide."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values = 0
        self._construct = yaml.constructor.SafeConstructor()

    def start(self, node: yaml.Node) -> None:
        try:
            value = self._value(node, (), ())
        except _TooMuchError:
            self._problem(node, (), None, f"has more than {_MOST_VALUES} values")
        else:
            self._document.data = None if value is _OMITTED else value

    def _value(self, node: yaml.Node, path: Path, above: tuple[yaml.Node, ...]) -> object:
        self._values += 1
        if self._values > _MOST_VALUES:
            raise _TooMuchError
        if any(node is other for other in above):
            self._problem(node, path, None, "contains itself: the alias points to something it stands in")
            return _OMITTED
        if len(above) >= _DEEPEST:
            self._problem(node, path, None, "is nested too deeply")
            return _OMITTED
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return dict(self._entries(node, path, (*above, node)))
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return list(self._items(node, path, (*above, node)))
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        return self._unknown_tag(node, path)

    def _items(self, node: yaml.SequenceNode, path: Path, above: tuple[yaml.Node, ...]) -> Iterator[object]:
        for index, item in enumerate(node.value):
            place = (*path, index)
            self._document.lines[place] = _line(item)
            value = self._value(item, place, above)
            if value is _OMITTED:
                self._document.unread.add(place)
            # An unreadable item keeps its place, so that the paths of those after it stay right.
            yield None if value is _OMITTED else value

    def _entries(
        self, node: yaml.MappingNode, path: Path, above: tuple[yaml.Node, ...]
    ) -> Iterator[tuple[str, object]]:
        for key_node, value_node in node.value:
            key = self._key(key_node, path)
            if key is None:
                continue
            place = (*path, key)
            if place in self._document.lines:
                first = self._document.lines[place]
                self._problem(
                    key_node,
                    place,
                    _text(value_node),
                    f"is there twice, first on line {first}: remove one of them",
                )
                continue
            self._document.lines[place] = _line(key_node)
            value = self._value(value_node, place, above)
            if value is not _OMITTED:
                yield key, value

    def _key(self, node: yaml.Node, path: Path) -> str | None:
        if isinstance(node, yaml.ScalarNode):
            if node.tag == f"{_TAG}str":
                return str(node.value)
            if node.tag == f"{_TAG}merge":
                self._problem(node, path, "<<", "has a merge key, which YAML 1.2 no longer has: repeat the settings")
                return None
            quoted = f'"{shown(str(node.value))}"'
            self._problem(node, path, _text(node), "has a key that YAML does not read as text", quoted)
            return None
        self._problem(node, path, None, "has a list or a mapping as a key: keys are text")
        return None

    def _scalar(self, node: yaml.ScalarNode, path: Path) -> object:
        text = str(node.value)
        self._document.texts[path] = text
        try:
            match node.tag.removeprefix(_TAG):
                case "str" | "value" | "timestamp":  # no setting is a date: what looks like one is text
                    return text
                case "null":
                    return None
                case "bool":
                    return self._construct.construct_yaml_bool(node)
                case "int":
                    return self._construct.construct_yaml_int(node)
                case "float":
                    return self._construct.construct_yaml_float(node)
        except (ValueError, KeyError, IndexError, OverflowError):  # a tag on something else, or 5,000 digits
            self._problem(node, path, shown(text), "cannot be read as what its YAML tag says")
            return _OMITTED
        return self._unknown_tag(node, path)

    def _unknown_tag(self, node: yaml.Node, path: Path) -> object:
        tag = node.tag.replace(_TAG, "!!")
        self._problem(node, path, _text(node), f"has the YAML tag {shown(tag)}, which means nothing here: remove it")
        return _OMITTED

    def _problem(
        self, node: yaml.Node, path: Path, value: str | None, message: str, suggestion: str | None = None
    ) -> None:
        self._document.problems.append(Problem(dotted(path), _line(node), value, message, suggestion))


def _line(node: yaml.Node) -> int:
    return node.start_mark.line + 1


def _text(node: yaml.Node) -> str | None:
    return shown(str(node.value)) if isinstance(node, yaml.ScalarNode) else None
