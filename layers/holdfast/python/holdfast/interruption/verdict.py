"""From a case to a verdict: did Karpenter get the pods off in time, and if not, why.

Precedence, highest first:

1. FOREIGN: not an instance of our clusters.
2. Without a warning: UNWARNED when EC2 took the instance, GHOST when its NodeClaim outlived it, else NOT_APPLICABLE.
3. NOT_APPLICABLE: a Health notice that was closed before Karpenter acted on it.
4. INCONCLUSIVE: times of the cluster on which the table would rest contradict when they were seen.
5. The table below over NodeClaim deletion x drain x end of the instance: 100 cells, each decided and reasoned.

A NodeClaim that outlives its instance says nothing about the drain: beside a warning it is a finding of its own.
A cell says what its evidence proves and no more: where two truths fit, it is INCONCLUSIVE.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import product
from typing import Final

from holdfast.interruption.case import (
    CLAIM_TOO_NEW,
    NEVER_RAN,
    START_WITHIN,
    TOLERANCE,
    UNTOUCHED,
    Case,
    Deletion,
    Drained,
    End,
    Note,
)
from holdfast.interruption.observation import BlockerReason
from holdfast.interruption.schedule import UNWARNED_AFTER
from holdfast.times import format_time


class Verdict(StrEnum):
    """What became of an interruption."""

    HANDLED_IN_TIME = "HANDLED_IN_TIME"
    HANDLED_FORCED = "HANDLED_FORCED"
    HANDLED_LATE = "HANDLED_LATE"
    RECLAIMED_BEFORE_DRAIN = "RECLAIMED_BEFORE_DRAIN"
    MISSED = "MISSED"
    UNWARNED = "UNWARNED"
    NOT_RECLAIMED = "NOT_RECLAIMED"
    SUPERSEDED = "SUPERSEDED"
    FOREIGN = "FOREIGN"
    GHOST = "GHOST"
    NOT_APPLICABLE = "NOT_APPLICABLE"
    INCONCLUSIVE = "INCONCLUSIVE"


COUNTED: Final = (
    Verdict.HANDLED_IN_TIME,
    Verdict.HANDLED_FORCED,
    Verdict.HANDLED_LATE,
    Verdict.RECLAIMED_BEFORE_DRAIN,
    Verdict.MISSED,
)
"""The verdicts that say how Karpenter handled a warning. The others tell nothing about that, or nothing for certain."""


class Cause(StrEnum):
    """Why a drain was not in time (first group) or a warning not acted on (second group)."""

    BLOCKED_BY_DO_NOT_DISRUPT = "BLOCKED_BY_DO_NOT_DISRUPT"
    BLOCKED_BY_PDB = "BLOCKED_BY_PDB"
    LONG_POD_GRACE = "LONG_POD_GRACE"
    VOLUME_DETACH = "VOLUME_DETACH"
    LATE_START = "LATE_START"
    NO_NOTICE_WINDOW = "NO_NOTICE_WINDOW"

    NOT_DELIVERED = "NOT_DELIVERED"
    CONSUMER_ABSENT = "CONSUMER_ABSENT"
    QUEUE_BEHIND = "QUEUE_BEHIND"
    NODECLAIM_TOO_NEW = "NODECLAIM_TOO_NEW"
    MESSAGE_TAKEN = "MESSAGE_TAKEN"
    UNREADABLE_MESSAGE = "UNREADABLE_MESSAGE"

    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A verdict with the sentence that carries it. `final` is False while a later look may still change it."""

    verdict: Verdict
    cause: Cause | None
    reason: str
    final: bool
    notes: tuple[Note, ...] = ()
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the decision table."""

    verdict: Verdict
    why: str


_V = Verdict
_CONTRADICTS = Cell(
    _V.INCONCLUSIVE, "a finished drain without a deletion in time contradicts itself; a clock may be off"
)
_BEFORE = Cell(_V.SUPERSEDED, "Karpenter was already removing the node before the warning came")

_IN_TIME: Mapping[tuple[Drained, End], Cell] = {
    (Drained.IN_TIME, End.CONTROLLER): Cell(
        _V.HANDLED_IN_TIME, "Karpenter drained the node and ended the instance before the deadline"
    ),
    (Drained.IN_TIME, End.OTHER_CLIENT): Cell(
        _V.HANDLED_IN_TIME,
        "the node was drained before the deadline; then somebody other than Karpenter ended the instance",
    ),
    (Drained.IN_TIME, End.SERVER): Cell(
        _V.HANDLED_IN_TIME,
        "the pods were off before the deadline; EC2 took the instance while Karpenter was finishing up",
    ),
    (Drained.IN_TIME, End.RUNNING): Cell(
        _V.HANDLED_IN_TIME, "the node was drained before the deadline, though EC2 never took the instance"
    ),
    (Drained.IN_TIME, End.UNKNOWN): Cell(_V.HANDLED_IN_TIME, "the node was drained before the deadline"),
    (Drained.LATE, End.CONTROLLER): Cell(
        _V.HANDLED_LATE, "Karpenter finished the drain only after the deadline, on a machine that outlived it"
    ),
    (Drained.LATE, End.OTHER_CLIENT): Cell(
        _V.HANDLED_LATE,
        "the drain finished after the deadline; somebody other than Karpenter ended the instance",
    ),
    (Drained.LATE, End.SERVER): Cell(
        _V.HANDLED_LATE, "the drain finished after the deadline, yet before EC2 took the instance"
    ),
    (Drained.LATE, End.RUNNING): Cell(
        _V.HANDLED_LATE, "the drain finished after the deadline; EC2 never took the instance"
    ),
    (Drained.LATE, End.UNKNOWN): Cell(
        _V.INCONCLUSIVE,
        "the drain ended after the deadline, but whether EC2 had taken the instance by then is not known",
    ),
    (Drained.SEEN_FALSE, End.CONTROLLER): Cell(
        _V.HANDLED_FORCED,
        "Karpenter ended the instance before a look saw its drain over: pods were cut off",
    ),
    (Drained.SEEN_FALSE, End.OTHER_CLIENT): Cell(
        _V.SUPERSEDED,
        "somebody other than Karpenter ended the instance, and no look saw the drain finished before that",
    ),
    (Drained.SEEN_FALSE, End.SERVER): Cell(
        _V.RECLAIMED_BEFORE_DRAIN, "EC2 took the instance while pods were still on it"
    ),
    (Drained.SEEN_FALSE, End.RUNNING): Cell(
        _V.NOT_RECLAIMED, "EC2 did not take the instance; the drain was not over at the deadline"
    ),
    (Drained.SEEN_FALSE, End.UNKNOWN): Cell(
        _V.INCONCLUSIVE,
        "the drain was not over at the deadline, but who ended the instance, and when, is not known",
    ),
    (Drained.UNSEEN, End.CONTROLLER): Cell(
        _V.INCONCLUSIVE,
        "Karpenter ended the instance, but a grace period may have cut the pods off: no look saw the drain",
    ),
    (Drained.UNSEEN, End.OTHER_CLIENT): Cell(
        _V.INCONCLUSIVE,
        "somebody other than Karpenter ended the instance after the drain had begun; no look saw whether it was over",
    ),
    (Drained.UNSEEN, End.SERVER): Cell(
        _V.RECLAIMED_BEFORE_DRAIN, "EC2 took the instance, and no look saw the drain finished"
    ),
    (Drained.UNSEEN, End.RUNNING): Cell(
        _V.INCONCLUSIVE, "EC2 did not take the instance, and no look saw whether the drain finished"
    ),
    (Drained.UNSEEN, End.UNKNOWN): Cell(
        _V.INCONCLUSIVE, "Karpenter began in time, but neither the drain nor the end of the instance was seen"
    ),
}

_LATE: Mapping[tuple[Drained, End], Cell] = {
    **{(Drained.IN_TIME, end): _CONTRADICTS for end in End},
    (Drained.LATE, End.CONTROLLER): Cell(
        _V.HANDLED_LATE,
        "Karpenter began only after the deadline and then drained the node and ended the instance",
    ),
    (Drained.LATE, End.OTHER_CLIENT): Cell(
        _V.HANDLED_LATE, "Karpenter began and drained after the deadline; somebody else ended the instance"
    ),
    (Drained.LATE, End.SERVER): Cell(
        _V.HANDLED_LATE, "Karpenter began and drained after the deadline, yet before EC2 took the instance"
    ),
    (Drained.LATE, End.RUNNING): Cell(
        _V.HANDLED_LATE, "Karpenter began and drained after the deadline; EC2 never took the instance"
    ),
    (Drained.LATE, End.UNKNOWN): Cell(
        _V.INCONCLUSIVE,
        "Karpenter began after the deadline; whether EC2 had taken the instance before the drain is not known",
    ),
    (Drained.SEEN_FALSE, End.CONTROLLER): Cell(
        _V.HANDLED_LATE,
        "Karpenter began only after the deadline and then ended the instance itself",
    ),
    (Drained.SEEN_FALSE, End.OTHER_CLIENT): Cell(
        _V.SUPERSEDED, "nothing had begun by the deadline; somebody other than Karpenter ended the instance"
    ),
    (Drained.SEEN_FALSE, End.SERVER): Cell(
        _V.MISSED,
        "nothing had begun by the deadline; the NodeClaim was deleted only when EC2 was already taking the instance",
    ),
    (Drained.SEEN_FALSE, End.RUNNING): Cell(
        _V.NOT_RECLAIMED, "EC2 did not take the instance; Karpenter began only after the deadline"
    ),
    (Drained.SEEN_FALSE, End.UNKNOWN): Cell(
        _V.INCONCLUSIVE, "Karpenter began after the deadline; who ended the instance is not known"
    ),
    (Drained.UNSEEN, End.CONTROLLER): Cell(
        _V.HANDLED_LATE, "Karpenter began only after the deadline and ended the instance itself"
    ),
    (Drained.UNSEEN, End.OTHER_CLIENT): Cell(
        _V.SUPERSEDED, "nothing had begun by the deadline; somebody other than Karpenter ended the instance"
    ),
    (Drained.UNSEEN, End.SERVER): Cell(
        _V.MISSED,
        "nothing had begun by the deadline; the NodeClaim was deleted only when EC2 was already taking the instance",
    ),
    (Drained.UNSEEN, End.RUNNING): Cell(
        _V.INCONCLUSIVE, "Karpenter began after the deadline, and no look saw whether the drain finished"
    ),
    (Drained.UNSEEN, End.UNKNOWN): Cell(
        _V.INCONCLUSIVE,
        "Karpenter began after the deadline; neither the drain nor the end of the instance was seen",
    ),
}

_NOT_DELETING_ENDS: Mapping[End, Cell] = {
    End.CONTROLLER: Cell(
        _V.HANDLED_LATE, "nothing had begun by the deadline; later Karpenter ended the instance itself"
    ),
    End.OTHER_CLIENT: Cell(
        _V.SUPERSEDED, "nothing had begun by the deadline; somebody other than Karpenter ended the instance"
    ),
    End.SERVER: Cell(_V.MISSED, "Karpenter did nothing by the deadline, and EC2 took the instance"),
    End.RUNNING: Cell(_V.NOT_RECLAIMED, "Karpenter did nothing, and EC2 did not take the instance either"),
    End.UNKNOWN: Cell(
        _V.INCONCLUSIVE, "Karpenter did nothing by the deadline; what became of the instance is not known"
    ),
}

_UNSEEN_ENDS: Mapping[End, Cell] = {
    End.CONTROLLER: Cell(
        _V.INCONCLUSIVE,
        "Karpenter ended the instance, but no look saw when it began or whether the drain finished",
    ),
    End.OTHER_CLIENT: Cell(
        _V.INCONCLUSIVE,
        "somebody other than Karpenter ended the instance; whether it had been drained before was not seen",
    ),
    End.SERVER: Cell(_V.INCONCLUSIVE, "EC2 took the instance; whether Karpenter had begun was not seen"),
    End.RUNNING: Cell(_V.INCONCLUSIVE, "EC2 did not take the instance; whether Karpenter drained it was not seen"),
    End.UNKNOWN: Cell(_V.INCONCLUSIVE, "neither Karpenter's work nor the end of the instance was seen"),
}

TABLE: Final[Mapping[tuple[Deletion, Drained, End], Cell]] = {
    **{(Deletion.BEFORE_WARNING, drained, end): _BEFORE for drained, end in product(Drained, End)},
    **{(Deletion.IN_TIME, drained, end): cell for (drained, end), cell in _IN_TIME.items()},
    **{(Deletion.LATE, drained, end): cell for (drained, end), cell in _LATE.items()},
    **{
        (Deletion.NOT_DELETING, drained, end): _CONTRADICTS
        if drained in {Drained.IN_TIME, Drained.LATE}
        else _NOT_DELETING_ENDS[end]
        for drained, end in product(Drained, End)
    },
    **{
        (Deletion.UNSEEN, drained, end): _CONTRADICTS
        if drained in {Drained.IN_TIME, Drained.LATE}
        else _UNSEEN_ENDS[end]
        for drained, end in product(Drained, End)
    },
}
"""The decision table: every combination of deletion, drain and end has exactly one cell."""


def judge(case: Case, now: datetime, *, exhausted: bool) -> Judgement:
    """The verdict that the case's evidence carries at `now`. `exhausted` says that no further look is planned."""
    verdict, why = _decide(case, now)
    cause = _cause(case, verdict)
    reason = _sentence(case, why, verdict, cause)
    return Judgement(
        verdict=verdict,
        cause=cause,
        reason=reason,
        final=exhausted or _settled(case, verdict, now),
        notes=case.notes,
        missing=case.missing if verdict is _V.INCONCLUSIVE else (),
    )


