"""Facts and observations of one instance, folded into cases.

The fold is pure and order-free: the same set of facts and observations, in any order and with any duplicates, gives the
same cases. A case is one interruption of one run of an instance (EC2 gives a new LaunchTime at each start), from its
first warning, or from its end when there was none, to the last evidence of how Karpenter handled it. A warning that comes
when the instance has outlived all earlier ones is an interruption of its own: what came of them stays on record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import pairwise
from typing import Any

from holdfast.interruption.event import ENDING_STATES, WARNINGS, Fact, Home, Kind
from holdfast.interruption.observation import (
    SILENT,
    Answer,
    Blocker,
    BlockerReason,
    ClusterView,
    InstanceView,
    Observation,
    QueueView,
)
from holdfast.interruption.restoration import STALE_WITHIN, Restoration, restoration_of
from holdfast.times import format_time

NOTICE = timedelta(seconds=120)
"""EC2 gives Spot instances two minutes between the warning and the reclaim (EC2 guide, Spot interruption notices)."""

START_WITHIN = timedelta(seconds=30)
"""Karpenter that reads its queue deletes a NodeClaim within 30 s of the warning (99th percentile of our objective)."""

TOLERANCE = timedelta(seconds=2)
"""EventBridge times have whole seconds, Kubernetes times come from another clock."""

LOOK_LASTS = timedelta(seconds=60)
"""What the cluster says comes some seconds after the time of the look; what lies further ahead comes from a wrong clock."""

RUNNING_AFTER = timedelta(seconds=480)
"""An instance seen running this long after its deadline was not reclaimed; for Spot that is 600 s after the warning."""

CLAIM_TOO_NEW = timedelta(seconds=60)
"""A NodeClaim that has had its instance for less than this before the warning may not have been in Karpenter's cache."""

SHORT_GRACE = timedelta(seconds=120)
"""A terminationGracePeriod below the notice lets Karpenter cut pods off before EC2 does."""

GHOST_AFTER = timedelta(minutes=10)
"""A NodeClaim that is there so long after its instance was terminated counts as a ghost; Karpenter needs seconds."""

NEVER_RAN = "Server.InsufficientInstanceCapacity"
"""StateReason of an instance whose launch failed (EC2 guide, instance terminates immediately): no interruption."""

FIRST_CYCLE = "0"

_STANDING = frozenset({BlockerReason.PDB, BlockerReason.DO_NOT_DISRUPT})
"""What keeps a pod on a node until somebody changes it or the grace period of the NodeClaim runs out."""

_NEVER = datetime.max.replace(tzinfo=UTC)

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


