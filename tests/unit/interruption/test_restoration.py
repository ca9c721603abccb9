"""Whether the workloads stand again: what the looks prove, and nothing that they do not."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.interruption.case import End
from holdfast.interruption.observation import (
    Answer,
    Observation,
    Replacement,
    ShortageView,
    WorkloadsView,
    WorkloadView,
)
from holdfast.interruption.record import record_of
from holdfast.interruption.restoration import Restoration, Restored, Shortage, given_up
from holdfast.interruption.verdict import Verdict
from tests.builders import (
    API,
    LONG_AFTER,
    SPOT,
    USER,
    at,
    case_of,
    ec2,
    ended,
    gone,
    judged,
    kube,
    notice,
    observation,
    rebalance,
    terminate_call,
    warning,
    workloads,
)

R = Restored


def look(seconds: float, seen: WorkloadsView | None = None, **cluster: Any) -> Observation:
    """A look at a node that Karpenter began to drain at 5 s."""
    deleted = 5 if seconds >= 5 else None
    return observation(seconds, ec2(), kube(deleted=deleted, **cluster), workloads=seen)


def drained(seconds: float, seen: WorkloadsView | None = None) -> Observation:
    """A look after the drain, which was over at 40 s."""
    return look(seconds, seen, drained=40)


FIRST = look(1, workloads(3, here=2, found=True))
"""Both pods of the node are there, and all three replicas ready."""


def restored(*rows: Any) -> Restoration:
    found = case_of(warning(), *rows).restoration
    assert found is not None
    return found


def state(*rows: Any) -> Restored:
    return restored(*rows).state


class TestWhen:
    def test_back_by_three_minutes_is_in_time(self):
        found = restored(FIRST, drained(60, workloads(1)), drained(110, workloads(2)), drained(135, workloads(3)))

        assert (found.state, found.missing_at, found.back_at) == (R.RESTORED_IN_TIME, at(110), at(135))
        assert (
            found.reason
            == "All replicas were seen ready again 135 s after the warning; last seen missing 110 s after it."
        )

    @pytest.mark.parametrize(
        ("missing", "back", "expected"),
        [
            (170, 180, R.RESTORED_IN_TIME),
            (180, 300, R.RESTORED_LATE),
            (182, 300, R.RESTORED_LATE),
            (179, 181, R.UNKNOWN),
            (110, 300, R.UNKNOWN),
            (300, 600, R.RESTORED_LATE),
            (600, 1500, R.RESTORED_LATE),
        ],
    )
    def test_only_what_a_look_saw_bounds_the_time(self, missing: float, back: float, expected: Restored):
        assert state(FIRST, drained(missing, workloads(1)), drained(back, workloads(3))) is expected

    def test_replicas_count_for_the_time_they_were_read_at(self):
        """The list may be half a minute old: what it says of 170 s is no news of 185 s."""
        assert state(FIRST, drained(200, workloads(3, read=175))) is R.RESTORED_IN_TIME
        assert state(FIRST, drained(185, workloads(1, read=170)), drained(300, workloads(3))) is R.UNKNOWN

    def test_replicas_that_are_ready_while_the_pods_are_still_on_the_node_restore_nothing(self):
        assert state(FIRST, look(20, workloads(3, here=2))) is R.PENDING
        assert state(FIRST, look(20, workloads(3, here=2)), drained(60, workloads(3))) is R.RESTORED_IN_TIME

    def test_pods_that_leave_after_three_minutes_are_late_wherever_others_are_ready(self):
        assert state(FIRST, look(180, workloads(4, 4, here=1)), look(300, workloads(3, here=0))) is R.RESTORED_LATE

    def test_pods_that_were_seen_off_the_node_need_no_end_of_the_drain(self):
        assert state(FIRST, look(60, workloads(3, here=0))) is R.RESTORED_IN_TIME

    def test_a_later_dip_has_another_reason(self):
        assert state(FIRST, drained(60, workloads(3)), drained(300, workloads(1))) is R.RESTORED_IN_TIME

    def test_replicas_on_a_machine_that_is_gone_count_as_ready_for_a_while(self):
        """The node turns NotReady 50 s after its machine fell silent; until then its pods look ready."""
        rows = [FIRST, *ended(121)]
        gone_with_it = observation(135, ec2("terminated", SPOT), gone(), workloads=workloads(3))
        assert state(*rows, gone_with_it) is R.PENDING

        dip = observation(180, ec2("terminated", SPOT), gone(), workloads=workloads(1))
        back = observation(300, ec2("terminated", SPOT), gone(), workloads=workloads(3))
        assert state(*rows, gone_with_it, dip, back) is R.RESTORED_LATE
        assert state(*rows, gone_with_it, back) is R.UNKNOWN

    @pytest.mark.report("aws/karpenter-provider-aws#4689")
    def test_karpenter_4689_a_node_that_went_before_its_replacement_was_ready(self):
        """karpenter-provider-aws#4689: gone four seconds after the notice, and the ready replicas dip: two answers."""
        rows = [
            warning(),
            terminate_call(4),
            *ended(4),
            observation(1, ec2(), kube(deleted=1, drained="Unknown"), workloads=workloads(2, 2, here=1, found=True)),
            observation(20, ec2("shutting-down", USER), kube(deleted=1, drained=3), workloads=workloads(1, 2)),
            observation(180, ec2("terminated", USER), gone(), workloads=workloads(1, 2)),
            observation(300, ec2("terminated", USER), gone(), workloads=workloads(2, 2)),
        ]
        record = record_of(case_of(*rows), at(300), exhausted=False)

        assert record.judgement.verdict is Verdict.HANDLED_IN_TIME
        assert record.case.restoration is not None
        assert record.case.restoration.state is R.RESTORED_LATE