def _decide(case: Case, now: datetime) -> tuple[Verdict, str]:
    if case.foreign is not None:
        return _V.FOREIGN, f"the instance is none of ours: {case.foreign}"
    if case.warned_at is None:
        return _unwarned(case, now)
    if case.closed_at is not None and case.deletion in UNTOUCHED and case.end is not End.SERVER:
        return _V.NOT_APPLICABLE, "AWS closed the notice, and nothing shows that Karpenter had acted on it"
    if Note.CLUSTER_CLOCK_OFF in case.notes:
        return _V.INCONCLUSIVE, "the cluster's times contradict when they were seen, so nothing can be placed by them"
    cell = TABLE[case.deletion, case.drained, case.end]
    verdict, why = cell.verdict, cell.why
    if case.end is End.CONTROLLER and case.ended_at is not None and case.deadline is not None:
        over = case.ended_at > case.deadline + TOLERANCE
        if verdict is _V.HANDLED_FORCED and over:
            verdict, why = (
                _V.HANDLED_LATE,
                "the drain was not over at the deadline; Karpenter ended the instance later",
            )
        elif case.deletion is Deletion.NOT_DELETING and not over:
            verdict, why = (
                _V.INCONCLUSIVE,
                "Karpenter ended the instance before the deadline, yet was later seen not to have begun",
            )
    if case.drained is Drained.LATE and case.end is End.SERVER and case.ended_at is None:
        return (
            _V.INCONCLUSIVE,
            "the drain finished after the deadline; whether EC2 had taken the instance by then is not known",
        )
    if verdict is _V.HANDLED_IN_TIME and case.forced is not False:
        if case.forced:
            return (
                _V.HANDLED_FORCED,
                "the node was empty before the deadline, because Karpenter cut off pods that would not leave",
            )
        return _V.INCONCLUSIVE, "the node was empty before the deadline, but a grace period may have cut pods off"
    return verdict, why


