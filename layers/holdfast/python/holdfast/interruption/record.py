"""A judged case as the ledger keeps it and as the command line shows it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from holdfast.interruption.case import Case
from holdfast.interruption.restoration import Restored, given_up
from holdfast.interruption.verdict import Judgement, Verdict, judge

NO_INTERRUPTION: Final = frozenset({Verdict.FOREIGN, Verdict.NOT_APPLICABLE})
"""Verdicts on what was none of ours, or no interruption."""


@dataclass(frozen=True, slots=True)
class CaseRecord:
    """A case with its judgement and the time it was judged at.

    `degraded` is why the audit was in degraded mode at that time; None when it was not. Two records that differ in it
    alone say the same.
    """

    case: Case
    judgement: Judgement
    judged_at: datetime
    degraded: str | None = None

    @property
    def waits_for_workloads(self) -> bool:
        """Whether a planned look may still tell if the workloads stand again."""
        return self.case.restoration is not None and self.case.restoration.state is Restored.PENDING

    @property
    def happened_at(self) -> datetime | None:
        """The time the case is filed under: its warning, else its end, else the first evidence of it."""
        case = self.case
        return (
            case.warned_at or case.ended_at or case.evicted_at or case.closed_at or case.rebalance_at or case.first_look
        )

    @property
    def is_interruption(self) -> bool:
        """Whether it tells of an interruption of an instance of ours: announced, or made by EC2 without a warning.

        That an instance ended is none: counting state changes inflated the Spot interruptions of others more than a
        hundredfold (terraform-aws-github-runner#5244).
        """
        if self.judgement.verdict in NO_INTERRUPTION:
            return False
        return self.case.warned_at is not None or self.judgement.verdict is Verdict.UNWARNED

    def same_as(self, other: CaseRecord | None) -> bool:
        """Whether the other record says the same, whenever it was judged."""
        return other is not None and other.case == self.case and other.judgement == self.judgement


def record_of(case: Case, now: datetime, *, exhausted: bool) -> CaseRecord:
    """The case with the verdict it has at `now`. `exhausted` says that no further look is planned."""
    if exhausted and case.restoration is not None:
        case = replace(case, restoration=given_up(case.restoration))
    return CaseRecord(case, judge(case, now, exhausted=exhausted), now)