UNTOUCHED = frozenset({Deletion.NOT_DELETING, Deletion.UNSEEN})
"""Nothing shows that Karpenter began."""


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
    GHOST_GONE = "ghost_nodeclaim_gone"
    REPLAYED = "replayed"
    UNREADABLE_BY_KARPENTER = "unreadable_by_karpenter"
    SEVERAL_WARNINGS = "several_warnings"
    TIMES_CONTRADICT = "times_contradict"
    CLUSTER_CLOCK_OFF = "cluster_clock_off"
    BLOCKERS_SEEN_LATE = "blockers_seen_after_the_end"
    NOT_TAINTED = "not_tainted"


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
    """One interruption of one instance, with all that is known of its interruption. Times are UTC; None means not known.

    `cycle` is `0`, the LaunchTime of the run for instances that stop and start again, or the time of the warning for a
    second interruption of one run. `warned_at` is the first
    warning, `deadline` the time EC2 announced. `blind` says that the last look got no answer from EC2 or Kubernetes.
    `notes` are remarks, `missing` the evidence a better verdict would need. `restoration` is what became of the workloads;
    None where that is no question: without a warning, for a replay, for what is none of ours or was going anyway.

    Of Karpenter's queue `queue_visible` are the messages that waited after the deadline, `queue_read` says that somebody
    was seen reading, `queue_emptied` that the message was in none of the queues while it would have been kept and
    Karpenter had had time for it. `claim_known_at` is since when the NodeClaim names its instance.

    `terminated_at` is when the instance was first known to be terminated; that EC2 has forgotten it is no such knowledge.
    `nodeclaim_there` is what the last look that got an answer from Kubernetes saw. `ghost` says that a look saw the
    NodeClaim `GHOST_AFTER` after the termination or later, `ghost_gone_at` which look saw that such a NodeClaim had gone.
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
    evicted_at: datetime | None
    ghost: bool
    replay: bool
    first_look: datetime | None
    last_look: datetime | None
    cluster_seen_after_end: bool
    blind: bool
    notes: tuple[Note, ...]
    missing: tuple[str, ...]
    queue_read: bool | None = None
    queue_emptied: bool | None = None
    claim_known_at: datetime | None = None
    terminated_at: datetime | None = None
    nodeclaim_there: bool | None = None
    ghost_gone_at: datetime | None = None
    restoration: Restoration | None = None

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
    looks = _in_order(set(observations), lambda look: look.at)
    if not ordered:
        return ()
    begun = _starts(ordered, looks)
    again = _warned_again(ordered, begun)
    starts = [None, *sorted(begun | again)]
    runs = [[fact for fact in ordered if _cycle_of(fact.at, starts) == index] for index in range(len(starts))]
    told_of = [index for index, run in enumerate(runs) if run]
    cases: list[Case] = []
    for index, following in zip(told_of, [*told_of[1:], len(starts)], strict=True):
        # A look at a run that no fact tells of yet is the latest look at the case before it all the same.
        until = [look for look in looks if index <= _cycle_of(look.at, starts) < following]
        own = [look for look in until if _cycle_of(look.at, starts) == index]
        after = starts[following] if following < len(starts) else None
        survived = after if after in again else None
        cases.append(_case(runs[index], own, until, starts[index], survived, scope))
    return tuple(cases)


def _distinct(facts: Iterable[Fact]) -> list[Fact]:
    """The facts about an instance, by time, without those that EventBridge or a replay delivered again."""
    first: dict[tuple[str, str, str], Fact] = {}
    for fact in _in_order((fact for fact in facts if fact.is_instance), _fact_order):
        first.setdefault((fact.kind, fact.event_id, fact.subject), fact)
    return list(first.values())


def _in_order[T](items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """The items in an order that depends on nothing but themselves: by the key, and where that is equal by all they say."""
    found = sorted(items, key=key)
    if any(key(one) == key(other) for one, other in pairwise(found)):
        # Spelling out every row is most of what a fold costs, so only those do it that need it.
        found.sort(key=lambda item: (key(item), repr(item)))
    return found


def _fact_order(fact: Fact) -> tuple[datetime, str, str, bool]:
    # A replayed copy sorts behind its original, so that the original stays.
    return (fact.at, fact.kind, fact.event_id, fact.replay is not None)


def _starts(facts: Sequence[Fact], looks: Sequence[Observation]) -> set[datetime]:
    """When each run of the instance began, without the first one, since all that came before belongs to it."""
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
    for launch in launches:
        # `running` follows LaunchTime by seconds: one start, and EC2's own time names it.
        same = {moment for moment in begun if timedelta(0) <= moment - launch <= timedelta(minutes=5)}
        if same or launch != launches[0]:
            begun = begun - same | {launch}
    return begun


def _warned_again(facts: Sequence[Fact], starts: set[datetime]) -> set[datetime]:
    """When warnings came that the instance, still in the same run, got after it had outlived all earlier ones.

    EC2 warns of what is to come: an update that tells of a time in the past is about the interruption it is an update of.
    """
    runs = [None, *sorted(starts)]
    begun: set[datetime] = set()
    run = -1
    earlier: list[Fact] = []
    ended = False
    for fact in facts:
        position = _cycle_of(fact.at, runs)
        if position != run:
            run, earlier, ended = position, [], False
        ended = ended or fact.state in ENDING_STATES
        if fact.kind not in WARNINGS or fact.status == "closed":
            continue
        deadline = deadline_of(fact)
        ahead = deadline is None or deadline >= fact.at
        if earlier and ahead and not ended and all(_outlived(other, fact) for other in earlier):
            begun.add(fact.at)
            earlier = []
        earlier.append(fact)
    return begun


def _cycle_of(moment: datetime, starts: Sequence[datetime | None]) -> int:
    index = 0
    for position, start in enumerate(starts):
        if start is not None and moment >= start:
            index = position
    return index


def _case(
    facts: list[Fact],
    looks: list[Observation],
    until: list[Observation],
    start: datetime | None,
    survived: datetime | None,
    scope: Scope,
) -> Case:
    """One case: `looks` are those at it, `until` all that were made before the next one with facts.

    `survived` is when the same run was warned again, which shows that it still ran.
    """
    instances = [(look.at, look.ec2) for look in looks if look.ec2 is not None and look.ec2.answer is Answer.OK]
    views = [(look.at, look.kubernetes) for look in looks if look.kubernetes is not None]
    found = [(at, view) for at, view in views if view.answer is Answer.OK]
    answered = [(at, view) for at, view in views if view.answer in {Answer.OK, Answer.NOT_FOUND}]
    first = facts[0]
    warnings = [fact for fact in facts if fact.kind in WARNINGS and fact.status != "closed"]
    closings = [fact for fact in facts if fact.kind is Kind.SCHEDULED_CHANGE and fact.status == "closed"]
    warning = _governing(warnings, closings)
    deadline = deadline_of(warning)
    over_at = None if deadline is None else deadline + RUNNING_AFTER
    notes: list[Note] = []
    if len(warnings) > 1 and warnings[-1].at != warnings[0].at:
        notes.append(Note.SEVERAL_WARNINGS)
    if warnings and all(UNREADABLE_BY_KARPENTER & set(fact.notes) for fact in warnings):
        notes.append(Note.UNREADABLE_BY_KARPENTER)

    ended_at = _ended_at(facts, instances)
    code = _end_code(instances)
    last_found = max((at for at, _ in found), default=None)
    absent_at = next(
        (at for at, view in answered if view.answer is Answer.NOT_FOUND and (last_found is None or at > last_found)),
        None,
    )
    # Once the interruption is over, whatever Karpenter does with the node has another reason.
    relevant = [
        (at, view) for at, view in found if over_at is None or view.deleted_at is None or view.deleted_at <= over_at
    ]
    undeleted = [at for at, view in relevant if view.deleted_at is None]
    if over_at is not None and len(relevant) < len(found):
        undeleted.append(over_at)
    undeleted_at = max(undeleted, default=None)
    deleted_at = min((view.deleted_at for _, view in relevant if view.deleted_at is not None), default=None)
    evicted_at = min((fact.at for fact in facts if fact.kind is Kind.BID_EVICTED), default=None)
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
        over_at=over_at,
        survived=survived,
        evicted=evicted_at is not None,
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
    drained, drained_at = _drained(relevant, deadline=deadline, ended_at=ended_at)
    if drained_at is not None and (deleted_at is None or drained_at < deleted_at - TOLERANCE):
        notes.append(Note.TIMES_CONTRADICT)
    if (
        drained is Drained.UNSEEN
        and deletion in {Deletion.IN_TIME, Deletion.LATE}
        and end is End.CONTROLLER
        and ended_at is not None
        and deadline is not None
        and not force_possible
        and (found or absent_at)
        and not (Note.CONTROLLER_INFERRED in notes and _held(found, ended_at))
    ):
        # Karpenter ends an instance only when its drain is over, unless the grace period ran out. Where pods were held
        # that nothing cut off, another client may have ended it as well.
        drained = Drained.IN_TIME if ended_at <= deadline + TOLERANCE else Drained.LATE
        notes.append(Note.DRAIN_INFERRED)
    clock_off = _clock_off(found)
    if clock_off:
        notes.append(Note.CLUSTER_CLOCK_OFF)
    forced = _forced(found, deleted_at, drained_at)
    closed_at = _closed_at(warning, closings)
    if closed_at is not None and deleted_at is not None and deleted_at >= closed_at - TOLERANCE:
        notes.append(Note.DRAINED_ON_CLOSED_NOTICE)
    if end is End.RUNNING:
        notes.append(Note.STILL_RUNNING)
    if warning is not None and warning.action == "hibernate":
        notes.append(Note.NO_NOTICE_WINDOW)
    terminated_at = _terminated_at(facts, instances)
    haunts_from = None if terminated_at is None else terminated_at + GHOST_AFTER
    ghost = haunts_from is not None and any(at >= haunts_from for at, _ in found)
    if ghost:
        notes.append(Note.GHOST_NODECLAIM)
    if ghost and absent_at is not None:
        notes.append(Note.GHOST_GONE)
    # A warning known from the archive only is history, even when live events tell of the end.
    replay = all(fact.replay is not None for fact in warnings or facts)
    if replay:
        notes.append(Note.REPLAYED)
    queues = [(look.at, look.queue) for look in looks if look.queue is not None and look.queue.answer is Answer.OK]
    if warned_at is not None:
        # Later the queue holds what came later, and tells of it.
        over = max(deadline or warned_at, warned_at) + RUNNING_AFTER
        queues = [(at, view) for at, view in queues if at <= over] or queues[:1]
    last = found[-1][1] if found else None
    with_pods = [(at, view) for at, view in found if view.pods_answer is Answer.OK]
    in_life = [(at, view) for at, view in with_pods if ended_at is None or at <= ended_at]
    last_with_pods = (in_life or with_pods)[-1][1] if with_pods else None
    if last_with_pods is not None and last_with_pods.blockers and not in_life:
        notes.append(Note.BLOCKERS_SEEN_LATE)
    if any(view.bound_after_deletion for _, view in found):
        notes.append(Note.NOT_TAINTED)
    detached = last.condition("VolumesDetached") if last is not None else None
    foreign = _foreign(first, instances, found, scope)
    nodepool = _latest([view.nodepool for _, view in found], [view.nodepool for _, view in instances])
    closed = closed_at is not None and deletion in UNTOUCHED and end is not End.SERVER
    restoration: Restoration | None = None
    if warned_at is not None and not (replay or foreign or closed or deletion is Deletion.BEFORE_WARNING):
        restoration = restoration_of(
            looks,
            warned_at=warned_at,
            began_at=deleted_at,
            emptied_at=_emptied_at(with_pods, drained_at=drained_at, ended_at=ended_at, end=end, absent_at=absent_at),
            nodepool=nodepool,
            stayed=end is End.RUNNING and deletion is Deletion.NOT_DELETING,
        )
    return Case(
        account=first.account,
        region=first.region,
        instance_id=first.subject,
        cycle=_cycle_name(facts, instances, start),
        cluster=cluster,
        nodepool=nodepool,
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
        queue_visible=_left_in_queue(queues, deadline),
        queue_undelivered=queues[-1][1].undelivered if queues else None,
        queue_read=any(view.in_flight for _, view in queues) if queues else None,
        queue_emptied=_emptied(queues, warned_at),
        claim_known_at=_claim_known_at([view for _, view in found]),
        foreign=foreign,
        evicted_at=evicted_at,
        ghost=ghost,
        replay=replay,
        first_look=looks[0].at if looks else None,
        last_look=until[-1].at if until else None,
        cluster_seen_after_end=ended_at is not None and any(at >= ended_at for at, _ in answered),
        blind=_is_blind(until, haunts_from),
        notes=tuple(dict.fromkeys(notes)),
        missing=_missing(deletion, drained, end, looks, forced=forced, clock_off=clock_off),
        terminated_at=terminated_at,
        nodeclaim_there=answered[-1][1].answer is Answer.OK if answered else None,
        ghost_gone_at=absent_at if ghost else None,
        restoration=restoration,
    )


def _governing(warnings: Sequence[Fact], closings: Sequence[Fact]) -> Fact | None:
    """The warning that the case is judged by.

    Of several of one kind it is the first, of several kinds the one whose deadline comes first. A notice that AWS closed,
    and one that the instance outlived (a later warning proves it), count only when there is no other.
    """
    still = [fact for fact in warnings if _closed_at(fact, closings) is None] or list(warnings)
    still = [fact for fact in still if not any(_outlived(fact, later) for later in warnings)] or still
    firsts: dict[Kind, Fact] = {}
    for fact in still:
        firsts.setdefault(fact.kind, fact)
    return min(firsts.values(), key=lambda fact: (deadline_of(fact) or _NEVER, _fact_order(fact)), default=None)


def _outlived(warning: Fact, later: Fact) -> bool:
    deadline = deadline_of(warning)
    return deadline is not None and later.at > max(deadline, warning.at) + RUNNING_AFTER


def _closed_at(warning: Fact | None, closings: Sequence[Fact]) -> datetime | None:
    """When AWS closed this notice, or any notice when there was no warning; None when it did not."""
    return min(
        (
            fact.at
            for fact in closings
            if warning is None or (fact.event_arn == warning.event_arn and fact.at >= warning.at)
        ),
        default=None,
    )


def deadline_of(warning: Fact | None) -> datetime | None:
    """The time EC2 announced, or that follows from the warning; None without one, or when the notice names no time."""
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
    # The event that began the end may be lost; CloudTrail has the call, and EC2 keeps the time of it.
    told = [fact.at for fact in facts if fact.state in ENDING_STATES or fact.kind is Kind.TERMINATE_CALL]
    kept = [view.transitioned_at for _, view in instances if view.state in ENDING_STATES and view.transitioned_at]
    return min([*told, *kept], default=None)


def _terminated_at(facts: Sequence[Fact], instances: Sequence[tuple[datetime, InstanceView]]) -> datetime | None:
    # The event may be lost; a look that found the instance terminated came after it.
    told = [fact.at for fact in facts if fact.state == "terminated"]
    return min([*told, *(at for at, view in instances if view.state == "terminated")], default=None)


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
    over_at: datetime | None,
    survived: datetime | None,
    evicted: bool,
    notes: list[Note],
) -> End:
    """Who ended the instance, by the strongest evidence: EC2's reason, then CloudTrail, then the Spot request's status."""
    statuses = {view.spot_status for _, view in instances if view.spot_status}
    if code is not None and code.startswith("Server."):
        return End.SERVER
    if code is None and (evicted or statuses & {"instance-terminated-by-experiment", "instance-stopped-by-experiment"}):
        return End.SERVER
    ran = over_at is not None and (survived is not None or _running_after(over_at, ended_at, instances))
    if deleted_at is None and ran:
        return End.RUNNING
    role = None if cluster is None else cluster.controller_role_arn
    callers = _first_callers(facts)
    if role is not None and callers == {role}:
        return End.CONTROLLER
    if role is not None and callers and role not in callers:
        return End.OTHER_CLIENT
    if code is not None or "instance-terminated-by-user" in statuses:
        if code == "Client.InstanceInitiatedShutdown":
            return End.OTHER_CLIENT
        return _client_end(ended_at, deleted_at, undeleted_at, absent_at, notes)
    return End.RUNNING if ran else End.UNKNOWN


def _running_after(
    over_at: datetime, ended_at: datetime | None, instances: Sequence[tuple[datetime, InstanceView]]
) -> bool:
    """Whether the instance was still running when the interruption was over; a later end has nothing to do with it."""
    if ended_at is not None:
        return ended_at > over_at
    return any(at >= over_at and view.state in {"running", "pending"} for at, view in instances)


def _first_callers(facts: Sequence[Fact]) -> set[str]:
    """Who called TerminateInstances first; a call on an instance that is ending already succeeds too, and ends nothing."""
    calls = [fact for fact in facts if fact.kind is Kind.TERMINATE_CALL]
    return {fact.actor for fact in calls if fact.actor is not None and fact.at == calls[0].at}


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
        if undeleted_at > begin_by + TOLERANCE:
            notes.append(Note.ABSENCE_IS_DELETION)
            return Deletion.LATE
    if undeleted_at is not None and deadline is not None and undeleted_at > begin_by + TOLERANCE:
        return Deletion.NOT_DELETING
    return Deletion.UNSEEN


def _drained(
    found: Sequence[tuple[datetime, ClusterView]], *, deadline: datetime | None, ended_at: datetime | None
) -> tuple[Drained, datetime | None]:
    since: datetime | None = None
    for at, view in found:
        condition = view.condition("Drained")
        if condition is not None and condition.status == "True":
            moment = condition.since or at
            since = moment if since is None else min(since, moment)
    if since is not None and ended_at is not None and since > ended_at + TOLERANCE:
        # The pods went because the machine did: that is no drain.
        return Drained.SEEN_FALSE, None
    if since is not None:
        return (Drained.IN_TIME if deadline is None or since <= deadline + TOLERANCE else Drained.LATE), since
    deleting = [(at, view) for at, view in found if view.deleted_at is not None]
    if not deleting:
        return Drained.UNSEEN, None
    at, last = deleting[-1]
    condition = last.condition("Drained")
    past = deadline is not None and at > deadline + TOLERANCE
    if past or _cut_off(at, last, ended_at) or (condition is not None and condition.status == "False"):
        return Drained.SEEN_FALSE, None
    return Drained.UNSEEN, None


def _emptied_at(
    with_pods: Sequence[tuple[datetime, ClusterView]],
    *,
    drained_at: datetime | None,
    ended_at: datetime | None,
    end: End,
    absent_at: datetime | None,
) -> datetime | None:
    """A time by which the pods were off the node, for whoever counts ready replicas; None when nothing shows that.

    Karpenter deletes the pods before it ends an instance. What went with its machine counts as ready for a while.
    """
    moments = [at for at, view in with_pods if view.pods_left == 0]
    if drained_at is not None:
        moments.append(drained_at)
    if ended_at is not None:
        moments.append(ended_at if end is End.CONTROLLER else ended_at + STALE_WITHIN)
    if absent_at is not None:
        moments.append(absent_at + STALE_WITHIN)
    return min(moments, default=None)


def _cut_off(at: datetime, view: ClusterView, ended_at: datetime | None) -> bool:
    """Whether the grace period ended the drain: it ran out before the instance, on pods that would not or did not leave."""
    if view.termination_at is None or ended_at is None or view.termination_at > ended_at + TOLERANCE:
        return False
    return at >= view.termination_at or any(blocker.reason in _STANDING for blocker in view.blockers)


def _held(found: Sequence[tuple[datetime, ClusterView]], ended_at: datetime) -> bool:
    """Whether the last look at the pods in the instance's life saw one that would not go by itself."""
    seen = [view for at, view in found if at <= ended_at and view.pods_answer is Answer.OK]
    return any(blocker.reason in _STANDING for view in seen[-1:] for blocker in view.blockers)


