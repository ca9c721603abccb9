"""What facts and cases add to the metrics: how fast they were handled, and how often each kind of interruption happens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from holdfast.interruption.case import Deletion
from holdfast.interruption.event import Kind
from holdfast.interruption.ingest import Stored
from holdfast.interruption.record import NO_INTERRUPTION, CaseRecord
from holdfast.interruption.slo import FACT_P99, VERDICT_P99, first_look_seconds, is_spot_termination, verdict_seconds
from holdfast.interruption.verdict import COUNTED, Verdict

NO_CLUSTER = "none"
"""The cluster of instances that are none of ours. Theirs may be anybody's: a name would be one more value each time."""

UNKNOWN = "unknown"
"""The cluster, NodePool, instance type or zone that nobody could tell."""

UNWARNED = "unwarned"
"""The kind of an interruption that nothing announced."""

FACT_WITHIN: Final = timedelta(seconds=FACT_P99.value)
"""A fact that is in the ledger later than this after its event uses the error budget."""

VERDICT_WITHIN: Final = timedelta(seconds=VERDICT_P99.value)
"""A verdict that comes later than this after the warning uses the error budget."""

HANDLED: Final[Mapping[Verdict, bool]] = {verdict: verdict is Verdict.HANDLED_IN_TIME for verdict in COUNTED}
"""The verdicts that say something of Karpenter's handling, and whether it was as it should be. The others count as
neither: of an INCONCLUSIVE case it is not known, and the rest were not Karpenter's to handle."""

_PROMPT = frozenset({Kind.SPOT_WARNING, Kind.CAPACITY_WARNING, Kind.UNKNOWN_WARNING, Kind.REBALANCE, Kind.STATE_CHANGE})
"""What EC2 tells at once. AWS Health, CloudTrail and FIS take minutes of their own, which are no measure of ours."""

_OWN_TIME = "time_from_arrival"
"""The parser's note on an event whose `time` could not be read: when it arrived stands for it."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Of one decided case.

    `handled`, `reaction` and `drain` (since the warning) are about Karpenter, `first_look` and `decided` (since the
    warning too) about the audit itself; None where they are unknown or no measure.
    """

    cluster: str
    nodepool: str | None
    verdict: Verdict
    handled: bool | None = None
    reaction: timedelta | None = None
    drain: timedelta | None = None
    first_look: timedelta | None = None
    decided: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One interruption of an instance of ours, by what rates are told by. `kind` is Karpenter's word or `unwarned`."""

    cluster: str
    nodepool: str
    kind: str
    instance_type: str
    zone: str


def measure(record: CaseRecord) -> Measures | None:
    """The measures of a final case; None for one that comes from a replay, which happened and was counted before."""
    case, verdict = record.case, record.judgement.verdict
    if case.replay:
        return None
    if verdict is Verdict.FOREIGN:
        return Measures(NO_CLUSTER, None, verdict)
    # The objectives are about the two minutes before a Spot instance ends: a Health notice leaves days.
    timed = is_spot_termination(case)
    begun = timed and case.deletion in {Deletion.IN_TIME, Deletion.LATE}
    own = timed and verdict not in NO_INTERRUPTION
    return Measures(
        case.cluster or UNKNOWN,
        case.nodepool if case.cluster is not None else None,
        verdict,
        HANDLED.get(verdict) if timed else None,
        _since(case.warned_at, case.deleted_at) if begun else None,
        _since(case.warned_at, case.drained_at) if begun else None,
        _duration(first_look_seconds(record)) if own else None,
        _duration(verdict_seconds(record)) if own else None,
    )


def is_counted(record: CaseRecord) -> bool:
    """Whether the interruption belongs into the rates: as soon as its cluster is known, at the latest when it is decided.

    A rate has to rise while instances are lost, which is minutes before the last of their verdicts.
    """
    if record.case.replay or not record.is_interruption:
        return False
    return record.case.cluster is not None or record.judgement.final


def occurrence(record: CaseRecord) -> Occurrence:
    """What a counted interruption is told by; what nobody could tell is `unknown`, so that each sum is the whole."""
    case = record.case
    return Occurrence(
        case.cluster or UNKNOWN,
        case.nodepool or UNKNOWN,
        UNWARNED if case.kind is None else case.kind.value,
        case.instance_type or UNKNOWN,
        case.zone or UNKNOWN,
    )


def fact_lags(stored: Sequence[Stored], *, stored_at: datetime) -> Iterator[timedelta]:
    """From its event to the ledger, of each fact that is new there. `stored_at` is when the last of them was there.

    Left out are facts that say nothing of our speed: replays, deliveries of what the ledger held already, events whose
    own time is not known, and sources that tell late themselves. A warning that a dead-letter queue gave back was late.
    """
    for item in stored:
        fact = item.fact
        if item.new and fact.replay is None and fact.kind in _PROMPT and _OWN_TIME not in fact.notes:
            yield max(stored_at - fact.at, timedelta(0))


def _since(warned_at: datetime | None, at: datetime | None) -> timedelta | None:
    if warned_at is None or at is None:
        return None
    # Clocks differ by a second or two; before the warning nobody can have acted on it.
    return max(at - warned_at, timedelta(0))


def _duration(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)
