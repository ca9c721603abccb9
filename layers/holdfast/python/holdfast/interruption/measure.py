"""What a decided case adds to the metrics: its verdict, and for Spot terminations how the handling kept its objectives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from holdfast.interruption.case import Deletion
from holdfast.interruption.event import Kind
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import COUNTED, Verdict

NO_CLUSTER = "none"
"""The cluster of instances that are none of ours. Theirs may be anybody's: a name would be one more value each time."""

UNKNOWN_CLUSTER = "unknown"

HANDLED: Final[Mapping[Verdict, bool]] = {verdict: verdict is Verdict.HANDLED_IN_TIME for verdict in COUNTED}
"""The verdicts that say something of Karpenter's handling, and whether it was as it should be. The others count as
neither: of an INCONCLUSIVE case it is not known, and the rest were not Karpenter's to handle."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one case. `handled`, `reaction` and `drain` (since the warning) are None where they are unknown or no measure."""

    cluster: str
    nodepool: str | None
    verdict: Verdict
    handled: bool | None
    reaction: timedelta | None
    drain: timedelta | None


def measure(record: CaseRecord) -> Measures | None:
    """The measures of a final case; None for one that comes from a replay, which happened and was counted before."""
    case, verdict = record.case, record.judgement.verdict
    if case.replay:
        return None
    if verdict is Verdict.FOREIGN:
        return Measures(NO_CLUSTER, None, verdict, None, None, None)
    # The objectives are about the two minutes before a Spot instance ends: a Health notice leaves days.
    timed = case.kind is Kind.SPOT_WARNING and case.action == "terminate"
    begun = timed and case.deletion in {Deletion.IN_TIME, Deletion.LATE}
    return Measures(
        case.cluster or UNKNOWN_CLUSTER,
        case.nodepool if case.cluster is not None else None,
        verdict,
        HANDLED.get(verdict) if timed else None,
        _since(case.warned_at, case.deleted_at) if begun else None,
        _since(case.warned_at, case.drained_at) if begun else None,
    )


def _since(warned_at: datetime | None, at: datetime | None) -> timedelta | None:
    if warned_at is None or at is None:
        return None
    # Clocks differ by a second or two; before the warning nobody can have acted on it.
    return max(at - warned_at, timedelta(0))