def _unwarned(case: Case, now: datetime) -> tuple[Verdict, str]:
    if case.end_code == NEVER_RAN:
        return _V.NOT_APPLICABLE, "EC2 had no capacity for the launch: the instance never ran"
    if case.end is End.SERVER:
        ended_at = case.ended_at or case.evicted_at
        if ended_at is not None and now < ended_at + UNWARNED_AFTER:
            return _V.INCONCLUSIVE, "EC2 took the instance; a warning may still arrive"
        if case.nodepool is None and case.nodeclaim is None:
            return (
                _V.INCONCLUSIVE,
                "EC2 took the instance without a warning; whether Karpenter launched it is not known",
            )
        return _V.UNWARNED, "EC2 took the instance without a warning that reached the default event bus"
    if case.ghost:
        return _V.GHOST, "the NodeClaim was still there ten minutes after the instance was terminated"
    if case.closed_at is not None:
        return _V.NOT_APPLICABLE, "the only notice is AWS closing an event: there was nothing to do"
    if case.ended_at is None:
        return _V.NOT_APPLICABLE, "nothing announced an interruption and the instance did not end"
    if case.end is End.UNKNOWN and not (case.end_code or "").startswith("Client."):
        return _V.INCONCLUSIVE, "the instance ended without a warning, and why is not known"
    return _V.NOT_APPLICABLE, "a client ended the instance: an ordinary termination, no interruption"


