"""Facts and observations of one instance, folded into cases.

The fold is pure and order-free: the same set of facts and observations, in any order and with any duplicates, gives the
same cases. A case is one run of an instance (EC2 gives a new LaunchTime at each start), from its first warning, or from
its end when there was none, to the last evidence of how Karpenter handled it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from holdfast.interruption.event import ENDING_STATES, WARNINGS, Fact, Home, Kind
from holdfast.interruption.observation import (
    SILENT,
    Answer,
    Blocker,
    BlockerReason,
    ClusterView,
    InstanceView,
    Observation,
)
from holdfast.times import format_time

NOTICE = timedelta(seconds=120)
"""EC2 gives Spot instances two minutes between the warning and the reclaim (EC2 guide, Spot interruption notices)."""

START_WITHIN = timedelta(seconds=30)
"""Karpenter that reads its queue deletes a NodeClaim within 30 s of the warning (99th percentile of our objective)."""

TOLERANCE = timedelta(seconds=2)
"""EventBridge times have whole seconds, Kubernetes times come from another clock."""

RUNNING_AFTER = timedelta(seconds=480)
"""An instance seen running this long after its deadline was not reclaimed; for Spot that is 600 s after the warning."""

SHORT_GRACE = timedelta(seconds=120)
"""A terminationGracePeriod below the notice lets Karpenter cut pods off before EC2 does."""

FIRST_CYCLE = "0"

UNREADABLE_BY_KARPENTER = frozenset(
    {
        "unknown_version",
        "version_missing",
        "underscore_detail_type",
        "double_encoded",
        "sns_envelope",
        "resources_not_a_list",
    }
)
"""Parser notes on bodies that Karpenter 1.14 drops or cannot parse: it then deletes the message without acting."""


class Deletion(StrEnum):
    """When Karpenter began: the NodeClaim's deletionTimestamp against the warning and the deadline."""

    BEFORE_WARNING = "before_warning"
    IN_TIME = "in_time"
    LATE = "late"
    NOT_DELETING = "not_deleting"
    UNSEEN = "unseen"


class Drained(StrEnum):
    """When the pods were off the node: the NodeClaim's condition Drained against the deadline."""

    IN_TIME = "in_time"
    LATE = "late"
    SEEN_FALSE = "seen_false"
    UNSEEN = "unseen"


class End(StrEnum):
    """Who ended the instance."""

    CONTROLLER = "controller"
    OTHER_CLIENT = "other_client"
    SERVER = "server"
    RUNNING = "running"
    UNKNOWN = "unknown"


class Note(StrEnum):
    """A remark on a case that does not change its verdict by itself."""

    ABSENCE_IS_DELETION = "deletion_inferred_from_absence"
    CONTROLLER_INFERRED = "controller_inferred"
    DRAIN_INFERRED = "drain_inferred"
    RECLAIMED_WHILE_TERMINATING = "reclaimed_while_terminating"
    STILL_RUNNING = "still_running"
    FORCED_LATE = "forced_late"
    NO_NOTICE_WINDOW = "no_notice_window"
    DRAINED_ON_CLOSED_NOTICE = "drained_on_closed_notice"
    GHOST_NODECLAIM = "ghost_nodeclaim"
    REPLAYED = "replayed"
    UNREADABLE_BY_KARPENTER = "unreadable_by_karpenter"
    SEVERAL_WARNINGS = "several_warnings"
    TIMES_CONTRADICT = "times_contradict"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What a verdict needs to know of a cluster: the role whose TerminateInstances calls are Karpenter's.

    Without the role (None: a case judged from files alone), CloudTrail's caller tells nothing.
    """

    name: str
    controller_role_arn: str | None


@dataclass(frozen=True, slots=True)
class Scope:
    """What this audit is responsible for: its account and region, and its clusters by name."""

    home: Home
    clusters: Mapping[str, Cluster]


@dataclass(frozen=True, slots=True)
class Case:
    """One run of one instance, with all that is known of its interruption. Times are UTC; None means not known.

    `cycle` is `0`, or the LaunchTime of the run for instances that stop and start again. `warned_at` is the first
    warning, `deadline` the time EC2 announced. `blind` says that the last look got no answer from EC2 or Kubernetes.
    `notes` are remarks, `missing` the evidence a better verdict would need.
    """

    account: str
    region: str
    instance_id: str
    cycle: str
    cluster: str | None
    nodepool: str | None
    nodeclaim: str | None
    node: str | None
    instance_type: str | None
    zone: str | None
    capacity_type: str | None
    kind: Kind | None
    action: str | None
    warned_at: datetime | None
    deadline: datetime | None
    closed_at: datetime | None
    rebalance_at: datetime | None
    ended_at: datetime | None
    end: End
    end_code: str | None
    deletion: Deletion
    deleted_at: datetime | None
    drained: Drained
    drained_at: datetime | None
    force_possible: bool
    forced: bool | None
    pods_left: int | None
    volumes_detached: bool | None
    blockers: tuple[Blocker, ...]
    queue_visible: int | None
    queue_undelivered: int | None
    foreign: str | None
    evicted: bool
    ghost: bool
    replay: bool
    first_look: datetime | None
    last_look: datetime | None
    cluster_seen_after_end: bool
    blind: bool
    notes: tuple[Note, ...]
    missing: tuple[str, ...]

    @property
    def key(self) -> str:
        """The case's name for people and for the ledger: account/region/instance/cycle."""
        return f"{self.account}/{self.region}/{self.instance_id}/{self.cycle}"

    @property
    def rebalance_lead(self) -> timedelta | None:
        """How long before the warning the rebalance recommendation came; negative when it came after."""
        if self.warned_at is None or self.rebalance_at is None:
            return None
        return self.warned_at - self.rebalance_at


