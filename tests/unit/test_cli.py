"""What all commands of `holdfast` have in common, and the small ones."""

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from holdfast.errors import Denied, HoldfastError, InvalidDocument, NotFound, Throttled, Unavailable
from holdfast_cli import options
from holdfast_cli.errors import ExitCode
from holdfast_cli.main import app
from holdfast_cli.sandbox.errors import SandboxError
from stacks.config import json_schema

PROJECT = Path(__file__).parents[2]
EXAMPLE = PROJECT / "holdfast.yaml"


def run(*args: str) -> Any:
    return CliRunner().invoke(app, list(args), env={"COLUMNS": "80"})


def words(text: str) -> str:
    return " ".join(text.split())


def test_without_arguments_it_shows_its_help() -> None:
    assert "Usage: holdfast" in run().output


def test_the_help_lists_the_commands_and_every_exit_code_within_80_columns() -> None:
    result = run("--help")
    assert result.exit_code == ExitCode.OK
    for name in ("interruptions", "render", "config", "sandbox"):
        assert name in result.stdout
    for code in ExitCode:
        assert f"{code.value}: {code.meaning.split('`')[0].strip()}" in words(result.stdout)
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_the_version_is_the_packages() -> None:
    assert run("--version").stdout == "holdfast 0.1.0\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Unavailable("it slept"), ExitCode.UNREACHABLE),
        (Throttled("too fast"), ExitCode.UNREACHABLE),
        (SandboxError("it is down"), ExitCode.UNREACHABLE),
        (Denied("needs dynamodb:Query"), ExitCode.DENIED),
        (NotFound("no such case"), ExitCode.NOT_FOUND),
        (InvalidDocument("row 3"), ExitCode.USAGE),
        (HoldfastError("wrong"), ExitCode.USAGE),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_each_kind_of_error_ends_with_its_message_and_its_exit_code(error: BaseException, code: ExitCode) -> None:
    with mock.patch("holdfast_cli.config.load", side_effect=error):
        result = run("config", "check")
    assert result.exit_code == code
    assert (str(error) or "Interrupted.") in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_a_defect_asks_for_a_report_and_shows_its_trace_only_with_debug() -> None:
    with mock.patch("holdfast_cli.config.load", side_effect=ZeroDivisionError("oops")):
        quiet = run("config", "check")
        loud = run("--debug", "config", "check")
    assert quiet.exit_code == ExitCode.DEFECT
    assert "This is a defect in Holdfast: ZeroDivisionError: oops" in words(quiet.stderr)
    assert isinstance(loud.exception, ZeroDivisionError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["interuptions"], "No such command 'interuptions'. Did you mean 'interruptions'?"),
        (["config", "check", "--colour"], "No such option: --colour"),
        (["config", "check", "--output", "xml"], "'xml' is not one of 'table', 'json'"),
    ],
)
def test_a_wrong_command_line_is_explained_with_exit_code_2(arguments: list[str], said: str) -> None:
    result = run(*arguments)
    assert result.exit_code == ExitCode.USAGE
    assert said in words(result.output.replace("│", " "))


# config


def test_the_example_configuration_is_right() -> None:
    result = run("config", "check", str(EXAMPLE))
    assert result.exit_code == ExitCode.OK, result.output
    assert "is right." in result.stdout
    assert "eksworkshop" in result.stdout
    assert max(map(len, result.stdout.splitlines()[1:])) <= 80


def test_config_check_as_json_holds_the_resolved_configuration() -> None:
    document = json.loads(run("config", "check", str(EXAMPLE), "--output", "json").stdout)
    assert (document["valid"], document["problems"]) == (True, [])
    assert document["config"]["clusters"][0]["name"] == "eksworkshop"
    assert document["config"]["audit"]["archiveRetentionDays"] == 30  # a default


def test_config_check_reads_holdfast_yaml_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("config", "check").exit_code == ExitCode.NOT_GOOD
    (tmp_path / "holdfast.yaml").write_text(EXAMPLE.read_text())
    assert run("config", "check").exit_code == ExitCode.OK


