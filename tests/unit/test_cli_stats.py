"""`holdfast interruptions stats`, on a deployed ledger (moto's DynamoDB, CloudFormation and STS)."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws
from rich.console import Console
from typer.testing import CliRunner

from holdfast.interruption.case import Deletion
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.slo import TARGETS, Objective, Target, Unit, summarize
from holdfast.interruption.verdict import Judgement, Verdict
from holdfast_cli.docs_pages import JSON_KEYS, OBJECTIVE_KEYS, RATE_KEYS, TALLY_KEYS
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.plots import bar, grouped, sparkline
from holdfast_cli.stats import (
    ClusterStatistics,
    budget_text,
    measured_text,
    print_statistics,
    statistics_document,
    target_text,
)
from tests.builders import W, at, case_of, ec2, kube, observation, warning
from tests.deployed import ACCOUNT, REGION, config_text, deploy, fill, trace

SINCE = ("--since", "2026-08-31", "--until", "2026-09-10")


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["interruptions", "stats", *args], env={"COLUMNS": "80"})


def answer(*args: str) -> dict[str, Any]:
    result = run(*args, "--output", "json")
    assert result.exit_code == ExitCode.OK, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def ledger(scrubbed_environment: None) -> Iterator[str]:
    """Of cluster-a: handled, unwarned, not reclaimed, stopped and started again. Of cluster-b: handled."""
    with mock_aws():
        table = deploy()
        fill(table, trace("01-normal"), trace("04-no-notice"), trace("07-node-survives"), trace("08-stop-cycle"))
        fill(table, trace("11-other-cluster"))
        fill(table, trace("06-double-notice").splitlines()[0].replace(b"2026-09-01", b"2026-07-01"))
        yield table


@pytest.fixture(autouse=True)
def deployed(ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("holdfast.yaml").write_text(config_text(("cluster-a", ACCOUNT, REGION), ("cluster-b", ACCOUNT, REGION)))
    return ledger


def objectives(cluster: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in cluster["objectives"]}


def test_each_cluster_is_told_by_itself_and_what_is_of_none_last() -> None:
    clusters = answer(*SINCE)["clusters"]
    assert [(item["cluster"], item["cases"]) for item in clusters] == [("cluster-a", 5), ("cluster-b", 1), (None, 0)]
    assert {(item["account"], item["region"]) for item in clusters} == {(ACCOUNT, REGION)}


def test_a_spot_termination_that_was_handled_meets_the_objectives_of_karpenter() -> None:
    (item,) = answer(*SINCE, "--cluster", "cluster-b")["clusters"]
    for name in ("deletion_p95", "deletion_p99", "handled_in_time", "missed"):
        told = objectives(item)[name]
        assert (told["result"], told["sample"], told["budget_left"]) == ("met", 1, 1)


def test_the_verdicts_are_those_of_the_list() -> None:
    listed = CliRunner().invoke(app, ["interruptions", "list", *SINCE, "--cluster", "cluster-a", "--output", "json"])
    (item,) = answer(*SINCE, "--cluster", "cluster-a")["clusters"]
    counted = {(count["verdict"], count["cause"]): count["cases"] for count in item["verdicts"]}
    told = [(case["verdict"], case["cause"]) for case in json.loads(listed.stdout)["cases"]]
    assert counted == {key: told.count(key) for key in told}


def test_a_time_without_a_case_leaves_every_objective_unknown() -> None:
    (item,) = answer("--since", "2020-01-01", "--until", "2020-01-02", "--cluster", "cluster-a")["clusters"]
    assert {told["result"] for told in item["objectives"]} == {"unknown"}
    assert {told["measured"] for told in item["objectives"]} == {None}
    assert [day["interruptions"] for day in item["days"]] == [0, 0]
    said = run("--since", "2020-01-01", "--until", "2020-01-02", "--fail")
    assert said.exit_code == ExitCode.OK
    assert "No case was recorded in this time: every objective is unknown." in " ".join(said.stdout.split())


def test_a_case_of_no_known_cluster_is_told_unless_a_cluster_is_asked_for() -> None:
    july = ("--since", "2026-07-01", "--until", "2026-07-02")
    assert [(item["cluster"], item["cases"]) for item in answer(*july)["clusters"]][-1] == (None, 1)
    assert "No known cluster" in run(*july).stdout
    assert [item["cluster"] for item in answer(*july, "--cluster", "cluster-a")["clusters"]] == ["cluster-a"]


def test_only_with_fail_does_a_missed_objective_give_exit_code_1() -> None:
    missed = (*SINCE, "--cluster", "cluster-a")
    assert "not_met" in {told["result"] for told in answer(*missed)["clusters"][0]["objectives"]}
    assert run(*missed).exit_code == ExitCode.OK
    assert run(*missed, "--fail").exit_code == ExitCode.NOT_GOOD
    assert run(*missed, "--fail", "--output", "json").exit_code == ExitCode.NOT_GOOD


def test_the_tables_fit_80_columns_and_need_no_colour() -> None:
    result = run(*SINCE)
    assert result.exit_code == ExitCode.OK
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "\x1b" not in result.stdout
    words = " ".join(result.stdout.split())
    for part in ("cluster-a (account 123456789012, ap-southeast-1)", "NOT MET", "Interruptions per day"):
        assert part in words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--since", "1990-01-01"], "no ledger keeps cases so long"),
        (["--since", "1h", "--until", "2h"], "no case can be in between"),
        (["--since", "999999d"], "must be a time"),
        (["--cluster", "cluster-x"], "Configured are: cluster-a, cluster-b."),
    ],
)
def test_what_cannot_be_answered_gets_a_message(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == ExitCode.USAGE, result.output
    assert said in " ".join(result.stderr.split())


def test_the_documented_keys_are_those_of_the_document() -> None:
    document = answer(*SINCE)
    assert list(document) + list(document["clusters"][0]) == list(JSON_KEYS["interruptions stats"])
    assert list(document["clusters"][0]["objectives"][0]) == list(OBJECTIVE_KEYS)
    assert list(document["clusters"][0]["days"][0])[1:] == list(TALLY_KEYS)
    for breakdown in ("nodepools", "instance_types", "zones"):
        assert list(document["clusters"][0][breakdown][0]) == ["name", *TALLY_KEYS, *RATE_KEYS]


def test_a_breakdown_has_its_interruptions_a_week_over_all_of_the_time() -> None:
    """Three in four weeks are 0.75 a week, which is shown as 0.8."""
    told = summarize([handled()] * 3, since=W - timedelta(days=28), until=W, now=at(86_400))
    item = ClusterStatistics("a", ACCOUNT, REGION, told)
    out = Console(width=80, record=True)
    print_statistics(item, out)

    assert [row["per_week"] for row in statistics_document(item)["zones"]] == [0.75]
    assert re.search(r"ap-southeast-1a +3 +0\.8 +100 %", out.export_text())


def test_no_time_at_all_has_no_rate() -> None:
    told = summarize([handled()], since=W, until=W, now=at(86_400))

    assert told.per_week(told.zones[0][1]) is None


def one(name: str, record: CaseRecord, count: int = 1, others: int = 0) -> Objective:
    """An objective over `count` of the records and `others` that were handled in time."""
    records = [record] * count + [handled()] * others
    told = summarize(records, since=W - timedelta(days=28), until=W, now=at(86_400))
    return next(item for item in told.objectives if item.target.name == name)


def handled(verdict: Verdict = Verdict.HANDLED_IN_TIME, **fields: Any) -> CaseRecord:
    case = case_of(warning(), observation(2, ec2(), kube(deleted=3, drained=40)))
    return CaseRecord(replace(case, **fields), Judgement(verdict, None, "because", final=True), at(60))


def test_a_figure_is_rounded_to_the_side_that_does_not_flatter() -> None:
    """95 of 96 are 98.958 %, which is not 99 %; 15.01 s is more than 15 s; 1 of 96 is 1.0417 %."""
    forced = handled(Verdict.HANDLED_FORCED)
    assert measured_text(one("handled_in_time", forced, others=95)) == "98.9 %"
    assert measured_text(one("deletion_p95", handled(deleted_at=at(15.01)))) == "15.1 s"
    assert measured_text(one("inconclusive", handled(Verdict.INCONCLUSIVE), others=95)) == "1.1 %"
    assert measured_text(one("handled_in_time", handled())) == "100 %"


def test_what_never_happened_is_told_as_never_and_what_is_not_known_as_unknown() -> None:
    never = handled(Verdict.MISSED, deletion=Deletion.NOT_DELETING, deleted_at=None, drained_at=None)
    assert measured_text(one("deletion_p95", never)) == "never"
    unseen = one("deletion_p95", handled(deleted_at=None))
    assert (measured_text(unseen), budget_text(unseen)) == ("unknown", "unknown")


def test_the_error_budget_is_told_as_what_is_left_or_how_often_it_was_used() -> None:
    """Of 40 cases two may be slower (5 %): one leaves half, three are 1.5 times the budget."""
    slow = handled(deleted_at=at(20))
    assert budget_text(one("deletion_p95", slow, 1, 39)) == "50 %"
    assert budget_text(one("deletion_p95", slow, 2, 38)) == "0 %"
    assert budget_text(one("deletion_p95", slow, 3, 37)) == "used 1.5x"


def test_every_target_has_words() -> None:
    for target in TARGETS:
        assert target_text(one(target.name, handled())) == _words(target)


def _words(target: Target) -> str:
    sign = "≥" if target.name == "handled_in_time" else "≤"
    return f"{sign} {target.value:g}" + (f" {target.unit}" if target.unit is not Unit.CASES else "")


def test_names_of_others_cannot_steer_the_terminal_and_long_breakdowns_are_cut() -> None:
    records = [handled(nodepool=f"pool-{n}\x1b[2J") for n in range(12)]
    told = summarize(records, since=W - timedelta(days=1), until=W, now=at(86_400))
    out = Console(width=80, record=True)
    print_statistics(ClusterStatistics("a", ACCOUNT, REGION, told), out)
    text = out.export_text()
    assert "\x1b" not in text
    assert "2 more with fewer interruptions" in text
    assert len(statistics_document(ClusterStatistics("a", ACCOUNT, REGION, told))["nodepools"]) == 12


@pytest.mark.parametrize(
    ("value", "drawn"), [(0, ""), (0.1, "█"), (5, "█████"), (10, "██████████"), (11, "██████████")]
)
def test_a_bar_is_as_long_as_its_value(value: float, drawn: str) -> None:
    assert bar(value, 10, 10) == drawn
    assert bar(value, 10, 10, ascii_only=True) == "#" * len(drawn)


def test_nothing_has_no_bar_and_no_line() -> None:
    assert (bar(1, 0, 10), sparkline([]), sparkline([0, 0])) == ("", "", "  ")


def test_a_sparkline_has_a_mark_for_each_value() -> None:
    assert sparkline([0, 1, 4, 8]) == " ▂▅█"
    assert sparkline([0, 1, 4, 8], ascii_only=True) == " :+@"


@pytest.mark.parametrize(("count", "sizes"), [(0, []), (28, [1] * 28), (57, [2] * 28 + [1]), (400, [8] * 50)])
def test_many_days_share_a_mark(count: int, sizes: list[int]) -> None:
    assert [len(group) for group in grouped(range(count), 56)] == sizes
