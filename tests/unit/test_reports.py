"""The table of public reports is true: every row has its tests, every marker its row, and the page is fresh."""

from pathlib import Path

import pytest
from rich.console import Console

from tests.reports import __main__ as runner
from tests.reports import page
from tests.reports.markers import Marked, by_report, marked
from tests.reports.rows import REPORTS, Report, link

TESTS = marked()


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: report.references[0])
def test_a_report_is_shown_by_a_test_or_says_what_is_missing(report: Report):
    assert by_report(TESTS)[report] or report.not_yet
    assert bool(report.right) == bool(by_report(TESTS)[report])


def test_no_report_is_told_twice():
    references = [reference for report in REPORTS for reference in report.references]

    assert len(references) == len(set(references))


def test_a_cell_of_the_table_is_one_sentence_or_two_without_a_bar():
    for report in REPORTS:
        for text in filter(None, (report.wrong, report.right)):
            assert text.endswith(".")
            assert "|" not in text
            assert "  " not in text


def test_the_page_is_what_the_rows_and_the_markers_say():
    assert page.PAGE.read_text() == page.page(by_report(TESTS)), "run: .venv/bin/python -m tests.reports.page"


def test_write_makes_the_page(tmp_path: Path):
    page.write(tmp_path / "reports.md")

    assert (tmp_path / "reports.md").read_text() == page.PAGE.read_text()


@pytest.mark.parametrize(
    ("reference", "address"),
    [
        ("aws/aws-cdk#1", "https://github.com/aws/aws-cdk/issues/1"),
        ("aws/aws-cdk/packages/a.ts", "https://github.com/aws/aws-cdk/blob/HEAD/packages/a.ts"),
    ],
)
def test_a_reference_leads_to_its_thread_or_file(reference: str, address: str):
    assert link(reference) == address


def test_what_is_no_reference_is_refused():
    with pytest.raises(ValueError, match="neither"):
        link("9523")


def folder(tmp_path: Path, text: str) -> Path:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text(text)
    return tests


def test_a_test_is_found_by_what_pytest_calls_it(tmp_path: Path):
    text = """
class TestIt:
    @pytest.mark.parametrize("a", [1, 2])
    @pytest.mark.report("aws/aws-cdk#33169", "slackapi/bolt-js#2509")
    def test_a_thing(self, a): ...
    def test_another(self): ...
"""
    assert marked(folder(tmp_path, text)) == (
        Marked("tests/test_it.py", "TestIt::test_a_thing", ("aws/aws-cdk#33169", "slackapi/bolt-js#2509")),
    )


@pytest.mark.parametrize("arguments", ["", "NAME", '"a", *REST', "1"])
def test_a_marker_that_cannot_be_read_is_refused(tmp_path: Path, arguments: str):
    with pytest.raises(ValueError, match=r"test_it\.py:1: "):
        marked(folder(tmp_path, f"@pytest.mark.report({arguments})\ndef test_a_thing(): ...\n"))


def test_a_marker_of_no_report_is_refused_and_named():
    test = Marked("tests/test_it.py", "test_a_thing", ("aws/aws-cdk#1",))

    with pytest.raises(ValueError, match="test_a_thing names aws/aws-cdk#1"):
        by_report((test,))


@pytest.mark.parametrize("worst", ["passed", "failed", "skipped"])
def test_a_run_is_good_when_every_test_passed(worst: str):
    tests = by_report(TESTS)
    outcomes = {test.id: "passed" for test in TESTS} | {TESTS[0].id: worst}
    console = Console(record=True, width=200)

    assert runner.show(tests, outcomes, console) == (worst == "passed")
    text = console.export_text()
    assert text.count("not yet") == sum(1 for report in REPORTS if report.not_yet)
    assert TESTS[0].title in text


def test_a_test_that_did_not_run_is_no_success():
    assert not runner.show(by_report(TESTS), {}, Console(record=True, width=200))


def test_of_a_tests_parameters_the_worst_outcome_counts():
    results = runner.Results()
    for when, name, outcome in (
        ("setup", "t.py::test_a[1]", "passed"),
        ("call", "t.py::test_a[1]", "failed"),
        ("call", "t.py::test_a[2]", "passed"),
        ("setup", "t.py::test_b", "skipped"),
        ("call", "t.py::test_c", "passed"),
    ):
        results.pytest_runtest_logreport(pytest.TestReport(name, ("", None, ""), {}, outcome, None, when))

    assert results.outcomes == {"t.py::test_a": "failed", "t.py::test_b": "skipped", "t.py::test_c": "passed"}
