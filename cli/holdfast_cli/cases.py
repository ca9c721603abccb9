"""A judged case as JSON and as a story: what happened when, counted from the warning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from holdfast.interruption.announce import alert_of
from holdfast.interruption.case import Case
from holdfast.interruption.event import WARNINGS, Fact, Kind
from holdfast.interruption.observation import (
    Answer,
    ClusterView,
    InstanceView,
    Observation,
    QueueView,
    ShortageView,
    WorkloadsView,
)
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restoration
from holdfast.times import format_time

CASE_KEYS: Mapping[str, str] = {
    "key": "`account/region/instance/cycle`: the name of the case",
    "account": "the AWS account of the instance",
    "region": "the region of the instance",
    "instance": "the EC2 instance id",
    "cycle": (
        "`0`, or the LaunchTime of the run for an instance that stops and starts again, or the time of the warning for a "
        "second interruption of one run"
    ),
    "cluster": "the EKS cluster",
    "nodepool": "the NodePool",
    "nodeclaim": "the NodeClaim",
    "node": "the Node",
    "instance_type": "the instance type",
    "zone": "the availability zone",
    "capacity_type": "`spot`, `on-demand` or `reserved`",
    "verdict": "what became of the interruption: see [interruptions.md](interruptions.md)",
    "cause": "why it was not handled in time, where the verdict has a cause",
    "reason": "the sentence that carries the verdict, with times",
    "final": "false while a planned look may still change the verdict",
    "notes": "remarks that do not change the verdict by themselves",
    "missing": "the evidence that a better verdict would need; empty unless INCONCLUSIVE",
    "alert": "the severity of the alert on this verdict: `page`, `warning` or `info`; null when nobody is told",
    "kind": "what announced the interruption; null without a warning",
    "action": "what EC2 announced to do: `terminate`, `stop` or `hibernate`",
    "warned_at": "the first warning",
    "deadline": "when EC2 announced to act",
    "closed_at": "when AWS Health closed the notice",
    "rebalance_at": "the first rebalance recommendation",
    "deletion": "when Karpenter began, as the decision table counts it",
    "deleted_at": "the NodeClaim's deletionTimestamp",
    "drained": "whether the pods were off in time, as the decision table counts it",
    "drained_at": "since when the NodeClaim's condition Drained is True",
    "end": "who ended the instance, as the decision table counts it",
    "end_code": "EC2's StateReason code",
    "ended_at": "when the instance began to stop or shut down",
    "terminated_at": "when the instance was first known to be terminated",
    "ghost_gone_at": "which look saw that a NodeClaim noted as a ghost had gone",
    "pods_left": "pods that the drain had to move, at the last look that read them",
    "blockers": "pods that did not leave, each with `namespace`, `pod`, `owner`, `reason` and `detail`",
    "judged_at": "when the verdict was reached",
    "degraded": "why the audit was in degraded mode then, in which most looks leave out the pods; null when it was not",
    "restoration": (
        "whether [the workloads stand again](interruptions.md#were-the-workloads-restored): `state`, `cause`, `reason`,"
        " `first_at`, `missing_at`, `back_at`, `workloads`, `uncovered`, `replacements`; null where that is no question"
    ),
}
"""The keys of a case in JSON, and what each says. Times are RFC 3339 in UTC; what is not known is null."""


def case_document(record: CaseRecord) -> dict[str, Any]:
    """The case with its verdict under the keys of `CASE_KEYS`; what is not known is null, never left out."""
    case, judgement = record.case, record.judgement
    alert = alert_of(record, corrects=False)
    return {
        "key": case.key,
        "account": case.account,
        "region": case.region,
        "instance": case.instance_id,
        "cycle": case.cycle,
        "cluster": case.cluster,
        "nodepool": case.nodepool,
        "nodeclaim": case.nodeclaim,
        "node": case.node,
        "instance_type": case.instance_type,
        "zone": case.zone,
        "capacity_type": case.capacity_type,
        "verdict": judgement.verdict.value,
        "cause": judgement.cause.value if judgement.cause is not None else None,
        "reason": judgement.reason,
        "final": judgement.final,
        "notes": [note.value for note in judgement.notes],
        "missing": list(judgement.missing),
        "alert": alert.severity.value if alert is not None else None,
        "kind": case.kind.value if case.kind is not None else None,
        "action": case.action,
        "warned_at": _time(case.warned_at),
        "deadline": _time(case.deadline),
        "closed_at": _time(case.closed_at),
        "rebalance_at": _time(case.rebalance_at),
        "deletion": case.deletion.value,
        "deleted_at": _time(case.deleted_at),
        "drained": case.drained.value,
        "drained_at": _time(case.drained_at),
        "end": case.end.value,
        "end_code": case.end_code,
        "ended_at": _time(case.ended_at),
        "terminated_at": _time(case.terminated_at),
        "ghost_gone_at": _time(case.ghost_gone_at),
        "pods_left": case.pods_left,
        "blockers": [
            {
                "namespace": blocker.namespace,
                "pod": blocker.pod,
                "owner": blocker.owner,
                "reason": blocker.reason.value,
                "detail": blocker.detail,
            }
            for blocker in case.blockers
        ],
        "judged_at": format_time(record.judged_at),
        "degraded": record.degraded,
        "restoration": _restoration(case.restoration) if case.restoration is not None else None,
    }


def _restoration(restoration: Restoration) -> dict[str, Any]:
    return {
        "state": restoration.state.value,
        "cause": restoration.cause.value if restoration.cause is not None else None,
        "reason": restoration.reason,
        "first_at": _time(restoration.first_at),
        "missing_at": _time(restoration.missing_at),
        "back_at": _time(restoration.back_at),
        "workloads": [
            {
                "kind": item.kind,
                "namespace": item.namespace,
                "name": item.name,
                "before": item.before,
                "desired": item.desired,
                "ready": item.ready,
            }
            for item in restoration.workloads
        ],
        "uncovered": list(restoration.uncovered),
        "replacements": [
            {
                "nodeclaim": item.nodeclaim,
                "created_at": format_time(item.created_at),
                "state": item.state,
                "instance_type": item.instance_type,
                "zone": item.zone,
                "capacity_type": item.capacity_type,
                "reason": item.reason,
            }
            for item in restoration.replacements
        ],
    }


def _time(moment: datetime | None) -> str | None:
    return format_time(moment) if moment is not None else None


@dataclass(frozen=True, slots=True)
class Moment:
    """One line of a case's story. `offset` is counted from the warning, or from the first event when there was none."""

    at: datetime
    offset: timedelta
    what: str
    details: tuple[str, ...] = ()


