"""`holdfast interruptions list` and `show`, on a deployed ledger (moto's DynamoDB, CloudFormation and STS)."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.interruption.event import Home, parse
from holdfast.times import format_time
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from tests.deployed import ACCOUNT, REGION, config_text, deploy, fill, trace

HOUR = timedelta(hours=1)
TWO_HOURS_AGO = datetime.now(UTC).replace(microsecond=0) - 2 * HOUR
IGNORED = json.dumps({"source": "aws.tag", "detail-type": "Tag Change on Resource", "detail": {}})
SINCE = ("--since", "2026-08-31", "--until", "2026-09-10")


def run(*args: str) -> Any:
    return CliRunner().invoke(app, ["interruptions", *args], env={"COLUMNS": "80"})


def answer(*args: str) -> dict[str, Any]:
    result = run(*args, "--output", "json")
    assert result.exit_code == ExitCode.OK, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


@pytest.fixture(scope="module")
def ledgers(scrubbed_environment: None) -> Iterator[dict[str, str]]:
    """The ledger of two clusters, filled, one of another region, and each one's table by region. Nobody changes them."""
    with mock_aws():
        tables = {region: deploy(region=region) for region in (REGION, "eu-west-1")}
        fill(tables[REGION], trace("01-normal"), trace("04-no-notice"), trace("07-node-survives"))
        fill(tables[REGION], trace("08-stop-cycle"), trace("11-other-cluster"))
        fill(tables["eu-west-1"], trace("11-other-cluster"), region="eu-west-1")
        # A warning two months before the others, of an instance that nobody could look at: its cluster is not known.
        warning = trace("06-double-notice").splitlines()[0].replace(b"2026-09-01", b"2026-07-01")
        fill(tables[REGION], warning)
        # The end of an instance that nothing announced: a fact, and no case.
        (fact,) = parse(trace("05-voluntary").splitlines()[0], Home(ACCOUNT, REGION)).facts
        DynamoLedger(boto3.client("dynamodb", region_name=REGION), tables[REGION]).put_fact(fact)
        home = Home(ACCOUNT, REGION)
        for body, at, message in (("abcd", TWO_HOURS_AGO, "m-1"), (IGNORED, TWO_HOURS_AGO + HOUR, "m-2")):
            rejection = parse(body, home).rejection
            assert rejection is not None
            store = DynamoLedger(boto3.client("dynamodb", region_name=REGION), tables[REGION], clock=lambda at=at: at)
            for _ in range(2):
                store.put_rejection(rejection, day=at, message_id=message, alert=None)
        yield tables


@pytest.fixture
def deployed(ledgers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The folder of the configuration that was deployed is the current one; the ledger's table."""
    monkeypatch.chdir(tmp_path)
    Path("holdfast.yaml").write_text(config_text(("cluster-a", ACCOUNT, REGION), ("cluster-b", ACCOUNT, REGION)))
    return ledgers[REGION]


def verdicts(document: dict[str, Any]) -> list[tuple[str, str]]:
    return [(case["instance"], case["verdict"]) for case in document["cases"]]


ALL = [
    ("i-0a88888888888888b", "MISSED"),  # a day after the others
    ("i-0b22222222222222b", "HANDLED_IN_TIME"),
    ("i-0a88888888888888b", "HANDLED_IN_TIME"),
    ("i-0a77777777777777a", "NOT_RECLAIMED"),
    ("i-0a44444444444444d", "UNWARNED"),
    ("i-0a11111111111111a", "HANDLED_IN_TIME"),
]


@pytest.mark.usefixtures("deployed")
def test_the_cases_of_all_configured_clusters_come_newest_first() -> None:
    document = answer("list", *SINCE)
    assert verdicts(document) == ALL
    assert (document["complete"], document["not_read"]) == (True, [])


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--cluster", "cluster-b"], [ALL[1]]),
        (["--cluster", "cluster-a", "--cluster", "cluster-b"], ALL),
        (["--verdict", "missed"], [ALL[0]]),
        (["--verdict", "UNWARNED", "--verdict", "NOT_RECLAIMED"], [ALL[3], ALL[4]]),
        (["--region", REGION], ALL),
        (["--limit", "2"], ALL[:2]),
    ],
)
def test_the_list_can_be_narrowed(arguments: list[str], expected: list[tuple[str, str]]) -> None:
    document = answer("list", *SINCE, *arguments)
    assert verdicts(document) == expected
    assert document["complete"] is (len(expected) != 2 or "--limit" not in arguments)