def fold(facts: Iterable[Fact], observations: Iterable[Observation], scope: Scope) -> tuple[Case, ...]:
    """The cases of one instance, oldest first; none when no fact is about an instance.

    All facts and observations must be about the same instance.
    """
    ordered = _distinct(facts)
    looks = sorted(set(observations), key=lambda look: (look.at, repr(look)))
    if not ordered:
        return ()
    starts = _starts(ordered, looks)
    return tuple(
        _case(
            [fact for fact in ordered if _cycle_of(fact.at, starts) == index],
            [look for look in looks if _cycle_of(look.at, starts) == index],
            starts[index],
            scope,
        )
        for index in range(len(starts))
        if any(_cycle_of(fact.at, starts) == index for fact in ordered)
    )


def _distinct(facts: Iterable[Fact]) -> list[Fact]:
    """The facts about an instance, by time, without those that EventBridge or a replay delivered again."""
    first: dict[tuple[str, str, str], Fact] = {}
    for fact in sorted((fact for fact in facts if fact.is_instance), key=_fact_order):
        first.setdefault((fact.kind, fact.event_id, fact.subject), fact)
    return sorted(first.values(), key=_fact_order)


def _fact_order(fact: Fact) -> tuple[datetime, str, str, bool, str]:
    # A replayed copy sorts behind its original, so that the original stays.
    return (fact.at, fact.kind, fact.event_id, fact.replay is not None, repr(fact))


def _starts(facts: Sequence[Fact], looks: Sequence[Observation]) -> list[datetime | None]:
    """When each run of the instance began; the first one counts as None, since all that came before belongs to it."""
    stopped = False
    begun: set[datetime] = set()
    for fact in facts:
        if fact.state in {"stopping", "stopped"}:
            stopped = True
        elif fact.state in {"pending", "running"} and stopped:
            begun.add(fact.at)
            stopped = False
    launches = sorted(
        {look.ec2.launched_at for look in looks if look.ec2 is not None and look.ec2.launched_at is not None}
    )
    for launch in launches[1:]:
        # `running` follows LaunchTime by seconds: one start, and EC2's own time names it.
        begun = {moment for moment in begun if not timedelta(0) <= moment - launch <= timedelta(minutes=5)}
        begun.add(launch)
    return [None, *sorted(begun)]


def _cycle_of(moment: datetime, starts: Sequence[datetime | None]) -> int:
    index = 0
    for position, start in enumerate(starts):
        if start is not None and moment >= start:
            index = position
    return index


