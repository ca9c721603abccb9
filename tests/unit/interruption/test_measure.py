"""What facts and cases add to the metrics: only what is known, only what is a measure, bounded names."""

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.interruption.case import Case, Deletion
from holdfast.interruption.event import Kind
from holdfast.interruption.ingest import Stored
from holdfast.interruption.measure import HANDLED, Measures, Occurrence, fact_lags, is_counted, measure, occurrence
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import COUNTED, Judgement, Verdict
from tests.builders import USER, at, case_of, ec2, ended, fact, kube, notice, observation, rebalance, state, warning

ROWS = (warning(), *ended(55), observation(60, ec2("terminated", USER), kube(deleted=5, drained=50)))


def measured(verdict: Verdict, **fields: object) -> Measures:
    found = measure(record(verdict, **fields))
    assert found is not None
    return found


def record(verdict: Verdict, **fields: object) -> CaseRecord:
    case: Case = replace(case_of(*ROWS), **fields)  # type: ignore[arg-type]
    return CaseRecord(case, Judgement(verdict, None, "because", final=True), at(300))


def test_a_handled_spot_termination_is_measured_from_its_warning():
    """The NodeClaim was deleted at +5 s and drained at +50 s; it was looked at at +60 s and judged at +300 s."""
    assert measured(Verdict.HANDLED_IN_TIME) == Measures(
        "cluster-a",
        "orders-spot",
        Verdict.HANDLED_IN_TIME,
        handled=True,
        reaction=timedelta(seconds=5),
        drain=timedelta(seconds=50),
        first_look=timedelta(seconds=60),
        decided=timedelta(seconds=300),
    )


@pytest.mark.parametrize("verdict", Verdict)
def test_the_handled_share_is_of_the_verdicts_that_tell_of_the_handling(verdict: Verdict):
    """HANDLED_IN_TIME against FORCED, LATE, RECLAIMED and MISSED; every other verdict is in neither."""
    counted = {"HANDLED_IN_TIME": True} | dict.fromkeys(
        ["HANDLED_FORCED", "HANDLED_LATE", "RECLAIMED_BEFORE_DRAIN", "MISSED"], False
    )

    assert measured(verdict).handled is counted.get(verdict.value)
    assert counted == HANDLED


@pytest.mark.parametrize(
    "fields", [{"kind": Kind.SCHEDULED_CHANGE}, {"action": "stop"}, {"action": "hibernate"}, {"kind": None}]
)
def test_only_spot_terminations_are_measured_others_only_counted(fields: dict[str, object]):
    assert measured(Verdict.HANDLED_IN_TIME, **fields) == Measures("cluster-a", "orders-spot", Verdict.HANDLED_IN_TIME)


def test_metrics_and_statistics_take_the_share_of_the_same_verdicts():
    assert set(HANDLED) == set(COUNTED)


def test_a_deletion_before_the_warning_is_no_reaction_to_it():
    found = measured(Verdict.SUPERSEDED, deletion=Deletion.BEFORE_WARNING, deleted_at=at(-40))

    assert (found.reaction, found.drain) == (None, None)


def test_a_clock_that_is_behind_gives_no_negative_time():
    assert measured(Verdict.HANDLED_IN_TIME, deleted_at=at(-1)).reaction == timedelta(0)


@pytest.mark.parametrize("name", ["deleted_at", "drained_at"])
def test_a_time_nobody_saw_is_unknown(name: str):
    found = measured(Verdict.INCONCLUSIVE, **{name: None})

    assert {"deleted_at": found.reaction, "drained_at": found.drain}[name] is None


def test_the_cluster_of_an_instance_that_is_none_of_ours_is_no_dimension():
    """Its tag may have any value, and each would be a metric of its own."""
    found = measured(Verdict.FOREIGN, cluster="somebody-elses", nodepool="theirs")

    assert (found.cluster, found.nodepool) == ("none", None)


def test_a_cluster_nobody_could_tell_is_unknown():
    found = measured(Verdict.INCONCLUSIVE, cluster=None)

    assert (found.cluster, found.nodepool) == ("unknown", None)


def test_a_replay_of_the_archive_adds_nothing():
    assert measure(record(Verdict.MISSED, replay=True)) is None