@pytest.mark.usefixtures("deployed")
def test_the_time_bounds_count_from_the_warning() -> None:
    assert verdicts(answer("list", "--since", "2026-09-02T04:10:00Z", "--until", "2026-09-02T04:10:00Z")) == [ALL[0]]
    assert verdicts(answer("list", "--since", "2026-09-02T04:10:01Z", "--until", "2026-09-09")) == []


@pytest.mark.usefixtures("deployed")
def test_the_table_fits_80_columns_and_says_when_there_are_older_ones() -> None:
    result = run("list", *SINCE, "--limit", "2")
    assert result.exit_code == ExitCode.OK
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    assert "CONSUMER_ABSENT" in words
    assert "2026-09-02T04:10:00Z" in result.stdout
    assert "i-0a88888888888888b" in result.stdout
    assert "There are older ones" in words


@pytest.mark.usefixtures("deployed")
def test_an_empty_list_says_for_which_time_it_is_empty() -> None:
    result = run("list", "--since", "2020-01-01", "--until", "2020-01-02")
    assert "No case from 2020-01-01T00:00:00Z to 2020-01-02T00:00:00Z." in result.stdout


@pytest.mark.usefixtures("deployed")
def test_a_case_of_no_known_cluster_is_listed_unless_a_cluster_is_asked_for() -> None:
    july = ("--since", "2026-07-01", "--until", "2026-07-02")
    assert verdicts(answer("list", *july)) == [("i-0a66666666666666f", "INCONCLUSIVE")]
    assert verdicts(answer("list", *july, "--cluster", "cluster-a")) == []


def test_clusters_in_other_accounts_are_named_as_not_read(deployed: str, tmp_path: Path) -> None:
    assert deployed
    other = tmp_path / "two.yaml"
    other.write_text(config_text(("cluster-a", ACCOUNT, REGION), ("far", "444455556666", "eu-west-1")))
    result = run("list", *SINCE, "--config", str(other))
    assert result.exit_code == ExitCode.OK
    said = "Not read: far in account 444455556666, eu-west-1: the credentials are for 123456789012."
    assert said in " ".join(result.stderr.split())
    assert answer("list", *SINCE, "--config", str(other))["not_read"] == [said.removeprefix("Not read: ")[:-1]]


def test_the_ledgers_of_two_regions_are_one_list(deployed: str, tmp_path: Path) -> None:
    assert deployed
    both = tmp_path / "two.yaml"
    both.write_text(config_text(("cluster-a", ACCOUNT, REGION), ("cluster-b", ACCOUNT, "eu-west-1")))
    document = answer("list", *SINCE, "--config", str(both))
    assert sorted(verdicts(document)) == sorted(ALL)
    assert verdicts(answer("list", *SINCE, "--config", str(both), "--region", "eu-west-1")) == [ALL[1]]


