"""Who owns the pods of a node, and how many replicas are ready: read from ReplicaSets and StatefulSets (apps/v1).

Karpenter does not link a replacement to the NodeClaim it replaces, and pods may fit on nodes that were there before. So
whether a workload stands again shows in the ready replicas of the pods' owners. ReplicaSets are summed by what controls
them (a Deployment, an Argo Rollout), so that a rollout in between does not look like a loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

REPLICA_SET = "ReplicaSet"
STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True, order=True)
class WorkloadName:
    """A workload by its kind, namespace and name."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Replicas:
    """One ReplicaSet or StatefulSet. `controller` is what controls it in turn, as `kind/name`.

    `desired` is `spec.replicas`. `ready` is `status.readyReplicas`: a ReplicaSet does not count a pod that is being
    evicted, a StatefulSet does until the pod is gone.
    """

    kind: str
    namespace: str
    name: str
    controller: str | None
    desired: int
    ready: int

    @property
    def workload(self) -> WorkloadName:
        """What a person knows it by: its controller, or itself."""
        kind, _, name = (self.controller or f"{self.kind}/{self.name}").partition("/")
        return WorkloadName(kind, self.namespace, name)


@dataclass(frozen=True, slots=True)
class ReplicaList:
    """All ReplicaSets and StatefulSets of a cluster, as they were `age` ago."""

    age: timedelta
    items: tuple[Replicas, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """The replicas of one workload, summed over its ReplicaSets."""

    name: WorkloadName
    desired: int
    ready: int


def parse_replicas(kind: str, item: Mapping[str, Any]) -> Replicas:
    """The ReplicaSet or StatefulSet in one item of a list, whose items do not tell their kind."""
    metadata = item.get("metadata") or {}
    controller: Mapping[str, Any] = next(
        (owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")), {}
    )
    desired = (item.get("spec") or {}).get("replicas")
    return Replicas(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        controller=f"{controller['kind']}/{controller['name']}" if controller else None,
        desired=1 if desired is None else int(desired),
        ready=int((item.get("status") or {}).get("readyReplicas") or 0),
    )


def workloads(items: Iterable[Replicas]) -> Mapping[WorkloadName, Workload]:
    """Every workload with the replicas of all its ReplicaSets."""
    sums: dict[WorkloadName, Workload] = {}
    for item in items:
        name = item.workload
        held = sums.get(name)
        sums[name] = (
            Workload(name, item.desired, item.ready)
            if held is None
            else Workload(name, held.desired + item.desired, held.ready + item.ready)
        )
    return sums


def owners(items: Iterable[Replicas]) -> Mapping[tuple[str, str], WorkloadName]:
    """The workload behind each pod's owner; the key is the pod's namespace and its owner as `kind/name`."""
    return {(item.namespace, f"{item.kind}/{item.name}"): item.workload for item in items}
