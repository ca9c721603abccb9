"""Judging: read an instance's history, look again if it is due, fold, decide, store, and tell.

Every step may be repeated and may be the last one before a crash: a look is stored before it is judged, the judgement
and its alert are one transaction guarded by the watch's version, and what was not sent afterwards the sweeper sends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from holdfast.alerts.alert import Alert
from holdfast.errors import HoldfastError
from holdfast.interruption.announce import alert_of, ghost_alerts, told_mark, workloads_alerts
from holdfast.interruption.case import Case, Drained, Scope, fold
from holdfast.interruption.look import Request, look_at
from holdfast.interruption.measure import is_counted
from holdfast.interruption.observation import SILENT, Answer, Observation
from holdfast.interruption.record import CaseRecord, record_of
from holdfast.interruption.restoration import ASK_WHY_AFTER, GIVEN_UP_AFTER, RESTORED_WITHIN, Restored
from holdfast.interruption.schedule import next_ghost_look, next_look
from holdfast.interruption.verdict import judge
from holdfast.interruption.workload_look import Following
from holdfast.karpenter.workload import WorkloadName
from holdfast.ports import (
    Clusters,
    History,
    InstanceKey,
    Instances,
    Ledger,
    Look,
    Looks,
    Queues,
    Wakeups,
    Watch,
)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What became of a batch of looks.

    `failed` maps instances to the reason why their message has to come back; `judged` are the case rows that changed;
    `decided` those of them that became final with this run, `begun` those that were known with this run to be
    interruptions of ours: no other run has them too, and a corrected verdict is not decided again. `told` are the alerts
    put into the outbox; `blind` what EC2 or a cluster would not answer; `problems` failures that need no redelivery, since
    the sweeper heals them.
    """

    failed: Mapping[InstanceKey, str]
    judged: tuple[CaseRecord, ...]
    decided: tuple[CaseRecord, ...]
    begun: tuple[CaseRecord, ...]
    looked: int
    told: tuple[str, ...]
    blind: tuple[str, ...]
    problems: tuple[str, ...]


def audit(
    looks_asked: Sequence[Look],
    *,
    now: datetime,
    scope: Scope,
    ledger: Ledger,
    instances: Instances,
    clusters: Clusters,
    queues: Queues,
    looks: Looks,
    wakeups: Wakeups,
    degraded: str | None = None,
) -> AuditResult:
    """Judges each instance that a look was asked for, once, however often it was asked for.

    `degraded` is why the audit is in degraded mode, if it is: the looks then leave out most pods, and say so.
    """
    failed: dict[InstanceKey, str] = {}
    problems: list[str] = []
    histories: dict[InstanceKey, History] = {}
    for key in dict.fromkeys(look.key for look in looks_asked):
        try:
            histories[key] = ledger.history(key)
        except HoldfastError as error:
            failed[key] = str(error)

    requests = [request for history in histories.values() if (request := _due(history, now, scope)) is not None]
    elsewhere = sorted(scope.clusters.keys() - set(clusters.names()))
    seen: dict[InstanceKey, Observation] = {}
    forwarded: list[Look] = []
    if requests:
        found = look_at(
            requests,
            now=now,
            instances=instances,
            clusters=clusters,
            queues=queues,
            elsewhere=elsewhere,
            degraded=degraded,
        )
        for key, observation in found.items():
            cluster = _belongs_elsewhere(observation, elsewhere)
            if cluster is None:
                seen[key] = observation
            else:
                # The function in that cluster's network looks instead, and has everything still to find out.
                forwarded.append(Look(key, now, cluster))
                del histories[key]
    if forwarded:
        try:
            looks.send(forwarded, now=now)
        except HoldfastError as error:
            failed |= {look.key: f"forwarding the look to {look.cluster}'s network: {error}" for look in forwarded}
    judged: list[CaseRecord] = []
    decided: list[CaseRecord] = []
    begun: list[CaseRecord] = []
    told: list[str] = []
    ahead: list[Look] = []
    for key, history in histories.items():
        if history.watch is None:
            # A look for an instance nobody watches: its row expired, or the message is not ours. Nothing to judge.
            problems.append(f"{key.instance_id} is not watched; its look is dropped")
            continue
        try:
            if key in seen:
                ledger.put_observation(key, seen[key])
            outcome = _judge(history, history.watch, seen.get(key), now, scope, degraded)
            if outcome.changed:
                ledger.save(outcome.watch, outcome.records, outcome.alerts, obsolete=outcome.obsolete)
        except HoldfastError as error:
            failed[key] = str(error)
            continue
        if not outcome.changed:
            # Somebody else's message for the same look: whoever stored it also sent what follows.
            continue
        judged.extend(outcome.records)
        decided.extend(_newly(_is_final, outcome.records, history))
        begun.extend(_newly(is_counted, outcome.records, history))
        told.extend(alert.id for alert in outcome.alerts)
        if outcome.watch.due_at is not None:
            ahead.append(Look(key, outcome.watch.due_at, outcome.watch.cluster))
    _send(ahead, told, now, looks, wakeups, problems)
    blind = tuple(reason for key, look in seen.items() for reason in _silence(key, look))
    return AuditResult(
        failed=failed,
        judged=tuple(judged),
        decided=tuple(decided),
        begun=tuple(begun),
        looked=len(seen),
        told=tuple(told),
        blind=blind,
        problems=tuple(problems),
    )


