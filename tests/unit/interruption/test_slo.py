"""The objectives on interruptions: what is in a sample, what uses the error budget, and what stays unknown."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.interruption.case import Case, Deletion, Drained, End
from holdfast.interruption.event import Kind
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restoration, Restored
from holdfast.interruption.slo import (
    TARGETS,
    WINDOW,
    Objective,
    Result,
    Statistics,
    Tally,
    nearest_rank,
    summarize,
)
from holdfast.interruption.verdict import COUNTED, Cause, Judgement, Verdict
from tests.builders import USER, W, at, case_of, ec2, ended, kube, observation, warning

SINCE, UNTIL = W - timedelta(days=14), W + timedelta(days=14)
LATER = W + timedelta(days=1)
HANDLED = case_of(
    warning(),
    *ended(50),
    observation(2, ec2(), kube(deleted=3)),
    observation(60, ec2("terminated", USER, transitioned_at=at(50)), kube(deleted=3, drained=40)),
)
NEVER_BEGUN: dict[str, Any] = {"deletion": Deletion.NOT_DELETING, "deleted_at": None, "drained_at": None}


def record(
    verdict: Verdict = Verdict.HANDLED_IN_TIME,
    *,
    cause: Cause | None = None,
    final: bool = True,
    judged: float = 60,
    **fields: Any,
) -> CaseRecord:
    """A Spot termination whose NodeClaim was deleted at +3 s and drained at +40 s, with other fields where given."""
    case: Case = replace(HANDLED, **fields)
    return CaseRecord(case, Judgement(verdict, cause, "because", final), at(judged))


def told(*records: CaseRecord, **times: Any) -> Statistics:
    return summarize(records, **{"since": SINCE, "until": UNTIL, "now": LATER, **times})


def objective(name: str, records: Iterable[CaseRecord], **times: Any) -> Objective:
    return next(item for item in told(*records, **times).objectives if item.target.name == name)


def test_the_builder_is_what_it_says() -> None:
    assert (HANDLED.deleted_at, HANDLED.drained_at, HANDLED.first_look) == (at(3), at(40), at(2))


def test_without_a_case_every_objective_is_unknown() -> None:
    """Nothing measured is never shown as met."""
    statistics = told()
    assert [item.target for item in statistics.objectives] == list(TARGETS)
    for item in statistics.objectives:
        assert (item.result, item.measured, item.budget_left) == (Result.UNKNOWN, None, None)
    assert statistics.missed_objectives == ()


@pytest.mark.parametrize(
    ("name", "measured"),
    [
        ("deletion_p95", 3),
        ("deletion_p99", 3),
        ("drained_p99", 40),
        ("handled_in_time", 100),
        ("missed", 0),
        ("inconclusive", 0),
        ("first_look_p95", 2),
        ("first_look_p99", 2),
        ("verdict_p95", 60),
        ("verdict_p99", 60),
    ],
)
def test_one_handled_case_meets_every_objective_and_uses_no_budget(name: str, measured: float) -> None:
    item = objective(name, [record()])
    assert (item.result, item.measured, item.sample) == (Result.MET, measured, 1)
    assert item.budget_left == 1


@pytest.mark.parametrize(
    ("name", "seconds", "field"),
    [
        ("deletion_p95", 15, "deleted_at"),
        ("deletion_p99", 30, "deleted_at"),
        ("drained_p99", 110, "drained_at"),
        ("first_look_p95", 10, "first_look"),
        ("first_look_p99", 30, "first_look"),
    ],
)
def test_a_target_is_met_up_to_and_including_it(name: str, seconds: float, field: str) -> None:
    at_target: dict[str, Any] = {field: at(seconds)}
    beyond: dict[str, Any] = {field: at(seconds + 0.001)}
    assert objective(name, [record(**at_target)]).result is Result.MET
    assert objective(name, [record(**beyond)]).result is Result.NOT_MET


@pytest.mark.parametrize(("name", "seconds"), [("verdict_p95", 180), ("verdict_p99", 600)])
def test_a_verdict_counts_from_the_warning_to_when_it_was_judged(name: str, seconds: float) -> None:
    assert objective(name, [record(judged=seconds)]).result is Result.MET
    assert objective(name, [record(judged=seconds + 1)]).result is Result.NOT_MET


def restored(state: Restored, back: float | None = None) -> CaseRecord:
    return record(restoration=Restoration(state, "because", back_at=None if back is None else at(back)))


def test_workloads_count_from_the_warning_to_the_look_that_saw_them_back() -> None:
    in_time, late = restored(Restored.RESTORED_IN_TIME, 170), restored(Restored.RESTORED_LATE, 300)

    assert objective("restored_p95", [in_time]).measured == 170
    assert objective("restored_p95", [in_time]).result is Result.MET
    assert objective("restored_p95", [late]).result is Result.NOT_MET


def test_workloads_that_were_not_replaced_are_later_than_any_target() -> None:
    item = objective("restored_p95", [restored(Restored.NO_REPLACEMENT)])
    assert (item.result, item.measured, item.beyond) == (Result.NOT_MET, None, 1)


def test_workloads_of_which_nobody_knows_are_unseen_and_in_no_sample() -> None:
    """Back between two looks, of which only the later one is over the limit: that is no measure either way."""
    item = objective("restored_p95", [restored(Restored.UNKNOWN, 182), restored(Restored.UNKNOWN)])
    assert (item.result, item.sample, item.unseen) == (Result.UNKNOWN, 0, 2)


@pytest.mark.parametrize("state", [Restored.PENDING, Restored.NOTHING_TO_RESTORE])
def test_where_nothing_had_to_come_back_or_may_yet_come_nothing_is_measured(state: Restored) -> None:
    item = objective("restored_p95", [restored(state), record(restoration=None)])
    assert (item.sample, item.unseen) == (0, 0)


def test_five_of_a_hundred_may_be_slower_than_a_p95() -> None:
    """With 100 cases the 95th percentile is the 95th smallest: the error budget is 5 cases."""
    slow, fast = record(deleted_at=at(20)), record()
    five = objective("deletion_p95", [slow] * 5 + [fast] * 95)
    assert (five.result, five.measured, five.beyond, five.allowed, five.budget_left) == (Result.MET, 3, 5, 5, 0)
    six = objective("deletion_p95", [slow] * 6 + [fast] * 94)
    assert (six.result, six.measured) == (Result.NOT_MET, 20)
    assert six.budget_left == pytest.approx(-0.2)


def test_a_nodeclaim_that_was_never_deleted_is_slower_than_every_target() -> None:
    """A missed warning has no deletion time; left out of the sample it would make the percentile look good."""
    missed = record(Verdict.MISSED, **NEVER_BEGUN)
    for name in ("deletion_p95", "deletion_p99", "drained_p99"):
        item = objective(name, [missed])
        assert (item.result, item.measured, item.sample, item.beyond) == (Result.NOT_MET, None, 1, 1)


@pytest.mark.parametrize(
    ("verdict", "fields", "beyond", "unseen"),
    [
        (Verdict.RECLAIMED_BEFORE_DRAIN, {"drained_at": None, "drained": Drained.SEEN_FALSE}, 1, 0),
        (Verdict.HANDLED_FORCED, {"drained_at": None, "drained": Drained.SEEN_FALSE}, 1, 0),
        (Verdict.HANDLED_LATE, {"drained_at": None, "drained": Drained.SEEN_FALSE}, 1, 0),
        (Verdict.HANDLED_IN_TIME, {"drained_at": None, "drained": Drained.UNSEEN}, 0, 1),
        (Verdict.HANDLED_IN_TIME, {"drained_at": None, "end": End.SERVER}, 0, 1),
        (Verdict.INCONCLUSIVE, {}, 0, 1),
    ],
)
def test_a_drain_that_was_not_over_is_beyond_and_one_that_nobody_saw_is_unseen(
    verdict: Verdict, fields: dict[str, Any], beyond: int, unseen: int
) -> None:
    item = objective("drained_p99", [record(verdict, **fields)])
    assert (item.beyond, item.unseen) == (beyond, unseen)


def test_an_inferred_drain_took_no_longer_than_karpenter_needed_to_end_the_instance() -> None:
    item = objective("drained_p99", [record(drained_at=None)])
    assert (item.measured, item.unseen) == (50, 0)


def test_a_deletion_within_the_tolerance_before_the_warning_took_no_time() -> None:
    """Two clocks: -1 s is 0 s."""
    assert objective("deletion_p95", [record(deleted_at=at(-1))]).measured == 0


def test_a_deletion_known_only_by_absence_is_unseen() -> None:
    item = objective("deletion_p95", [record(deleted_at=None)])
    assert (item.result, item.unseen) == (Result.UNKNOWN, 1)


def test_handled_in_time_is_a_share_of_the_five_verdicts_on_karpenters_handling() -> None:
    others = [verdict for verdict in Verdict if verdict not in COUNTED]
    assert len(others) == 7
    item = objective("handled_in_time", [record(verdict) for verdict in [*COUNTED, *others]])
    assert (item.measured, item.sample, item.unseen, item.result) == (20, 5, 1, Result.NOT_MET)


def test_one_in_a_hundred_may_be_handled_otherwise() -> None:
    bad = record(Verdict.HANDLED_FORCED)
    assert objective("handled_in_time", [bad] + [record()] * 99).result is Result.MET
    assert objective("handled_in_time", [bad] + [record()] * 98).result is Result.NOT_MET


@pytest.mark.parametrize(
    ("length", "missed", "result"),
    [
        (timedelta(days=7), 1, Result.MET),
        (timedelta(days=7), 2, Result.NOT_MET),
        (WINDOW, 1, Result.MET),
        (WINDOW, 2, Result.NOT_MET),
        (2 * WINDOW, 2, Result.MET),
        (2 * WINDOW, 3, Result.NOT_MET),
    ],
)
def test_one_warning_may_be_missed_in_four_weeks(length: timedelta, missed: int, result: Result) -> None:
    records = [record(Verdict.MISSED, **NEVER_BEGUN)] * missed
    assert objective("missed", records, since=W - length / 2, until=W + length / 2).result is result


def test_a_missed_notice_of_any_kind_uses_the_budget_but_only_spot_terminations_are_timed() -> None:
    """Other notices leave other times than the two minutes the targets are made for."""
    missed = [
        record(Verdict.MISSED, kind=Kind.CAPACITY_WARNING),
        record(Verdict.MISSED, kind=Kind.SCHEDULED_CHANGE),
        record(Verdict.MISSED, action="stop"),
    ]
    assert objective("missed", missed).beyond == 3
    for name in ("deletion_p95", "drained_p99", "handled_in_time", "first_look_p95", "verdict_p95"):
        assert objective(name, missed).result is Result.UNKNOWN


def test_what_could_not_be_judged_is_at_most_one_in_a_hundred_of_our_own_cases() -> None:
    unjudged, alien = record(Verdict.INCONCLUSIVE), record(Verdict.FOREIGN)
    assert objective("inconclusive", [unjudged] + [record()] * 99).result is Result.MET
    diluted = objective("inconclusive", [unjudged] + [record()] * 98 + [alien] * 1000)
    assert (diluted.result, diluted.sample) == (Result.NOT_MET, 99)


def test_a_replay_is_no_measure_of_the_audit() -> None:
    replayed = [record(Verdict.INCONCLUSIVE, replay=True, judged=86_400)]
    for name in ("inconclusive", "first_look_p95", "verdict_p95"):
        assert objective(name, replayed).result is Result.UNKNOWN


def test_an_open_case_is_in_no_count_of_verdicts_until_it_is_decided() -> None:
    statistics = told(record(Verdict.INCONCLUSIVE, final=False), now=at(60))
    assert (statistics.cases, statistics.open, statistics.verdicts) == (1, 1, ())
    assert statistics.interruptions == 1
    assert objective("inconclusive", [record(Verdict.INCONCLUSIVE, final=False)]).result is Result.UNKNOWN


def test_a_case_that_waits_is_late_as_soon_as_its_time_is_over() -> None:
    """A judge that stopped leaves open cases; that must not look like no cases. The last look is due at +600 s."""
    waiting = [record(Verdict.INCONCLUSIVE, final=False, first_look=None)]
    assert objective("verdict_p95", waiting, now=at(660)).result is Result.UNKNOWN
    assert objective("verdict_p95", waiting, now=at(661)).result is Result.NOT_MET
    assert objective("first_look_p95", waiting, now=at(10)).result is Result.UNKNOWN
    assert objective("first_look_p95", waiting, now=at(11)).result is Result.NOT_MET


@pytest.mark.parametrize("verdict", [Verdict.NOT_RECLAIMED, Verdict.GHOST, Verdict.INCONCLUSIVE])
def test_a_verdict_that_has_to_wait_for_the_last_look_is_no_measure_of_speed(verdict: Verdict) -> None:
    assert objective("verdict_p99", [record(verdict, judged=603)]).result is Result.UNKNOWN


def test_a_look_before_the_warning_is_no_measure_of_the_first_look() -> None:
    item = objective("first_look_p95", [record(first_look=at(-900))])
    assert (item.result, item.unseen) == (Result.UNKNOWN, 1)


def test_cases_are_counted_by_verdict_and_cause_the_most_frequent_first() -> None:
    pdb = record(Verdict.RECLAIMED_BEFORE_DRAIN, cause=Cause.BLOCKED_BY_PDB)
    late = record(Verdict.RECLAIMED_BEFORE_DRAIN, cause=Cause.LATE_START)
    counts = told(pdb, record(), late, pdb, record(), record()).verdicts
    assert [(item.verdict, item.cause, item.cases) for item in counts] == [
        (Verdict.HANDLED_IN_TIME, None, 3),
        (Verdict.RECLAIMED_BEFORE_DRAIN, Cause.BLOCKED_BY_PDB, 2),
        (Verdict.RECLAIMED_BEFORE_DRAIN, Cause.LATE_START, 1),
    ]


def test_interruptions_are_told_by_nodepool_type_and_zone() -> None:
    statistics = told(
        record(),
        record(Verdict.MISSED, nodepool="batch", zone=None),
        record(Verdict.INCONCLUSIVE, nodepool="batch", zone=None),
        record(Verdict.UNWARNED, nodepool="batch", warned_at=None),
        record(Verdict.NOT_APPLICABLE, nodepool="idle"),
        record(Verdict.FOREIGN, nodepool="alien"),
    )
    assert statistics.nodepools == (("batch", Tally(3, 1, 0, 1, 1)), ("orders-spot", Tally(1, 1, 1, 0, 0)))
    assert [(name, tally.interruptions) for name, tally in statistics.zones] == [("ap-southeast-1a", 2), (None, 2)]
    assert [(name, tally.interruptions) for name, tally in statistics.instance_types] == [("c6i.2xlarge", 4)]
    assert statistics.nodepools[0][1].handled_share == 0
    assert Tally(interruptions=1).handled_share is None


def test_every_day_of_the_window_is_there_and_cases_outside_of_it_are_not() -> None:
    statistics = told(
        record(), record(warned_at=at(86_400)), record(warned_at=at(-3 * 86_400)), since=at(-86_400), until=at(86_400)
    )
    assert [(day, tally.interruptions) for day, tally in statistics.days] == [
        (date(2026, 8, 31), 0),
        (date(2026, 9, 1), 1),
        (date(2026, 9, 2), 1),
    ]
    assert statistics.cases == 2


@pytest.mark.parametrize(("percentile", "value"), [(5, 15), (30, 20), (40, 20), (50, 35), (100, 50)])
def test_a_percentile_is_the_nearest_rank(percentile: int, value: float) -> None:
    """The worked example of the nearest-rank method in Wikipedia's article on percentiles."""
    assert nearest_rank([50, 20, 35, 15, 40], percentile) == value


@given(st.lists(st.integers(0, 40), min_size=1, max_size=300))
def test_a_budget_is_overspent_exactly_when_the_percentile_is_beyond_the_target(seconds: list[int]) -> None:
    """Two ways to say the same: the nearest-rank percentile, and the share of cases beyond the target."""
    records = [record(deleted_at=at(value)) for value in seconds]
    for name, percentile, target in (("deletion_p95", 95, 15), ("deletion_p99", 99, 30)):
        item = objective(name, records)
        smallest = sorted(seconds)[-(-len(seconds) * percentile // 100) - 1]
        assert item.measured == smallest
        assert (item.result is Result.MET) is (smallest <= target)
        assert item.budget_left is not None
        assert (item.result is Result.MET) is (item.budget_left >= 0)