class TestWhatIsCompared:
    def test_a_workload_that_was_scaled_down_needs_no_more_than_is_wanted_now(self):
        assert state(FIRST, drained(60, workloads(1, 1))) is R.RESTORED_IN_TIME

    def test_a_workload_that_was_deleted_needs_nothing(self):
        assert state(FIRST, drained(60, workloads(None, None))) is R.RESTORED_IN_TIME

    def test_a_replica_that_was_not_ready_before_need_not_be_ready_now(self):
        first = look(1, workloads(2, 3, here=1, found=True))

        assert state(first, drained(60, workloads(2, 3))) is R.RESTORED_IN_TIME

    def test_pods_that_were_being_evicted_at_the_first_look_were_ready_before(self):
        """A ReplicaSet stops counting a pod as soon as it is deleted."""
        first = look(6, workloads(1, 3, here=2, found=True, leaving=2))

        assert state(first, drained(60, workloads(2, 3))) is R.PENDING
        assert restored(first, drained(60, workloads(2, 3))).workloads[0].before == 3
        assert state(first, drained(60, workloads(3, 3))) is R.RESTORED_IN_TIME

    def test_after_the_drain_began_more_replicas_may_have_been_ready_than_were_counted(self):
        first = look(20, workloads(1, 3, here=1, found=True))

        assert state(first, drained(60, workloads(2, 3))) is R.PENDING  # back from 1, but it may have been 3
        assert state(first, drained(60, workloads(3, 3))) is R.RESTORED_IN_TIME
        found = restored(first, drained(60, workloads(3, 3)))
        assert found.uncovered == ("pods that left within 15 s of the drain's beginning, before the first look",)

    def test_every_workload_has_to_be_back(self):
        def both(api: int, web: int, **fields: Any) -> WorkloadsView:
            rows = (WorkloadView(*API, desired=2, ready=api), WorkloadView("Deployment", "shop", "web", 2, web))
            return workloads(workloads=rows, **fields)

        first = look(1, both(2, 2, here=2, found=True))
        assert state(first, drained(60, both(2, 1))) is R.PENDING
        assert state(first, drained(60, both(2, 1)), drained(110, both(1, 2))) is R.PENDING
        assert state(first, drained(60, both(2, 2))) is R.RESTORED_IN_TIME

    def test_a_look_that_tells_nothing_of_a_workload_does_not_say_it_is_back(self):
        assert state(FIRST, drained(60, workloads(workloads=()))) is R.PENDING

    def test_what_is_not_followed_is_named(self):
        found = restored(look(1, workloads(3, here=2, found=True, workloads_unnamed=14, unread=2)))

        assert found.uncovered == (
            "14 more workloads with pods on the node",
            "2 pods of owners of which Holdfast reads no replicas",
        )