def timeline(case: Case, facts: Iterable[Fact], observations: Iterable[Observation]) -> tuple[Moment, ...]:
    """What happened in the case, in order: the events, what Karpenter did, and what each look saw.

    All facts and observations must be about the case's instance; an instance that was stopped and started again has
    several cases and one story.
    """
    events = set(facts)
    told: list[tuple[datetime, int, str, tuple[str, ...]]] = [
        (fact.at, 0, _said(fact), tuple(_aside(fact))) for fact in events
    ]
    for moment, what in (
        (case.deleted_at, "Karpenter began: the NodeClaim was deleted"),
        (case.drained_at, "the drain was over (condition Drained)"),
        (case.deadline, "the announced deadline"),
        (case.restoration.back_at if case.restoration is not None else None, "the workloads were seen ready again"),
    ):
        if moment is not None:
            told.append((moment, 1, what, ()))
    if case.ended_at is not None and not any(fact.at == case.ended_at and fact.state for fact in events):
        told.append((case.ended_at, 1, "the instance ended (EC2's StateTransitionReason)", ()))
    told += [(look.at, 2, "Holdfast looked", tuple(_saw(look))) for look in set(observations)]
    told.sort(key=lambda entry: (entry[0], entry[1], entry[2], entry[3]))
    if not told:
        return ()
    origin = case.warned_at or told[0][0]
    return tuple(Moment(at, at - origin, what, details) for at, _, what, details in told)


def offset_text(offset: timedelta) -> str:
    """Seconds with a sign near the warning, minutes, hours or days further away: `+35 s`, `-15 min`, `+7.0 d`."""
    seconds = offset.total_seconds()
    size = abs(seconds)
    if size < 600:
        return f"{seconds:+.0f} s"
    if size < 2 * 3600:
        return f"{seconds / 60:+.0f} min"
    return f"{seconds / 3600:+.1f} h" if size < 48 * 3600 else f"{seconds / 86400:+.1f} d"


_KINDS = {
    Kind.SPOT_WARNING: "Spot interruption warning",
    Kind.REBALANCE: "rebalance recommendation",
    Kind.CAPACITY_WARNING: "capacity reservation interruption warning",
    Kind.SCHEDULED_CHANGE: "AWS Health scheduled change",
    Kind.STATE_CHANGE: "EC2 state",
    Kind.UNKNOWN_WARNING: "an interruption warning of an unknown kind",
    Kind.BID_EVICTED: "CloudTrail BidEvictedEvent: EC2 took the Spot instance",
    Kind.TERMINATE_CALL: "CloudTrail TerminateInstances",
    Kind.SPOT_FULFILLED: "the Spot request was fulfilled",
    Kind.RESERVATION_NOTICE: "capacity reservation notice",
    Kind.EXPERIMENT: "FIS experiment",
    Kind.CANARY: "Holdfast's own canary",
}