def test_every_problem_of_a_configuration_is_told_at_once_with_exit_code_1(tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text(EXAMPLE.read_text().replace("arm64", "arm").replace("name: holdfast", "nam: holdfast"))
    result = run("config", "check", str(bad))
    assert result.exit_code == ExitCode.NOT_GOOD
    assert "2 problems" in result.stderr
    assert "Try: arm64" in result.stderr
    assert "Try: name" in result.stderr
    document = json.loads(run("config", "check", str(bad), "--output", "json").stdout)
    assert document["valid"] is False
    assert [problem["key"] for problem in document["problems"]] == ["nam", "architecture"]


def test_config_schema_prints_the_schema_that_the_example_keeps() -> None:
    schema = json.loads(run("config", "schema").stdout)
    assert schema == json_schema()
    Draft202012Validator(schema).validate(yaml.safe_load(EXAMPLE.read_text()))


# render


CONFIG_MAP = EXAMPLE.read_text().replace("API_AND_CONFIG_MAP", "CONFIG_MAP")
ROLE = "arn:aws:iam::111122223333:role/path/holdfast-judge"


def test_render_rbac_prints_what_kubectl_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("render", "rbac")
    assert result.exit_code == ExitCode.OK
    assert [item["kind"] for item in yaml.safe_load_all(result.stdout)] == ["ClusterRole", "ClusterRoleBinding"]
    assert "aws-auth" not in result.stdout


def test_for_a_config_map_cluster_render_rbac_says_what_else_is_needed(tmp_path: Path) -> None:
    config = tmp_path / "holdfast.yaml"
    config.write_text(CONFIG_MAP)
    said = run("render", "rbac", "--config", str(config)).stdout
    assert "CONFIG_MAP: eksworkshop" in said
    assert len(list(yaml.safe_load_all(said))) == 2


def test_the_rows_of_aws_auth_are_comments_and_leave_out_the_roles_path(tmp_path: Path) -> None:
    config = tmp_path / "holdfast.yaml"
    config.write_text(CONFIG_MAP)
    said = run("render", "rbac", "--config", str(config), "--role-arn", ROLE).stdout
    assert len(list(yaml.safe_load_all(said))) == 2
    comments = [line.removeprefix("# ") for line in said.split("mapRoles", 1)[1].splitlines()[1:]]
    assert yaml.safe_load("\n".join(comments)) == [
        {
            "rolearn": "arn:aws:iam::111122223333:role/holdfast-judge",
            "username": "holdfast:audit",
            "groups": ["holdfast:audit"],
        }
    ]


def test_a_role_arn_that_is_none_is_refused() -> None:
    result = run("render", "rbac", "--role-arn", "holdfast-judge")
    assert result.exit_code == ExitCode.USAGE
    assert "must be a role's ARN" in words(result.stderr)


# Shell completion


def completed(*typed: str, folder: Path | None = None) -> list[str]:
    """What a shell offers after these words, of which the last is being typed."""
    environment = {
        "_HOLDFAST_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("holdfast", *typed)),
        "COMP_CWORD": str(len(typed)),
    }
    with mock.patch.object(options, "DEFAULT_FILE", (folder or PROJECT) / "holdfast.yaml"):
        return CliRunner().invoke(app, [], prog_name="holdfast", env=environment).stdout.split()


def test_a_shell_completes_commands_and_verdicts() -> None:
    assert completed("inter") == ["interruptions"]
    assert completed("interruptions", "li") == ["list"]
    assert completed("interruptions", "list", "--verdict", "MIS") == ["MISSED"]


def test_a_shell_completes_the_names_of_the_configured_clusters() -> None:
    assert completed("interruptions", "stats", "--cluster", "eks") == ["eksworkshop"]
    assert completed("interruptions", "stats", "--cluster", "x") == []


def test_a_shell_offers_no_clusters_without_a_configuration_that_can_be_read(tmp_path: Path) -> None:
    assert completed("interruptions", "stats", "--cluster", "eks", folder=tmp_path) == []
    (tmp_path / "holdfast.yaml").write_text("clusters: 3")
    assert completed("interruptions", "stats", "--cluster", "eks", folder=tmp_path) == []
