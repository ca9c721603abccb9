"""Builders of complete, realistic Kubernetes and Karpenter objects as plain dicts, at any time in the past.

Shapes and texts are those of EKS 1.36 with Karpenter 1.14.1. An object's uid follows from its kind, namespace and
name, so that owner references fit without a server; pass `uid` for a second object of the same name.
"""

import hashlib
import re
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast_cli.sandbox.kube.times import timestamp

type KubeObject = dict[str, Any]

TERMINATION_FINALIZER = "karpenter.sh/termination"
KUBELET_VERSION = "v1.36.4-eks-a887778"
AMI = "ami-0c1f3a8d5e7b92461"
_UIDS = uuid.UUID("6f0b8f5e-3f55-4c8c-9c1a-9d7c1f1f2a10")
_ORDERS_TAINT = {"key": "workload", "value": "orders", "effect": "NoSchedule"}
_HASHES = {
    "karpenter.sh/nodepool-hash": "12393960163388511505",
    "karpenter.sh/nodepool-hash-version": "v3",
}
_CLASS_HASHES = {
    "karpenter.k8s.aws/ec2nodeclass-hash": "3221290405398139437",
    "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
}
# vCPUs of an instance size, GiB of memory per vCPU of a family: enough for the families that are used here.
_SIZE = re.compile(r"(?P<factor>\d*)x?large")
_GIB_PER_CPU = {"c": 2, "m": 4, "r": 8, "t": 4}


def uid_of(kind: str, name: str, namespace: str = "") -> str:
    return str(uuid.uuid5(_UIDS, f"{kind}/{namespace}/{name}"))


def go_duration(duration: timedelta) -> str:
    """`1h0m0s`, as Go writes a duration and so as Karpenter writes one into a NodeClaim."""
    seconds = int(duration.total_seconds())
    hours, minutes = seconds // 3600, seconds % 3600 // 60
    if hours:
        return f"{hours}h{minutes}m{seconds % 60}s"
    return f"{minutes}m{seconds % 60}s" if minutes else f"{seconds}s"


def node_name_of(instance_id: str, zone: str) -> str:
    """A private DNS name, the same one for the same instance."""
    digest = hashlib.sha256(instance_id.encode()).digest()
    return f"ip-192-168-{digest[0] % 96}-{digest[1] % 250 + 4}.{zone[:-1]}.compute.internal"


def condition(kind: str, state: bool | None, since: datetime, reason: str = "", message: str = "") -> dict[str, Any]:
    """A status condition as Karpenter writes it; `state` None is Unknown, the reason is the type if not given."""
    return {
        "type": kind,
        "status": {True: "True", False: "False", None: "Unknown"}[state],
        "lastTransitionTime": timestamp(since),
        "reason": reason or kind,
        "message": message,
    }


def ec2nodeclass(
    name: str = "orders",
    *,
    cluster: str,
    created_at: datetime,
    role: str | None = None,
    ami_terms: Sequence[Mapping[str, Any]] = ({"id": AMI},),
    tags: Mapping[str, str] | None = None,
    uid: str | None = None,
) -> KubeObject:
    """A Ready EC2NodeClass. `tags` become `spec.tags`; the default AMI is pinned, `role` the cluster's node role."""
    settled = created_at + timedelta(seconds=4)
    kinds = ("AMIsReady", "InstanceProfileReady", "SecurityGroupsReady", "SubnetsReady", "ValidationSucceeded")
    discovery = {"tags": {"karpenter.sh/discovery": cluster}}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {
            "name": name,
            "uid": uid or uid_of("EC2NodeClass", name),
            "creationTimestamp": timestamp(created_at),
            "generation": 1,
            "annotations": dict(_CLASS_HASHES),
            "finalizers": ["karpenter.k8s.aws/termination"],
        },
        "spec": {
            "role": role or f"KarpenterNodeRole-{cluster}",
            "amiFamily": "AL2023",
            "amiSelectorTerms": [dict(term) for term in ami_terms],
            "subnetSelectorTerms": [discovery],
            "securityGroupSelectorTerms": [discovery],
            "metadataOptions": {
                "httpEndpoint": "enabled",
                "httpProtocolIPv6": "disabled",
                "httpPutResponseHopLimit": 1,
                "httpTokens": "required",
            },
        }
        | ({"tags": dict(tags)} if tags else {}),
        "status": {
            "amis": [{"id": AMI, "name": "amazon-eks-node-al2023-x86_64-standard-1.36-v20260914"}],
            "instanceProfile": f"{cluster}_{uid_of('InstanceProfile', name)[:8]}",
            "conditions": [condition(kind, True, settled) for kind in (*kinds, "Ready")],
        },
    }


