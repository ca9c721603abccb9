"""`python -m tests.reports`: run every test of a public report and list report, test and result; exit 1 on a failure."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import pytest
from rich.console import Console
from rich.table import Table

from tests.reports.markers import Marked, by_report, marked
from tests.reports.rows import SECTIONS, Report

_COLOURS = {"passed": "green", "failed": "bold red", "skipped": "yellow", "not run": "bold red", "not yet": "yellow"}


class Results:
    """A plugin of pytest that keeps the worst outcome of each test function, over all its parameters."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.partition("[")[0]
        worst = max(self.outcomes.get(name, "passed"), report.outcome, key=("passed", "skipped", "failed").index)
        self.outcomes[name] = worst


def run(tests: tuple[Marked, ...]) -> Mapping[str, str]:
    """The outcome of each test, by its id."""
    results = Results()
    pytest.main(["-q", "-n", "0", "-p", "no:cacheprovider", *(test.id for test in tests)], plugins=[results])
    return results.outcomes


def show(tests: Mapping[Report, tuple[Marked, ...]], outcomes: Mapping[str, str], console: Console) -> bool:
    """Prints the table; whether every test that is there passed."""
    good = True
    for section in SECTIONS:
        table = Table(title=section.title, title_justify="left", expand=True)
        table.add_column("report", ratio=3, overflow="fold")
        table.add_column("test", ratio=5, overflow="fold")
        table.add_column("result", no_wrap=True)
        for report in section.reports:
            rows = [(test.title, outcomes.get(test.id, "not run")) for test in tests[report]]
            good = good and all(outcome == "passed" for _, outcome in rows)
            if report.not_yet:
                rows.append((report.not_yet, "not yet"))
            for number, (title, outcome) in enumerate(rows):
                named = "\n".join(report.references) if number == 0 else ""
                table.add_row(named, title, f"[{_COLOURS[outcome]}]{outcome}[/]", end_section=number == len(rows) - 1)
        console.print(table)
    return good


def main() -> int:
    tests = by_report(marked())
    outcomes = run(tuple(dict.fromkeys(test for found in tests.values() for test in found)))
    console = Console(width=None if sys.stdout.isatty() else 140)
    good = show(tests, outcomes, console)
    complete = sum(1 for report in tests if tests[report] and not report.not_yet)
    partly = sum(1 for report in tests if tests[report] and report.not_yet)
    shown = len({test.id for found in tests.values() for test in found})
    console.print(
        f"{len(tests)} reports: {complete} shown by tests, {partly} in part, {len(tests) - complete - partly} not yet; "
        f"{shown} tests."
    )
    return 0 if good else 1


if __name__ == "__main__":
    os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")
    sys.exit(main())
