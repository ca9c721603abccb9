"""What really happened to an instance, and the verdict that this is by the definitions alone, without any evidence."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.interruption.case import RUNNING_AFTER, TOLERANCE, End
from holdfast.interruption.verdict import Verdict

V = Verdict
NOTICE = 120
"""Seconds from a Spot warning to its deadline."""
SLACK = int(TOLERANCE.total_seconds())
"""Seconds that clocks may differ."""
FOLLOWED = int(RUNNING_AFTER.total_seconds())
"""Seconds after the deadline for which an interruption is followed."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Seconds are counted from the warning; None is for what never happened.

    `deleted` is when Karpenter began, `drained` when the last pod was off, `ended` when and `by` whom the instance was
    ended. `forced_at` says that a grace period cut pods off then. Without a warning only the end counts; `ours` is False
    for an instance that Karpenter did not launch.
    """

    deleted: int | None
    drained: int | None
    ended: int | None
    by: End
    forced_at: int | None = None
    deadline: int = NOTICE
    warned: bool = True
    ours: bool = True

    @property
    def verdict(self) -> Verdict:
        """What an audit that saw everything would say."""
        if not self.warned:
            return V.UNWARNED if self.ours and self.by is End.SERVER else V.NOT_APPLICABLE
        if not self.ours:
            return V.FOREIGN
        if self.deleted is not None and self.deleted < 0:
            return V.SUPERSEDED
        if self.drained is not None:
            if self.drained > self.deadline + SLACK:
                return V.HANDLED_LATE
            return V.HANDLED_IN_TIME if self.forced_at is None else V.HANDLED_FORCED
        match self.by:
            case End.SERVER:
                return V.RECLAIMED_BEFORE_DRAIN if self._begun_in_time else V.MISSED
            case End.CONTROLLER:
                return V.HANDLED_FORCED if (self.ended or 0) <= self.deadline + SLACK else V.HANDLED_LATE
            case End.OTHER_CLIENT:
                return V.SUPERSEDED
            case _:
                return V.NOT_RECLAIMED

    @property
    def agreed(self) -> frozenset[Verdict]:
        """What is said instead by agreement, where the evidence is the same.

        What EC2 took seconds after a drain that nobody saw finished counts as not drained. What somebody else ended, when
        nobody saw it drained by the deadline, says nothing about what Karpenter would have done. Without CloudTrail, a
        client that ends a node in the middle of Karpenter's drain is taken for Karpenter: the pods were off then, or were
        cut off when a look saw them still there.
        """
        if not self.warned or not self.ours or (self.deleted is not None and self.deleted < 0):
            return frozenset()
        if self.drained is not None and self.by is End.SERVER:
            return frozenset({V.RECLAIMED_BEFORE_DRAIN if self._begun_in_time else V.MISSED})
        if self.by is End.OTHER_CLIENT and self.drained is not None and self.drained > self.deadline + SLACK:
            return frozenset({V.SUPERSEDED})
        if self.by is End.OTHER_CLIENT and self.drained is None and self.deleted is not None:
            late = (self.ended or 0) > self.deadline + SLACK
            return frozenset({V.HANDLED_LATE} if late else {V.HANDLED_IN_TIME, V.HANDLED_FORCED})
        return frozenset()

    @property
    def _begun_in_time(self) -> bool:
        return self.deleted is not None and self.deleted <= self.deadline + SLACK