def _clock_off(found: Sequence[tuple[datetime, ClusterView]]) -> timedelta:
    """By how much the cluster's clock is off at least, from times that contradict when they were seen; 0 when none does.

    A NodeClaim was seen not deleting after its deletion, or a time was seen that was yet to come. Of a NodeClaim that
    no look saw deleting, nothing is told by the cluster's clock.
    """
    deletions = [view.deleted_at for _, view in found if view.deleted_at is not None]
    if not deletions:
        return timedelta(0)
    untouched = max((at for at, view in found if view.deleted_at is None), default=None)
    behind = timedelta(0) if untouched is None else untouched - min(deletions)
    times = [
        (moment, at)
        for at, view in found
        for moment in (view.deleted_at, *(item.since for item in view.conditions))
        if moment is not None
    ]
    ahead = max((moment - at for moment, at in times), default=timedelta(0))
    return max(behind if behind > TOLERANCE else timedelta(0), ahead if ahead > LOOK_LASTS else timedelta(0))


def _force_possible(
    found: Sequence[tuple[datetime, ClusterView]], began: datetime | None, ended_at: datetime | None
) -> bool:
    """Whether Karpenter may have stopped waiting for the drain before the instance ended.

    With a terminationGracePeriod Karpenter deletes each pod at (grace end minus the pod's own grace), so pods may be cut
    off that much before the grace period is over.
    """
    graces = [view.grace_period for _, view in found if view.grace_period is not None]
    if any(grace < SHORT_GRACE.total_seconds() for grace in graces):
        return True
    annotated = min((view.termination_at for _, view in found if view.termination_at is not None), default=None)
    if annotated is not None:
        origin, grace = annotated, 0
    elif graces and began is not None:
        origin, grace = began, min(graces)
    else:
        return False
    longest = _longest_grace(view for _, view in found)
    if ended_at is None or longest is None:
        return True
    # In seconds, because a pod may ask for a grace of centuries: no calendar holds that.
    return (origin - ended_at).total_seconds() + grace - longest <= TOLERANCE.total_seconds()


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
    longest = _longest_grace(before)
    if longest is not None and (runs_out - drained_at - TOLERANCE).total_seconds() > longest:
        return False
    held = any(blocker.reason in _STANDING for view in before[-1:] for blocker in view.blockers)
    return True if held else None