def _case(facts: list[Fact], looks: list[Observation], start: datetime | None, scope: Scope) -> Case:
    instances = [(look.at, look.ec2) for look in looks if look.ec2 is not None and look.ec2.answer is Answer.OK]
    views = [(look.at, look.kubernetes) for look in looks if look.kubernetes is not None]
    found = [(at, view) for at, view in views if view.answer is Answer.OK]
    answered = [(at, view) for at, view in views if view.answer in {Answer.OK, Answer.NOT_FOUND}]
    first = facts[0]
    warnings = [fact for fact in facts if fact.kind in WARNINGS and fact.status != "closed"]
    warning = warnings[0] if warnings else None
    deadline = _deadline(warning)
    notes: list[Note] = []
    if len(warnings) > 1 and warnings[-1].at != warnings[0].at:
        notes.append(Note.SEVERAL_WARNINGS)
    if warning is not None and UNREADABLE_BY_KARPENTER & set(warning.notes):
        notes.append(Note.UNREADABLE_BY_KARPENTER)

    ended_at = _ended_at(facts, instances)
    code = _end_code(instances)
    absent_at = next((at for at, view in answered if view.answer is Answer.NOT_FOUND), None)
    undeleted_at = max((at for at, view in found if view.deleted_at is None), default=None)
    deleted_at = min((view.deleted_at for _, view in found if view.deleted_at is not None), default=None)
    evicted = any(fact.kind is Kind.BID_EVICTED for fact in facts)
    cluster = _cluster(instances, answered, scope)
    end = _end(
        facts,
        instances,
        cluster=scope.clusters.get(cluster or ""),
        code=code,
        ended_at=ended_at,
        deleted_at=deleted_at,
        undeleted_at=undeleted_at,
        absent_at=absent_at,
        deadline=deadline,
        evicted=evicted,
        notes=notes,
    )
    warned_at = warning.at if warning is not None else None
    deletion = _deletion(
        warned_at=warned_at,
        deadline=deadline,
        deleted_at=deleted_at,
        undeleted_at=undeleted_at,
        absent_at=absent_at,
        ended_at=ended_at,
        end=end,
        notes=notes,
    )
    force_possible = _force_possible(found, deleted_at or warned_at, ended_at)
    drained, drained_at = _drained(found, deadline=deadline, ended_at=ended_at, end=end)
    if (
        drained is Drained.UNSEEN
        and deletion in {Deletion.IN_TIME, Deletion.LATE}
        and end is End.CONTROLLER
        and ended_at is not None
        and deadline is not None
        and not force_possible
        and (found or absent_at)
    ):
        # Karpenter ends an instance only when its drain is over, unless the grace period ran out.
        drained = Drained.IN_TIME if ended_at <= deadline + TOLERANCE else Drained.LATE
        notes.append(Note.DRAIN_INFERRED)
    forced = _forced(found, deleted_at, drained_at)
    closed = [fact for fact in facts if fact.kind is Kind.SCHEDULED_CHANGE and fact.status == "closed"]
    closed_at = closed[0].at if closed else None
    if closed_at is not None and deleted_at is not None and deleted_at >= closed_at - TOLERANCE:
        notes.append(Note.DRAINED_ON_CLOSED_NOTICE)
    if end is End.RUNNING:
        notes.append(Note.STILL_RUNNING)
    if warning is not None and warning.action == "hibernate":
        notes.append(Note.NO_NOTICE_WINDOW)
    gone_at = max((fact.at for fact in facts if fact.state == "terminated"), default=None)
    ghost = gone_at is not None and any(at >= gone_at + timedelta(minutes=10) for at, _ in found)
    if ghost:
        notes.append(Note.GHOST_NODECLAIM)
    replay = all(fact.replay is not None for fact in facts)
    if replay:
        notes.append(Note.REPLAYED)
    last_queue = next(
        (look.queue for look in reversed(looks) if look.queue is not None and look.queue.answer is Answer.OK),
        None,
    )
    last = found[-1][1] if found else None
    last_with_pods = next((view for _, view in reversed(found) if view.pods_answer is Answer.OK), None)
    detached = last.condition("VolumesDetached") if last is not None else None
    return Case(
        account=first.account,
        region=first.region,
        instance_id=first.subject,
        cycle=_cycle_name(facts, instances, start),
        cluster=cluster,
        nodepool=_latest([view.nodepool for _, view in found], [view.nodepool for _, view in instances]),
        nodeclaim=_latest([view.nodeclaim for _, view in found], [view.nodeclaim for _, view in instances]),
        node=_latest([view.node for _, view in found]),
        instance_type=_latest([view.instance_type for _, view in found], [view.instance_type for _, view in instances]),
        zone=_latest([view.zone for _, view in found], [view.zone for _, view in instances]),
        capacity_type=_latest([view.capacity_type for _, view in found], [view.capacity_type for _, view in instances]),
        kind=warning.kind if warning is not None else None,
        action=warning.action if warning is not None else None,
        warned_at=warned_at,
        deadline=deadline,
        closed_at=closed_at,
        rebalance_at=min((fact.at for fact in facts if fact.kind is Kind.REBALANCE), default=None),
        ended_at=ended_at,
        end=end,
        end_code=code,
        deletion=deletion,
        deleted_at=deleted_at,
        drained=drained,
        drained_at=drained_at,
        force_possible=force_possible,
        forced=forced,
        pods_left=last_with_pods.pods_left if last_with_pods is not None else None,
        volumes_detached=None if detached is None else detached.status == "True",
        blockers=last_with_pods.blockers if last_with_pods is not None else (),
        queue_visible=last_queue.visible if last_queue is not None else None,
        queue_undelivered=last_queue.undelivered if last_queue is not None else None,
        foreign=_foreign(first, instances, found, scope),
        evicted=evicted,
        ghost=ghost,
        replay=replay,
        first_look=looks[0].at if looks else None,
        last_look=looks[-1].at if looks else None,
        cluster_seen_after_end=ended_at is not None and any(at >= ended_at for at, _ in answered),
        blind=bool(looks) and _is_blind(looks[-1]),
        notes=tuple(dict.fromkeys(notes)),
        missing=_missing(deletion, drained, end, forced, looks),
    )


