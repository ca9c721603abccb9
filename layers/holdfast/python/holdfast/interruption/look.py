"""One look at some instances: ask EC2, each instance's cluster and Karpenter's queue, and write down how each answered.

Nothing here fails: an outage becomes an answer in the observation, so that what is known is kept and the rest is named.
Kubernetes is asked for one list of NodeClaims per cluster, for the pods of at most ten affected nodes, and, as long as
somebody waits for the workloads, once for all their owners.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from holdfast.errors import Denied, HoldfastError, NotFound, Throttled
from holdfast.interruption.observation import (
    MAX_BLOCKER_TEXT,
    MAX_BLOCKERS,
    Answer,
    Blocker,
    BlockerReason,
    ClusterView,
    Condition,
    InstanceView,
    Observation,
    QueueView,
    WorkloadsView,
    that_fit,
)
from holdfast.interruption.workload_look import ClusterCensus, Following, look_at_workloads
from holdfast.karpenter.nodeclaim import NodeClaim
from holdfast.karpenter.pods import (
    Pod,
    PodDisruptionBudget,
    blocking_budget,
    left_on_node,
    refuses_disruption,
)
from holdfast.ports import Clusters, InstanceKey, Instances, Queues

MAX_NODES = 10
"""Nodes whose pods one look reads, per cluster (our share of the API server's attention)."""

SAMPLE = 10
"""In degraded mode the pods of one node in so many are read."""

TAINTED_WITHIN = timedelta(seconds=2)
"""Karpenter taints the node right after the NodeClaim's deletion; what the scheduler had decided before comes through."""

_CONDITIONS = ("Launched", "Drained", "VolumesDetached", "InstanceTerminating")


@dataclass(frozen=True, slots=True)
class Request:
    """An instance to look at. `cluster` is where it is known to belong; `deadline` tells which grace periods are too long.

    `drain_over` spares the pods of a node of which nothing more can be learned; `following` is what to find out about the
    workloads, None when nothing is.
    """

    key: InstanceKey
    cluster: str | None = None
    deadline: datetime | None = None
    drain_over: bool = False
    following: Following | None = None


def look_at(
    requests: Sequence[Request],
    *,
    now: datetime,
    instances: Instances,
    clusters: Clusters,
    queues: Queues,
    elsewhere: Sequence[str] = (),
    degraded: str | None = None,
) -> Mapping[InstanceKey, Observation]:
    """One observation per request, all at `now`. `elsewhere` are configured clusters that this function cannot reach.

    `degraded` is why the audit spares the API servers, if it does: then the pods of one node in ten are read.
    """
    views = describe([request.key.instance_id for request in requests], instances)
    groups: dict[str | None, list[Request]] = {}
    for request in requests:
        groups.setdefault(request.cluster or views[request.key.instance_id].cluster, []).append(request)
    reachable = tuple(clusters.names())
    found: dict[InstanceKey, _Found] = {}
    queue_views: dict[str, QueueView] = {}
    for cluster, members in groups.items():
        if cluster is None:
            found |= _search(members, reachable, now, clusters, elsewhere, degraded)
        elif cluster in reachable:
            found |= _look_into(cluster, members, now, clusters, degraded)
        else:
            reason = f"cluster {cluster} is not reachable from this function"
            found |= {member.key: _Found(ClusterView(Answer.SKIPPED, reason, cluster=cluster)) for member in members}
    for cluster in {item.view.cluster for item in found.values() if item.view.cluster in reachable}:
        queue_views[cluster] = queue_of(cluster, queues)
    return {
        request.key: Observation(
            instance_id=request.key.instance_id,
            at=now,
            account=request.key.account,
            region=request.key.region,
            ec2=views[request.key.instance_id],
            kubernetes=found[request.key].view,
            queue=queue_views.get(found[request.key].view.cluster or ""),
            degraded=degraded,
            workloads=found[request.key].workloads,
        )
        for request in requests
    }


def describe(instance_ids: Sequence[str], instances: Instances) -> Mapping[str, InstanceView]:
    """EC2's answer for every instance, or why there is none."""
    try:
        known = instances.describe(instance_ids)
    except HoldfastError as error:
        failed = InstanceView(_answer_of(error), str(error))
        return dict.fromkeys(instance_ids, failed)
    unknown = InstanceView(Answer.NOT_FOUND, "EC2 does not know this instance, or no longer")
    return {instance_id: known.get(instance_id, unknown) for instance_id in instance_ids}


def in_sample(instance_id: str) -> bool:
    """Whether the pods on this instance are read in degraded mode: one in ten, at each look the same ones."""
    return int(hashlib.sha256(instance_id.encode()).hexdigest()[:8], 16) % SAMPLE == 0


def queue_of(cluster: str, queues: Queues) -> QueueView:
    """The state of the cluster's interruption queue, or why it is not known."""
    try:
        return queues.depths(cluster)
    except HoldfastError as error:
        return QueueView(_answer_of(error), str(error))


@dataclass(frozen=True, slots=True)
class _Found:
    """What a cluster said of one instance."""

    view: ClusterView
    workloads: WorkloadsView | None = None


def _search(
    members: Sequence[Request],
    reachable: Sequence[str],
    now: datetime,
    clusters: Clusters,
    elsewhere: Sequence[str],
    degraded: str | None,
) -> dict[InstanceKey, _Found]:
    """The clusters are asked one after the other for instances of which nobody said where they belong."""
    if not reachable:
        nowhere = _Found(ClusterView(Answer.SKIPPED, "this function reaches no cluster"))
        return {member.key: nowhere for member in members}
    best: dict[InstanceKey, _Found] = {}
    for cluster in reachable:
        for key, found in _look_into(cluster, members, now, clusters, degraded).items():
            held, answer = best.get(key), found.view.answer
            # Absent is an answer only when every cluster said so: a failed one outranks it.
            if (
                held is None
                or answer is Answer.OK
                or (held.view.answer is Answer.NOT_FOUND and answer is not Answer.NOT_FOUND)
            ):
                best[key] = found
    if elsewhere:
        # Not here says nothing about the clusters that nobody asked.
        unasked = ClusterView(
            Answer.SKIPPED, f"not in {', '.join(reachable)}; {', '.join(elsewhere)} cannot be reached"
        )
        return {key: _Found(unasked) if found.view.answer is Answer.NOT_FOUND else found for key, found in best.items()}
    several = len(reachable) > 1
    return {
        key: replace(found, view=replace(found.view, cluster=None))
        if several and found.view.answer is not Answer.OK
        else found
        for key, found in best.items()
    }


def _look_into(
    cluster: str, members: Sequence[Request], now: datetime, clusters: Clusters, degraded: str | None
) -> dict[InstanceKey, _Found]:
    try:
        claims = clusters.nodeclaims(cluster)
    except HoldfastError as error:
        # A cluster without the CRDs is no answer about a NodeClaim: Karpenter may be gone, its nodes may not.
        answer = Answer.ERROR if isinstance(error, NotFound) else _answer_of(error)
        return {member.key: _Found(ClusterView(answer, str(error), cluster=cluster)) for member in members}
    by_instance = {claim.instance_id: claim for claim in claims if claim.instance_id is not None}
    census = ClusterCensus(cluster, clusters, claims, now, _answer_of)
    found: dict[InstanceKey, _Found] = {}
    nodes_read = 0
    for member in members:
        claim = by_instance.get(member.key.instance_id)
        left: tuple[Pod, ...] | None = None
        if claim is None:
            view = ClusterView(Answer.NOT_FOUND, f"no NodeClaim in {cluster} has this instance", cluster=cluster)
        else:
            view = _view(cluster, claim)
            reason = _why_not_the_pods(member, claim, nodes_read, degraded)
            if claim.node is None or reason:
                view = replace(view, pods_answer=Answer.SKIPPED, pods_reason=reason)
            else:
                nodes_read += 1
                view, left = _with_pods(view, cluster, claim.node, member.deadline, now, clusters)
        following = member.following
        workloads = None if following is None else look_at_workloads(following, view, left, census)
        found[member.key] = _Found(view, workloads)
    return found


def _why_not_the_pods(member: Request, claim: NodeClaim, nodes_read: int, degraded: str | None) -> str:
    """Why the pods of the node are not read now; empty when they are."""
    if member.drain_over:
        return "the drain, or the instance, is over"
    if claim.node is None:
        return "the NodeClaim has no node yet"
    if degraded is not None and not in_sample(member.key.instance_id):
        return f"in degraded mode the pods of one node in {SAMPLE} are read: {degraded}"
    return f"only {MAX_NODES} nodes are read in one look" if nodes_read >= MAX_NODES else ""


def _view(cluster: str, claim: NodeClaim) -> ClusterView:
    return ClusterView(
        answer=Answer.OK,
        cluster=cluster,
        nodeclaim=claim.name,
        nodepool=claim.nodepool,
        node=claim.node,
        instance_type=claim.instance_type,
        zone=claim.zone,
        capacity_type=claim.capacity_type,
        created_at=claim.created_at,
        deleted_at=claim.deleted_at,
        termination_at=claim.termination_at,
        grace_period=None if claim.grace_period is None else int(claim.grace_period.total_seconds()),
        conditions=tuple(
            Condition(item.type, item.status, item.reason, item.since)
            for item in claim.conditions
            if item.type in _CONDITIONS
        ),
    )


def _with_pods(
    view: ClusterView, cluster: str, node: str, deadline: datetime | None, now: datetime, clusters: Clusters
) -> tuple[ClusterView, tuple[Pod, ...] | None]:
    try:
        left = left_on_node(clusters.pods(cluster, node))
        budgets = clusters.disruption_budgets(cluster) if left else ()
    except HoldfastError as error:
        return replace(view, pods_answer=_answer_of(error), pods_reason=str(error)), None
    began = now if view.deleted_at is None else min(view.deleted_at, now)
    time_left = None if deadline is None else max(0.0, (deadline - began).total_seconds())
    blockers = [blocker for pod in left if (blocker := _blocker(pod, budgets, time_left, now)) is not None]
    named = that_fit(
        blockers,
        most=MAX_BLOCKERS,
        room=MAX_BLOCKER_TEXT,
        text=lambda blocker: f"{blocker.namespace}{blocker.pod}{blocker.detail}{blocker.owner}",
    )
    read = replace(
        view,
        pods_answer=Answer.OK,
        pods_left=len(left),
        longest_grace=max((pod.grace for pod in left), default=0),
        blockers=named,
        blockers_unnamed=len(blockers) - len(named),
        bound_after_deletion=_bound_after(left, view.deleted_at),
    )
    return read, left


def _bound_after(pods: Sequence[Pod], deleted_at: datetime | None) -> int:
    """How many of the pods came to the node while it was drained: its taint keeps them away once it is there."""
    if deleted_at is None:
        return 0
    return sum(pod.bound_at is not None and pod.bound_at > deleted_at + TAINTED_WITHIN for pod in pods)


def _blocker(
    pod: Pod, budgets: Sequence[PodDisruptionBudget], time_left: float | None, now: datetime
) -> Blocker | None:
    """What holds the pod. `time_left` are the seconds from the beginning of the drain to the deadline."""
    held: Callable[[BlockerReason, str], Blocker] = lambda reason, detail: Blocker(  # noqa: E731 - four fields repeat
        pod.namespace, pod.name, reason, detail, pod.owner
    )
    if refuses_disruption(pod, now):
        return held(BlockerReason.DO_NOT_DISRUPT, f"karpenter.sh/do-not-disrupt={pod.do_not_disrupt}")
    budget = blocking_budget(pod, budgets)
    if budget is not None:
        return held(BlockerReason.PDB, f"PodDisruptionBudget {budget.name} allows 0 disruptions")
    if time_left is not None and pod.grace > time_left:
        return held(BlockerReason.GRACE_PERIOD, f"terminationGracePeriodSeconds {pod.grace}")
    return None


def _answer_of(error: HoldfastError) -> Answer:
    match error:
        case Throttled():
            return Answer.THROTTLED
        case Denied():
            return Answer.DENIED
        case NotFound():
            return Answer.NOT_FOUND
        case _:
            return Answer.ERROR