def _said(fact: Fact) -> str:
    parts = [_KINDS[fact.kind]]
    parts += [part for part in (fact.state, fact.event_code, fact.status) if part]
    if fact.kind in WARNINGS and fact.action:
        parts.append(f"(action {fact.action})")
    if fact.actor:
        parts.append(f"by {fact.actor}")
    return " ".join(parts)


def _aside(fact: Fact) -> Iterable[str]:
    if fact.announced is not None:
        yield f"announced for {format_time(fact.announced)}"
    if fact.replay is not None:
        yield f"replayed from the archive ({fact.replay})"
    if fact.notes:
        yield f"read with: {', '.join(fact.notes)}"


def _saw(look: Observation) -> Iterable[str]:
    yield f"EC2: {_ec2(look.ec2)}"
    yield f"Kubernetes: {_kubernetes(look.kubernetes)}"
    if look.kubernetes is not None and look.kubernetes.answer is Answer.OK:
        yield f"pods: {_pods(look.kubernetes)}"
        for blocker in look.kubernetes.blockers:
            yield f"held: {blocker.namespace}/{blocker.pod}: {blocker.detail}"
        if look.kubernetes.blockers_unnamed:
            yield f"held: {look.kubernetes.blockers_unnamed} more pods"
    if look.workloads is not None:
        yield from (f"workloads: {text}" for text in _workloads(look.workloads))
    if look.queue is not None:
        yield f"Karpenter's queue: {_queue(look.queue)}"


def _failed(answer: Answer, reason: str) -> str:
    return f"{answer.value}{f': {reason}' if reason else ''}"


def _ec2(view: InstanceView | None) -> str:
    if view is None:
        return "not asked"
    if view.answer is not Answer.OK:
        return _failed(view.answer, view.reason)
    parts = [view.state or "state not told"]
    if view.state_reason:
        parts.append(view.state_reason)
    if view.transitioned_at is not None:
        parts.append(f"since {format_time(view.transitioned_at)}")
    if view.spot_status:
        parts.append(f"Spot request {view.spot_status}")
    return ", ".join(parts)


def _kubernetes(view: ClusterView | None) -> str:
    if view is None:
        return "not asked"
    if view.answer is not Answer.OK:
        return _failed(view.answer, view.reason)
    deletion = "not deleting" if view.deleted_at is None else f"deleted {format_time(view.deleted_at)}"
    conditions = [f"{condition.type}={condition.status}" for condition in view.conditions]
    return ", ".join([f"NodeClaim {view.nodeclaim or '(no name)'} {deletion}", *conditions])


def _pods(view: ClusterView) -> str:
    if view.pods_answer is not Answer.OK:
        return f"not known ({_failed(view.pods_answer, view.pods_reason)})"
    return f"{_count(view.pods_left)} still to move"


def _workloads(view: WorkloadsView) -> Iterable[str]:
    if view.answer is not Answer.OK:
        yield _failed(view.answer, view.reason)
    for row in view.workloads:
        name = f"{row.kind} {row.namespace}/{row.name}"
        yield f"{name} {row.ready} of {row.desired} ready" if row.desired is not None else f"{name} is gone"
    if view.workloads_unnamed:
        yield f"{view.workloads_unnamed} more"
    for item in view.replacements:
        yield f"probable replacement: NodeClaim {item.nodeclaim} {item.state}{f', {item.reason}' if item.reason else ''}"
    if view.replacements_unnamed:
        yield f"{view.replacements_unnamed} more probable replacements"
    if view.shortage is not None:
        yield f"short: {_short(view.shortage)}"


def _short(view: ShortageView) -> str:
    if view.answer is not Answer.OK:
        return f"not known ({_failed(view.answer, view.reason)})"
    parts = [f"{_count(view.waiting)} pods pending", *(view.limits or ())]
    parts += [f"EC2 had no capacity for {name}" for name in view.refused or ()]
    return "; ".join([*parts, view.message] if view.message else parts)


def _queue(view: QueueView) -> str:
    if view.answer is not Answer.OK:
        return _failed(view.answer, view.reason)
    return (
        f"{_count(view.visible)} waiting, {_count(view.in_flight)} in flight, "
        f"{_count(view.dead_letters)} in its dead-letter queue, {_count(view.undelivered)} undelivered"
    )


def _count(value: int | None) -> str:
    return "unknown" if value is None else str(value)
