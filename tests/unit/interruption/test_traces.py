"""The eleven traces of one interruption each, as files that anybody can judge: what each of them has to come to."""

import json
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from holdfast.adapters.documents import load
from holdfast.interruption.announce import alert_of
from holdfast.interruption.case import Note, fold
from holdfast.interruption.event import Fact, parse
from holdfast.interruption.observation import Observation
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.schedule import next_look
from holdfast.interruption.verdict import Cause, Verdict, judge
from tests.builders import HOME, SCOPE

FOLDER = Path(__file__).parents[2] / "events" / "traces"
IN_TIME = (Verdict.HANDLED_IN_TIME, None, True)

TRACES: dict[str, list[tuple[Verdict, Cause | None, bool]]] = {
    # For each case its verdict, its cause, and whether somebody is told.
    "01-normal": [IN_TIME],
    "02-late-notice": [IN_TIME],
    "03-reversed": [IN_TIME],
    "04-no-notice": [(Verdict.UNWARNED, None, True)],
    "05-voluntary": [(Verdict.NOT_APPLICABLE, None, False)],
    "06-double-notice": [IN_TIME],
    "07-node-survives": [(Verdict.NOT_RECLAIMED, None, True)],
    "08-stop-cycle": [IN_TIME, (Verdict.MISSED, Cause.CONSUMER_ABSENT, True)],
    "09-replay-a-week-later": [IN_TIME],
    "10-foreign": [(Verdict.FOREIGN, None, False)],
    "11-other-cluster": [IN_TIME],
}


@dataclass(frozen=True)
class Trace:
    facts: tuple[Fact, ...]
    looks: tuple[Observation, ...]

    def records(self) -> list[CaseRecord]:
        cases = fold(self.facts, self.looks, SCOPE)
        now = max([fact.at for fact in self.facts] + [look.at for look in self.looks]) + timedelta(hours=1)
        return [CaseRecord(case, judge(case, now, exhausted=True), now) for case in cases]


def read(name: str) -> Trace:
    facts: list[Fact] = []
    looks: list[Observation] = []
    for number, line in enumerate((FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines(), 1):
        document = json.loads(line)
        if "instance_id" in document:
            looks.append(load(Observation, line, f"{name}, line {number}"))
            continue
        bodies = [record["body"] for record in document.get("Records", ())] or [line]
        for text in bodies:
            parsed = parse(text, HOME)
            assert parsed.rejection is None
            facts += parsed.facts
    return Trace(tuple(facts), tuple(looks))


def test_there_are_eleven_traces():
    assert sorted(path.stem for path in FOLDER.glob("*.jsonl")) == sorted(TRACES)
    assert len(TRACES) == 11


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_comes_to_its_verdicts(name: str):
    told = [
        (record.judgement.verdict, record.judgement.cause, alert_of(record, corrects=False) is not None)
        for record in read(name).records()
    ]

    assert told == TRACES[name]


@pytest.mark.parametrize("name", TRACES)
def test_a_trace_comes_to_the_same_in_any_order_with_any_duplicates(name: str):
    trace, random = read(name), Random(name)
    for _ in range(20):
        facts, looks = list(trace.facts) * 2, list(trace.looks) * 2
        random.shuffle(facts)
        random.shuffle(looks)
        assert Trace(tuple(facts), tuple(looks)).records() == trace.records()


def only(name: str) -> CaseRecord:
    (record,) = read(name).records()
    return record


def test_a_recommendation_in_the_same_second_has_no_lead():
    assert only("01-normal").case.rebalance_lead == timedelta(seconds=900)
    assert only("02-late-notice").case.rebalance_lead == timedelta(0)


def test_arrival_in_reverse_changes_nothing():
    assert only("03-reversed").judgement == only("01-normal").judgement


def test_two_notices_are_one_case_with_the_first_deadline():
    case = only("06-double-notice").case

    assert case.deadline is not None
    assert case.warned_at is not None
    assert case.deadline - case.warned_at == timedelta(seconds=120)
    assert Note.SEVERAL_WARNINGS in case.notes


def test_a_restart_separates_two_cases_by_ec2s_launch_time():
    first, second = (record.case.cycle for record in read("08-stop-cycle").records())

    assert (first, second) == ("2026-08-31T18:10:00Z", "2026-09-01T06:10:00Z")


def test_a_replay_of_all_adds_nothing_and_nothing_is_looked_at_again():
    replayed = read("09-replay-a-week-later")
    assert any(fact.replay for fact in replayed.facts)

    assert only("09-replay-a-week-later").judgement == only("01-normal").judgement


def test_history_that_was_only_replayed_is_judged_in_silence():
    trace = read("09-replay-a-week-later")
    backfilled = Trace(tuple(fact for fact in trace.facts if fact.replay), ())
    (record,) = backfilled.records()

    assert (record.judgement.verdict, record.case.notes) == (Verdict.INCONCLUSIVE, (Note.REPLAYED,))
    assert alert_of(record, corrects=False) is None
    assert next_look(record.case) is None


def test_the_other_clusters_instance_is_a_case_of_that_cluster():
    assert only("11-other-cluster").case.cluster == "cluster-b"


def test_a_foreign_instance_is_given_to_no_cluster():
    assert only("10-foreign").case.nodepool is None
