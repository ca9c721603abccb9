"""How well interruptions were handled over some time: objectives with their error budgets, and counts.

An objective allows a share of its sample to be worse than its target; that share is its error budget. A percentile
objective is the same thing said differently: by the nearest-rank method the p-th percentile of n values is the
ceil(p/100 x n)-th smallest, and it is within the target exactly when at most (100 - p) % of the values are beyond it.
Nothing is interpolated, so every figure is one that a case had.

Three things are kept apart. A value that nobody saw is in no sample and is counted as unseen. What was seen not to have
happened, such as a NodeClaim that was never deleted, is in the sample and beyond every target. And an objective without
a sample is unknown, never met.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Final

from holdfast.interruption.case import TOLERANCE, Case, Deletion, Drained, End
from holdfast.interruption.event import Kind
from holdfast.interruption.record import NO_INTERRUPTION, CaseRecord
from holdfast.interruption.restoration import Restored
from holdfast.interruption.schedule import AFTER_WARNING
from holdfast.interruption.verdict import COUNTED, Cause, Verdict

WINDOW: Final = timedelta(days=28)
"""The time that objectives are meant for: four weeks, so that every window has the same weekdays."""

WAIT_BY_RULE: Final = frozenset({Verdict.NOT_RECLAIMED, Verdict.GHOST, Verdict.INCONCLUSIVE})
"""Verdicts that only the last planned look can give. How long they take is a rule and no measure of the audit's speed;
INCONCLUSIVE has an objective of its own."""

OVERDUE: Final = timedelta(seconds=60)
"""How late the last planned look may be before its case counts as late, whatever its verdict will be: the sweeper asks
again for a look that is later."""

NEVER: Final = math.inf
"""The seconds after which something happened that was seen not to have happened."""


class Owner(StrEnum):
    """Whose work an objective measures."""

    KARPENTER = "karpenter"
    AUDIT = "audit"


class Unit(StrEnum):
    """What a target is a number of."""

    SECONDS = "s"
    PERCENT = "%"
    CASES = "cases"


class Result(StrEnum):
    """Whether an objective was met. Without a sample it is unknown."""

    MET = "met"
    NOT_MET = "not_met"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Target:
    """An objective as it is set.

    `name` is stable. With `at_least` the measured value has to reach `value`, else it must not exceed it. `percent` is
    the share of the sample that may be worse; 0 for MISSED, whose budget is a number of cases.
    """

    name: str
    owner: Owner
    what: str
    unit: Unit
    value: float
    percent: int
    at_least: bool = False


DELETION_P95: Final = Target(
    "deletion_p95", Owner.KARPENTER, "NodeClaim deleted after the warning, p95", Unit.SECONDS, 15, 5
)
DELETION_P99: Final = Target(
    "deletion_p99", Owner.KARPENTER, "NodeClaim deleted after the warning, p99", Unit.SECONDS, 30, 1
)
DRAINED_P99: Final = Target("drained_p99", Owner.KARPENTER, "drained after the warning, p99", Unit.SECONDS, 110, 1)
RESTORED_P95: Final = Target(
    "restored_p95", Owner.KARPENTER, "workloads back after the warning, p95 (at most)", Unit.SECONDS, 180, 5
)
HANDLED: Final = Target(
    "handled_in_time",
    Owner.KARPENTER,
    "warnings handled in time",
    Unit.PERCENT,
    99,
    1,
    at_least=True,
)
MISSED: Final = Target("missed", Owner.KARPENTER, "warnings missed in four weeks", Unit.CASES, 1, 0)
INCONCLUSIVE: Final = Target("inconclusive", Owner.AUDIT, "cases that could not be judged", Unit.PERCENT, 1, 1)
FIRST_LOOK_P95: Final = Target("first_look_p95", Owner.AUDIT, "first look after the warning, p95", Unit.SECONDS, 10, 5)
FIRST_LOOK_P99: Final = Target("first_look_p99", Owner.AUDIT, "first look after the warning, p99", Unit.SECONDS, 30, 1)
VERDICT_P95: Final = Target("verdict_p95", Owner.AUDIT, "verdict after the warning, p95", Unit.SECONDS, 180, 5)
VERDICT_P99: Final = Target("verdict_p99", Owner.AUDIT, "verdict after the warning, p99", Unit.SECONDS, 600, 1)
FACT_P95: Final = Target("fact_p95", Owner.AUDIT, "event in the ledger, p95", Unit.SECONDS, 10, 5)
FACT_P99: Final = Target("fact_p99", Owner.AUDIT, "event in the ledger, p99", Unit.SECONDS, 60, 1)
ALERT_P95: Final = Target("alert_p95", Owner.AUDIT, "alert told after its decision, p95", Unit.SECONDS, 60, 5)

TARGETS: Final = (
    DELETION_P95,
    DELETION_P99,
    DRAINED_P99,
    RESTORED_P95,
    HANDLED,
    MISSED,
    INCONCLUSIVE,
    FIRST_LOOK_P95,
    FIRST_LOOK_P99,
    VERDICT_P95,
    VERDICT_P99,
)
"""The objectives that are measured on cases."""

BY_METRICS: Final = (FACT_P95, FACT_P99, ALERT_P95)
"""The objectives that cases do not tell of: they are measured in CloudWatch alone."""


@dataclass(frozen=True, slots=True)
class Objective:
    """An objective with what was measured.

    `measured` is None without a sample, and where the percentile falls on a case in which it never happened. `unseen` are
    cases that belong to the sample and of which the value is not known. `beyond` are the members of the sample that are
    worse than the target, `allowed` as many as the error budget has room for (None without a sample).
    """

    target: Target
    measured: float | None
    result: Result
    sample: int
    unseen: int
    beyond: int
    allowed: float | None

    @property
    def budget_left(self) -> float | None:
        """The share of the error budget that is left: 1 when nothing is used, negative when more is used than there was."""
        return None if self.allowed is None else 1 - self.beyond / self.allowed


@dataclass(frozen=True, slots=True)
class Tally:
    """The interruptions of one day, NodePool, instance type or zone.

    `interruptions` are warnings and ends without one, of our own instances, judged or not. `counted` have one of the five
    verdicts on Karpenter's handling; `handled_in_time` and `missed` are among them.
    """

    interruptions: int = 0
    counted: int = 0
    handled_in_time: int = 0
    missed: int = 0
    inconclusive: int = 0

    @property
    def handled_share(self) -> float | None:
        """The share of `counted` that was handled in time; None when there was none to count."""
        return self.handled_in_time / self.counted if self.counted else None


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """How many cases have this verdict, and this cause where the verdict has one."""

    verdict: Verdict
    cause: Cause | None
    cases: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the cases of one cluster say about some time.

    `cases` are all that were read; `open` those of them whose verdict may still change, which are in no verdict count
    and in no objective except the audit's own times. The names of `nodepools`, `instance_types` and `zones` are None
    where nobody could tell; the most interruptions come first. `days` (UTC) has every day, also those without a case.
    """

    since: datetime
    until: datetime
    cases: int
    open: int
    verdicts: tuple[VerdictCount, ...]
    objectives: tuple[Objective, ...]
    nodepools: tuple[tuple[str | None, Tally], ...]
    instance_types: tuple[tuple[str | None, Tally], ...]
    zones: tuple[tuple[str | None, Tally], ...]
    days: tuple[tuple[date, Tally], ...]

    @property
    def interruptions(self) -> int:
        """How many of the cases were interruptions of our own instances."""
        return sum(tally.interruptions for _, tally in self.days)

    def per_week(self, tally: Tally) -> float | None:
        """How many interruptions a week a tally makes, taken over all of the time; None when that is no time at all."""
        length = self.until - self.since
        return tally.interruptions * (timedelta(weeks=1) / length) if length else None

    @property
    def missed_objectives(self) -> tuple[Objective, ...]:
        """The objectives that were not met."""
        return tuple(objective for objective in self.objectives if objective.result is Result.NOT_MET)


