"""A small model of EC2 and Karpenter that knows the truth: the verdict is that truth or INCONCLUSIVE, never another.

A Spot warning comes at 0 s. Karpenter deletes the NodeClaim (or not), the pods leave (or not), and somebody ends the
instance (or nobody). Events are lost and looks are missing or refused as it pleases; times are exact.
"""

from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from holdfast.interruption.case import Drained, End
from holdfast.interruption.event import Fact
from holdfast.interruption.observation import Answer, BlockerReason, ClusterView, InstanceView, Observation
from holdfast.interruption.schedule import AFTER_WARNING
from holdfast.interruption.verdict import Verdict
from tests.builders import (
    CONTROLLER,
    SOMEBODY,
    SPOT,
    USER,
    at,
    blocker,
    case_of,
    ec2,
    gone,
    judged,
    kube,
    observation,
    state,
    terminate_call,
    warning,
)

IN_TIME, OVER = 122, 600
"""The deadline with the two seconds that clocks may differ, and the end of the interruption."""
V = Verdict
PLANNED = [int(offset.total_seconds()) for offset in AFTER_WARNING]


@dataclass(frozen=True)
class Truth:
    """What happened. `deleted`, `drained` and `ended` are seconds from the warning, None for never."""

    deleted: int | None
    drained: int | None
    ended: int | None
    by: End
    forced_at: int | None = None

    @property
    def verdict(self) -> Verdict:
        if self.deleted is not None and self.deleted < 0:
            return V.SUPERSEDED
        begun = self.deleted is not None and self.deleted <= IN_TIME
        if self.drained is not None:
            return V.HANDLED_IN_TIME if self.drained <= IN_TIME else V.HANDLED_LATE
        match self.by:
            case End.SERVER:
                return V.RECLAIMED_BEFORE_DRAIN if begun else V.MISSED
            case End.CONTROLLER:
                return V.HANDLED_FORCED if (self.ended or 0) <= IN_TIME else V.HANDLED_LATE
            case End.OTHER_CLIENT:
                return V.SUPERSEDED
            case _:
                return V.NOT_RECLAIMED

    def look(self, second: int) -> tuple[InstanceView, ClusterView]:
        """What EC2 and the cluster say at that second."""
        over = self.ended is not None and second >= self.ended
        reason = {End.SERVER: SPOT, End.RUNNING: None}.get(self.by, USER) if over else None
        moment = at(self.ended) if over and self.ended is not None else None
        view = ec2("terminated" if over else "running", reason, transitioned_at=moment)
        if over and second >= (self.ended or 0) + (20 if self.deleted is not None else 120):
            # Karpenter removes the NodeClaim of an instance that is gone, if it had not begun before.
            return view, gone()
        deleted = self.deleted if self.deleted is not None and self.deleted <= second else None
        drained: float | str | None = "Unknown" if deleted is not None else None
        if self.drained is not None and self.drained <= second:
            drained = self.drained
        stuck = (blocker(BlockerReason.PDB),) if self.forced_at is not None else ()
        ends_by = self.forced_at if deleted is not None else None
        grace = None if self.forced_at is None or self.deleted is None else self.forced_at - self.deleted
        pods = 0 if self.drained is not None and self.drained <= second else 1
        return view, kube(
            deleted=deleted,
            drained=drained,
            ends_by=ends_by,
            grace_period=grace,
            pods_answer=Answer.OK,
            pods_left=pods,
            longest_grace=30,
            blockers=stuck if pods else (),
        )


@st.composite
def truths(draw: st.DrawFn) -> Truth:
    deleted = draw(st.none() | st.integers(-300, 500).filter(lambda second: not -2 <= second < 0))
    if deleted is None:
        by = draw(st.sampled_from([End.SERVER, End.OTHER_CLIENT, End.RUNNING]))
        return Truth(None, None, None if by is End.RUNNING else draw(st.integers(10, 500)), by)
    if draw(st.booleans()):
        drained = draw(st.integers(max(deleted, 0) + 1, 550))
        # Karpenter ends a drained node at once; EC2 or somebody else may be faster by seconds.
        by = draw(st.sampled_from([End.CONTROLLER, End.CONTROLLER, End.SERVER, End.OTHER_CLIENT]))
        return Truth(deleted, drained, drained + draw(st.integers(1, 5)), by)
    by = draw(st.sampled_from([End.CONTROLLER, End.SERVER, End.OTHER_CLIENT, End.RUNNING]))
    if by is End.CONTROLLER:
        ended = draw(st.integers(max(deleted, 0) + 1, 550))
        return Truth(deleted, None, ended, by, forced_at=ended)
    return Truth(deleted, None, None if by is End.RUNNING else draw(st.integers(max(deleted, 0) + 1, 550)), by)