def _deadline(warning: Fact | None) -> datetime | None:
    if warning is None:
        return None
    if warning.announced is not None:
        return warning.announced
    if warning.action == "hibernate":
        # Hibernation begins at once; there is no window (EC2 guide).
        return warning.at
    if warning.kind is Kind.SCHEDULED_CHANGE:
        return None
    return warning.at + NOTICE


def _ended_at(facts: Sequence[Fact], instances: Sequence[tuple[datetime, InstanceView]]) -> datetime | None:
    told = min((fact.at for fact in facts if fact.state in ENDING_STATES), default=None)
    if told is not None:
        return told
    return min(
        (
            view.transitioned_at
            for _, view in instances
            if view.state in ENDING_STATES and view.transitioned_at is not None
        ),
        default=None,
    )


def _end_code(instances: Sequence[tuple[datetime, InstanceView]]) -> str | None:
    return next(
        (view.state_reason for _, view in reversed(instances) if view.state in ENDING_STATES and view.state_reason),
        None,
    )


def _end(
    facts: Sequence[Fact],
    instances: Sequence[tuple[datetime, InstanceView]],
    *,
    cluster: Cluster | None,
    code: str | None,
    ended_at: datetime | None,
    deleted_at: datetime | None,
    undeleted_at: datetime | None,
    absent_at: datetime | None,
    deadline: datetime | None,
    evicted: bool,
    notes: list[Note],
) -> End:
    """Who ended the instance, by the strongest evidence: EC2's reason, then CloudTrail, then the Spot request's status."""
    statuses = {view.spot_status for _, view in instances if view.spot_status}
    if code is not None and code.startswith("Server."):
        return End.SERVER
    if code is None and (evicted or statuses & {"instance-terminated-by-experiment", "instance-stopped-by-experiment"}):
        return End.SERVER
    callers = {fact.actor for fact in facts if fact.kind is Kind.TERMINATE_CALL}
    if callers and cluster is not None and cluster.controller_role_arn is not None:
        return End.CONTROLLER if cluster.controller_role_arn in callers else End.OTHER_CLIENT
    if code is not None or "instance-terminated-by-user" in statuses:
        if code == "Client.InstanceInitiatedShutdown":
            return End.OTHER_CLIENT
        return _client_end(ended_at, deleted_at, undeleted_at, absent_at, notes)
    if (
        ended_at is None
        and deadline is not None
        and any(at >= deadline + RUNNING_AFTER and view.state in {"running", "pending"} for at, view in instances)
    ):
        return End.RUNNING
    return End.UNKNOWN


def _client_end(
    ended_at: datetime | None,
    deleted_at: datetime | None,
    undeleted_at: datetime | None,
    absent_at: datetime | None,
    notes: list[Note],
) -> End:
    """A client ended the instance, and no CloudTrail record names it. Karpenter does so only after the NodeClaim's deletion."""
    if ended_at is None:
        return End.UNKNOWN
    if deleted_at is not None:
        if deleted_at <= ended_at + TOLERANCE:
            notes.append(Note.CONTROLLER_INFERRED)
            return End.CONTROLLER
        return End.OTHER_CLIENT
    if undeleted_at is not None and undeleted_at >= ended_at:
        return End.OTHER_CLIENT
    if undeleted_at is not None and absent_at is not None:
        notes.append(Note.CONTROLLER_INFERRED)
        return End.CONTROLLER
    return End.UNKNOWN