def _settled(case: Case, verdict: Verdict, now: datetime) -> bool:
    """Whether no further evidence is expected to change the verdict."""
    if verdict is _V.NOT_APPLICABLE:
        # Karpenter may still act on the closing of a notice.
        return case.closed_at is None
    if verdict in {_V.FOREIGN, _V.UNWARNED, _V.GHOST}:
        return True
    if verdict in {_V.INCONCLUSIVE, _V.NOT_RECLAIMED}:
        return False
    if case.deletion is Deletion.BEFORE_WARNING:
        return True
    if verdict is _V.HANDLED_IN_TIME and case.drained_at is not None:
        return True
    return case.ended_at is not None and case.ended_at <= now and case.cluster_seen_after_end


def _cause(case: Case, verdict: Verdict) -> Cause | None:
    if verdict in {_V.RECLAIMED_BEFORE_DRAIN, _V.HANDLED_FORCED, _V.HANDLED_LATE}:
        return _drain_cause(case)
    if verdict is _V.MISSED:
        return _missed_cause(case)
    return None


def _missed_cause(case: Case) -> Cause:
    """Why Karpenter did nothing, from what is certain to what remains when all else is known to be in order."""
    if Note.UNREADABLE_BY_KARPENTER in case.notes:
        return Cause.UNREADABLE_MESSAGE
    if case.queue_undelivered:
        return Cause.NOT_DELIVERED
    if case.queue_visible:
        # Whoever reads at full load always holds some messages; nobody hides any when he does not read.
        return Cause.QUEUE_BEHIND if case.queue_read else Cause.CONSUMER_ABSENT
    if case.queue_visible is None or case.claim_known_at is None or case.warned_at is None:
        return Cause.UNKNOWN
    if case.claim_known_at > case.warned_at - CLAIM_TOO_NEW:
        return Cause.NODECLAIM_TOO_NEW
    return Cause.MESSAGE_TAKEN if case.queue_emptied else Cause.UNKNOWN