def _send(
    ahead: Sequence[Look],
    told: Sequence[str],
    now: datetime,
    looks: Looks,
    wakeups: Wakeups,
    problems: list[str],
) -> None:
    try:
        if told:
            wakeups.wake(told)
    except HoldfastError as error:
        problems.append(f"waking the notifier: {error}; the sweeper will")
    try:
        if ahead:
            looks.send(ahead, now=now)
    except HoldfastError as error:
        problems.append(f"sending the next looks: {error}; the sweeper will")


def _due(history: History, now: datetime, scope: Scope) -> Request | None:
    """The look to make now, or None when none is due. All overdue looks collapse into one."""
    if history.watch is None or history.watch.due_at is None:
        return None
    cases = fold(history.facts, history.observations, scope)
    moment = _next_look(cases[-1], now) if cases else None
    if moment is None or moment > now:
        return None
    case = cases[-1]
    return Request(
        key=history.key,
        cluster=case.cluster,
        deadline=case.deadline,
        # After the end the pods tell less; they are read then only if no earlier look did.
        drain_over=case.drained in {Drained.IN_TIME, Drained.LATE}
        or (case.ended_at is not None and case.pods_left is not None),
        following=_following(case, now),
    )


def _following(case: Case, now: datetime) -> Following | None:
    """What to find out about the workloads; None when there is nothing more to learn."""
    restoration = case.restoration
    if case.warned_at is None or restoration is None or restoration.state is not Restored.PENDING:
        return None
    if next_look(case) is None:
        # A look for a ghost, days later: by then other things have changed the replicas.
        return None
    # What is asked at a limit has to be read after it, and not from a list of half a minute ago.
    limits = (case.warned_at + RESTORED_WITHIN, case.warned_at + GIVEN_UP_AFTER)
    return Following(
        warned_at=case.warned_at,
        nodepool=case.nodepool,
        nodeclaim=case.nodeclaim,
        workloads=tuple(WorkloadName(item.kind, item.namespace, item.name) for item in restoration.workloads),
        since=max((moment for moment in limits if moment <= now), default=None),
        shortage=bool(restoration.workloads) and now >= case.warned_at + ASK_WHY_AFTER,
    )


def _silence(key: InstanceKey, look: Observation) -> list[str]:
    """What EC2, the cluster or Karpenter's queue would not answer, in words."""
    workloads = look.workloads
    asked = (
        ("EC2", look.ec2),
        ("Kubernetes", look.kubernetes),
        ("Karpenter's queue", look.queue),
        ("Kubernetes, for the owners of the pods,", workloads),
        ("Kubernetes, for what is short,", None if workloads is None else workloads.shortage),
    )
    return [
        f"looking at {key.instance_id}: {name} answered {view.answer}: {view.reason}"
        for name, view in asked
        if view is not None and view.answer in SILENT
    ]