def _longest_grace(views: Iterable[ClusterView]) -> int | None:
    return max((view.longest_grace for view in views if view.longest_grace is not None), default=None)


def _left_in_queue(queues: Sequence[tuple[datetime, QueueView]], deadline: datetime | None) -> int | None:
    """Messages that waited in Karpenter's queue after the deadline, when it should have read them; they expire later."""
    late = [view.visible for at, view in queues if deadline is not None and at >= deadline and view.visible is not None]
    return max(late) if late else (queues[-1][1].visible if queues else None)


def _emptied(queues: Sequence[tuple[datetime, QueueView]], warned_at: datetime | None) -> bool | None:
    """Whether the message was in no queue at any look while it would have been kept; None when no look can tell.

    A look tells only once Karpenter has had the time it needs to begin, and if it knows all three queues.
    """
    if warned_at is None:
        return None
    telling = [
        view
        for at, view in queues
        if view.retention is not None and warned_at + START_WITHIN <= at < warned_at + timedelta(seconds=view.retention)
    ]
    counts = [
        count for view in telling for count in (view.visible, view.in_flight, view.dead_letters, view.undelivered)
    ]
    return None if not counts or None in counts else not any(counts)


def _claim_known_at(found: Sequence[ClusterView]) -> datetime | None:
    """Since when the NodeClaim names its instance: Karpenter finds it by the provider id, which it has once Launched."""
    launched = [
        item.since for view in found if (item := view.condition("Launched")) is not None and item.status == "True"
    ]
    known = [moment for moment in (*launched, *(view.created_at for view in found)) if moment is not None]
    return max(known, default=None)


