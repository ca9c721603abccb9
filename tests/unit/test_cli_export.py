"""`holdfast interruptions export`: what it writes is judged as the ledger judged it, also without a name in it."""

import json
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from moto import mock_aws
from typer.testing import CliRunner

from holdfast.interruption.case import Cluster, End, Scope, fold
from holdfast.interruption.event import Fact, Home, Kind
from holdfast.interruption.observation import BlockerReason, Observation
from holdfast.interruption.record import CaseRecord, record_of
from holdfast.interruption.verdict import Verdict
from holdfast_cli.anonymize import anonymous
from holdfast_cli.errors import ExitCode
from holdfast_cli.evidence import Evidence, read_evidence
from holdfast_cli.export import Export, lines
from holdfast_cli.judge import Judged, environment_of, inferred, judge_evidence
from holdfast_cli.main import app
from tests.builders import (
    ACCOUNT as SEEN_IN,
)
from tests.builders import (
    CONTROLLER,
    SOMEBODY,
    W,
    at,
    blocker,
    ec2,
    ended,
    kube,
    observation,
    queue,
    terminate_call,
    warning,
)
from tests.deployed import ACCOUNT, REGION, TRACES, config_text, deploy, fill, trace
from tests.unit.interruption.histories import History, histories

NAMES = sorted(path.stem for path in TRACES.glob("*.jsonl"))
WHOLE = [False, True]
HOME = Home(SEEN_IN, REGION)
AFTERWARDS = at(60 * 86_400)
"""After every moment of the generated histories, when all looks have been made."""
OURS = Scope(HOME, {"cluster-a": Cluster("cluster-a", CONTROLLER)})


def run(*args: str, stdin: str | None = None) -> Any:
    return CliRunner().invoke(app, ["interruptions", *args], input=stdin, env={"COLUMNS": "80"})


def read(text: str) -> Judged:
    evidence = Evidence()
    read_evidence("export", text.encode(), evidence)
    return judge_evidence(evidence, environment_of(evidence, {}))


def written(export: Export, *, without_names: bool) -> str:
    return "\n".join(lines(anonymous(export) if without_names else export))


def told(records: tuple[CaseRecord, ...]) -> list[tuple[str, str | None, bool, datetime | None]]:
    return [(it.judgement.verdict, it.judgement.cause, it.judgement.final, it.happened_at) for it in records]


@pytest.mark.parametrize("without_names", WHOLE)
@pytest.mark.parametrize("name", NAMES)
def test_each_trace_is_judged_from_its_export_as_before(name: str, without_names: bool) -> None:
    evidence = Evidence()
    read_evidence(name, (TRACES / f"{name}.jsonl").read_bytes(), evidence)
    before = judge_evidence(evidence, inferred(evidence, {}))
    for key, history in before.histories.items():
        records = tuple(record for record in before.cases if record.case.instance_id == key.instance_id)
        after = read(written(Export(None, records, history.facts, history.observations), without_names=without_names))
        assert told(after.cases) == told(records)
        assert (after.refusals, after.remarks) == ((), ())


@pytest.mark.parametrize("without_names", WHOLE)
@pytest.mark.parametrize(("caller", "end"), [(CONTROLLER, End.CONTROLLER), (SOMEBODY, End.OTHER_CLIENT)])
def test_who_ended_the_instance_is_told_by_the_exported_role(caller: str, end: End, without_names: bool) -> None:
    """Without the role nobody could tell Karpenter's call from another one's."""
    facts = (warning(), terminate_call(40, caller), *ended(40))
    looks = (
        observation(20, ec2(), kube(deleted=3)),
        observation(60, ec2("terminated", "Client.UserInitiatedShutdown")),
    )
    text = written(Export(OURS, (), facts, looks), without_names=without_names)
    (record,) = read(text).cases
    assert record.case.end is end


@pytest.mark.parametrize("without_names", WHOLE)
def test_a_cluster_that_is_not_ours_stays_foreign(without_names: bool) -> None:
    looks = (observation(20, ec2(cluster="somebody-elses")),)
    (record,) = read(written(Export(OURS, (), (warning(),), looks), without_names=without_names)).cases
    assert record.judgement.verdict is Verdict.FOREIGN


@settings(max_examples=60)
@given(histories(), st.booleans())
def test_any_history_is_judged_from_its_export_as_it_was(history: History, without_names: bool) -> None:
    """Names decide nothing, except that equal ones are equal."""
    assume(any(fact.is_instance for fact in history.facts))
    facts = tuple(fact for fact in history.facts if fact.is_instance)
    records = tuple(record_of(case, AFTERWARDS, exhausted=True) for case in fold(facts, history.observations, OURS))
    after = read(written(Export(OURS, records, facts, history.observations), without_names=without_names))
    assert [remark for remark in after.remarks if "when exported" in remark] == []