class TestNothingToRestore:
    @pytest.mark.parametrize("ownerless", [0, 4])
    def test_without_an_owner_with_replicas_nothing_comes_back(self, ownerless: int):
        empty = look(1, workloads(workloads=(), found=True, here=0, ownerless=ownerless))

        assert state(empty) is R.NOTHING_TO_RESTORE

    def test_owners_that_nobody_reads_are_not_no_owners(self):
        assert state(look(1, workloads(workloads=(), found=True, here=0, unread=1))) is R.UNKNOWN

    def test_after_the_drain_began_the_owners_may_have_left_already(self):
        late = look(20, workloads(workloads=(), found=True, here=0))

        assert state(late) is R.UNKNOWN

    def test_replicas_of_which_none_was_ready_before_are_nothing_to_bring_back(self):
        assert state(look(1, workloads(0, 3, here=1, found=True))) is R.NOTHING_TO_RESTORE

    def test_of_a_machine_that_nobody_touched_the_pods_stayed(self):
        rows = [
            observation(1, ec2(), kube(), workloads=workloads(3, here=2, found=True)),
            observation(600, ec2(), kube()),
        ]

        assert case_of(warning(), *rows).end is End.RUNNING
        assert state(*rows) is R.NOTHING_TO_RESTORE


class TestNotReplaced:
    def short(self, **fields: Any) -> Restoration:
        shortage = ShortageView(**{"answer": Answer.OK, "waiting": 2, "message": "0/9 nodes are available", **fields})
        return restored(FIRST, drained(600, workloads(1, shortage=shortage)))

    @pytest.mark.parametrize(("second", "expected"), [(300, R.PENDING), (599, R.PENDING), (600, R.NO_REPLACEMENT)])
    def test_what_is_not_back_after_ten_minutes_was_not_replaced(self, second: float, expected: Restored):
        assert state(FIRST, drained(60, workloads(1)), drained(second, workloads(1))) is expected

    def test_a_list_from_before_the_ten_minutes_gives_nobody_up(self):
        assert state(FIRST, drained(605, workloads(1, read=590))) is R.PENDING

    def test_pods_that_never_left_are_no_case_of_a_missing_replacement(self):
        assert state(FIRST, look(600, workloads(2, here=2))) is R.PENDING

    def test_what_came_back_after_it_was_given_up_is_late(self):
        assert state(FIRST, drained(600, workloads(1)), drained(900, workloads(3))) is R.RESTORED_LATE

    @pytest.mark.parametrize(
        ("fields", "cause", "said"),
        [
            ({"limits": ("cpu: 96 of 96 used",)}, Shortage.LIMITS_REACHED, "is at its limit (cpu: 96 of 96 used)."),
            ({"limits": (), "refused": ("spot-x",)}, Shortage.NO_CAPACITY, "EC2 had no capacity for NodeClaim spot-x."),
            (
                {},
                Shortage.UNSCHEDULABLE,
                "2 of their pods wait for a node; the scheduler says: 0/9 nodes are available.",
            ),
            ({"message": ""}, Shortage.NOT_READY, "2 of their pods are Pending, though none lacks a node."),
            ({"waiting": 0, "message": "", "limits": ("cpu: full",)}, Shortage.NOT_READY, "is not ready."),
            (
                {"answer": Answer.DENIED, "reason": "no", "waiting": None},
                Shortage.UNKNOWN,
                "was not seen (denied: no).",
            ),
        ],
    )
    def test_the_cause_is_what_was_seen(self, fields: dict[str, Any], cause: Shortage, said: str):
        found = self.short(**fields)

        assert (found.state, found.cause) == (R.NO_REPLACEMENT, cause)
        assert found.reason.startswith(
            "Not back 10 minutes after the warning: Deployment shop/api has 1 of 3 ready (before: 3). "
        )
        assert found.reason.endswith(said)

    def test_without_a_look_at_what_is_short_the_cause_is_unknown(self):
        assert restored(FIRST, drained(600, workloads(1))).cause is Shortage.UNKNOWN


