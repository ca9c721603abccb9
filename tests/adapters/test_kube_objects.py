"""Builders of the sandbox's cluster: what Karpenter, the kubelet and the disruption controller would have written."""

from datetime import UTC, datetime, timedelta

import pytest

from holdfast_cli.sandbox.kube import objects
from holdfast_cli.sandbox.kube.objects import go_duration
from holdfast_cli.sandbox.kube_seed import instance_of, seed_cluster

NOW = datetime(2026, 9, 22, 12, 0, tzinfo=UTC)


def conditions(item):
    return {entry["type"]: (entry["status"], entry["reason"]) for entry in item["status"]["conditions"]}


def claim(**more):
    return objects.nodeclaim("a", instance_id="i-0a11111111111111a", created_at=NOW - timedelta(hours=1), **more)


def test_a_new_nodeclaim_has_neither_status_nor_instance_type():
    new = claim(launched=False)

    assert "status" not in new
    assert "node.kubernetes.io/instance-type" not in new["metadata"]["labels"]


def test_a_running_nodeclaim_is_ready_and_names_its_instance():
    running = claim()

    assert running["status"]["providerID"] == "aws:///ap-southeast-1a/i-0a11111111111111a"
    assert conditions(running)["Ready"] == ("True", "Ready")
    assert "deletionTimestamp" not in running["metadata"]
    assert running["status"]["capacity"]["cpu"] == "8"


def test_a_draining_nodeclaim_says_so_and_a_drained_one_too():
    draining = claim(deleted_at=NOW)
    drained = claim(deleted_at=NOW, drained_at=NOW + timedelta(seconds=40))

    assert draining["metadata"]["deletionTimestamp"] == "2026-09-22T12:00:00Z"
    assert draining["metadata"]["finalizers"] == ["karpenter.sh/termination"]
    assert conditions(draining)["Drained"] == ("Unknown", "Draining")
    assert conditions(drained)["Drained"] == ("True", "Drained")


def test_karpenter_stops_waiting_after_the_grace_period():
    """karpenter.sh/nodeclaim-termination-timestamp is the deletion plus terminationGracePeriod."""
    held = claim(deleted_at=NOW, termination_grace_period=timedelta(hours=1))

    assert held["spec"]["terminationGracePeriod"] == "1h0m0s"
    annotation = "karpenter.sh/nodeclaim-termination-timestamp"
    assert held["metadata"]["annotations"][annotation] == "2026-09-22T13:00:00Z"
    assert annotation not in claim(deleted_at=NOW)["metadata"]["annotations"]