def _drain_cause(case: Case) -> Cause:
    reasons = {blocker.reason for blocker in case.blockers}
    if BlockerReason.DO_NOT_DISRUPT in reasons:
        return Cause.BLOCKED_BY_DO_NOT_DISRUPT
    if BlockerReason.PDB in reasons:
        return Cause.BLOCKED_BY_PDB
    if (
        case.deleted_at is not None
        and case.warned_at is not None
        and case.deleted_at > case.warned_at + START_WITHIN + TOLERANCE
    ):
        # Before the pods' own grace: what was left of the notice then is no measure for it.
        return Cause.LATE_START
    if BlockerReason.GRACE_PERIOD in reasons:
        return Cause.LONG_POD_GRACE
    if case.pods_left == 0 and case.volumes_detached is False:
        return Cause.VOLUME_DETACH
    if Note.NO_NOTICE_WINDOW in case.notes:
        return Cause.NO_NOTICE_WINDOW
    return Cause.UNKNOWN


def _sentence(case: Case, why: str, verdict: Verdict, cause: Cause | None) -> str:
    parts = [why[0].upper() + why[1:]]
    times = _times(case)
    if times:
        parts.append(f" ({times})")
    parts.append(".")
    explained = _explain(case, cause)
    if explained:
        parts.append(f" {explained}")
    if cause in _SEEN_ON_PODS and Note.BLOCKERS_SEEN_LATE in case.notes:
        parts.append(" It was seen only after the instance had ended.")
    if verdict is _V.INCONCLUSIVE and case.missing:
        parts.append(f" Not known: {'; '.join(case.missing)}.")
    return "".join(parts)


