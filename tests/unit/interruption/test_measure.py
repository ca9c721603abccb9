"""What a decided case adds to the metrics: only what is known, only of what Karpenter had to handle, bounded names."""

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.interruption.case import Case, Deletion
from holdfast.interruption.event import Kind
from holdfast.interruption.measure import HANDLED, Measures, measure
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import COUNTED, Judgement, Verdict
from tests.builders import USER, at, case_of, ec2, ended, kube, observation, warning

ROWS = (warning(), *ended(55), observation(60, ec2("terminated", USER), kube(deleted=5, drained=50)))


def measured(verdict: Verdict, **fields: object) -> Measures:
    found = measure(record(verdict, **fields))
    assert found is not None
    return found


def record(verdict: Verdict, **fields: object) -> CaseRecord:
    case: Case = replace(case_of(*ROWS), **fields)  # type: ignore[arg-type]
    return CaseRecord(case, Judgement(verdict, None, "because", final=True), at(300))


def test_a_handled_spot_termination_is_measured_from_its_warning():
    """The NodeClaim was deleted at +5 s and drained at +50 s."""
    assert measured(Verdict.HANDLED_IN_TIME) == Measures(
        "cluster-a", "orders-spot", Verdict.HANDLED_IN_TIME, True, timedelta(seconds=5), timedelta(seconds=50)
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
    assert measured(Verdict.HANDLED_IN_TIME, **fields) == Measures(
        "cluster-a", "orders-spot", Verdict.HANDLED_IN_TIME, None, None, None
    )


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