class TestUnknown:
    def test_owners_that_could_not_be_read_are_named(self):
        denied = look(1, WorkloadsView(Answer.DENIED, "replicasets is forbidden"))
        found = restored(denied, drained(60))

        assert (found.state, found.reason) == (
            R.UNKNOWN,
            "The owners of the pods could not be read (denied: replicasets is forbidden).",
        )

    def test_before_the_pods_are_gone_a_later_look_may_still_read_them(self):
        assert state() is R.PENDING
        assert state(look(1)) is R.PENDING
        assert state(look(1, WorkloadsView(Answer.ERROR, "down"))) is R.PENDING

    def test_a_case_of_an_earlier_version_has_no_look_at_workloads(self):
        assert restored(look(1), drained(60)).reason == "No look read the pods of the node before they had left."

    def test_what_is_pending_when_the_looks_are_over_is_unknown(self):
        pending = restored(FIRST, drained(300, workloads(1)))

        assert given_up(pending).state is R.UNKNOWN
        assert given_up(pending).reason.endswith("Not back: Deployment shop/api has 1 of 3 ready (before: 3).")
        done = restored(FIRST, drained(60, workloads(3)))
        assert given_up(done) is done

    def test_a_record_is_given_up_with_its_last_look_and_not_before(self):
        case = case_of(warning(), FIRST, drained(300, workloads(1)))

        assert record_of(case, at(300), exhausted=False).waits_for_workloads
        closed = record_of(case, at(600), exhausted=True)
        assert closed.case.restoration is not None
        assert (closed.waits_for_workloads, closed.case.restoration.state) == (False, R.UNKNOWN)


@pytest.mark.parametrize(
    "rows",
    [
        [*ended(0), observation(20, ec2("terminated", SPOT), kube())],
        [warning(replay="backfill"), FIRST],
        [warning(account="999999999999"), FIRST],
        [warning(), observation(0, ec2(nodepool=None), gone())],
        [warning(), observation(20, ec2(), kube(deleted=-60))],
        [rebalance(0), FIRST],
        [notice(starts=None), notice(60, starts=None, status="closed"), observation(80, ec2(), kube())],
    ],
)
def test_where_no_warning_of_ours_was_handled_it_is_no_question(rows: list[Any]):
    assert case_of(*rows).restoration is None


def test_probable_replacements_are_those_of_the_latest_look():
    new = Replacement("orders-spot-new", at(8), "launched")
    rows = [
        look(1, workloads(3, here=2, found=True)),
        drained(60, workloads(1, replacements=(new,), replacements_unnamed=2)),
    ]
    found = restored(*rows)

    assert (found.replacements, found.replacements_unnamed) == ((new,), 2)


def test_the_verdict_does_not_depend_on_it():
    rows = [warning(), look(1), drained(60)]

    assert judged(*rows) == judged(warning(), FIRST, drained(60, workloads(0)))


# A small model that knows the truth