def nodepool(
    name: str = "orders-spot",
    *,
    created_at: datetime,
    nodeclass: str = "orders",
    capacity_types: Sequence[str] = ("spot",),
    termination_grace_period: str | None = None,
    limits: Mapping[str, Any] | None = None,
    budgets: Sequence[Mapping[str, Any]] = ({"nodes": "10%"},),
    consolidate_after: str = "5m",
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (_ORDERS_TAINT,),
    requirements: Sequence[Mapping[str, Any]] | None = None,
    claims: Sequence[Mapping[str, Any]] = (),
    uid: str | None = None,
) -> KubeObject:
    """A Ready NodePool of the orders workload.

    `termination_grace_period` stands there as a person writes it (`1h`), `requirements` replaces those beside
    the capacity type. `status.resources` sums the launched ones of `claims` that are the pool's own.
    """
    more = requirements or (
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["5"]},
    )
    template: dict[str, Any] = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": nodeclass},
        "requirements": [
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": list(capacity_types)},
            *(dict(requirement) for requirement in more),
        ],
        "expireAfter": "720h",
    }
    if taints:
        template["taints"] = [dict(taint) for taint in taints]
    if termination_grace_period is not None:
        template["terminationGracePeriod"] = termination_grace_period
    capacities = [
        claim["status"]["capacity"]
        for claim in claims
        if "status" in claim and claim["metadata"]["labels"]["karpenter.sh/nodepool"] == name
    ]
    settled = created_at + timedelta(seconds=1)
    kinds = ("ValidationSucceeded", "NodeClassReady", "NodeRegistrationHealthy", "Ready")
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {
            "name": name,
            "uid": uid or uid_of("NodePool", name),
            "creationTimestamp": timestamp(created_at),
            "generation": 1,
            "annotations": dict(_HASHES),
        },
        "spec": {
            "template": {
                "metadata": {"labels": dict(labels if labels is not None else {"workload": "orders"})},
                "spec": template,
            },
            "limits": dict(limits if limits is not None else {"cpu": "100", "memory": "400Gi"}),
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": consolidate_after,
                "budgets": [dict(budget) for budget in budgets],
            },
        },
        "status": {
            "resources": _usage(capacities),
            "nodes": len(capacities),
            "nodeClassObservedGeneration": 1,
            "conditions": [condition(kind, True, settled) for kind in kinds],
        },
    }


def nodeclaim(
    name: str,
    *,
    instance_id: str,
    created_at: datetime,
    nodepool: str = "orders-spot",
    nodeclass: str = "orders",
    capacity_type: str = "spot",
    instance_type: str = "c6i.2xlarge",
    zone: str = "ap-southeast-1a",
    node_name: str | None = None,
    taints: Sequence[Mapping[str, str]] = (_ORDERS_TAINT,),
    launched: bool = True,
    registered: bool = True,
    deleted_at: datetime | None = None,
    drained_at: datetime | None = None,
    instance_terminating_at: datetime | None = None,
    termination_grace_period: timedelta | None = None,
    termination_at: datetime | None = None,
    uid: str | None = None,
) -> KubeObject:
    """A NodeClaim at one moment of its life.

    `launched=False`: just created, without any status. `registered=False`: an instance without a node.
    `deleted_at`: being terminated, its drain under way until `drained_at`, its instance being terminated since
    `instance_terminating_at`. `termination_at` is the annotation by which Karpenter stops waiting; it follows from
    deletion and `termination_grace_period` if not given.
    """
    if termination_at is None and deleted_at is not None and termination_grace_period is not None:
        termination_at = deleted_at + termination_grace_period
    annotations = {
        **_HASHES,
        **_CLASS_HASHES,
        "compatibility.karpenter.k8s.aws/cluster-name-tagged": "true",
        "karpenter.k8s.aws/tagged": "true",
    }
    if termination_at is not None:
        annotations["karpenter.sh/nodeclaim-termination-timestamp"] = timestamp(termination_at)
    labels = {"karpenter.sh/nodepool": nodepool, "karpenter.k8s.aws/ec2nodeclass": nodeclass, "workload": "orders"}
    if launched:
        labels |= _instance_labels(instance_type, zone, capacity_type)
    spec: dict[str, Any] = {
        "expireAfter": "720h",
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": nodeclass},
        "requirements": [{"key": "karpenter.sh/capacity-type", "operator": "In", "values": [capacity_type]}],
        "resources": {"requests": {"cpu": "6450m", "memory": "12160432128", "pods": "7"}},
        "taints": [dict(taint) for taint in taints],
    }
    if termination_grace_period is not None:
        spec["terminationGracePeriod"] = go_duration(termination_grace_period)
    metadata: dict[str, Any] = {
        "name": name,
        "generateName": f"{nodepool}-",
        "uid": uid or uid_of("NodeClaim", name),
        "creationTimestamp": timestamp(created_at),
        "generation": 1 if deleted_at is None else 2,
        "labels": labels,
        "annotations": annotations,
        "finalizers": [TERMINATION_FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodePool",
                "name": nodepool,
                "uid": uid_of("NodePool", nodepool),
                "blockOwnerDeletion": True,
            }
        ],
    }
    if deleted_at is not None:
        metadata |= {"deletionTimestamp": timestamp(deleted_at), "deletionGracePeriodSeconds": 0}
    claim: KubeObject = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": metadata,
        "spec": spec,
    }
    if launched:
        capacity = _capacity(instance_type)
        claim["status"] = {
            "providerID": f"aws:///{zone}/{instance_id}",
            "imageID": AMI,
            "capacity": capacity,
            "allocatable": _allocatable(capacity),
            "conditions": _claim_conditions(created_at, registered, deleted_at, drained_at, instance_terminating_at),
        }
        if registered:
            claim["status"]["nodeName"] = node_name or node_name_of(instance_id, zone)
    return claim