def _cluster(
    instances: Sequence[tuple[datetime, InstanceView]],
    answered: Sequence[tuple[datetime, ClusterView]],
    scope: Scope,
) -> str | None:
    holding = [view.cluster for _, view in answered if view.answer is Answer.OK]
    named = _latest(holding, [view.cluster for _, view in instances])
    if named is not None or len(scope.clusters) != 1 or any(view.nodepool is None for _, view in instances):
        return named
    # With one cluster there is nowhere else to look for an instance that EC2 says nothing about.
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
    if start is not None:
        return format_time(start)
    stops = any(fact.action in {"stop", "hibernate"} or fact.state in {"stopping", "stopped"} for fact in facts)
    launched = next((view.launched_at for at, view in instances if view.launched_at and view.launched_at <= at), None)
    return FIRST_CYCLE if launched is None or not stops else format_time(launched)


def _missing(
    deletion: Deletion,
    drained: Drained,
    end: End,
    looks: Sequence[Observation],
    *,
    forced: bool | None,
    clock_off: timedelta,
) -> tuple[str, ...]:
    missing: list[str] = []
    if clock_off:
        missing.append(
            f"when the cluster's times really were (its clock is off by {clock_off.total_seconds():.0f} s or more)"
        )
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


def _is_blind(looks: Sequence[Observation], haunts_from: datetime | None) -> bool:
    """Whether EC2 or the Kubernetes API gave no answer to the last look.

    Looks that wait for a ghost to go take no part once one was answered: an outage then says nothing about the verdict,
    and must not open a case again that was decided.
    """
    last = len(looks)
    while last > 1 and _is_silent(looks[last - 1]) and haunts_from is not None and looks[last - 1].at >= haunts_from:
        last -= 1
    return bool(looks) and _is_silent(looks[last - 1])


def _is_silent(look: Observation) -> bool:
    return (look.ec2 is not None and look.ec2.answer in SILENT) or (
        look.kubernetes is not None and look.kubernetes.answer in SILENT
    )


def _latest(*sources: Sequence[str | None]) -> str | None:
    for values in sources:
        for value in reversed(values):
            if value is not None:
                return value
    return None