@st.composite
def evidence(draw: st.DrawFn, truth: Truth) -> list[Fact | Observation]:
    rows: list[Fact | Observation] = [warning()]
    if truth.ended is not None:
        if truth.by in {End.CONTROLLER, End.OTHER_CLIENT} and (truth.by is End.OTHER_CLIENT or draw(st.booleans())):
            rows.append(terminate_call(truth.ended, CONTROLLER if truth.by is End.CONTROLLER else SOMEBODY))
        rows += [state("shutting-down", truth.ended)] if draw(st.booleans()) else []
        rows += [state("terminated", truth.ended + 35)] if rows[-1] is not rows[0] and draw(st.booleans()) else []
    for second in draw(st.lists(st.sampled_from(PLANNED) | st.integers(0, 900), unique=True, max_size=9)):
        instance, cluster = truth.look(second)
        if draw(st.integers(0, 5)) == 0:
            instance = InstanceView(draw(st.sampled_from([Answer.DENIED, Answer.ERROR])))
        if draw(st.integers(0, 5)) == 0:
            cluster = ClusterView(draw(st.sampled_from([Answer.DENIED, Answer.SKIPPED])))
        rows.append(observation(second, instance, cluster))
    return draw(st.permutations(rows))


def acceptable(truth: Truth, rows: list[Fact | Observation]) -> set[Verdict]:
    allowed = {truth.verdict, V.INCONCLUSIVE}
    case = case_of(*rows)
    if truth.by is End.SERVER and truth.drained is not None and case.drained_at is None:
        # By agreement: what EC2 took and nobody saw drained was not drained.
        allowed.add(V.RECLAIMED_BEFORE_DRAIN if (truth.deleted or 0) <= IN_TIME else V.MISSED)
    if truth.by is End.OTHER_CLIENT and ((truth.deleted or OVER) > IN_TIME or case.drained is Drained.SEEN_FALSE):
        # By agreement: what somebody else ended, not drained by the deadline, says nothing about what was to come.
        allowed.add(V.SUPERSEDED)
    return allowed


@settings(max_examples=200)
@given(truths().flatmap(lambda truth: st.tuples(st.just(truth), evidence(truth))))
def test_the_verdict_is_the_truth_or_inconclusive(history: tuple[Truth, list[Fact | Observation]]):
    truth, rows = history

    assert judged(*rows).verdict in acceptable(truth, rows)


def unread(row: Fact | Observation) -> Fact | Observation:
    """The look as degraded mode makes it: everything but the pods."""
    if not isinstance(row, Observation) or row.kubernetes is None or row.kubernetes.answer is not Answer.OK:
        return row
    view = replace(
        row.kubernetes,
        pods_answer=Answer.SKIPPED,
        pods_reason="degraded",
        pods_left=None,
        longest_grace=None,
        blockers=(),
    )
    return replace(row, kubernetes=view, degraded="more than 1000 cases are open")


@settings(max_examples=200)
@given(truths().flatmap(lambda truth: st.tuples(st.just(truth), evidence(truth))), st.booleans())
def test_in_degraded_mode_too_the_verdict_is_the_truth_or_inconclusive(
    history: tuple[Truth, list[Fact | Observation]], throughout: bool
):
    """Degraded from the warning on, or from the second row on: with what was read of the pods before."""
    truth, rows = history
    kept = 0 if throughout else 2
    degraded = [*rows[:kept], *map(unread, rows[kept:])]

    assert judged(*degraded).verdict in acceptable(truth, degraded)


