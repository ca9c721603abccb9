"""The part of a look that is about the workloads: how many replicas are ready, what may replace the node, what is short."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.interruption.observation import (
    MAX_MESSAGE,
    MAX_REPLACEMENTS,
    MAX_WORKLOAD_TEXT,
    MAX_WORKLOADS,
    Answer,
    ClusterView,
    Replacement,
    ShortageView,
    WorkloadsView,
    WorkloadView,
    that_fit,
)
from holdfast.karpenter.nodeclaim import NodeClaim
from holdfast.karpenter.nodepool import limits_reached
from holdfast.karpenter.pods import Pod
from holdfast.karpenter.workload import REPLICA_SET, STATEFUL_SET, ReplicaList, WorkloadName, owners, workloads
from holdfast.ports import Clusters

OLDEST_REPLICAS: Final = timedelta(seconds=30)
REPLACED_BEFORE: Final = timedelta(minutes=15)
"""A rebalance recommendation may bring the replacement this long before the warning."""
REPLACED_AFTER: Final = timedelta(minutes=10)

_NOBODY_STARTS_AGAIN: Final = frozenset({None, "Job"})
_NO_CAPACITY: Final = "InsufficientCapacity"
_NAMED: Final = 3
"""Limits and refused NodeClaims that are named: one of them is reason enough."""


@dataclass(frozen=True, slots=True)
class Following:
    """What to find out about the workloads of an instance that was warned at `warned_at`.

    `workloads` are those that an earlier look found on the node; without any, the pods tell. The replicas have to be read
    at or after `since`. With `shortage` the look also asks what keeps pods waiting.
    """

    warned_at: datetime
    nodepool: str | None = None
    nodeclaim: str | None = None
    workloads: tuple[WorkloadName, ...] = ()
    since: datetime | None = None
    shortage: bool = False


@dataclass
class ClusterCensus:
    """What one cluster says of all its workloads: asked when first needed, and once for all instances of a look."""

    cluster: str
    clusters: Clusters
    claims: Sequence[NodeClaim]
    now: datetime
    answer_of: Callable[[HoldfastError], Answer]
    _replicas: ReplicaList | None = field(default=None, init=False)

    def replicas(self, since: datetime | None) -> ReplicaList:
        """The owners' replicas, read at or after `since`."""
        oldest = OLDEST_REPLICAS if since is None else min(OLDEST_REPLICAS, max(self.now - since, timedelta(0)))
        if self._replicas is None or self._replicas.age > oldest:
            self._replicas = self.clusters.replicas(self.cluster, max_age=oldest)
        return self._replicas

    @cached_property
    def pending(self) -> Sequence[Pod]:
        """The pods that wait for a node or for their start."""
        return self.clusters.pending_pods(self.cluster)

    @cached_property
    def limits(self) -> Mapping[str, tuple[str, ...]]:
        """Of each NodePool the limits that leave no room for another node."""
        return {
            pool.name: limits_reached(pool, [claim.capacity for claim in self.claims if claim.nodepool == pool.name])
            for pool in self.clusters.nodepools(self.cluster)
        }


