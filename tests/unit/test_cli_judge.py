"""`holdfast interruptions judge`: files in, verdicts with their reasons out."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from holdfast_cli.errors import ExitCode
from holdfast_cli.evidence import Evidence, read_evidence
from holdfast_cli.judge import inferred, judge_evidence
from holdfast_cli.main import app

TRACES = Path(__file__).parents[1] / "events" / "traces"
ACCOUNT, REGION, INSTANCE = "111122223333", "ap-southeast-1", "i-0a11111111111111a"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole-cluster-a"


def run(*args: str, stdin: str | bytes | None = None):
    return CliRunner().invoke(app, ["interruptions", "judge", *args], input=stdin, env={"COLUMNS": "80"})


def judged(*args: str, stdin: str | bytes | None = None) -> dict[str, Any]:
    result = run(*args, "--output", "json", stdin=stdin)
    assert result.exit_code in {ExitCode.OK, ExitCode.NOT_GOOD}, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document


def warning(instance: str = INSTANCE, at: str = "2026-09-01T04:10:00Z", **changes: object) -> dict[str, object]:
    return {
        "version": "0",
        "id": f"event-{instance}-{at}",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": at,
        "region": REGION,
        "resources": [],
        "detail": {"instance-id": instance, "instance-action": "terminate"},
    } | changes


def look(at: str, instance: str = INSTANCE, **parts: object) -> dict[str, object]:
    return {"instance_id": instance, "at": at, **parts}


# The eleven orders in which the events of one instance may arrive, with the right result of each.
RIGHT: dict[str, list[tuple[str, str | None, str | None]]] = {
    # file: (verdict, cause, severity of the alert) for each case
    "01-normal": [("HANDLED_IN_TIME", None, "info")],
    "02-late-notice": [("HANDLED_IN_TIME", None, "info")],
    "03-reversed": [("HANDLED_IN_TIME", None, "info")],
    "04-no-notice": [("UNWARNED", None, "warning")],
    "05-voluntary": [("NOT_APPLICABLE", None, None)],
    "06-double-notice": [("HANDLED_IN_TIME", None, "info")],
    "07-node-survives": [("NOT_RECLAIMED", None, "info")],
    "08-stop-cycle": [("HANDLED_IN_TIME", None, "info"), ("MISSED", "CONSUMER_ABSENT", "page")],
    "09-replay-a-week-later": [("HANDLED_IN_TIME", None, "info")],
    "10-foreign": [("FOREIGN", None, None)],
    "11-other-cluster": [("HANDLED_IN_TIME", None, "info")],
}


def test_every_trace_has_its_right_result() -> None:
    assert {path.stem for path in TRACES.glob("*.jsonl")} == set(RIGHT)


@pytest.mark.parametrize("name", RIGHT)
def test_a_trace_gives_its_verdicts(name: str) -> None:
    cases = judged(str(TRACES / f"{name}.jsonl"))["cases"]
    assert [(case["verdict"], case["cause"], case["alert"]) for case in cases] == RIGHT[name]
    assert all(case["final"] for case in cases)


def test_the_reversed_trace_gives_the_same_case_as_the_normal_one() -> None:
    assert judged(str(TRACES / "03-reversed.jsonl"))["cases"] == judged(str(TRACES / "01-normal.jsonl"))["cases"]


def test_a_replay_adds_duplicates_and_nothing_else() -> None:
    replayed, normal = (judged(str(TRACES / f"{name}.jsonl")) for name in ("09-replay-a-week-later", "01-normal"))
    assert replayed["cases"] == normal["cases"]
    assert replayed["evidence"]["duplicates"] - normal["evidence"]["duplicates"] == 4


def test_a_replay_alone_tells_nobody() -> None:
    body = warning() | {"replay-name": "backfill"}
    (case,) = judged("-", stdin=json.dumps(body))["cases"]
    assert case["alert"] is None


def test_the_deadline_counts_from_the_first_of_two_notices() -> None:
    (case,) = judged(str(TRACES / "06-double-notice.jsonl"))["cases"]
    assert case["deadline"] == "2026-09-01T04:12:00Z"


def test_the_runs_of_an_instance_that_stops_and_starts_are_cases_named_by_their_launch() -> None:
    cases = judged(str(TRACES / "08-stop-cycle.jsonl"))["cases"]
    assert [case["cycle"] for case in cases] == ["2026-08-31T18:10:00Z", "2026-09-01T06:10:00Z"]


def test_the_other_cluster_gets_the_case() -> None:
    (case,) = judged(str(TRACES / "11-other-cluster.jsonl"))["cases"]
    assert case["cluster"] == "cluster-b"


def test_a_cluster_that_is_not_given_makes_the_instance_foreign() -> None:
    seen = look("2026-09-01T04:10:20Z", ec2={"answer": "ok", "nodepool": "orders", "cluster": "cluster-b"})
    text = json.dumps([warning(), seen])
    assert judged("-", stdin=text)["cases"][0]["verdict"] == "INCONCLUSIVE"
    assert judged("--cluster", f"cluster-a={ROLE}", "-", stdin=text)["cases"][0]["verdict"] == "FOREIGN"


def test_all_traces_at_once_give_what_each_gives_alone() -> None:
    """Mixed files: only the traces that share an instance meet, and those tell the same story."""

    def told(cases: list[dict[str, Any]]) -> dict[str, object]:
        return {case["key"]: (case["verdict"], case["cause"], case["reason"]) for case in cases}

    together = judged(*sorted(map(str, TRACES.glob("*.jsonl"))))["cases"]
    alone = [case for name in RIGHT for case in judged(str(TRACES / f"{name}.jsonl"))["cases"]]
    assert told(together) == told(alone)


TERMINATE = {
    "version": "0",
    "id": "call-1",
    "detail-type": "AWS API Call via CloudTrail",
    "source": "aws.ec2",
    "account": ACCOUNT,
    "time": "2026-09-01T04:10:40Z",
    "region": REGION,
    "resources": [],
    "detail": {
        "eventName": "TerminateInstances",
        "requestParameters": {"instancesSet": {"items": [{"instanceId": INSTANCE}]}},
        "userIdentity": {"type": "AssumedRole", "sessionContext": {"sessionIssuer": {"arn": ROLE}}},
    },
}
SEEN = look(
    "2026-09-01T04:10:20Z",
    kubernetes={"answer": "ok", "cluster": "cluster-a", "nodeclaim": "orders-1", "deleted_at": "2026-09-01T04:10:02Z"},
)


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        ([], "unknown"),
        (["--cluster", f"cluster-a={ROLE}"], "controller"),
        (["--cluster", f"cluster-a={ROLE}-of-another"], "other_client"),
    ],
)
def test_who_called_terminate_instances_is_known_only_with_the_controller_role(arguments: list[str], end: str) -> None:
    (case,) = judged(*arguments, "-", stdin=json.dumps([warning(), TERMINATE, SEEN]))["cases"]
    assert case["end"] == end


def documents() -> list[dict[str, object]]:
    return [json.loads(line) for line in (TRACES / "01-normal.jsonl").read_text().splitlines()]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(json.dumps(item) for item in documents()),
        "".join(json.dumps(item) for item in documents()),
        "\n".join(json.dumps(item, indent=2) for item in documents()),
        json.dumps(documents()),
        "\n".join(json.dumps(documents()[start : start + 3]) for start in (0, 3, 6)),
        "\ufeff" + "\r\n\r\n".join(json.dumps(item) for item in reversed(documents())),
        json.dumps({"Records": [{"messageId": "1", "body": json.dumps(item)} for item in documents()[:4]]})
        + json.dumps(documents()[4:]),
        json.dumps({"Messages": [{"MessageId": "1", "Body": json.dumps(item)} for item in documents()[:4]]})
        + "\n".join(json.dumps(item) for item in documents()[4:]),
    ],
    ids=["lines", "glued", "indented", "array", "arrays", "bom, crlf, reversed", "lambda batch", "receive-message"],
)
def test_the_form_of_the_file_does_not_matter(text: str) -> None:
    assert judged("-", stdin=text.encode())["cases"] == judged(str(TRACES / "01-normal.jsonl"))["cases"]


def test_a_message_of_a_target_dead_letter_queue_says_why_it_lies_there() -> None:
    message = {
        "MessageId": "9",
        "Body": json.dumps(warning()),
        "MessageAttributes": {
            "ERROR_CODE": {"DataType": "String", "StringValue": "NO_PERMISSIONS"},
            "TARGET_ARN": {"DataType": "String", "StringValue": "arn:aws:sqs:ap-southeast-1:111122223333:cluster-a"},
        },
    }
    document = judged("-", stdin=json.dumps(message))
    assert len(document["cases"]) == 1
    assert document["remarks"] == [
        (
            "stdin: EventBridge could not deliver this event to arn:aws:sqs:ap-southeast-1:111122223333:cluster-a: "
            "NO_PERMISSIONS"
        )
    ]


def test_the_time_of_the_queue_stands_in_for_a_missing_time() -> None:
    body = {key: value for key, value in warning().items() if key != "time"}
    record = {"messageId": "1", "body": json.dumps(body), "attributes": {"SentTimestamp": "1788235801210"}}
    (case,) = judged("-", stdin=json.dumps({"Records": [record]}))["cases"]
    assert case["warned_at"] == "2026-09-01T04:10:01.210Z"


@pytest.mark.parametrize(
    ("text", "places_and_codes"),
    [
        ("", [("stdin:1", "empty")]),
        ("abcd\n", [("stdin:1", "not_json")]),
        (f"{json.dumps(warning())}\nabcd\n{{}}\n", [("stdin:2", "not_json"), ("stdin:3", "no_source_or_type")]),
        ("null", [("stdin", "not_an_object")]),
        ("[]", [("stdin", "not_an_object")]),
        ('[[1], "x", 3]', [("stdin[0]", "not_an_object"), ("stdin[1]", "not_json"), ("stdin[2]", "not_an_object")]),
        ('{"a": 1,\n "b":\n}\n' + json.dumps(warning()), [("stdin:1", "not_json")]),
        ('"id": 5, "x": 6\n[1]', [("stdin:1", "not_json"), ("stdin:2[0]", "not_an_object")]),
        ("[" * 100_000, [("stdin:1", "not_json")]),
        ("1" * 5_000, [("stdin:1", "not_json")]),
        ('{"ec2": {"answer": "ok"}}', [("stdin", "invalid")]),
        ('{"instance_id": "i-1", "at": "2026-09-01T04:10:00"}', [("stdin", "invalid")]),
        ('{"instance_id": "i-1", "at": "2026-09-01T04:10:00Z", "pod": 1}', [("stdin", "invalid")]),
        (
            '{"facts": [{"kind": "x"}], "observations": [3]}',
            [("stdin facts[0]", "invalid"), ("stdin observations[0]", "invalid")],
        ),
    ],
)
def test_what_cannot_be_understood_is_listed_with_its_place_and_makes_exit_code_1(
    text: str, places_and_codes: list[tuple[str, str]]
) -> None:
    result = run("-", "--output", "json", stdin=text)
    assert result.exit_code == ExitCode.NOT_GOOD
    refused = json.loads(result.stdout)["refused"]
    assert [(item["where"], item["code"]) for item in refused] == places_and_codes
    assert not any(item["harmless"] for item in refused)


def test_an_event_that_says_nothing_about_an_interruption_is_listed_and_harmless() -> None:
    result = run("-", stdin=json.dumps(warning() | {"detail-type": "Tag Change on Resource"}))
    assert result.exit_code == ExitCode.OK
    assert "ignored" in result.stdout


def test_an_invalid_observation_is_refused_with_every_problem_it_has() -> None:
    text = json.dumps({"instance_id": 5, "at": "noon", "kubernetes": {"answer": "perhaps"}})
    (item,) = judged("-", stdin=text)["refused"]
    assert all(word in item["reason"] for word in ("instance_id", "at", "kubernetes.answer"))


@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_no_bytes_crash_it_and_all_of_them_are_accounted_for(raw: bytes) -> None:
    evidence = Evidence()
    read_evidence("file", raw, evidence)
    found = len(evidence.bodies) + len(evidence.observations) + len(evidence.facts) + len(evidence.invalid)
    assert found >= 1
    judge_evidence(evidence, inferred(evidence, {}))


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8) | st.integers(),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(
            ["Records", "Messages", "body", "Body", "messageId", "MessageId", "facts", "observations", "instance_id",
             "at", "ec2", "kubernetes", "queue", "attributes", "Attributes", "MessageAttributes", "SentTimestamp",
             "detail", "detail-type", "source", "account", "region", "Message", "Type"]
        ),
        inner,
        max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@given(JSON)
def test_no_json_of_any_shape_crashes_it(value: object) -> None:
    evidence = Evidence()
    read_evidence("file", json.dumps(value).encode(), evidence)
    assert len(evidence.bodies) + len(evidence.observations) + len(evidence.facts) + len(evidence.invalid) >= (
        0 if value == {"facts": [], "observations": []} else 1
    )
    judge_evidence(evidence, inferred(evidence, {}))


def test_observations_without_an_event_are_no_case_and_are_named() -> None:
    document = judged("-", stdin=json.dumps(SEEN))
    assert document["cases"] == []
    assert document["remarks"] == [f"{INSTANCE}: 1 observation, but no event about it, so no case."]


def test_an_observation_that_could_belong_to_two_accounts_is_refused() -> None:
    other = warning() | {"account": "444455556666", "id": "other"}
    document = judged("-", stdin=json.dumps([warning(), other, SEEN]))
    assert [item["code"] for item in document["refused"]] == ["ambiguous"]
    both = judged("-", stdin=json.dumps([warning(), other, SEEN | {"account": ACCOUNT}]))
    assert both["refused"] == []
    assert [case["deletion"] for case in both["cases"]] == ["in_time", "unseen"]


def test_an_event_about_no_instance_is_in_no_case_and_is_named() -> None:
    experiment = {
        "version": "0",
        "id": "1",
        "source": "aws.fis",
        "detail-type": "FIS Experiment State Change",
        "account": ACCOUNT,
        "region": REGION,
        "time": "2026-09-01T04:10:00Z",
        "resources": [],
        "detail": {"experiment-id": "EXP1", "new-state": {"status": "running"}},
    }
    assert judged("-", stdin=json.dumps(experiment))["remarks"] == ["Not about an instance, so in no case: EXP1."]


def test_without_account_and_region_they_are_shown_as_unknown() -> None:
    body = {key: value for key, value in warning().items() if key not in {"account", "region"}}
    document = judged("-", stdin=json.dumps(body))
    assert document["cases"][0]["key"] == f"unknown/unknown/{INSTANCE}/0"
    assert "No event names an account and a region: they are shown as unknown." in document["assumed"]


def test_an_event_without_account_and_region_is_at_home_where_the_others_are() -> None:
    other = {key: value for key, value in warning("i-0b11111111111111b").items() if key not in {"account", "region"}}
    keys = [case["key"] for case in judged("-", stdin=json.dumps([other, warning()]))["cases"]]
    assert keys == [f"{ACCOUNT}/{REGION}/{INSTANCE}/0", f"{ACCOUNT}/{REGION}/i-0b11111111111111b/0"]


def test_the_account_inside_an_sns_envelope_counts() -> None:
    body = json.dumps({"Type": "Notification", "Message": json.dumps(warning())})
    assert judged("-", stdin=body)["cases"][0]["account"] == ACCOUNT


CONFIG = f"""\
clusters:
  - name: cluster-a
    region: {REGION}
    account: "{ACCOUNT}"
    karpenter:
      controllerRoleArn: {ROLE}