@pytest.mark.parametrize("verdict", [Verdict.NOT_RECLAIMED, Verdict.GHOST, Verdict.INCONCLUSIVE])
def test_a_verdict_that_waits_for_the_last_look_by_rule_is_no_measure_of_speed(verdict: Verdict):
    """NOT_RECLAIMED needs a look 600 s after the warning: it cannot come within 600 s."""
    found = measured(verdict)

    assert (found.first_look, found.decided) == (timedelta(seconds=60), None)


@pytest.mark.parametrize("verdict", [Verdict.FOREIGN, Verdict.NOT_APPLICABLE])
def test_what_is_no_interruption_of_ours_is_no_measure_of_the_audit(verdict: Verdict):
    found = measured(verdict)

    assert (found.first_look, found.decided) == (None, None)


def test_a_look_that_was_made_for_another_reason_before_the_warning_is_not_the_first_look():
    assert measured(Verdict.SUPERSEDED, first_look=at(-900)).first_look is None


# Rates


def test_an_interruption_is_told_by_cluster_pool_kind_type_and_zone():
    assert occurrence(record(Verdict.MISSED)) == Occurrence(
        "cluster-a", "orders-spot", "spot_interrupted", "c6i.2xlarge", "ap-southeast-1a"
    )


def test_what_nobody_could_tell_of_an_interruption_is_unknown_so_that_the_sum_is_whole():
    lost = record(Verdict.UNWARNED, kind=None, cluster=None, nodepool=None, instance_type=None, zone=None)

    assert occurrence(lost) == Occurrence("unknown", "unknown", "unwarned", "unknown", "unknown")


@pytest.mark.parametrize(
    ("verdict", "fields", "final", "counted"),
    [
        (Verdict.INCONCLUSIVE, {}, False, True),
        (Verdict.SUPERSEDED, {}, True, True),
        (Verdict.UNWARNED, {"warned_at": None}, True, True),
        (Verdict.INCONCLUSIVE, {"cluster": None}, False, False),
        (Verdict.INCONCLUSIVE, {"cluster": None}, True, True),
        (Verdict.INCONCLUSIVE, {"warned_at": None}, True, False),
        (Verdict.NOT_APPLICABLE, {"warned_at": None}, True, False),
        (Verdict.FOREIGN, {}, True, False),
        (Verdict.MISSED, {"replay": True}, True, False),
    ],
)
def test_an_interruption_counts_from_when_its_cluster_is_known(
    verdict: Verdict, fields: dict[str, object], final: bool, counted: bool
):
    case: Case = replace(case_of(*ROWS), **fields)  # type: ignore[arg-type]

    assert is_counted(CaseRecord(case, Judgement(verdict, None, "because", final), at(60))) is counted


# Facts


def lags(*stored: Stored) -> list[float]:
    return [lag.total_seconds() for lag in fact_lags(stored, stored_at=at(8))]


def test_a_fact_is_measured_from_its_event_to_the_ledger():
    """Stored at +8 s: a warning at 0 s, a state change at +5 s, and one whose clock is ahead."""
    facts = [warning(), state("shutting-down", 5), rebalance(9)]

    assert lags(*(Stored(item, "m", new=True) for item in facts)) == [8, 3, 0]


@pytest.mark.parametrize(
    "item",
    [
        Stored(warning(replay="gap"), "m", new=True),
        Stored(warning(), "m", new=False),
        Stored(warning(notes=("time_from_arrival",)), "m", new=True),
        Stored(notice(-86_400, starts=7 * 86_400), "m", new=True),
        Stored(fact(Kind.BID_EVICTED, -300), "m", new=True),
        Stored(fact(Kind.TERMINATE_CALL, -300), "m", new=True),
        Stored(fact(Kind.EXPERIMENT, -30), "m", new=True),
    ],
    ids=["replay", "duplicate", "no time", "Health", "CloudTrail event", "CloudTrail call", "FIS"],
)
def test_what_says_nothing_of_our_speed_is_not_measured(item: Stored):
    assert lags(item) == []


def test_a_warning_that_a_dead_letter_queue_gave_back_was_late():
    assert lags(Stored(warning(-3600), "m", new=True)) == [3608]