def _claim_conditions(
    created_at: datetime,
    registered: bool,
    deleted_at: datetime | None,
    drained_at: datetime | None,
    terminating_at: datetime | None,
) -> list[dict[str, Any]]:
    launched = created_at + timedelta(seconds=4)
    ready = created_at + timedelta(seconds=44)
    conditions = [condition("Launched", True, launched)]
    if registered:
        registered_at = created_at + timedelta(seconds=23)
        conditions += [
            condition("Registered", True, registered_at),
            condition("Initialized", True, ready),
            condition("ConsistentStateFound", True, ready),
            condition("Ready", True, ready),
        ]
    else:
        reason, message = "NodeNotFound", "Node not registered with cluster"
        conditions += [condition(kind, None, launched, reason, message) for kind in ("Registered", "Ready")]
    if deleted_at is None:
        return conditions
    if drained_at is None:
        drained = condition("Drained", None, deleted_at, "Draining", "Draining")
        volumes = condition(
            "VolumesDetached", None, deleted_at, "AwaitingReconciliation", "object is awaiting reconciliation"
        )
    else:
        drained = condition("Drained", True, drained_at)
        volumes = condition("VolumesDetached", True, drained_at)
    conditions += [drained, volumes]
    if terminating_at is not None:
        conditions.append(condition("InstanceTerminating", True, terminating_at))
    return conditions