def test_clusters_given_to_judge_count_more_than_those_of_the_export(tmp_path: Path) -> None:
    file = tmp_path / "case.jsonl"
    file.write_text(written(Export(OURS, (), (warning(),), (observation(20, ec2()),)), without_names=False))
    result = run("judge", str(file), "--cluster", f"other={CONTROLLER}", "--output", "json")
    assert json.loads(result.stdout)["cases"][0]["verdict"] == "FOREIGN"


def test_a_stored_verdict_that_the_evidence_does_not_give_is_said() -> None:
    judged = read(written(Export(None, (), (warning(), *ended(40)), ()), without_names=False))
    (record,) = judged.cases
    other = replace(record, judgement=replace(record.judgement, verdict=Verdict.MISSED, cause=None))
    (remark,) = read(written(Export(None, (other,), (warning(), *ended(40)), ()), without_names=False)).remarks
    assert remark == (f"export:1: {record.case.key} was MISSED when exported; here it is {record.judgement.verdict}.")
    unsure = replace(other, judgement=replace(other.judgement, final=False))
    assert read(written(Export(None, (unsure,), (warning(), *ended(40)), ()), without_names=False)).remarks == ()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"scope": {"account": 1, "region": REGION, "clusters": []}}, "this is no scope: account"),
        ({"case": {"key": "a/b/c/0"}}, "this is no case: verdict"),
        ({"fact": {"kind": "nonsense"}}, "this is no fact: kind"),
    ],
)
def test_a_broken_line_of_an_export_is_named(line: dict[str, object], said: str) -> None:
    (refusal,) = read(json.dumps(line)).refusals
    assert said in refusal.reason
    assert refusal.place == "export"


KEPT = {
    # What AWS, Karpenter and Kubernetes call things themselves, and where and what an instance is.
    Fact: {"region", "action", "state", "status", "event_code", "notes"},
    Observation: {
        "region", "state", "state_reason", "instance_type", "zone", "capacity_type", "spot_status", "type", "status",
    },
    CaseRecord: {"region", "cycle", "instance_type", "zone", "capacity_type", "action", "end_code", "state"},
}  # fmt: skip


def secretive(kind: Any, kept: set[str], name: str = "") -> Any:
    """A value of the type in which every text that is not kept is a secret that tells its field."""
    if isinstance(kind, type) and is_dataclass(kind):
        hints = get_type_hints(kind)
        made: dict[str, Any] = {item.name: secretive(hints[item.name], kept, item.name) for item in fields(kind)}
        if kind.__name__ == "Condition":
            made["reason"] = "Draining"  # Karpenter's own word
        return kind(**made)
    parts = [part for part in get_args(kind) if part is not type(None) and part is not Ellipsis]
    if get_origin(kind) is tuple:
        return (secretive(parts[0], kept, name),)
    if parts:
        return secretive(parts[0], kept, name)
    if kind is str:
        return f"i-{name}" if name == "subject" else name if name in kept else f"SECRET-{name}"
    if kind is datetime:
        return W
    return next(iter(kind)) if issubclass(kind, Enum) else kind()


def test_no_text_that_may_name_anything_is_left() -> None:
    """Also of a field that is added one day: it is a secret here until it is either replaced or listed as kept."""
    fact: Fact = secretive(Fact, KEPT[Fact])
    look: Observation = secretive(Observation, KEPT[Observation])
    record: CaseRecord = secretive(CaseRecord, KEPT[CaseRecord])
    scope = Scope(Home("SECRET-account", REGION), {"SECRET": Cluster("SECRET", "arn:aws:iam::SECRET:role/SECRET")})
    assert "SECRET" in written(Export(scope, (record,), (fact,), (look,)), without_names=False)
    text = written(Export(scope, (record,), (fact,), (look,)), without_names=True)
    assert "SECRET" not in text
    assert "i-subject" not in text


