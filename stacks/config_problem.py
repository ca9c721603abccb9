"""What is wrong with a configuration file, said so that a person can mend it in one go."""

import re
from dataclasses import dataclass

from holdfast.errors import HoldfastError

HIDDEN = "(not shown, it may be a secret)"
"""What is printed in place of a value that may be a secret."""

_MAY_BE_SECRET = re.compile(r"://|hooks\.slack|xox[a-z]-|AKIA[A-Z0-9]{12}|T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/")
_LONGEST_SHOWN = 120


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        path: the key, as in `clusters[0].queue.retention`; empty for the file as a whole.
        line: the line of the key, or of the nearest one above it that is there; from 1.
        value: what stands there, as text; None where nothing does. Never a URL or another likely secret.
        message: what is right, and why.
        suggestion: what to write instead, where that can be told.
    """

    path: str
    line: int
    value: str | None
    message: str
    suggestion: str | None = None


class ConfigError(HoldfastError):
    """A configuration file that cannot be used; its text lists every problem with its line."""

    def __init__(self, source: str, problems: tuple[Problem, ...]) -> None:
        """Keeps the file's name and its problems, in the order of its lines."""
        self.source = source
        self.problems = tuple(sorted(problems, key=lambda problem: problem.line))
        super().__init__(self._text())

    def _text(self) -> str:
        count = len(self.problems)
        lines = [f"{self.source}: {count} problem{'' if count == 1 else 's'}"]
        for problem in self.problems:
            value = "" if problem.value is None else f": {problem.value}"
            lines.append(f"  {self.source}:{problem.line}  {problem.path or '(the file)'}{value}")
            lines.append(f"      {problem.message}")
            if problem.suggestion is not None:
                lines.append(f"      Try: {problem.suggestion}")
        return "\n".join(lines)


def shown(text: str) -> str:
    """`text` as it may be printed: shortened, on one line, and not at all where it may be a secret."""
    if _MAY_BE_SECRET.search(text):
        return HIDDEN
    one_line = "".join(character if character.isprintable() else "?" for character in text)
    return one_line if len(one_line) <= _LONGEST_SHOWN else f"{one_line[:_LONGEST_SHOWN]}…"


def dotted(path: tuple[str | int, ...]) -> str:
    """A path as a person writes it: `clusters[0].queue.retention`."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{shown(part)}" for part in path)
    return "".join(parts).removeprefix(".")
