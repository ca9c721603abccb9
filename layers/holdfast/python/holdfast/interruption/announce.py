"""The alert on a judged case: what happened, what it means for the cluster, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

from holdfast.alerts.alert import NO_ACTION, Alert, Severity
from holdfast.interruption.case import GHOST_AFTER, Case
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restored, Shortage
from holdfast.interruption.verdict import Cause, Verdict
from holdfast.times import format_time


@dataclass(frozen=True, slots=True)
class _Text:
    severity: Severity
    title: str
    meaning: str
    action: str


_TEXTS: Mapping[Verdict, _Text] = {
    Verdict.HANDLED_IN_TIME: _Text(
        Severity.INFO,
        "handled in time",
        "The pods were off the node before EC2 took it: the interruption cost nothing but the move.",
        NO_ACTION,
    ),
    Verdict.HANDLED_FORCED: _Text(
        Severity.WARNING,
        "drained by force",
        "The node went in time, but a grace period cut pods off: whatever they were doing was interrupted.",
        "Look at terminationGracePeriod of the NodePool, and at what kept the pods from leaving.",
    ),
    Verdict.HANDLED_LATE: _Text(
        Severity.WARNING,
        "handled late",
        "Karpenter drained the node after the deadline, on a machine that happened to outlive it. The next one may not.",
        "Find out why it began or ended so late: Karpenter's log and the age of its queue at that time.",
    ),
    Verdict.RECLAIMED_BEFORE_DRAIN: _Text(
        Severity.PAGE,
        "reclaimed before the drain was over",
        "EC2 took the machine while pods were on it: they were killed without their grace period.",
        "Mend what held the pods; check that their work was redone.",
    ),
    Verdict.MISSED: _Text(
        Severity.PAGE,
        "missed by Karpenter",
        "The warning came and Karpenter did nothing: every further interruption in this cluster will kill pods the same way.",
        "Check that Karpenter runs and reads its queue: settings.interruptionQueue, its permissions on the queue, its log.",
    ),
    Verdict.UNWARNED: _Text(
        Severity.WARNING,
        "reclaimed without a warning",
        "EC2 took the instance and no warning reached the default event bus: EC2's warnings are best effort, or a rule is missing.",
        "If it happens more than now and then, check the audit rules; for hibernation there is no warning time at all.",
    ),
    Verdict.NOT_RECLAIMED: _Text(
        Severity.INFO,
        "announced, but not taken",
        "EC2 warned and then let the instance run.",
        "Nothing, unless Karpenter did not act on the warning: then see whether it reads its queue.",
    ),
    Verdict.SUPERSEDED: _Text(
        Severity.INFO,
        "overtaken by something else",
        "The node was being removed for another reason, so this interruption says nothing about Karpenter's handling.",
        NO_ACTION,
    ),
    Verdict.GHOST: _Text(
        Severity.WARNING,
        "NodeClaim outlived its instance",
        "Karpenter still counts a machine that is gone: capacity and limits are wrong until the NodeClaim goes.",
        "Look at the NodeClaim's finalizers and at Karpenter's log; upgrade below 1.14.1, which had such a defect.",
    ),
    Verdict.INCONCLUSIVE: _Text(
        Severity.WARNING,
        "could not be judged",
        "The evidence does not tell whether the node was drained in time. It is not counted as handled.",
        "See what is missing below; if EC2 or the Kubernetes API refused us, mend that permission.",
    ),
}

_CAUSE_ACTIONS: Mapping[Cause, str] = {
    Cause.BLOCKED_BY_PDB: "Give the PodDisruptionBudget room: more replicas, or maxUnavailable of at least 1.",
    Cause.BLOCKED_BY_DO_NOT_DISRUPT: "Keep pods with karpenter.sh/do-not-disrupt off Spot nodes: EC2 does not wait for them.",
    Cause.LONG_POD_GRACE: "Bring terminationGracePeriodSeconds of these pods below about 90 s, or run them on On-Demand.",
    Cause.NOT_DELIVERED: "Read the target dead-letter queue: its messages name rule and error, often the queue policy or a KMS key.",
    Cause.CONSUMER_ABSENT: "Set settings.interruptionQueue in Karpenter's Helm values to the queue's name, and check that its pod runs.",
    Cause.UNREADABLE_MESSAGE: "Keep the event body; report it to Karpenter. Holdfast reads it, Karpenter 1.14 does not.",
    Cause.QUEUE_BEHIND: "See what slows Karpenter down: CPU limits, its log, refused calls to Kubernetes, and the age of its queue.",
    Cause.NODECLAIM_TOO_NEW: "Nothing, if it is a single case. If there are many, Spot takes new nodes back: allow more types.",
    Cause.MESSAGE_TAKEN: (
        "Ask `holdfast doctor` whether the rules still send; look in CloudTrail for another reader of the queue, and in "
        'Karpenter\'s log for "failed parsing interruption message" or a restart at that time.'
    ),
    Cause.LATE_START: "See what kept Karpenter: its leader election, its log, and how many messages its queue held.",
}


_RESTORED: Mapping[Restored, str] = {
    Restored.NOTHING_TO_RESTORE: "nothing to restore",
    Restored.PENDING: "not known yet",
    Restored.RESTORED_IN_TIME: "restored in time",
    Restored.RESTORED_LATE: "restored late",
    Restored.NO_REPLACEMENT: "not restored",
    Restored.UNKNOWN: "not known",
}

_SHORTAGE_ACTIONS: Mapping[Shortage, str] = {
    Shortage.LIMITS_REACHED: "Raise spec.limits of the NodePool, or let another NodePool take these pods.",
    Shortage.NO_CAPACITY: "Allow more instance types and zones in the NodePool, or On-Demand beside Spot.",
    Shortage.UNSCHEDULABLE: "Compare what the pods ask for with what the NodePools offer; Karpenter's log says why it launches nothing.",
    Shortage.NOT_READY: "Look at the pods themselves: their events, their log, their readiness probe. Nodes are not what is short.",
}


def alert_of(record: CaseRecord, *, corrects: bool) -> Alert | None:
    """The alert on the record, or None when there is nothing to tell.

    Silent are: verdicts that may still change, instances that are none of ours, ordinary terminations, ends without a
    warning of which the cause is unknown (they are counted), and everything that comes from a replay of the archive.
    `corrects` says that another verdict on the same case was told before.
    """
    case, judgement, restoration = record.case, record.judgement, record.case.restoration
    text = _TEXTS.get(judgement.verdict)
    if text is None or not judgement.final or case.replay:
        return None
    if judgement.verdict is Verdict.INCONCLUSIVE and case.warned_at is None:
        return None
    happened = record.happened_at
    if happened is None:
        return None
    where = case.node or case.instance_id
    return Alert(
        id=f"case/{case.key}/{judgement.verdict}/{judgement.cause or '-'}",
        severity=text.severity,
        title=f"{'Corrected: ' if corrects else ''}{where} {text.title}",
        what=judgement.reason,
        meaning=text.meaning,
        action=_CAUSE_ACTIONS.get(judgement.cause, text.action) if judgement.cause is not None else text.action,
        at=happened,
        cluster=case.cluster,
        fields=tuple(
            (name, value)
            for name, value in (
                ("Verdict", judgement.verdict.value),
                ("Cause", judgement.cause.value if judgement.cause is not None else None),
                ("Cluster", case.cluster),
                ("NodePool", case.nodepool),
                ("NodeClaim", case.nodeclaim),
                ("Instance", case.instance_id),
                ("Type and zone", " ".join(part for part in (case.instance_type, case.zone) if part) or None),
                ("Warned", format_time(case.warned_at) if case.warned_at is not None else None),
                ("Workload", _RESTORED[restoration.state] if restoration is not None else None),
            )
            if value is not None
        ),
        subject=where,
        group=tuple(
            part for part in (judgement.verdict.value, judgement.cause, case.nodepool, case.zone) if part is not None
        ),
        runbook=judgement.verdict.value.lower().replace("_", "-"),
        source=case.key,
        decided_at=record.judged_at,
        in_digest=record.degraded is not None,
        command=f"holdfast interruptions show {shlex.quote(case.key)}",
        overview="holdfast interruptions list",
    )


def told_mark(ordinal: int, record: CaseRecord) -> str:
    """What the watch remembers of an alert, so that the same verdict on the same case is told once."""
    return f"{ordinal}/{record.judgement.verdict}/{record.judgement.cause or '-'}"


def ghost_alerts(ordinal: int, record: CaseRecord, told: Collection[str]) -> tuple[tuple[str, Alert], ...]:
    """The alert on a NodeClaim that outlives its instance, or later the one on its going, with the mark that each leaves.

    Both are told once, whatever the verdict is and whether or not it may still change. A verdict GHOST has told the
    first already, or will. Of a ghost that had gone before anybody was told there is nothing to tell.
    """
    case = record.case
    here, gone = f"ghost/{ordinal}", f"ghost-gone/{ordinal}"
    known = here in told or f"{ordinal}/{Verdict.GHOST}/-" in told
    if case.replay or case.foreign is not None or not case.ghost:
        return ()
    if case.ghost_gone_at is None:
        if known or record.judgement.verdict is Verdict.GHOST:
            return ()
        return ((here, _ghost_alert(record, here=True)),)
    if not known or gone in told:
        return ()
    return ((gone, _ghost_alert(record, here=False)),)


def ghost_sentence(case: Case) -> str:
    """How long a ghost was seen after its instance was terminated, and whether it has gone since."""
    said = f"The NodeClaim was still there {GHOST_AFTER.seconds // 60} minutes after the instance was terminated"
    return f"{said}." if case.ghost_gone_at is None else f"{said}. It has gone since."


def _ghost_alert(record: CaseRecord, *, here: bool) -> Alert:
    case = record.case
    text = _TEXTS[Verdict.GHOST]
    where = case.node or case.instance_id
    return Alert(
        id=f"case/{case.key}/{'ghost' if here else 'ghost-gone'}",
        severity=text.severity if here else Severity.INFO,
        title=f"{where} {text.title}" if here else f"{where} has its NodeClaim removed at last",
        what=ghost_sentence(case),
        meaning=text.meaning
        if here
        else "Karpenter no longer counts the machine: capacity and limits are right again.",
        action=text.action if here else NO_ACTION,
        at=case.terminated_at or record.judged_at,
        cluster=case.cluster,
        fields=tuple(
            (field, value)
            for field, value in (
                ("Cluster", case.cluster),
                ("NodePool", case.nodepool),
                ("NodeClaim", case.nodeclaim),
                ("Instance", case.instance_id),
                ("Terminated", format_time(case.terminated_at) if case.terminated_at is not None else None),
                ("Seen gone", format_time(case.ghost_gone_at) if case.ghost_gone_at is not None else None),
                ("Verdict on the drain", record.judgement.verdict.value),
            )
            if value is not None
        ),
        subject=where,
        group=tuple(part for part in ("GHOST" if here else "GHOST gone", case.nodepool, case.zone) if part is not None),
        runbook="ghost",
        source=case.key,
        command=f"holdfast interruptions show {shlex.quote(case.key)}",
        overview="holdfast interruptions list",
        decided_at=record.judged_at,
        in_digest=record.degraded is not None,
    )


def workloads_alerts(
    ordinal: int, record: CaseRecord, told: Collection[str], *, now: datetime
) -> tuple[tuple[str, Alert], ...]:
    """The alert that the workloads did not come back, decided `now`, with the mark that it leaves.

    It is told once for a run, whatever is learned of its cause later.
    """
    mark = f"workloads/{ordinal}"
    alert = workloads_alert_of(record, now=now)
    return () if alert is None or mark in told else ((mark, alert),)


def workloads_alert_of(record: CaseRecord, *, now: datetime) -> Alert | None:
    """The alert that the workloads did not come back, decided `now`; None when there is nothing of the kind to tell."""
    case, restoration = record.case, record.case.restoration
    if restoration is None or restoration.state is not Restored.NO_REPLACEMENT or case.warned_at is None:
        return None
    where = case.node or case.instance_id
    cause = restoration.cause or Shortage.UNKNOWN
    probable = ", ".join(f"{item.nodeclaim} ({item.state})" for item in restoration.replacements)
    return Alert(
        id=f"case/{case.key}/{restoration.state}",
        severity=Severity.PAGE,
        title=f"{where} was not replaced: its workloads are not back",
        what=restoration.reason,
        meaning="These workloads run with fewer replicas than before the interruption, or not at all.",
        action=_SHORTAGE_ACTIONS.get(
            cause, "Look for Pending pods and at Karpenter's log; if pods run and are not ready, at the pods."
        ),
        at=case.warned_at,
        cluster=case.cluster,
        fields=tuple(
            (name, value)
            for name, value in (
                ("Workload", restoration.state.value),
                ("Cause", cause.value),
                ("Verdict", record.judgement.verdict.value),
                ("Cluster", case.cluster),
                ("NodePool", case.nodepool),
                ("NodeClaim", case.nodeclaim),
                ("Instance", case.instance_id),
                ("Probable replacement", probable or "none seen"),
                ("Warned", format_time(case.warned_at)),
            )
            if value is not None
        ),
        subject=where,
        group=tuple(
            part for part in (restoration.state.value, cause.value, case.nodepool, case.zone) if part is not None
        ),
        runbook="no-replacement",
        source=case.key,
        decided_at=now,
        in_digest=record.degraded is not None,
    )