_SEEN_ON_PODS = frozenset({Cause.BLOCKED_BY_DO_NOT_DISRUPT, Cause.BLOCKED_BY_PDB, Cause.LONG_POD_GRACE})


def _times(case: Case) -> str:
    said: list[str] = []
    origin = case.warned_at or case.ended_at
    if case.warned_at is not None:
        said.append(f"warned {format_time(case.warned_at)}")
    for name, moment in (
        ("NodeClaim deleted", case.deleted_at),
        ("drained", case.drained_at),
        ("ended", case.ended_at),
    ):
        if moment is not None and origin is not None:
            said.append(
                f"{name} {_offset(moment - origin)}" if case.warned_at is not None else f"{name} {format_time(moment)}"
            )
    if case.deadline is not None and case.warned_at is not None:
        said.append(f"deadline {_offset(case.deadline - case.warned_at)}")
    return ", ".join(said)


def _offset(delta: timedelta) -> str:
    return f"{delta.total_seconds():+.0f} s"


def _explain(case: Case, cause: Cause | None) -> str:
    match cause:
        case Cause.BLOCKED_BY_DO_NOT_DISRUPT:
            return f"Held by karpenter.sh/do-not-disrupt on {_pods(case, BlockerReason.DO_NOT_DISRUPT)}."
        case Cause.BLOCKED_BY_PDB:
            return f"Held by a PodDisruptionBudget that allowed no disruption: {_pods(case, BlockerReason.PDB)}."
        case Cause.LONG_POD_GRACE:
            return f"The grace period of {_pods(case, BlockerReason.GRACE_PERIOD)} was longer than the time left."
        case Cause.VOLUME_DETACH:
            return "The pods were gone; a volume was still detaching."
        case Cause.LATE_START:
            return "Karpenter began more than 30 s after the warning."
        case Cause.NO_NOTICE_WINDOW:
            return "Hibernation begins with the notice: there was no time to drain."
        case Cause.NOT_DELIVERED:
            return f"EventBridge could not deliver to Karpenter's queue: {case.queue_undelivered} events are in the dead-letter queue."
        case Cause.CONSUMER_ABSENT:
            return f"{case.queue_visible} messages wait in Karpenter's queue: nobody reads it."
        case Cause.QUEUE_BEHIND:
            return (
                f"{case.queue_visible} messages waited in Karpenter's queue although somebody reads it: it is behind."
            )
        case Cause.NODECLAIM_TOO_NEW:
            return f"{_age(case)}: Karpenter deletes a message whose instance it does not know yet, and does not try again."
        case Cause.MESSAGE_TAKEN:
            return (
                "The message was in none of Karpenter's queues: whoever took it did not act on it, or no rule sent it."
            )
        case Cause.UNREADABLE_MESSAGE:
            return "The message had a shape that Karpenter drops without acting on it."
        case Cause.UNKNOWN:
            return "What held it up was not seen."
        case None:
            return ""


def _age(case: Case) -> str:
    if case.claim_known_at is None or case.warned_at is None or case.claim_known_at >= case.warned_at:
        return "The NodeClaim had no instance before the warning"
    return f"The NodeClaim had its instance {(case.warned_at - case.claim_known_at).total_seconds():.0f} s before the warning"


def _pods(case: Case, reason: BlockerReason) -> str:
    held = [blocker for blocker in case.blockers if blocker.reason is reason]
    named = ", ".join(f"{blocker.namespace}/{blocker.pod} ({blocker.detail})" for blocker in held[:3])
    return named if len(held) <= 3 else f"{named} and {len(held) - 3} more"