def test_with_a_table_no_configuration_is_needed(
    deployed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    arguments = ("--table", deployed, "--region", REGION)
    assert verdicts(answer("list", *SINCE, "--cluster", "cluster-b", *arguments)) == [ALL[1]]
    assert answer("show", "i-0b22222222222222b", *arguments)["case"]["verdict"] == "HANDLED_IN_TIME"


@pytest.mark.usefixtures("deployed")
def test_a_case_is_shown_as_a_story_with_its_verdict() -> None:
    result = run("show", f"{ACCOUNT}/{REGION}/i-0a11111111111111a/0")
    assert result.exit_code == ExitCode.OK, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    words = " ".join(result.stdout.split())
    for part in (
        "HANDLED_IN_TIME",
        "Karpenter drained the node and ended the instance before the deadline",
        "-15 min 2026-09-01T03:55:00Z rebalance recommendation",
        "+2 s 2026-09-01T04:10:02Z Karpenter began",
        "pods: 3 still to move",
    ):
        assert part in words


@pytest.mark.usefixtures("deployed")
def test_an_instance_id_alone_means_its_latest_case_and_names_the_others() -> None:
    document = answer("show", "i-0a88888888888888b")
    assert document["case"]["verdict"] == "MISSED"
    assert document["other_cases"] == [f"{ACCOUNT}/{REGION}/i-0a88888888888888b/2026-08-31T18:10:00Z"]
    assert answer("show", document["other_cases"][0])["case"]["verdict"] == "HANDLED_IN_TIME"


@pytest.mark.usefixtures("deployed")
def test_what_show_prints_as_json_judge_reads_and_judges_the_same(tmp_path: Path) -> None:
    shown = run("show", "i-0a88888888888888b", "--output", "json").stdout
    (tmp_path / "case.json").write_text(shown)
    again = answer("judge", str(tmp_path / "case.json"))
    document = json.loads(shown)

    def told(case: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in case.items() if key != "judged_at"}

    assert again["refused"] == []
    assert told(document["case"]) in [told(case) for case in again["cases"]]


@pytest.mark.usefixtures("deployed")
def test_an_instance_with_events_and_no_case_is_shown_without_a_verdict() -> None:
    result = run("show", "i-0a55555555555555e")
    assert result.exit_code == ExitCode.OK
    assert "no verdict" in result.stdout
    assert "EC2 state shutting-down" in result.stdout
    assert answer("show", "i-0a55555555555555e")["case"] is None


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["show", "i-0fffffffffffffff0"], ExitCode.NOT_FOUND, "no event about it is in the ledger"),
        (["show", f"{ACCOUNT}/{REGION}/i-0a11111111111111a/1"], ExitCode.NOT_FOUND, "has no case 1. It has: 0."),
        (["show", f"{ACCOUNT}/us-east-2/i-0a11111111111111a/0"], ExitCode.NOT_FOUND, "Holdfast is not deployed there"),
        (["show", "nonsense"], ExitCode.USAGE, "is no case. Give an instance id"),
        (["show", "a//i-1"], ExitCode.USAGE, "is no case. Give an instance id"),
        (["show", "i-1", "--profile", "nobody"], ExitCode.USAGE, "The config profile (nobody) could not be found"),
        (["list", "--cluster", "cluster-x"], ExitCode.USAGE, "Configured are: cluster-a, cluster-b."),
        (["list", "--region", "eu-west-1"], ExitCode.USAGE, "No configured cluster is in region eu-west-1"),
        (["list", "--since", "yesterday"], ExitCode.USAGE, "--since yesterday: must be a time"),
        (["list", "--until", "2020-01-01"], ExitCode.USAGE, "no case can be in between"),
        (["list", "--verdict", "FINE"], ExitCode.USAGE, "'FINE' is not one of"),
        (["list", "--limit", "0"], ExitCode.USAGE, "--limit"),
        (["list", "--config", "no-such.yaml"], ExitCode.USAGE, "cannot be read"),
        (["list", "--table", "no-such-table", "--region", REGION], ExitCode.NOT_FOUND, "no-such-table"),
    ],
)
def test_what_cannot_be_answered_gets_a_message_and_its_exit_code(
    arguments: list[str], code: ExitCode, said: str
) -> None:
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.replace("│", " ").split())
    assert "Traceback" not in result.output


@pytest.mark.usefixtures("deployed")
def test_without_a_configuration_nothing_is_guessed() -> None:
    Path("holdfast.yaml").unlink()
    result = run("list")
    assert result.exit_code == ExitCode.USAGE
    assert "give --config FILE, or --table NAME" in " ".join(result.stderr.split())


@pytest.mark.usefixtures("deployed")
def test_credentials_of_another_account_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "far.yaml").write_text(config_text(("far", "444455556666", "eu-west-1")))
    result = run("list", "--config", str(tmp_path / "far.yaml"))
    assert result.exit_code == ExitCode.USAGE
    assert "the credentials are for 123456789012" in " ".join(result.stderr.split())


def test_without_credentials_the_exit_code_is_denied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("holdfast.yaml").write_text(config_text(("cluster-a", ACCOUNT, REGION)))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name)
    result = run("list")
    assert result.exit_code == ExitCode.DENIED
    assert "there are no AWS credentials" in " ".join(result.stderr.split())


@pytest.mark.usefixtures("deployed")
def test_the_bodies_that_became_no_fact_are_listed_with_the_reason() -> None:
    (item,) = answer("rejected", "--since", "3h")["rejected"]
    assert (item["code"], item["count"], item["body"], item["first_message_id"]) == ("not_json", 2, "abcd", "m-1")
    assert item["harmless"] is False
    both = answer("rejected", "--since", "3h", "--ignored")["rejected"]
    assert [other["harmless"] for other in both] == [True, False]
    assert answer("rejected", "--since", "90m")["rejected"] == []


@pytest.mark.usefixtures("deployed")
def test_the_rejected_bodies_are_told_with_their_reason_within_80_columns() -> None:
    result = run("rejected", "--since", "3h")
    assert result.exit_code == ExitCode.OK
    said = " ".join(result.stdout.split())
    at = format_time(TWO_HOURS_AGO)
    assert f"not_json {at}, 2 times until {at} the body is not JSON" in said
    assert "1 body since" in said
    assert max(map(len, result.stdout.splitlines())) <= 80
