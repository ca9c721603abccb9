"""Who owns pods, and how many replicas are ready."""

from holdfast.karpenter.workload import Replicas, Workload, WorkloadName, owners, parse_replicas, workloads
from tests.builders import replicas

API = WorkloadName("Deployment", "shop", "api")


def item(**fields):
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api", "controller": True}
    return {
        "metadata": {"name": "api-7d9", "namespace": "shop", "ownerReferences": [owner]},
        "spec": {"replicas": 3},
        "status": {"replicas": 3, "readyReplicas": 2},
        **fields,
    }


def test_a_replicaset_tells_its_controller_and_its_replicas():
    assert parse_replicas("ReplicaSet", item()) == replicas(2)


def test_replicas_that_are_not_written_have_their_api_defaults():
    """apps/v1: `spec.replicas` defaults to 1; `readyReplicas` is left out when it is 0."""
    found = parse_replicas("StatefulSet", {"metadata": {"name": "db", "namespace": "shop"}})

    assert found == Replicas("StatefulSet", "shop", "db", None, 1, 0)
    assert parse_replicas("ReplicaSet", item(spec={"replicas": 0})).desired == 0


def test_an_owner_that_does_not_control_it_is_not_its_controller():
    metadata = {"name": "api", "namespace": "shop", "ownerReferences": [{"kind": "App", "name": "shop"}]}

    assert parse_replicas("ReplicaSet", item(metadata=metadata)).workload == WorkloadName("ReplicaSet", "shop", "api")


def test_a_rollout_in_between_is_no_loss():
    """The old ReplicaSet shrinks as the new one grows: together they are the Deployment."""
    found = workloads([replicas(1, 1, "api-7d9"), replicas(2, 3, "api-5f6"), replicas(1, 1, "web-1", controller=None)])

    assert found[API] == Workload(API, 4, 3)
    assert found[WorkloadName("ReplicaSet", "shop", "web-1")].ready == 1


def test_the_same_name_in_another_namespace_is_another_workload():
    found = workloads([replicas(1), replicas(2, namespace="test")])

    assert [workload.ready for workload in found.values()] == [1, 2]


def test_a_pods_owner_leads_to_its_workload():
    found = owners([replicas(), Replicas("StatefulSet", "shop", "db", None, 2, 2)])

    assert found == {
        ("shop", "ReplicaSet/api-7d9"): API,
        ("shop", "StatefulSet/db"): WorkloadName("StatefulSet", "shop", "db"),
    }