def node(
    claim: Mapping[str, Any],
    *,
    ready: bool = True,
    not_ready_since: datetime | None = None,
    created_at: datetime | None = None,
) -> KubeObject:
    """The Node of a registered NodeClaim: created 23 s after it, tainted and being deleted when the claim is."""
    metadata, status = claim["metadata"], claim["status"]
    name = status["nodeName"]
    launched = datetime.fromisoformat(metadata["creationTimestamp"])
    created = created_at or launched + timedelta(seconds=23)
    taints = list(claim["spec"].get("taints", ()))
    own: dict[str, Any] = {
        "name": name,
        "uid": uid_of("Node", name),
        "creationTimestamp": timestamp(created),
        "labels": metadata["labels"]
        | {
            "kubernetes.io/hostname": name,
            "karpenter.sh/registered": "true",
            "karpenter.sh/initialized": "true",
        },
        "annotations": {**_HASHES, **_CLASS_HASHES},
        "finalizers": [TERMINATION_FINALIZER],
        "ownerReferences": [
            {
                "apiVersion": "karpenter.sh/v1",
                "kind": "NodeClaim",
                "name": metadata["name"],
                "uid": metadata["uid"],
                "blockOwnerDeletion": True,
            }
        ],
    }
    if "deletionTimestamp" in metadata:
        own |= {"deletionTimestamp": metadata["deletionTimestamp"], "deletionGracePeriodSeconds": 0}
        taints.append({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"})
    spec = {"providerID": status["providerID"], "taints": taints}
    return _node(own, spec, status["capacity"], ready=ready, since=not_ready_since or created)


def managed_node(
    name: str,
    *,
    instance_id: str,
    zone: str,
    created_at: datetime,
    instance_type: str = "t3.2xlarge",
    nodegroup: str = "managed-ng",
) -> KubeObject:
    """A node of a fixed managed node group, which Karpenter has nothing to do with."""
    labels = {
        "alpha.eksctl.io/nodegroup-name": nodegroup,
        "eks.amazonaws.com/nodegroup": nodegroup,
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
        "kubernetes.io/hostname": name,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/region": zone[:-1],
        "topology.kubernetes.io/zone": zone,
        "workload": "system",
    }
    metadata = {
        "name": name,
        "uid": uid_of("Node", name),
        "creationTimestamp": timestamp(created_at),
        "labels": labels,
    }
    spec = {"providerID": f"aws:///{zone}/{instance_id}"}
    return _node(metadata, spec, _capacity(instance_type), ready=True, since=created_at)


def _node(
    metadata: dict[str, Any], spec: dict[str, Any], capacity: dict[str, str], *, ready: bool, since: datetime
) -> KubeObject:
    if ready:
        state = condition("Ready", True, since, "KubeletReady", "kubelet is posting ready status")
    else:
        state = condition("Ready", None, since, "NodeStatusUnknown", "Kubelet stopped posting node status.")
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": {
            "capacity": capacity,
            "allocatable": _allocatable(capacity),
            "conditions": [state],
            "nodeInfo": {
                "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.2.7+unknown",
                "kubeletVersion": KUBELET_VERSION,
                "operatingSystem": "linux",
                "osImage": "Amazon Linux 2023.12.20260914",
            },
        },
    }