def look_at_workloads(
    following: Following, view: ClusterView, left: Sequence[Pod] | None, census: ClusterCensus
) -> WorkloadsView | None:
    """What is to be seen of the workloads now; None when nothing tells which they are.

    `left` are the pods that a drain has to move off the node, None when they were not read.
    """
    if left is None and not following.workloads:
        return None
    replacements = _replacements(following, view, census.claims)
    named, unnamed = replacements[:MAX_REPLACEMENTS], max(0, len(replacements) - MAX_REPLACEMENTS)
    kept = [pod for pod in left or () if pod.owner_kind in {REPLICA_SET, STATEFUL_SET}]
    if not following.workloads and not kept:
        return WorkloadsView(
            Answer.OK,
            at=census.now,
            found=True,
            here=0,
            ownerless=_ownerless(left or ()),
            unread=len(left or ()) - _ownerless(left or ()),
            replacements=named,
            replacements_unnamed=unnamed,
        )
    try:
        replicas = census.replicas(following.since)
    except HoldfastError as error:
        return WorkloadsView(census.answer_of(error), str(error), replacements=named, replacements_unnamed=unnamed)
    behind = owners(replicas.items)
    on_node = Counter(name for pod in kept if (name := behind.get((pod.namespace, pod.owner or ""))) is not None)
    leaving = Counter(
        behind.get((pod.namespace, pod.owner or ""))
        for pod in kept
        if pod.leaving and pod.ready and pod.owner_kind == REPLICA_SET
    )
    wanted = following.workloads or tuple(sorted(on_node))
    counted = workloads(replicas.items)
    views = [
        WorkloadView(
            name.kind,
            name.namespace,
            name.name,
            desired=counted[name].desired if name in counted else None,
            ready=counted[name].ready if name in counted else None,
            leaving=leaving[name],
        )
        for name in wanted
    ]
    fitting = that_fit(
        views,
        most=MAX_WORKLOADS,
        room=MAX_WORKLOAD_TEXT,
        text=lambda view: f"{view.kind}{view.namespace}{view.name}",
    )
    return WorkloadsView(
        Answer.OK,
        at=census.now - replicas.age,
        found=not following.workloads,
        here=None if left is None else sum(on_node[name] for name in wanted),
        workloads=fitting,
        workloads_unnamed=len(views) - len(fitting),
        ownerless=_ownerless(left or ()),
        unread=len(left or ()) - _ownerless(left or ()) - on_node.total(),
        replacements=named,
        replacements_unnamed=unnamed,
        shortage=_shortage(following, view, behind, census) if following.shortage else None,
    )


def _ownerless(pods: Sequence[Pod]) -> int:
    return sum(pod.owner_kind in _NOBODY_STARTS_AGAIN for pod in pods)


def _replacements(following: Following, view: ClusterView, claims: Sequence[NodeClaim]) -> tuple[Replacement, ...]:
    nodepool = view.nodepool or following.nodepool
    own = view.nodeclaim or following.nodeclaim
    first, last = following.warned_at - REPLACED_BEFORE, following.warned_at + REPLACED_AFTER
    found = [
        Replacement(
            claim.name,
            claim.created_at,
            _state(claim),
            claim.instance_type,
            claim.zone,
            claim.capacity_type,
            _not_launched(claim)[:MAX_MESSAGE],
        )
        for claim in claims
        if nodepool is not None
        and claim.nodepool == nodepool
        and claim.name != own
        and claim.created_at is not None
        and first <= claim.created_at <= last
    ]
    return tuple(sorted(found, key=lambda item: (item.created_at, item.nodeclaim)))


def _state(claim: NodeClaim) -> str:
    if claim.deleted_at is not None:
        return "deleting"
    for name in ("Initialized", "Registered", "Launched"):
        condition = claim.condition(name)
        if condition is not None and condition.status == "True":
            return name.lower()
    return "created"


def _not_launched(claim: NodeClaim) -> str:
    condition = claim.condition("Launched")
    if condition is None or condition.status == "True":
        return ""
    return ": ".join(part for part in (condition.reason, condition.message) if part)


def _shortage(
    following: Following,
    view: ClusterView,
    behind: Mapping[tuple[str, str], WorkloadName],
    census: ClusterCensus,
) -> ShortageView:
    answer, reason = Answer.OK, ""
    nodepool = view.nodepool or following.nodepool
    waiting: int | None = None
    message = ""
    limits: tuple[str, ...] | None = None
    try:
        own = [pod for pod in census.pending if behind.get((pod.namespace, pod.owner or "")) in following.workloads]
        waiting, message = len(own), next((pod.waits_for for pod in own if pod.waits_for), "")
        found = census.limits.get(nodepool or "")
        limits = None if found is None else tuple(text[:MAX_MESSAGE] for text in found[:_NAMED])
    except HoldfastError as error:
        answer, reason = census.answer_of(error), str(error)
    refused = [
        claim.name
        for claim in census.claims
        if claim.nodepool == nodepool
        and claim.created_at is not None
        and claim.created_at >= following.warned_at
        and _NO_CAPACITY in _not_launched(claim)
    ]
    return ShortageView(
        answer,
        reason,
        waiting,
        message[:MAX_MESSAGE],
        limits,
        None if nodepool is None else tuple(refused[:_NAMED]),
    )