def summarize(records: Iterable[CaseRecord], *, since: datetime, until: datetime, now: datetime) -> Statistics:
    """The statistics of the cases that happened from `since` up to and including `until`, as they stand at `now`.

    The records should be those of one cluster, each case once; those of another time are left out.
    """
    first, last = since.astimezone(UTC).date(), until.astimezone(UTC).date()
    days: dict[date, _Counting] = {first + timedelta(days=n): _Counting() for n in range((last - first).days + 1)}
    nodepools: dict[str | None, _Counting] = {}
    instance_types: dict[str | None, _Counting] = {}
    zones: dict[str | None, _Counting] = {}
    verdicts: Counter[tuple[Verdict, Cause | None]] = Counter()
    samples = _Samples()
    cases = still_open = 0
    for record in records:
        happened_at = record.happened_at
        if happened_at is None or not since <= happened_at <= until:
            continue
        case, judgement = record.case, record.judgement
        cases += 1
        if judgement.final:
            verdicts[judgement.verdict, judgement.cause] += 1
        else:
            still_open += 1
        samples.add(record, now)
        if record.is_interruption:
            days[happened_at.astimezone(UTC).date()].add(record)
            nodepools.setdefault(case.nodepool, _Counting()).add(record)
            instance_types.setdefault(case.instance_type, _Counting()).add(record)
            zones.setdefault(case.zone, _Counting()).add(record)
    return Statistics(
        since=since,
        until=until,
        cases=cases,
        open=still_open,
        verdicts=tuple(
            VerdictCount(verdict, cause, count)
            for (verdict, cause), count in sorted(
                verdicts.items(), key=lambda item: (-item[1], item[0][0], str(item[0][1]))
            )
        ),
        objectives=tuple(samples.objectives(until - since)),
        nodepools=_by_interruptions(nodepools),
        instance_types=_by_interruptions(instance_types),
        zones=_by_interruptions(zones),
        days=tuple((day, counting.tally) for day, counting in days.items()),
    )


