"""`holdfast replay`: what it says before, what it starts, and that it never goes to Karpenter (moto's EventBridge).

That a replay of the same day changes nothing in the ledger is in tests/unit/interruption.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws
from typer.testing import CliRunner

from holdfast.runtime import names
from holdfast_cli import replay
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.main import app
from holdfast_cli.replay import Archive, Place, Replay, begin_replay, estimate, replay_rules, warnings_of

ACCOUNT, REGION = "123456789012", "ap-southeast-1"  # moto's account
ARN = f"arn:aws:events:{REGION}:{ACCOUNT}"
CONFIG = f"""
clusters:
  - name: eksworkshop
    region: {REGION}
    account: "{ACCOUNT}"
    karpenter:
      controllerRoleArn: arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole
"""
TEMPLATE = {
    "Resources": {
        "Archive": {
            "Type": "AWS::Events::Archive",
            "Properties": {
                "ArchiveName": "audit-archive",
                "SourceArn": f"{ARN}:event-bus/default",
                "RetentionDays": 30,
            },
        }
    },
    "Outputs": {"AuditArchiveName": {"Value": "audit-archive"}},
}
NOW = datetime(2026, 9, 2, 4, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
ARCHIVE = Archive("ENABLED", 720, 720_000, NOW - 30 * 24 * HOUR, NOW - 90 * 24 * HOUR)
PLACE = Place(
    ACCOUNT,
    REGION,
    "holdfast",
    "audit-archive",
    f"{ARN}:archive/audit-archive",
    f"{ARN}:event-bus/default",
    replay_rules("holdfast", "aws", ACCOUNT, REGION),
)


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    for name, value in {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "holdfast.yaml").write_text(CONFIG)
    monkeypatch.setattr(replay.time, "sleep", lambda _: None)
    with mock_aws():
        boto3.client("cloudformation", region_name=REGION).create_stack(
            StackName=names.control_plane_stack_id("holdfast", ACCOUNT, REGION), TemplateBody=json.dumps(TEMPLATE)
        )
        yield boto3.client("events", region_name=REGION)


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["replay", *arguments])


def test_without_yes_nothing_is_started(events: Any):
    result = run("start", "3h", "1h", "--output", "json")

    told = json.loads(result.stdout)
    assert (result.exit_code, told["started"], told["replay"]) == (ExitCode.OK, False, None)
    assert (told["archive"], told["rules"]) == ("audit-archive", list(PLACE.rules))
    assert events.list_replays()["Replays"] == []


def test_with_yes_it_goes_to_the_audits_rules_and_is_followed_to_its_end(events: Any):
    result = run("start", "2026-09-01T04:00:00Z", "2026-09-01T05:30:00Z", "--yes")

    (started,) = events.list_replays()["Replays"]
    told = events.describe_replay(ReplayName=started["ReplayName"])
    assert result.exit_code == ExitCode.OK, result.output
    assert "COMPLETED" in result.stdout
    assert told["Destination"] == {"Arn": PLACE.bus_arn, "FilterArns": list(PLACE.rules)}
    assert (told["EventStartTime"].astimezone(UTC), told["EventEndTime"].astimezone(UTC)) == (
        datetime(2026, 9, 1, 4, 0, tzinfo=UTC),
        datetime(2026, 9, 1, 5, 30, tzinfo=UTC),
    )


def test_replays_are_listed(events: Any):
    assert "There are no replays" in run("list").stdout
    run("start", "3h", "1h", "--yes")

    (one,) = json.loads(run("list", "--output", "json").stdout)["replays"]
    assert one["state"] == "COMPLETED"
    assert one["name"].startswith("holdfast-")
    assert "COMPLETED" in run("list").stdout


def test_only_a_replay_of_this_archive_is_cancelled(events: Any):
    assert run("cancel", "somebody-elses").exit_code == ExitCode.NOT_FOUND


def test_a_window_that_ends_before_it_begins_is_a_mistake(events: Any):
    assert run("start", "1h", "3h").exit_code == ExitCode.USAGE


def test_without_a_stack_there_is_no_archive(events: Any):
    stack = names.control_plane_stack_id("holdfast", ACCOUNT, REGION)
    boto3.client("cloudformation", region_name=REGION).delete_stack(StackName=stack)

    assert run("start", "3h", "1h").exit_code == ExitCode.NOT_FOUND


def test_the_rules_are_the_audits_without_the_canarys():
    kinds = [rule.rpartition(".")[2] for rule in PLACE.rules]

    assert kinds == ["warning", "rebalance", "state", "capacity", "health", "experiment", "cloudtrail"]
    assert all(rule.startswith(f"{ARN}:rule/holdfast.audit.") for rule in PLACE.rules)


@pytest.mark.parametrize(
    "rules",
    [
        (),
        (*PLACE.rules, f"{ARN}:rule/holdfast-eksworkshop-spot"),
        (f"{ARN}:rule/holdfast-audit-spot",),
    ],
)
def test_a_replay_to_any_other_rule_is_refused(rules: tuple[str, ...]):
    """No filter at all would be every rule of the bus, Karpenter's too."""
    with pytest.raises(Mistake, match="audit's rules only"):
        begin_replay(None, replace(PLACE, rules=rules), (NOW - HOUR, NOW), NOW)