def _deletion(
    *,
    warned_at: datetime | None,
    deadline: datetime | None,
    deleted_at: datetime | None,
    undeleted_at: datetime | None,
    absent_at: datetime | None,
    ended_at: datetime | None,
    end: End,
    notes: list[Note],
) -> Deletion:
    if warned_at is None:
        return Deletion.UNSEEN
    # Where EC2 leaves no window, Karpenter can only be asked to begin promptly.
    begin_by = warned_at + START_WITHIN if deadline is None else max(deadline, warned_at + START_WITHIN)
    if deleted_at is not None:
        if deleted_at < warned_at - TOLERANCE:
            return Deletion.BEFORE_WARNING
        return Deletion.IN_TIME if deadline is None or deleted_at <= begin_by + TOLERANCE else Deletion.LATE
    if (
        absent_at is not None
        and undeleted_at is not None
        and undeleted_at >= warned_at - TOLERANCE
        and end is End.CONTROLLER
        and ended_at is not None
        and deadline is not None
    ):
        if ended_at <= deadline + TOLERANCE:
            notes.append(Note.ABSENCE_IS_DELETION)
            return Deletion.IN_TIME
        if undeleted_at >= begin_by:
            notes.append(Note.ABSENCE_IS_DELETION)
            return Deletion.LATE
    if undeleted_at is not None and deadline is not None and undeleted_at >= begin_by:
        return Deletion.NOT_DELETING
    return Deletion.UNSEEN


def _drained(
    found: Sequence[tuple[datetime, ClusterView]],
    *,
    deadline: datetime | None,
    ended_at: datetime | None,
    end: End,
) -> tuple[Drained, datetime | None]:
    since: datetime | None = None
    for at, view in found:
        condition = view.condition("Drained")
        if condition is not None and condition.status == "True":
            moment = condition.since or at
            since = moment if since is None else min(since, moment)
    if since is not None and end is End.SERVER and ended_at is not None and since > ended_at + TOLERANCE:
        # The pods went because the machine did: that is no drain.
        return Drained.SEEN_FALSE, None
    if since is not None:
        return (Drained.IN_TIME if deadline is None or since <= deadline + TOLERANCE else Drained.LATE), since
    deleting = [(at, view) for at, view in found if view.deleted_at is not None]
    if not deleting:
        return Drained.UNSEEN, None
    at, last = deleting[-1]
    condition = last.condition("Drained")
    past = deadline is not None and at >= deadline
    cut_off = last.termination_at is not None and ended_at is not None and last.termination_at <= ended_at + TOLERANCE
    if past or cut_off or (condition is not None and condition.status == "False"):
        return Drained.SEEN_FALSE, None
    return Drained.UNSEEN, None


def _force_possible(
    found: Sequence[tuple[datetime, ClusterView]], began: datetime | None, ended_at: datetime | None
) -> bool:
    """Whether Karpenter may have stopped waiting for the drain before the instance ended.

    With a terminationGracePeriod Karpenter deletes each pod at (grace end minus the pod's own grace), so pods may be cut
    off that much before the grace period is over.
    """
    graces = [view.grace_period for _, view in found if view.grace_period is not None]
    if any(timedelta(seconds=grace) < SHORT_GRACE for grace in graces):
        return True
    annotated = min((view.termination_at for _, view in found if view.termination_at is not None), default=None)
    if annotated is None and (not graces or began is None):
        return False
    runs_out = annotated if annotated is not None else _plus(began, graces)
    longest = max((view.longest_grace for _, view in found if view.longest_grace is not None), default=None)
    if ended_at is None or longest is None:
        return True
    return runs_out - timedelta(seconds=longest) <= ended_at + TOLERANCE