def deployment(
    name: str,
    *,
    namespace: str,
    created_at: datetime,
    replicas: int = 3,
    ready: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> KubeObject:
    """A Deployment; `ready` pods of it are ready (all of them if not given), `labels` select its pods."""
    built = _workload("Deployment", name, namespace, created_at, replicas, labels)
    ready = replicas if ready is None else ready
    built["status"] = {
        "observedGeneration": 1,
        "replicas": replicas,
        "updatedReplicas": replicas,
        "readyReplicas": ready,
        "availableReplicas": ready,
    } | ({"unavailableReplicas": replicas - ready} if ready < replicas else {})
    return built


def replicaset(
    deployment: Mapping[str, Any], *, template_hash: str = "645769f7b", ready: int | None = None
) -> KubeObject:
    """The current ReplicaSet of a Deployment, named after its template hash."""
    meta, spec = deployment["metadata"], deployment["spec"]
    labels = spec["selector"]["matchLabels"] | {"pod-template-hash": template_hash}
    created_at = datetime.fromisoformat(meta["creationTimestamp"])
    name = f"{meta['name']}-{template_hash}"
    built = _workload("ReplicaSet", name, meta["namespace"], created_at, spec["replicas"], labels)
    built["metadata"]["ownerReferences"] = [_owner(deployment)]
    ready = deployment["status"]["readyReplicas"] if ready is None else ready
    built["status"] = {
        "observedGeneration": 1,
        "replicas": spec["replicas"],
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    return built


def statefulset(
    name: str,
    *,
    namespace: str,
    created_at: datetime,
    replicas: int = 1,
    ready: int | None = None,
    labels: Mapping[str, str] | None = None,
) -> KubeObject:
    built = _workload("StatefulSet", name, namespace, created_at, replicas, labels)
    ready = replicas if ready is None else ready
    built["spec"]["serviceName"] = name
    built["status"] = {"observedGeneration": 1, "replicas": replicas, "readyReplicas": ready}
    return built


def daemonset(
    name: str,
    *,
    namespace: str,
    created_at: datetime,
    nodes: int,
    labels: Mapping[str, str] | None = None,
) -> KubeObject:
    """A DaemonSet that is ready on all of its `nodes`."""
    built = _workload("DaemonSet", name, namespace, created_at, None, labels)
    built["status"] = {
        "observedGeneration": 1,
        "currentNumberScheduled": nodes,
        "desiredNumberScheduled": nodes,
        "numberReady": nodes,
        "numberAvailable": nodes,
        "numberMisscheduled": 0,
    }
    return built


def pod(
    name: str,
    *,
    namespace: str,
    node_name: str,
    created_at: datetime,
    owner: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    phase: str = "Running",
    ready: bool = True,
    grace_seconds: int = 30,
    do_not_disrupt: str | None = None,
    tolerations: Sequence[Mapping[str, Any]] = (),
    mirror: bool = False,
    deleted_at: datetime | None = None,
    uid: str | None = None,
) -> KubeObject:
    """A pod bound to a node.

    `owner` is the ReplicaSet, StatefulSet or DaemonSet object that made it (its labels are the default, a DaemonSet's
    tolerations come with it), or None for a bare pod. `mirror`: a static pod of the kubelet, owned by its Node.
    `do_not_disrupt` is the value of Karpenter's annotation. `phase` Succeeded or Failed is a finished pod.
    `deleted_at`: evicted then, still there for its grace period.
    """
    annotations: dict[str, str] = {}
    owners = [_owner(owner)] if owner is not None else []
    if mirror:
        annotations |= {"kubernetes.io/config.mirror": "2f6a9d0c", "kubernetes.io/config.source": "file"}
        owners = [{"apiVersion": "v1", "kind": "Node", "name": node_name, "controller": True}]
        owners[0]["uid"] = uid_of("Node", node_name)
    if do_not_disrupt is not None:
        annotations["karpenter.sh/do-not-disrupt"] = do_not_disrupt
    if labels is None:
        labels = owner["spec"]["template"]["metadata"]["labels"] if owner is not None else {"app": name}
    kind = owner["kind"] if owner is not None else ""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "uid": uid or uid_of("Pod", name, namespace),
        "creationTimestamp": timestamp(created_at),
        "labels": dict(labels),
        "annotations": annotations,
        "ownerReferences": owners,
    }
    if deleted_at is not None:
        # The API server dates the deletion at the end of the grace period.
        metadata["deletionTimestamp"] = timestamp(deleted_at + timedelta(seconds=grace_seconds))
        metadata["deletionGracePeriodSeconds"] = grace_seconds
    finished = phase in {"Succeeded", "Failed"}
    is_ready = ready and phase == "Running"
    started = created_at + timedelta(seconds=3)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "nodeName": node_name,
            "containers": [
                {
                    "name": "main",
                    "image": "public.ecr.aws/nginx/nginx:1.31-alpine-slim",
                    "resources": {"requests": {"cpu": "2", "memory": "4G"}},
                }
            ],
            "restartPolicy": "Never" if finished else "Always",
            "schedulerName": "default-scheduler",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": grace_seconds,
            "tolerations": [dict(entry) for entry in (*_pod_tolerations(kind, mirror), *tolerations)],
        },
        "status": {
            "phase": phase,
            "startTime": timestamp(started),
            "conditions": [
                condition("PodScheduled", True, created_at),
                condition("Ready", is_ready, started, "" if is_ready else "ContainersNotReady"),
            ],
        },
    }


def _pod_tolerations(owner_kind: str, mirror: bool) -> list[dict[str, Any]]:
    if mirror:
        return [{"operator": "Exists", "effect": "NoExecute"}]
    lasting = {"operator": "Exists", "effect": "NoExecute"}
    if owner_kind == "DaemonSet":
        pressure = ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
        return [
            *({"key": f"node.kubernetes.io/{key}"} | lasting for key in ("not-ready", "unreachable")),
            *({"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoSchedule"} for key in pressure),
        ]
    return [
        {"key": f"node.kubernetes.io/{key}"} | lasting | {"tolerationSeconds": 300}
        for key in ("not-ready", "unreachable")
    ]


def pdb(
    name: str,
    *,
    namespace: str,
    match_labels: Mapping[str, str],
    created_at: datetime,
    healthy: int,
    expected: int,
    max_unavailable: int | str | None = None,
    min_available: int | str | None = None,
    disruptions_allowed: int | None = None,
) -> KubeObject:
    """A PodDisruptionBudget with a status for `healthy` of `expected` pods.

    Give one of `max_unavailable` and `min_available`; with numbers, desiredHealthy and disruptionsAllowed follow as
    the disruption controller computes them, with a percentage pass `disruptions_allowed`.
    """
    if (max_unavailable is None) == (min_available is None):
        raise ValueError(f"PodDisruptionBudget {name} takes one of max_unavailable and min_available")
    if disruptions_allowed is not None:
        desired = max(healthy - disruptions_allowed, 0)
    elif isinstance(max_unavailable, int):
        desired = max(expected - max_unavailable, 0)
    elif isinstance(min_available, int):
        desired = min_available
    else:
        raise ValueError(f"PodDisruptionBudget {name} has a percentage: pass disruptions_allowed")
    allowed = max(healthy - desired, 0) if disruptions_allowed is None else disruptions_allowed
    rule = {"maxUnavailable": max_unavailable} if max_unavailable is not None else {"minAvailable": min_available}
    reason = "SufficientPods" if allowed else "InsufficientPods"
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_of("PodDisruptionBudget", name, namespace),
            "creationTimestamp": timestamp(created_at),
            "generation": 1,
        },
        "spec": rule | {"selector": {"matchLabels": dict(match_labels)}},
        "status": {
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "disruptionsAllowed": allowed,
            "expectedPods": expected,
            "observedGeneration": 1,
            "conditions": [condition("DisruptionAllowed", bool(allowed), created_at, reason)],
        },
    }


