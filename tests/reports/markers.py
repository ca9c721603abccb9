"""Which test is about which report, read from the decorators without importing a test."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.reports.rows import REPORTS, Report

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True, order=True)
class Marked:
    """A test with the references it is marked with. `file` is relative to the project, `name` what pytest calls it."""

    file: str
    name: str
    references: tuple[str, ...]

    @property
    def id(self) -> str:
        """What pytest is asked to run."""
        return f"{self.file}::{self.name}"

    @property
    def title(self) -> str:
        """The function's name alone."""
        return self.name.rsplit("::", 1)[-1]


def marked(folder: Path = TESTS) -> tuple[Marked, ...]:
    """Every marked test below the folder, in the order of files and lines.

    Raises:
        ValueError: a marker's argument is not a plain text, or it has none.
    """
    found: list[Marked] = []
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
        file = str(path.relative_to(folder.parent))
        for name, function in _tests(tree.body):
            references = tuple(text for decorator in function.decorator_list for text in _references(decorator, file))
            if references:
                found.append(Marked(file, name, references))
    return tuple(found)


def _tests(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in body:
        if isinstance(node, ast.FunctionDef):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _tests(node.body, f"{prefix}{node.name}::")


def _references(decorator: ast.expr, file: str) -> Iterator[str]:
    if not isinstance(decorator, ast.Call) or ast.unparse(decorator.func) != "pytest.mark.report":
        return
    if not decorator.args:
        raise ValueError(f"{file}:{decorator.lineno}: the marker names no report")
    for argument in decorator.args:
        match argument:
            case ast.Constant(value=str(text)):
                yield text
            case _:
                raise ValueError(f"{file}:{argument.lineno}: a marker names its report by a plain text")


def by_report(tests: tuple[Marked, ...]) -> Mapping[Report, tuple[Marked, ...]]:
    """The tests of every report; none for one that no test names.

    Raises:
        ValueError: a marker names a report that is not in the table.
    """
    known = {reference: report for report in REPORTS for reference in report.references}
    unknown = [
        f"{test.id} names {reference}" for test in tests for reference in test.references if reference not in known
    ]
    if unknown:
        raise ValueError(f"not in tests/reports/rows.py: {'; '.join(unknown)}")
    return {
        report: tuple(test for test in tests if any(known[reference] is report for reference in test.references))
        for report in REPORTS
    }