@dataclass(slots=True)
class _Counting:
    interruptions: int = 0
    verdicts: Counter[Verdict] = field(default_factory=Counter)

    def add(self, record: CaseRecord) -> None:
        self.interruptions += 1
        if record.judgement.final:
            self.verdicts[record.judgement.verdict] += 1

    @property
    def tally(self) -> Tally:
        return Tally(
            interruptions=self.interruptions,
            counted=sum(self.verdicts[verdict] for verdict in COUNTED),
            handled_in_time=self.verdicts[Verdict.HANDLED_IN_TIME],
            missed=self.verdicts[Verdict.MISSED],
            inconclusive=self.verdicts[Verdict.INCONCLUSIVE],
        )


def _by_interruptions(counted: Mapping[str | None, _Counting]) -> tuple[tuple[str | None, Tally], ...]:
    tallies = ((name, counting.tally) for name, counting in counted.items())
    return tuple(sorted(tallies, key=lambda item: (-item[1].interruptions, item[0] is None, item[0] or "")))


def is_spot_termination(case: Case) -> bool:
    """Whether the two minutes of a Spot termination apply, which the targets in seconds are made for."""
    return case.kind is Kind.SPOT_WARNING and case.action == "terminate" and case.warned_at is not None


@dataclass(slots=True)
class _Sample:
    """Values, and how many cases belong to them whose value nobody saw."""

    values: list[float] = field(default_factory=list)
    unseen: int = 0

    def add(self, value: float | None) -> None:
        if value is None:
            self.unseen += 1
        else:
            self.values.append(value)