def _belongs_elsewhere(observation: Observation, elsewhere: Sequence[str]) -> str | None:
    """The configured cluster that the instance belongs to, if this function cannot reach it."""
    view = observation.kubernetes
    return view.cluster if view is not None and view.answer is Answer.SKIPPED and view.cluster in elsewhere else None


@dataclass(frozen=True, slots=True)
class _Outcome:
    watch: Watch
    records: tuple[CaseRecord, ...]
    obsolete: tuple[str, ...]
    alerts: tuple[Alert, ...]
    changed: bool


def _judge(
    history: History, watch: Watch, seen: Observation | None, now: datetime, scope: Scope, degraded: str | None
) -> _Outcome:
    """The rows that follow from all that is known of the instance now."""
    observations = history.observations if seen is None else (*history.observations, seen)
    cases = fold(history.facts, observations, scope)
    stored = {record.case.cycle: record for record in history.records}
    records = tuple(_record(case, now, live=case is cases[-1], degraded=degraded) for case in cases)
    due_at = _next_look(cases[-1], now) if cases else None
    records = tuple(_dated(record, stored.get(record.case.cycle)) for record in records)
    alerts: list[Alert] = []
    told = list(watch.told)
    for ordinal, record in enumerate(records):
        mark = told_mark(ordinal, record)
        alert = alert_of(record, corrects=any(other.startswith(f"{ordinal}/") for other in told))
        if alert is not None and mark not in told:
            alerts.append(alert)
            told.append(mark)
        for mark, alert in (*ghost_alerts(ordinal, record, told), *workloads_alerts(ordinal, record, told, now=now)):
            alerts.append(alert)
            told.append(mark)
    obsolete = tuple(sorted(stored.keys() - {case.cycle for case in cases}))
    changed = (
        bool(alerts or obsolete)
        or due_at != watch.due_at
        or not all(record.same_as(stored.get(record.case.cycle)) for record in records)
    )
    cluster = next((case.cluster for case in reversed(cases) if case.cluster is not None), watch.cluster)
    return _Outcome(
        replace(watch, due_at=due_at, cluster=cluster, told=tuple(told)),
        records,
        obsolete,
        tuple(alerts),
        changed,
    )


def _next_look(case: Case, now: datetime) -> datetime | None:
    """When to look next, be it for the verdict or the workloads, unless both are settled, or for a ghost."""
    pending = case.restoration is not None and case.restoration.state is Restored.PENDING
    for_case = next_look(case) if pending or not judge(case, now, exhausted=False).final else None
    return min((moment for moment in (for_case, next_ghost_look(case)) if moment is not None), default=None)


def _is_final(record: CaseRecord) -> bool:
    return record.judgement.final


def _newly(holds: Callable[[CaseRecord], bool], records: Sequence[CaseRecord], history: History) -> list[CaseRecord]:
    """The records of which it holds now and did not before."""
    before = {record.case.cycle for record in history.records if holds(record)}
    return [record for record in records if holds(record) and record.case.cycle not in before]


def _record(case: Case, now: datetime, *, live: bool, degraded: str | None) -> CaseRecord:
    # Only the run that goes on can be looked at; an earlier one has all the evidence it will get.
    exhausted = not live or next_look(case) is None
    return replace(record_of(case, now, exhausted=exhausted), degraded=degraded)


def _dated(record: CaseRecord, stored: CaseRecord | None) -> CaseRecord:
    """The record as reached when its verdict was: what is learned of the workloads afterwards does not make that later."""
    if stored is None or not stored.judgement.final:
        return record
    before, now = stored.judgement, record.judgement
    if (before.verdict, before.cause, before.final) != (now.verdict, now.cause, now.final):
        return record
    return replace(record, judged_at=stored.judged_at, degraded=stored.degraded)