"""


def test_with_a_configuration_its_clusters_are_ours_and_other_accounts_are_foreign(tmp_path: Path) -> None:
    config = tmp_path / "holdfast.yaml"
    config.write_text(CONFIG)
    elsewhere = warning("i-0b11111111111111b", at="2026-09-01T05:00:00Z") | {"account": "444455556666"}
    cases = judged("--config", str(config), "-", stdin=json.dumps([warning(), TERMINATE, SEEN, elsewhere]))["cases"]
    assert (cases[0]["end"], cases[1]["verdict"]) == ("controller", "FOREIGN")


def test_with_now_later_evidence_is_left_out_and_the_verdict_is_not_final() -> None:
    trace = str(TRACES / "01-normal.jsonl")
    document = judged("--now", "2026-09-01T04:10:25Z", trace)
    (case,) = document["cases"]
    assert (case["verdict"], case["final"], case["ended_at"]) == ("INCONCLUSIVE", False, None)
    assert document["remarks"] == ["4 facts and observations are later than 2026-09-01T04:10:25Z and were left out."]
    assert "not final" in run("--now", "2026-09-01T04:10:25Z", trace).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-file"], "no-such-file cannot be read: No such file or directory."),
        (["."], ". cannot be read: Is a directory."),
        (["--now", "noon", "-"], "--now noon: is not a time"),
        (["--cluster", "a", "-"], "--cluster a: must be NAME=ROLE_ARN"),
        (["--cluster", f"a={ROLE}", "--config", "x", "-"], "give one of them"),
        (["--config", "no-such-file", "-"], "cannot be read"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_gets_a_message_with_the_way_out_and_exit_code_2(arguments: list[str], said: str) -> None:
    result = run(*arguments, stdin="")
    assert result.exit_code == ExitCode.USAGE
    assert said in " ".join(result.stderr.split())
    assert "Traceback" not in result.output


def test_a_case_is_told_with_verdict_reason_and_alert_within_80_columns() -> None:
    result = run(str(TRACES / "08-stop-cycle.jsonl"))
    assert result.exit_code == ExitCode.OK
    words = " ".join(result.stdout.split())
    assert "MISSED CONSUMER_ABSENT" in words
    assert "Karpenter did nothing by the deadline, and EC2 took the instance" in words
    assert "Alert: page" in words
    assert max(len(line) for line in result.stdout.splitlines()) <= 80


def test_the_timeline_counts_from_the_warning_and_shows_what_each_look_saw() -> None:
    lines = [" ".join(line.split()) for line in run("--timeline", str(TRACES / "01-normal.jsonl")).stdout.splitlines()]
    story = [line for line in lines if line.startswith(("+", "-"))]
    assert story == [
        "-15 min 2026-09-01T03:55:00Z rebalance recommendation",
        "+0 s 2026-09-01T04:10:00Z Spot interruption warning (action terminate)",
        "+2 s 2026-09-01T04:10:02Z Karpenter began: the NodeClaim was deleted",
        "+20 s 2026-09-01T04:10:20Z Holdfast looked",
        "+30 s 2026-09-01T04:10:30Z the drain was over (condition Drained)",
        "+35 s 2026-09-01T04:10:35Z EC2 state shutting-down",
        "+60 s 2026-09-01T04:11:00Z Holdfast looked",
        "+70 s 2026-09-01T04:11:10Z EC2 state terminated",
        "+110 s 2026-09-01T04:11:50Z Holdfast looked",
        "+120 s 2026-09-01T04:12:00Z the announced deadline",
    ]
    assert "pods: 3 still to move" in lines
    assert "Kubernetes: not_found: no NodeClaim in cluster-a has this instance" in " ".join(lines)


def test_a_foreign_text_cannot_steer_the_terminal() -> None:
    result = run("-", stdin=json.dumps(warning() | {"detail-type": "[bold]\x1b]0;owned\x07"}))
    assert "\x1b" not in result.stdout
    assert "[bold]" in result.stdout
