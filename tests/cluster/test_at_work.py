"""The programs of the cluster do their work together: a Deployment gets pods, and they run on a node of kwok's."""

import json
import time
from collections.abc import Callable

from holdfast.render.rbac import AUDIT_GROUP, audit_objects
from holdfast_cli.sandbox.cluster.api import Api, ApiRefusedError
from holdfast_cli.sandbox.cluster.control_plane import RunningCluster

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "annotations": {"kwok.x-k8s.io/node": "fake"}},
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


def wait_for(look: Callable[[], bool], what: str, seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.2)


def test_a_deployment_gets_pods_that_run_on_a_node_with_a_lease(at_work: RunningCluster) -> None:
    api = at_work.api()
    api.apply(NODE, DEPLOYMENT)

    wait_for(lambda: (api.get(DEPLOYMENT) or {}).get("status", {}).get("readyReplicas") == 2, "two ready replicas")

    assert {pod["spec"]["nodeName"] for pod in api.items("v1", "Pod", "default")} == {"n1"}
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"},
    }
    assert api.get(lease) is not None


def test_what_the_audits_group_does_is_logged_with_its_verbs(
    at_work: RunningCluster, reviews: tuple[object, str]
) -> None:
    """The rendered ClusterRole lets it list NodeClaims and refuses to delete one; the audit log tells both."""
    at_work.api().apply(*audit_objects())
    issued = Api(at_work.url, at_work.ca, reviews[0].issue("holdfast", [AUDIT_GROUP]))
    claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "c1"}}
    wait_for(lambda: _allowed(issued), "the ClusterRole is in force")

    assert issued.items("karpenter.sh/v1", "NodeClaim") == []
    assert _code(issued, claim) == 403

    def logged() -> set[tuple[str, str, int]]:
        lines = [json.loads(line) for line in at_work.audit_log.read_text().splitlines()]
        return {(row["verb"], row["objectRef"]["resource"], row["responseStatus"]["code"]) for row in lines}

    wait_for(lambda: {("list", "nodeclaims", 200), ("delete", "nodeclaims", 403)} <= logged(), "both calls are logged")


def _allowed(api: Api) -> bool:
    try:
        api.items("karpenter.sh/v1", "NodeClaim")
    except ApiRefusedError as error:
        if error.code != 403:
            raise
        return False
    return True


def _code(api: Api, item: dict) -> int:
    try:
        api.delete(item)
    except ApiRefusedError as error:
        return error.code
    return 200