@dataclass(slots=True)
class _Samples:
    deletion: _Sample = field(default_factory=_Sample)
    drained: _Sample = field(default_factory=_Sample)
    restored: _Sample = field(default_factory=_Sample)
    first_look: _Sample = field(default_factory=_Sample)
    verdict: _Sample = field(default_factory=_Sample)
    spot: Counter[Verdict] = field(default_factory=Counter)
    warned: Counter[Verdict] = field(default_factory=Counter)
    live: Counter[Verdict] = field(default_factory=Counter)

    def add(self, record: CaseRecord, now: datetime) -> None:
        case, judgement = record.case, record.judgement
        verdict = judgement.verdict
        if verdict in NO_INTERRUPTION:
            return
        if judgement.final:
            if case.warned_at is not None:
                self.warned[verdict] += 1
            if not case.replay:
                self.live[verdict] += 1
        if not is_spot_termination(case) or case.warned_at is None:
            return
        self._add_restoration(case, case.warned_at)
        if judgement.final:
            self.spot[verdict] += 1
            if verdict in COUNTED:
                self.deletion.add(_deletion_seconds(case))
                self.drained.add(_drained_seconds(case, verdict))
            elif verdict is Verdict.INCONCLUSIVE:
                self.deletion.unseen += 1
                self.drained.unseen += 1
        if not case.replay:
            self._add_own_times(record, case.warned_at, now)

    def _add_restoration(self, case: Case, warned_at: datetime) -> None:
        """When the workloads were first seen back: later than they were, so an upper bound."""
        restoration = case.restoration
        if restoration is None or restoration.state in {Restored.PENDING, Restored.NOTHING_TO_RESTORE}:
            return
        if restoration.state is Restored.NO_REPLACEMENT:
            self.restored.add(NEVER)
        elif restoration.state is Restored.UNKNOWN or restoration.back_at is None:
            self.restored.add(None)
        else:
            self.restored.add(_seconds(warned_at, restoration.back_at))

    def _add_own_times(self, record: CaseRecord, warned_at: datetime, now: datetime) -> None:
        """What the audit itself did and when. A case that is late already counts although nothing has happened yet."""
        waited = now - warned_at
        if record.case.first_look is not None:
            self.first_look.add(first_look_seconds(record))
        elif waited.total_seconds() > FIRST_LOOK_P95.value:
            self.first_look.add(NEVER)
        if (seconds := verdict_seconds(record)) is not None:
            self.verdict.add(seconds)
        elif not record.judgement.final and waited > AFTER_WARNING[-1] + OVERDUE:
            self.verdict.add(NEVER)

    def objectives(self, length: timedelta) -> Iterator[Objective]:
        inconclusive = self.spot[Verdict.INCONCLUSIVE]
        yield _timing(DELETION_P95, self.deletion)
        yield _timing(DELETION_P99, self.deletion)
        yield _timing(DRAINED_P99, self.drained)
        yield _timing(RESTORED_P95, self.restored)
        counted = sum(self.spot[verdict] for verdict in COUNTED)
        yield _share(HANDLED, counted, counted - self.spot[Verdict.HANDLED_IN_TIME], unseen=inconclusive)
        yield _missed(self.warned, length)
        yield _share(INCONCLUSIVE, self.live.total(), self.live[Verdict.INCONCLUSIVE], unseen=0)
        yield _timing(FIRST_LOOK_P95, self.first_look)
        yield _timing(FIRST_LOOK_P99, self.first_look)
        yield _timing(VERDICT_P95, self.verdict)
        yield _timing(VERDICT_P99, self.verdict)


def first_look_seconds(record: CaseRecord) -> float | None:
    """From the warning of a Spot termination to the first look; None where there was neither, or no look for it."""
    warned_at, looked_at = record.case.warned_at, record.case.first_look
    if warned_at is None or looked_at is None or looked_at < warned_at - TOLERANCE:
        # A look before the warning was made for another reason and says nothing about how fast we are.
        return None
    return _seconds(warned_at, looked_at)