@settings(max_examples=100)
@given(truths())
@example(Truth(5, 50, 55, End.CONTROLLER))
@example(Truth(None, None, 121, End.SERVER))
def test_with_every_look_and_every_event_there_is_a_verdict(truth: Truth):
    """All planned looks answered: INCONCLUSIVE is left only where what happened fell between two of them."""
    rows: list[Fact | Observation] = [warning(), *(observation(second, *truth.look(second)) for second in PLANNED)]
    if truth.ended is not None:
        rows += [state("shutting-down", truth.ended), state("terminated", truth.ended + 35)]
        if truth.by in {End.CONTROLLER, End.OTHER_CLIENT}:
            rows.append(terminate_call(truth.ended, CONTROLLER if truth.by is End.CONTROLLER else SOMEBODY))
    verdict = judged(*rows).verdict
    gone_at = (truth.ended or OVER) + (20 if truth.deleted is not None else 120)

    def seen(since: int) -> bool:
        return any(since <= second < gone_at for second in PLANNED)

    assert verdict in acceptable(truth, rows)
    begin_seen = seen(IN_TIME + 1) if truth.deleted is None else seen(truth.deleted)
    drain_seen = seen(truth.drained) if truth.drained is not None else truth.by is not End.OTHER_CLIENT
    if begin_seen and drain_seen:
        assert verdict is not V.INCONCLUSIVE


def test_the_model_reaches_every_verdict_it_can():
    reached = Counter(
        truth.verdict
        for truth in (
            Truth(-60, 30, 35, End.CONTROLLER),
            Truth(5, 50, 55, End.CONTROLLER),
            Truth(5, None, 100, End.CONTROLLER, forced_at=100),
            Truth(5, 200, 205, End.CONTROLLER),
            Truth(5, None, 121, End.SERVER),
            Truth(None, None, 121, End.SERVER),
            Truth(None, None, None, End.RUNNING),
        )
    )

    assert set(reached) == {
        V.SUPERSEDED,
        V.HANDLED_IN_TIME,
        V.HANDLED_FORCED,
        V.HANDLED_LATE,
        V.RECLAIMED_BEFORE_DRAIN,
        V.MISSED,
        V.NOT_RECLAIMED,
    }


def as_its_clock_says(view: ClusterView, skew: int) -> ClusterView:
    """The cluster's answer when its clock is `skew` seconds ahead."""

    def shifted(moment: datetime | None) -> datetime | None:
        return None if moment is None else moment + timedelta(seconds=skew)

    return replace(
        view,
        created_at=shifted(view.created_at),
        deleted_at=shifted(view.deleted_at),
        termination_at=shifted(view.termination_at),
        conditions=tuple(
            # An Unknown of this model has no time of its own.
            replace(item, since=shifted(item.since)) if item.status == "True" else item
            for item in view.conditions
        ),
    )


def whole(truth: Truth, skew: int) -> list[Fact | Observation]:
    """All planned looks and all events, by a cluster whose clock is `skew` seconds ahead."""
    rows: list[Fact | Observation] = [warning()]
    for second in PLANNED:
        instance, cluster = truth.look(second)
        rows.append(observation(second, instance, as_its_clock_says(cluster, skew)))
    if truth.ended is not None:
        rows += [state("shutting-down", truth.ended), state("terminated", truth.ended + 35)]
        if truth.by in {End.CONTROLLER, End.OTHER_CLIENT}:
            rows.append(terminate_call(truth.ended, CONTROLLER if truth.by is End.CONTROLLER else SOMEBODY))
    return rows


def near(moment: int | None, boundary: int) -> bool:
    """Whether four seconds, the skew and the tolerance, decide on which side of the boundary the moment is."""
    return moment is not None and abs(moment - boundary) <= 4


@settings(max_examples=100)
@given(truths(), st.sampled_from([-2, -1, 1, 2]))
def test_two_seconds_of_skew_change_no_verdict(truth: Truth, skew: int):
    """EventBridge's times have whole seconds and the API server has its own clock."""
    moments = (truth.deleted, truth.drained, truth.ended)
    assume(not any(near(moment, boundary) for moment in moments for boundary in (0, IN_TIME, OVER)))

    assert judged(*whole(truth, skew)).verdict is judged(*whole(truth, 0)).verdict


@settings(max_examples=200)
@given(truths(), st.integers(120, 1800), st.sampled_from([-1, 1]))
@example(Truth(2, 3, 4, End.SERVER), 599, 1)
def test_minutes_of_skew_never_turn_a_verdict_into_another(truth: Truth, skew: int, sign: int):
    """Of a deletion that no look saw begin only the cluster's word is known: those before the first look are left out."""
    assume(truth.deleted is None or truth.deleted > 0)
    rows = whole(truth, sign * skew)
    verdict = judged(*rows).verdict

    assert verdict in acceptable(truth, rows)