def _forced(
    found: Sequence[tuple[datetime, ClusterView]], deleted_at: datetime | None, drained_at: datetime | None
) -> bool | None:
    """Whether a finished drain was finished by cutting pods off; None when the evidence leaves both open.

    Karpenter reports Drained=True for a forced drain too: near the end of the grace period it deletes what it could not
    evict (kubernetes-sigs/karpenter, pkg/controllers/node/termination). Only the annotation and what held the pods tell.
    """
    runs_out = min((view.termination_at for _, view in found if view.termination_at is not None), default=None)
    if drained_at is None or runs_out is None:
        return False
    if deleted_at is not None and runs_out <= deleted_at + TOLERANCE:
        return True
    before = [view for at, view in found if at < drained_at and view.pods_answer is Answer.OK]
    longest = max((view.longest_grace for view in before if view.longest_grace is not None), default=None)
    if longest is not None and drained_at + TOLERANCE < runs_out - timedelta(seconds=longest):
        return False
    held = {blocker.reason for view in before[-1:] for blocker in view.blockers}
    return True if held & {BlockerReason.PDB, BlockerReason.DO_NOT_DISRUPT} else None


def _plus(began: datetime | None, graces: Sequence[int]) -> datetime:
    return (began or datetime.min.replace(tzinfo=UTC)) + timedelta(seconds=min(graces))


def _cluster(
    instances: Sequence[tuple[datetime, InstanceView]],
    answered: Sequence[tuple[datetime, ClusterView]],
    scope: Scope,
) -> str | None:
    holding = [view.cluster for _, view in answered if view.answer is Answer.OK]
    named = _latest(holding, [view.cluster for _, view in instances])
    if named is not None or len(scope.clusters) != 1:
        return named
    return _latest([view.cluster for _, view in answered])


def _foreign(
    first: Fact,
    instances: Sequence[tuple[datetime, InstanceView]],
    found: Sequence[tuple[datetime, ClusterView]],
    scope: Scope,
) -> str | None:
    """Why the instance is none of ours, or None when it is or when nobody could tell."""
    if first.account != scope.home.account:
        return f"it belongs to account {first.account}"
    if first.region != scope.home.region:
        return f"it runs in {first.region}"
    if found or not instances:
        return None
    view = instances[-1][1]
    if view.nodepool is None:
        return "it carries no karpenter.sh/nodepool tag"
    if view.cluster is not None and view.cluster not in scope.clusters:
        return f"it belongs to cluster {view.cluster}, which is not in this configuration"
    return None


def _cycle_name(
    facts: Sequence[Fact], instances: Sequence[tuple[datetime, InstanceView]], start: datetime | None
) -> str:
    launched = next((view.launched_at for _, view in instances if view.launched_at is not None), None)
    stops = any(fact.action in {"stop", "hibernate"} or fact.state in {"stopping", "stopped"} for fact in facts)
    if start is None and not stops:
        return FIRST_CYCLE
    moment = launched or start
    return FIRST_CYCLE if moment is None else format_time(moment)


def _missing(
    deletion: Deletion, drained: Drained, end: End, forced: bool | None, looks: Sequence[Observation]
) -> tuple[str, ...]:
    missing: list[str] = []
    kubernetes = [look.kubernetes for look in looks if look.kubernetes is not None]
    refused = [view for view in kubernetes if view.answer not in {Answer.OK, Answer.NOT_FOUND}]
    why = f" (Kubernetes API: {refused[-1].answer}, {refused[-1].reason})" if refused else ""
    if not kubernetes:
        why = " (nobody looked at the cluster)"
    if deletion is Deletion.UNSEEN:
        missing.append(f"when the NodeClaim was deleted{why}")
    if drained is Drained.UNSEEN:
        missing.append(f"whether the drain finished{why}")
    if forced is None:
        missing.append("whether a grace period cut pods off (no look read the pods before the drain was over)")
    if end is End.UNKNOWN:
        ec2 = [look.ec2 for look in looks if look.ec2 is not None]
        failed = [view for view in ec2 if view.answer is not Answer.OK]
        detail = (
            f" (EC2: {failed[-1].answer}, {failed[-1].reason})"
            if failed
            else (" (nobody asked EC2)" if not ec2 else "")
        )
        missing.append(f"who ended the instance{detail}")
    return tuple(missing)


def _is_blind(look: Observation) -> bool:
    """Whether EC2 or the Kubernetes API gave no answer to this look."""
    return (look.ec2 is not None and look.ec2.answer in SILENT) or (
        look.kubernetes is not None and look.kubernetes.answer in SILENT
    )


def _latest(*sources: Sequence[str | None]) -> str | None:
    for values in sources:
        for value in reversed(values):
            if value is not None:
                return value
    return None