def verdict_seconds(record: CaseRecord) -> float | None:
    """From the warning of a Spot termination to its final verdict; None while it is open, and for those that wait by
    rule (WAIT_BY_RULE).
    """
    judgement, warned_at = record.judgement, record.case.warned_at
    if warned_at is None or not judgement.final or judgement.verdict in WAIT_BY_RULE:
        return None
    return _seconds(warned_at, record.judged_at)


def _seconds(begin: datetime, end: datetime) -> float:
    # Two clocks: up to the tolerance, a time before the warning is the warning's own.
    return max(0.0, (end - begin).total_seconds())


def _deletion_seconds(case: Case) -> float | None:
    if case.deleted_at is not None and case.warned_at is not None:
        return _seconds(case.warned_at, case.deleted_at)
    # Later than the deadline, and so than any target, is all that is known of these, and it is enough.
    return NEVER if case.deletion in {Deletion.NOT_DELETING, Deletion.LATE} else None


def _drained_seconds(case: Case, verdict: Verdict) -> float | None:
    if case.warned_at is None:
        return None
    if verdict in {Verdict.RECLAIMED_BEFORE_DRAIN, Verdict.MISSED}:
        return NEVER
    if case.drained_at is not None:
        return _seconds(case.warned_at, case.drained_at)
    if verdict is not Verdict.HANDLED_IN_TIME:
        return NEVER
    if case.drained is Drained.IN_TIME and case.end is End.CONTROLLER and case.ended_at is not None:
        # Karpenter ends the instance after the drain, so the drain took no longer than this.
        return _seconds(case.warned_at, case.ended_at)
    return None


def _timing(target: Target, sample: _Sample) -> Objective:
    measured = nearest_rank(sample.values, 100 - target.percent)
    beyond = sum(value > target.value for value in sample.values)
    return _objective(
        target, None if measured == NEVER else measured, len(sample.values), beyond, target.percent, sample.unseen
    )


def _share(target: Target, sample: int, bad: int, *, unseen: int) -> Objective:
    told = sample - bad if target.at_least else bad
    return _objective(target, told * 100 / sample if sample else None, sample, bad, target.percent, unseen)


def _objective(
    target: Target, measured: float | None, sample: int, beyond: int, percent: int, unseen: int
) -> Objective:
    if sample == 0:
        return Objective(target, None, Result.UNKNOWN, 0, unseen, 0, None)
    # In whole numbers: 1 % of 100 is 1, whatever a float makes of it.
    result = Result.MET if beyond * 100 <= percent * sample else Result.NOT_MET
    return Objective(target, measured, result, sample, unseen, beyond, percent * sample / 100)


def _missed(warned: Mapping[Verdict, int], length: timedelta) -> Objective:
    """Every kind of warning counts: a notice that Karpenter does not read is the same defect whatever it announces."""
    sample = sum(warned[verdict] for verdict in COUNTED)
    if sample == 0:
        return Objective(MISSED, None, Result.UNKNOWN, 0, warned[Verdict.INCONCLUSIVE], 0, None)
    # A part of four weeks has the budget of the whole: half a case cannot be missed.
    allowed = int(MISSED.value) * max(1, length // WINDOW)
    missed = warned[Verdict.MISSED]
    result = Result.MET if missed <= allowed else Result.NOT_MET
    return Objective(MISSED, missed, result, sample, warned[Verdict.INCONCLUSIVE], missed, allowed)


def nearest_rank(values: Sequence[float], percentile: int) -> float | None:
    """The value at rank ceil(percentile/100 x n) of the sorted values; None when there is none.

    `percentile` is from 1 to 100.
    """
    if not values:
        return None
    rank = -(-percentile * len(values) // 100)
    return sorted(values)[rank - 1]
