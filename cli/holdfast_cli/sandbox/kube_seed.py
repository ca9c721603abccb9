"""The cluster a sandbox begins with: `orders` workers on Karpenter nodes beside a fixed node group for the system."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast_cli.sandbox.control import Ec2Instance
from holdfast_cli.sandbox.kube import objects
from holdfast_cli.sandbox.kube.objects import KubeObject

CLUSTER = "eksworkshop"
HELD_LABELS = {"app": "orders-db"}
"""Labels of pods that the PodDisruptionBudget `orders-db` lets nobody evict."""

_SYSTEM_NODES = (
    ("ip-192-168-30-108.ap-southeast-1.compute.internal", "i-0b7f1a52c9d3e4801", "ap-southeast-1a"),
    ("ip-192-168-54-190.ap-southeast-1.compute.internal", "i-0b7f1a52c9d3e4802", "ap-southeast-1b"),
    ("ip-192-168-69-155.ap-southeast-1.compute.internal", "i-0b7f1a52c9d3e4803", "ap-southeast-1c"),
)


def seed_cluster(now: datetime, cluster: str = CLUSTER) -> list[KubeObject]:
    """Everything that is in the cluster at `now`; days to minutes old.

    NodePools `orders` (On-Demand, terminationGracePeriod 1h), `orders-spot` (Spot for drills, none) and `default`
    (Spot, with nginx), each with its EC2NodeClass and one NodeClaim; three nodes of a managed node group.
    """
    ago = _Ago(now)
    claims = [
        objects.nodeclaim(
            "orders-p8k4z",
            instance_id="i-0a1b2c3d4e5f60711",
            created_at=ago(days=3),
            nodepool="orders",
            capacity_type="on-demand",
            instance_type="m6i.2xlarge",
            termination_grace_period=timedelta(hours=1),
        ),
        objects.nodeclaim(
            "orders-spot-fhmt9",
            instance_id="i-0a1b2c3d4e5f60712",
            created_at=ago(hours=5),
            zone="ap-southeast-1b",
        ),
        objects.nodeclaim(
            "default-jsct2",
            instance_id="i-092d859e36dd9ab79",
            created_at=ago(hours=2),
            nodepool="default",
            nodeclass="default",
            instance_type="c4.2xlarge",
            zone="ap-southeast-1c",
            node_name="ip-192-168-2-97.ap-southeast-1.compute.internal",
            taints=(),
        ),
    ]
    nodes = [
        *(
            objects.managed_node(name, instance_id=instance, zone=zone, created_at=ago(days=60))
            for name, instance, zone in _SYSTEM_NODES
        ),
        *(objects.node(claim) for claim in claims),
    ]
    names = [node["metadata"]["name"] for node in nodes]
    on_demand_node, spot_node, nginx_node = names[-3:]
    namespaces = [
        objects.namespace(name, created_at=ago(days=60)) for name in ("kube-system", "orders", "nlb-app-karpenter")
    ]
    return [
        *namespaces,
        *_pools(cluster, claims, ago),
        *claims,
        *nodes,
        *_system(names, ago),
        *_orders(on_demand_node, spot_node, ago),
        *_nginx(nginx_node, ago),
    ]


def instance_of(claim: Mapping[str, Any], cluster: str = CLUSTER) -> Ec2Instance:
    """The EC2 instance behind a launched NodeClaim, with the tags Karpenter puts on it."""
    metadata, labels = claim["metadata"], claim["metadata"]["labels"]
    zone, instance_id = claim["status"]["providerID"].removeprefix("aws:///").split("/")
    spot = labels["karpenter.sh/capacity-type"] == "spot"
    node_name = claim["status"].get("nodeName")
    tags = {
        f"kubernetes.io/cluster/{cluster}": "owned",
        "eks:eks-cluster-name": cluster,
        "karpenter.sh/nodepool": labels["karpenter.sh/nodepool"],
        "karpenter.k8s.aws/ec2nodeclass": labels["karpenter.k8s.aws/ec2nodeclass"],
    }
    if node_name is not None:  # these two only after registration
        tags |= {"karpenter.sh/nodeclaim": metadata["name"], "Name": node_name}
    return Ec2Instance(
        id=instance_id,
        type=labels["node.kubernetes.io/instance-type"],
        zone=zone,
        launched=datetime.fromisoformat(metadata["creationTimestamp"]) + timedelta(seconds=2),
        spot_request=f"sir-{instance_id[-8:]}" if spot else None,
        private_ip=None if node_name is None else node_name.partition(".")[0][3:].replace("-", "."),
        tags=tags,
    )


class _Ago:
    def __init__(self, now: datetime) -> None:
        self._now = now

    def __call__(self, *, days: float = 0, hours: float = 0, minutes: float = 0) -> datetime:
        return self._now - timedelta(days=days, hours=hours, minutes=minutes)


def _pools(cluster: str, claims: Sequence[KubeObject], ago: _Ago) -> list[KubeObject]:
    team = {"Team": "commerce", "Environment": "staging"}
    return [
        objects.ec2nodeclass("orders", cluster=cluster, created_at=ago(days=30), tags=team),
        objects.ec2nodeclass(
            "default", cluster=cluster, created_at=ago(days=45), ami_terms=({"alias": "al2023@latest"},)
        ),
        objects.nodepool(
            "orders",
            created_at=ago(days=30),
            capacity_types=("on-demand",),
            termination_grace_period="1h",
            budgets=({"nodes": "1"},),
            claims=claims,
        ),
        objects.nodepool("orders-spot", created_at=ago(days=20), claims=claims),
        objects.nodepool(
            "default",
            created_at=ago(days=45),
            nodeclass="default",
            limits={"cpu": 1000, "memory": "1000Gi"},
            consolidate_after="1m",
            labels={"intent": "apps"},
            taints=(),
            requirements=(
                {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},
                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
                {"key": "karpenter.k8s.aws/instance-generation", "operator": "Gt", "values": ["2"]},
                {
                    "key": "karpenter.k8s.aws/instance-size",
                    "operator": "NotIn",
                    "values": ["nano", "micro", "small", "medium", "large"],
                },
            ),
            claims=claims,
        ),
    ]


def _system(nodes: list[str], ago: _Ago) -> list[KubeObject]:
    karpenter = objects.deployment("karpenter", namespace="kube-system", created_at=ago(days=45), replicas=2)
    replicas = objects.replicaset(karpenter, template_hash="84dcdcfb99")
    daemons = [
        objects.daemonset(name, namespace="kube-system", created_at=ago(days=60), nodes=len(nodes))
        for name in ("aws-node", "kube-proxy")
    ]
    pods = [
        objects.pod(
            f"{replicas['metadata']['name']}-{suffix}",
            namespace="kube-system",
            node_name=node,
            created_at=ago(days=7),
            owner=replicas,
        )
        for suffix, node in (("fgfqs", nodes[2]), ("wp64q", nodes[0]))
    ]
    pods += [
        objects.pod(
            f"{daemon['metadata']['name']}-{index}",
            namespace="kube-system",
            node_name=node,
            created_at=ago(hours=2),
            owner=daemon,
        )
        for daemon in daemons
        for index, node in enumerate(nodes)
    ]
    budget = objects.pdb(
        "karpenter",
        namespace="kube-system",
        match_labels={"app.kubernetes.io/name": "karpenter"},
        created_at=ago(days=45),
        max_unavailable=1,
        healthy=2,
        expected=2,
    )
    return [karpenter, replicas, *daemons, *pods, budget]


def _orders(on_demand_node: str, spot_node: str, ago: _Ago) -> list[KubeObject]:
    labels = {"app": "orders-worker"}
    worker = objects.deployment("orders-worker", namespace="orders", created_at=ago(days=20), replicas=4, labels=labels)
    replicas = objects.replicaset(worker, template_hash="7c9d5b6f48")
    tolerated = ({"key": "workload", "operator": "Equal", "value": "orders", "effect": "NoSchedule"},)
    pods = [
        objects.pod(
            f"{replicas['metadata']['name']}-{suffix}",
            namespace="orders",
            node_name=node,
            created_at=ago(hours=2),
            owner=replicas,
            tolerations=tolerated,
            grace_seconds=60,
        )
        for suffix, node in (
            ("2kxqv", on_demand_node),
            ("8m4tz", on_demand_node),
            ("hb7wd", spot_node),
            ("t9c5j", spot_node),
        )
    ]
    finished = objects.pod(
        "orders-reconcile-29384760-q4x7n",
        namespace="orders",
        node_name=spot_node,
        created_at=ago(hours=1),
        labels={"job-name": "orders-reconcile-29384760"},
        phase="Succeeded",
        tolerations=tolerated,
    )
    static = objects.pod(
        f"node-shell-{spot_node}",
        namespace="kube-system",
        node_name=spot_node,
        created_at=ago(hours=5),
        mirror=True,
    )
    budget = objects.pdb(
        "orders-worker",
        namespace="orders",
        match_labels=labels,
        created_at=ago(days=20),
        max_unavailable=1,
        healthy=4,
        expected=4,
    )
    # Its pods come with what is played. Holdfast keeps a list of budgets for half a minute, so it has to be there before.
    lets_nobody_go = objects.pdb(
        "orders-db",
        namespace="orders",
        match_labels=HELD_LABELS,
        created_at=ago(days=20),
        max_unavailable=0,
        healthy=0,
        expected=0,
    )
    return [worker, replicas, *pods, finished, static, budget, lets_nobody_go]


def _nginx(node: str, ago: _Ago) -> list[KubeObject]:
    labels = {"app.kubernetes.io/name": "nginx"}
    nginx = objects.deployment(
        "nginx-deployment", namespace="nlb-app-karpenter", created_at=ago(days=40), replicas=3, labels=labels
    )
    replicas = objects.replicaset(nginx)
    pods = [
        objects.pod(
            f"{replicas['metadata']['name']}-{suffix}",
            namespace="nlb-app-karpenter",
            node_name=node,
            created_at=ago(hours=2),
            owner=replicas,
        )
        for suffix in ("pp4zg", "d72nn", "n278x")
    ]
    return [nginx, replicas, *pods]