@dataclass(frozen=True)
class Truth:
    """One replica was on the node. It leaves at `left`; its replacement is ready at `back`, None for never."""

    left: int
    back: int | None
    desired: int
    unready_before: int

    @property
    def state(self) -> Restored:
        if self.desired == self.unready_before:
            return R.NOTHING_TO_RESTORE
        if self.back is None:
            return R.NO_REPLACEMENT
        return R.RESTORED_IN_TIME if max(self.left, self.back) <= 180 else R.RESTORED_LATE

    def ready(self, second: int) -> int:
        before = self.desired - self.unready_before
        if second < self.left or (self.back is not None and second >= self.back):
            return before
        return max(0, before - 1)

    def row(self, second: int, age: int, known: bool) -> Observation:
        here = 1 if second < self.left else 0
        deleted = self.left - 10
        seen = workloads(
            self.ready(max(0, second - age)),
            self.desired,
            here=here,
            found=not known,
            read=max(0, second - age),
        )
        if not known and not here:
            # Nothing is left that would tell which workload it was.
            seen = workloads(workloads=(), here=0, found=True)
        return observation(
            second,
            ec2(),
            kube(deleted=deleted if second >= deleted else None, drained=self.left if second >= self.left else None),
            workloads=seen,
        )


@st.composite
def histories(draw: st.DrawFn) -> tuple[Truth, list[Observation]]:
    desired = draw(st.integers(1, 3))
    left = draw(st.integers(11, 280))
    back = draw(st.none() | st.integers(left, 900))
    truth = Truth(left, back, desired, draw(st.integers(0, desired)))
    seconds = draw(
        st.lists(
            st.sampled_from([1, 20, 60, 110, 135, 170, 181, 300, 600]) | st.integers(0, 1000),
            unique=True,
            min_size=1,
            max_size=9,
        )
    )
    rows: list[Observation] = []
    known = False
    for second in sorted(seconds):
        if draw(st.integers(0, 6)) == 0:
            rows.append(replace(truth.row(second, 0, known), workloads=WorkloadsView(Answer.ERROR, "down")))
            continue
        rows.append(truth.row(second, draw(st.integers(0, 30)), known))
        known = known or second < truth.left
    return truth, draw(st.permutations(rows + draw(st.lists(st.sampled_from(rows), max_size=3))))


@settings(max_examples=300)
@given(histories())
def test_the_state_is_the_truth_or_open_and_never_another(history: tuple[Truth, list[Observation]]):
    truth, rows = history
    record = record_of(case_of(warning(), *rows), at(LONG_AFTER), exhausted=True)
    found = record.case.restoration
    assert found is not None
    allowed = {truth.state, R.UNKNOWN}
    if truth.state is R.RESTORED_LATE and truth.back is not None and truth.back > 600:
        # Given up when the last look was made; nobody looks again.
        allowed.add(R.NO_REPLACEMENT)

    assert found.state in allowed, (truth, found)


@settings(max_examples=60)
@given(histories(), st.randoms())
def test_any_order_and_any_duplicates_tell_the_same(history: tuple[Truth, list[Observation]], random: Any):
    _, rows = history
    again = [*rows, *rows]
    random.shuffle(again)

    assert case_of(warning(), *again) == case_of(warning(), *rows)


def test_with_every_planned_look_in_its_time_there_is_an_answer():
    """Made up to three seconds late, the looks leave only the seconds between 170 and 183 open."""
    open_seconds = set()
    for back in range(41, 620):
        truth = Truth(40, back, 3, 0)
        rows = [truth.row(second + 3, 0, second > 0) for second in (0, 20, 60, 110, 135, 170, 180, 300, 600)]
        found = restored(*rows).state
        assert found in {truth.state, R.UNKNOWN, R.NO_REPLACEMENT if back > 603 else truth.state}
        if found is R.UNKNOWN:
            open_seconds.add(back)
    assert open_seconds == set(range(174, 184))
    assert timedelta(seconds=len(open_seconds)) == timedelta(seconds=10)