def namespace(name: str, *, created_at: datetime) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "uid": uid_of("Namespace", name),
            "creationTimestamp": timestamp(created_at),
            "labels": {"kubernetes.io/metadata.name": name},
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def _workload(
    kind: str,
    name: str,
    namespace: str,
    created_at: datetime,
    replicas: int | None,
    labels: Mapping[str, str] | None,
) -> KubeObject:
    selected = dict(labels if labels is not None else {"app.kubernetes.io/name": name})
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid_of(kind, name, namespace),
            "creationTimestamp": timestamp(created_at),
            "generation": 1,
            "labels": selected,
        },
        "spec": ({} if replicas is None else {"replicas": replicas})
        | {
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": selected}, "spec": {"containers": [{"name": "main"}]}},
        },
    }


def _owner(item: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": item["apiVersion"],
        "kind": item["kind"],
        "name": item["metadata"]["name"],
        "uid": item["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _instance_labels(instance_type: str, zone: str, capacity_type: str) -> dict[str, str]:
    family, _, size = instance_type.partition(".")
    return {
        "karpenter.sh/capacity-type": capacity_type,
        "node.kubernetes.io/instance-type": instance_type,
        "topology.kubernetes.io/region": zone[:-1],
        "topology.kubernetes.io/zone": zone,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "karpenter.k8s.aws/instance-category": family[0],
        "karpenter.k8s.aws/instance-family": family,
        "karpenter.k8s.aws/instance-size": size,
        "karpenter.k8s.aws/instance-cpu": str(_cpus(instance_type)),
        "karpenter.k8s.aws/instance-memory": str(_gibibytes(instance_type) * 1024),
    }


def _cpus(instance_type: str) -> int:
    size = _SIZE.fullmatch(instance_type.partition(".")[2])
    if size is None:
        raise ValueError(f"instance type {instance_type}: its size is not one of large, xlarge, <n>xlarge")
    if "xlarge" not in instance_type:
        return 2
    return 4 * int(size["factor"] or 1)


def _gibibytes(instance_type: str) -> int:
    family = instance_type[0]
    if family not in _GIB_PER_CPU:
        raise ValueError(f"instance type {instance_type}: only families c, m, r and t are known here")
    return _GIB_PER_CPU[family] * _cpus(instance_type)


def _capacity(instance_type: str) -> dict[str, str]:
    # Karpenter counts 7.5 % of the memory as lost to the hypervisor and the kernel (VM_MEMORY_OVERHEAD_PERCENT).
    memory = _gibibytes(instance_type) * 1024 * 925 // 1000
    return {
        "cpu": str(_cpus(instance_type)),
        "ephemeral-storage": "20Gi",
        "memory": f"{memory}Mi",
        "pods": "58",
    }


def _usage(capacities: Sequence[Mapping[str, str]]) -> dict[str, str]:
    def total(key: str, unit: str) -> str:
        amount = sum(int(capacity[key].removesuffix(unit)) for capacity in capacities)
        return f"{amount}{unit}" if amount else "0"

    return {
        "cpu": total("cpu", ""),
        "ephemeral-storage": total("ephemeral-storage", "Gi"),
        "memory": total("memory", "Mi"),
        "nodes": str(len(capacities)),
        "pods": total("pods", ""),
    }


def _allocatable(capacity: Mapping[str, str]) -> dict[str, str]:
    memory = int(capacity["memory"].removesuffix("Mi")) - 993  # what kubelet and system keep back at 58 pods
    return {
        "cpu": f"{int(capacity['cpu']) * 1000 - 90}m",
        "ephemeral-storage": "17Gi",
        "memory": f"{memory}Mi",
        "pods": capacity["pods"],
    }