@pytest.mark.parametrize(
    ("begin", "end", "archive", "active", "says"),
    [
        (NOW - 3 * HOUR, NOW - HOUR, ARCHIVE, 9, None),
        (NOW - 3 * HOUR, NOW - timedelta(minutes=9), ARCHIVE, 0, "Wait until 2026-09-02T04:11:00Z"),
        (NOW - 31 * 24 * HOUR, NOW - HOUR, ARCHIVE, 0, "keeps nothing from before 2026-08-03T04:10:00Z"),
        (NOW - 3 * HOUR, NOW - HOUR, replace(ARCHIVE, state="UPDATE_FAILED"), 0, "UPDATE_FAILED"),
        (NOW - 3 * HOUR, NOW - HOUR, ARCHIVE, 10, "10 replays are under way"),
    ],
)
def test_what_should_be_known_before(begin: datetime, end: datetime, archive: Archive, active: int, says: str | None):
    found = warnings_of((begin, end), archive, active, NOW)

    assert len(found) == (says is not None)
    assert says is None or says in found[0]


def test_the_estimate_is_the_windows_share_of_what_is_kept():
    """720 events in 720 hours: one an hour."""
    assert estimate((NOW - 3 * HOUR, NOW - HOUR), ARCHIVE, NOW) == 2
    assert estimate((NOW - 9000 * HOUR, NOW - 715 * HOUR), ARCHIVE, NOW) == 5
    assert estimate((NOW - HOUR, NOW), replace(ARCHIVE, kept_since=NOW), NOW) is None
    assert estimate((NOW - HOUR, NOW), replace(ARCHIVE, events=None), NOW) is None


class Slow:
    """An EventBridge whose replay takes a while, or fails."""

    def __init__(self, *states: str) -> None:
        self._states = iter(states)

    def start_replay(self, **_: Any) -> None: ...

    def describe_replay(self, ReplayName: str) -> dict[str, Any]:  # noqa: N803 - boto3's name
        state = next(self._states)
        return {"ReplayName": ReplayName, "State": state, "EventStartTime": NOW - HOUR, "EventEndTime": NOW}


@pytest.mark.parametrize(
    ("states", "wait", "exit_code", "last"),
    [
        (("STARTING", "RUNNING", "COMPLETED"), [], ExitCode.OK, "COMPLETED"),
        (("STARTING", "FAILED"), [], ExitCode.NOT_GOOD, "FAILED"),
        (("STARTING",), ["--no-wait"], ExitCode.OK, "STARTING"),
    ],
)
def test_it_is_followed_until_it_is_over_or_not_at_all(
    states: tuple[str, ...], wait: list[str], exit_code: ExitCode, last: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(replay, "_place", lambda *_: (Slow(*states), PLACE))
    monkeypatch.setattr(replay, "archive_of", lambda *_: ARCHIVE)
    monkeypatch.setattr(replay, "replays_of", lambda *_: ())
    monkeypatch.setattr(replay.time, "sleep", lambda _: None)
    result = run("start", "3h", "1h", "--yes", *wait, "--output", "json")

    assert (result.exit_code, json.loads(result.stdout)["replay"]["state"]) == (exit_code, last)


def test_an_eleventh_replay_is_not_started(monkeypatch: pytest.MonkeyPatch):
    under_way = tuple(Replay(f"r-{number}", "RUNNING", NOW - HOUR, NOW) for number in range(10))
    monkeypatch.setattr(replay, "_place", lambda *_: (Slow(), PLACE))
    monkeypatch.setattr(replay, "archive_of", lambda *_: ARCHIVE)
    monkeypatch.setattr(replay, "replays_of", lambda *_: under_way)

    assert run("start", "3h", "1h", "--yes").exit_code == ExitCode.USAGE