def test_the_node_of_a_draining_nodeclaim_is_tainted():
    node = objects.node(claim(deleted_at=NOW))

    assert {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"} in node["spec"]["taints"]
    assert node["metadata"]["name"] == claim()["status"]["nodeName"]


def test_an_evicted_pod_is_dated_at_the_end_of_its_grace_period():
    """As the API server does: deletionTimestamp is when the pod may be killed at the latest."""
    pod = objects.pod("a", namespace="orders", node_name="n", created_at=NOW, deleted_at=NOW, grace_seconds=90)

    assert pod["metadata"]["deletionTimestamp"] == "2026-09-22T12:01:30Z"
    assert pod["metadata"]["deletionGracePeriodSeconds"] == 90


def test_a_pod_belongs_to_the_replicaset_of_its_deployment():
    deployment = objects.deployment("web", namespace="shop", created_at=NOW, labels={"app": "web"})
    replicas = objects.replicaset(deployment, template_hash="abc")

    pod = objects.pod("web-abc-1", namespace="shop", node_name="n", created_at=NOW, owner=replicas)

    [owner] = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web-abc", True)
    assert owner["uid"] == replicas["metadata"]["uid"]
    assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": "abc"}
    assert replicas["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]


@pytest.mark.parametrize(
    ("rule", "healthy", "desired", "allowed"),
    [
        ({"max_unavailable": 1}, 4, 3, 1),
        ({"max_unavailable": 0}, 4, 4, 0),
        ({"max_unavailable": 1}, 3, 3, 0),
        ({"min_available": 2}, 4, 2, 2),
        ({"min_available": "50%", "disruptions_allowed": 1}, 4, 3, 1),
    ],
)
def test_a_pdb_allows_what_is_healthy_beyond_what_is_desired(rule, healthy, desired, allowed):
    """Disruption controller: disruptionsAllowed = currentHealthy - desiredHealthy, never below 0."""
    status = objects.pdb("a", namespace="n", match_labels={}, created_at=NOW, healthy=healthy, expected=4, **rule)[
        "status"
    ]

    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (desired, allowed)


@pytest.mark.parametrize("rule", [{}, {"max_unavailable": 1, "min_available": 1}, {"max_unavailable": "50%"}])
def test_a_pdb_that_cannot_be_computed_is_refused(rule):
    with pytest.raises(ValueError, match="PodDisruptionBudget a"):
        objects.pdb("a", namespace="n", match_labels={}, created_at=NOW, healthy=1, expected=1, **rule)


@pytest.mark.parametrize(("seconds", "text"), [(45, "45s"), (90, "1m30s"), (3600, "1h0m0s"), (2592000, "720h0m0s")])
def test_durations_are_written_as_go_writes_them(seconds, text):
    assert go_duration(timedelta(seconds=seconds)) == text


def test_the_seed_is_one_consistent_cluster():
    """Every owner and every node a pod names is there, and no object twice."""
    seed = seed_cluster(NOW)
    keys = [(i["kind"], i["metadata"].get("namespace"), i["metadata"]["name"]) for i in seed]
    uids = {item["metadata"]["uid"] for item in seed}
    nodes = {item["metadata"]["name"] for item in seed if item["kind"] == "Node"}

    assert len(set(keys)) == len(keys)
    for item in seed:
        assert {owner["uid"] for owner in item["metadata"].get("ownerReferences", ())} <= uids
        assert item["metadata"]["creationTimestamp"] < "2026-09-22T12:00:00Z"
        if item["kind"] == "Pod":
            assert item["spec"]["nodeName"] in nodes


def test_the_seed_has_the_pools_of_the_orders_workload():
    pools = {item["metadata"]["name"]: item for item in seed_cluster(NOW) if item["kind"] == "NodePool"}

    assert pools.keys() == {"orders", "orders-spot", "default"}
    assert pools["orders"]["spec"]["template"]["spec"]["terminationGracePeriod"] == "1h"
    assert pools["orders"]["spec"]["disruption"]["budgets"] == [{"nodes": "1"}]
    assert "terminationGracePeriod" not in pools["orders-spot"]["spec"]["template"]["spec"]
    assert pools["default"]["spec"]["limits"] == {"cpu": 1000, "memory": "1000Gi"}
    assert pools["orders"]["status"]["resources"]["nodes"] == "1"


def test_the_instance_of_a_nodeclaim_carries_the_tags_karpenter_sets():
    instance = instance_of(claim(), "shop")

    assert (instance.id, instance.zone, instance.type) == (
        "i-0a11111111111111a",
        "ap-southeast-1a",
        "c6i.2xlarge",
    )
    assert instance.spot_request is not None
    assert instance.tags["kubernetes.io/cluster/shop"] == "owned"
    assert instance.tags["eks:eks-cluster-name"] == "shop"
    assert instance.tags["karpenter.sh/nodepool"] == "orders-spot"
    assert instance.tags["karpenter.sh/nodeclaim"] == "a"


def test_before_registration_the_instance_does_not_name_its_nodeclaim():
    tags = instance_of(claim(registered=False)).tags

    assert {"karpenter.sh/nodeclaim", "Name"}.isdisjoint(tags)
    assert instance_of(claim(capacity_type="on-demand")).spot_request is None