@pytest.mark.parametrize(
    ("reason", "detail", "left"),
    [
        (BlockerReason.PDB, "PodDisruptionBudget api allows 0 disruptions", "budget-0001"),
        (BlockerReason.DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt=true", "karpenter.sh/do-not-disrupt=true"),
        (BlockerReason.DO_NOT_DISRUPT, "karpenter.sh/do-not-disrupt=ask-jane", "left out"),
        (BlockerReason.GRACE_PERIOD, "terminationGracePeriodSeconds 300", "terminationGracePeriodSeconds 300"),
    ],
)
def test_what_held_a_pod_stays_as_far_as_it_names_nobody(reason: BlockerReason, detail: str, left: str) -> None:
    held = blocker(reason, detail, owner="ReplicaSet/api-7d9")
    looks = (observation(20, ec2(), kube(deleted=3, blockers=(held,), node="ip-10-0-1-7"), queue()),)
    made = anonymous(Export(None, (), (warning(),), looks)).observations[0].kubernetes
    assert made is not None
    (kept,) = made.blockers
    assert (kept.namespace, kept.pod, kept.owner) == ("namespace-0001", "pod-0001", "ReplicaSet/owner-0001")
    assert kept.detail == left


def test_the_same_name_is_replaced_in_the_same_way_everywhere() -> None:
    facts = (warning(), terminate_call(40, CONTROLLER), terminate_call(41, "spot.amazonaws.com"))
    export = anonymous(Export(OURS, (), facts, (observation(20, ec2(), kube()),)))
    look = export.observations[0]
    assert export.scope is not None
    assert look.ec2 is not None
    assert look.kubernetes is not None
    assert [fact.subject for fact in export.facts] == ["i-00000000000000001"] * 3 == [look.instance_id] * 3
    assert {fact.account for fact in export.facts} == {export.scope.home.account, look.account} == {"000000000001"}
    assert look.ec2.cluster == look.kubernetes.cluster == next(iter(export.scope.clusters)) == "cluster-0001"
    assert look.ec2.nodepool == look.kubernetes.nodepool == "nodepool-0001"
    role = export.scope.clusters["cluster-0001"].controller_role_arn
    assert export.facts[1].actor == role == "arn:aws:iam::000000000001:role/role-0001"
    assert export.facts[2].actor == "spot.amazonaws.com"


def test_events_of_one_time_keep_their_order() -> None:
    """The fold takes the event with the smaller id first."""
    facts = tuple(replace(warning(), kind=Kind.REBALANCE, event_id=name) for name in ("b", "c", "a"))
    assert [fact.event_id for fact in anonymous(Export(None, (), facts, ())).facts] == [
        "event-0002",
        "event-0003",
        "event-0001",
    ]


@pytest.fixture(scope="module")
def ledger(scrubbed_environment: None) -> Iterator[str]:
    with mock_aws():
        table = deploy()
        fill(table, trace("01-normal"), trace("08-stop-cycle"))
        yield table


@pytest.fixture
def deployed(ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("holdfast.yaml").write_text(config_text(("cluster-a", ACCOUNT, REGION)))
    return ledger


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize("anonymize", [[], ["--anonymize"]])
def test_what_is_exported_judge_reads_and_judges_the_same(anonymize: list[str]) -> None:
    """A stop and a start make two cases of one instance; both are in the export."""
    exported = run("export", "i-0a88888888888888b", "--output-file", "case.jsonl", *anonymize)
    assert (exported.exit_code, exported.output) == (ExitCode.OK, "")
    shown = run("list", "--since", "2026-08-31", "--until", "2026-09-10", "--output", "json")
    stored = [case for case in json.loads(shown.stdout)["cases"] if case["instance"] == "i-0a88888888888888b"]
    result = run("judge", "case.jsonl", "--output", "json")
    assert result.exit_code == ExitCode.OK, result.output
    again = json.loads(result.stdout)
    assert again["remarks"] == again["refused"] == []
    parts = ("cycle", "verdict", "cause", "deletion", "drained", "end", "warned_at", "deadline", "zone")
    assert [[case[part] for part in parts] for case in again["cases"]] == [
        [case[part] for part in parts] for case in reversed(stored)
    ]
    text = Path("case.jsonl").read_text()
    for name in (ACCOUNT, "i-0a88888888888888b", "cluster-a", "orders-spot", "KarpenterControllerRole"):
        assert (name in text) is not bool(anonymize)


@pytest.mark.usefixtures("deployed")
def test_without_a_file_the_lines_go_to_standard_output() -> None:
    result = run("export", f"{ACCOUNT}/{REGION}/i-0a11111111111111a/0")
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    assert documents[0]["scope"]["clusters"][0]["name"] == "cluster-a"
    assert documents[1]["case"]["verdict"] == "HANDLED_IN_TIME"
    assert run("judge", "-", stdin=result.stdout).exit_code == ExitCode.OK


def test_without_a_configuration_the_export_names_no_clusters_as_ours(deployed: str) -> None:
    Path("holdfast.yaml").unlink()
    result = run("export", "i-0a11111111111111a", "--table", deployed, "--region", REGION)
    assert result.exit_code == ExitCode.OK, result.output
    assert '"scope"' not in result.stdout


@pytest.mark.usefixtures("deployed")
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["i-0fffffffffffffff0"], ExitCode.NOT_FOUND, "no event about it is in the ledger"),
        (["nonsense"], ExitCode.USAGE, "is no case. Give an instance id"),
        (["i-0a11111111111111a", "--output-file", "no/such/folder"], ExitCode.USAGE, "cannot be written"),
    ],
)
def test_what_cannot_be_exported_gets_a_message(arguments: list[str], code: ExitCode, said: str) -> None:
    result = run("export", *arguments)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.split())
