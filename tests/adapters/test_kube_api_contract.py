"""The contract of the Kubernetes API, as a kube-apiserver 1.36.3 with Karpenter 1.14.1 was seen to keep it.

The classes named TestContract… use only what `ClusterUnderTest` offers, so the same classes hold a real API server to
the same words: give them another `cluster` fixture. The other classes are about the sandbox's stand-in alone.
"""

import http.client
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client
from kubernetes.client import exceptions

from holdfast_cli.sandbox import certificates
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.kube import objects
from holdfast_cli.sandbox.kube.api import Api
from holdfast_cli.sandbox.kube.calls import CallLog
from holdfast_cli.sandbox.kube.control import Control, ControlClient
from holdfast_cli.sandbox.kube.faults import Fault
from holdfast_cli.sandbox.kube.identity import UserInfo
from holdfast_cli.sandbox.kube_api import KubeApi
from holdfast_cli.sandbox.kube_seed import seed_cluster
from holdfast_cli.sandbox.loopback import Request

NOW = datetime(2026, 9, 22, 12, 0, tzinfo=UTC)
NODECLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
NODEPOOLS = "/apis/karpenter.sh/v1/nodepools"
RENDERED_RBAC = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: holdfast}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: holdfast}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: holdfast}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "holdfast:auditors"}]
"""
UNAUTHORIZED = {
    "kind": "Status",
    "apiVersion": "v1",
    "metadata": {},
    "status": "Failure",
    "message": "Unauthorized",
    "reason": "Unauthorized",
    "code": 401,
}


@dataclass(frozen=True)
class ClusterUnderTest:
    """What the contract needs of a server: an address, an authority, tokens, and someone who creates objects."""

    url: str
    ca_file: Path
    token: Callable[..., str]
    create: Callable[..., Any]
    delete: Callable[..., Any]
    expire_lists: Callable[[], Any]

    @property
    def admin(self) -> str:
        return self.token("admin", ["system:masters"])


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as server:
        yield server


@pytest.fixture
def cluster(kube: KubeApi, tmp_path: Path) -> ClusterUnderTest:
    ca_file = tmp_path / "ca.pem"
    ca_file.write_text(kube.ca_pem)
    control = kube.control
    return ClusterUnderTest(
        kube.url, ca_file, control.issue_token, control.apply, control.delete, control.expire_continue_tokens
    )


def call(
    cluster: ClusterUnderTest,
    path: str,
    token: str | None,
    method: str = "GET",
    body: Any = None,
    headers: Mapping[str, str] | None = None,
    **query: str,
) -> Answer:
    """One request over TLS whose certificate is verified strictly (Python's default context)."""
    target = urlsplit(cluster.url)
    connection = http.client.HTTPSConnection(
        target.hostname or "",
        target.port,
        context=ssl.create_default_context(cafile=cluster.ca_file),
        timeout=10,
    )
    sent = dict(headers or {}) | ({} if token is None else {"Authorization": f"Bearer {token}"})
    try:
        connection.request(
            method, f"{path}?{urlencode(query)}" if query else path, None if body is None else json.dumps(body), sent
        )
        response = connection.getresponse()
        return Answer(response.status, dict(response.headers), response.read().decode())
    finally:
        connection.close()


def claims(count: int) -> list[dict[str, Any]]:
    return [
        objects.nodeclaim(f"claim-{index:03}", instance_id=f"i-{index:017x}", created_at=NOW) for index in range(count)
    ]


def names(answer: Answer) -> list[str]:
    return [item["metadata"]["name"] for item in answer.json["items"]]


def grant(cluster: ClusterUnderTest, group: str, *rules: Mapping[str, Any]) -> str:
    """A token of user `holdfast` in a group that these rules are bound to."""
    cluster.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "under-test"},
            "rules": [dict(rule) for rule in rules],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "under-test"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "under-test"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}],
        },
    )
    return cluster.token("holdfast", [group])


@pytest.fixture
def operator(cluster: ClusterUnderTest) -> str:
    """A token that may get, list and patch NodePools and nothing else."""
    return grant(
        cluster,
        "holdfast:operators",
        {"apiGroups": ["karpenter.sh"], "resources": ["nodepools"], "verbs": ["get", "list", "patch"]},
    )


class TestContractAuthentication:
    def test_an_unknown_bearer_token_is_401_without_a_challenge(self, cluster):
        answer = call(cluster, NODECLAIMS, "k8s-aws-v1.bm90LWEtdG9rZW4")

        assert (answer.status, answer.json) == (401, UNAUTHORIZED)
        assert "WWW-Authenticate" not in answer.headers

    def test_no_token_at_all_is_403_for_the_anonymous_user(self, cluster):
        answer = call(cluster, NODECLAIMS, None)

        assert answer.status == 403
        assert answer.json["message"] == (
            'nodeclaims.karpenter.sh is forbidden: User "system:anonymous" cannot list resource "nodeclaims" '
            'in API group "karpenter.sh" at the cluster scope'
        )

    def test_a_self_review_names_user_and_groups(self, cluster):
        token = cluster.token("holdfast", ["holdfast:operators"])

        answer = call(
            cluster,
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            token,
            "POST",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
        )

        assert answer.status == 201
        info = answer.json["status"]["userInfo"]
        assert info["username"] == "holdfast"
        assert info["groups"] == ["holdfast:operators", "system:authenticated"]

    @pytest.mark.parametrize("path", ["/version", "/readyz", "/apis", "/api/v1"])
    def test_versions_health_and_discovery_are_open_to_any_user(self, cluster, path):
        assert call(cluster, path, cluster.token("holdfast")).status == 200

    def test_readyz_says_ok_in_plain_text(self, cluster):
        answer = call(cluster, "/readyz", cluster.token("holdfast"))

        assert answer.text == "ok"
        assert answer.headers["Content-Type"].startswith("text/plain")


class TestContractAuthorization:
    @pytest.mark.parametrize(
        ("method", "path", "message", "details"),
        [
            (
                "GET",
                NODECLAIMS,
                (
                    'nodeclaims.karpenter.sh is forbidden: User "holdfast" cannot list resource "nodeclaims" '
                    'in API group "karpenter.sh" at the cluster scope'
                ),
                {"group": "karpenter.sh", "kind": "nodeclaims"},
            ),
            (
                "DELETE",
                f"{NODEPOOLS}/r",
                (
                    'nodepools.karpenter.sh "r" is forbidden: User "holdfast" cannot delete resource "nodepools" '
                    'in API group "karpenter.sh" at the cluster scope'
                ),
                {"name": "r", "group": "karpenter.sh", "kind": "nodepools"},
            ),
            (
                "GET",
                f"{NODEPOOLS}?watch=true",
                (
                    'nodepools.karpenter.sh is forbidden: User "holdfast" cannot watch resource "nodepools" '
                    'in API group "karpenter.sh" at the cluster scope'
                ),
                {"group": "karpenter.sh", "kind": "nodepools"},
            ),
            (
                "PUT",
                f"{NODEPOOLS}/r",
                (
                    'nodepools.karpenter.sh "r" is forbidden: User "holdfast" cannot update resource "nodepools" '
                    'in API group "karpenter.sh" at the cluster scope'
                ),
                {"name": "r", "group": "karpenter.sh", "kind": "nodepools"},
            ),
            (
                "PATCH",
                f"{NODEPOOLS}/r/status",
                (
                    'nodepools.karpenter.sh "r" is forbidden: User "holdfast" cannot patch resource '
                    '"nodepools/status" in API group "karpenter.sh" at the cluster scope'
                ),
                {"name": "r", "group": "karpenter.sh", "kind": "nodepools"},
            ),
            (
                "GET",
                "/api/v1/pods",
                'pods is forbidden: User "holdfast" cannot list resource "pods" in API group "" at the cluster scope',
                {"kind": "pods"},
            ),
            (
                "GET",
                "/api/v1/namespaces/kube-system/pods",
                (
                    'pods is forbidden: User "holdfast" cannot list resource "pods" in API group "" '
                    'in the namespace "kube-system"'
                ),
                {"kind": "pods"},
            ),
        ],
    )
    def test_what_no_rule_allows_is_forbidden_in_these_words(self, cluster, operator, method, path, message, details):
        answer = call(cluster, path, operator, method)

        assert answer.status == 403
        assert answer.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": "Forbidden",
            "details": details,
            "code": 403,
        }

    def test_rbac_is_judged_before_existence(self, cluster, operator):
        """A forbidden GET of an absent object is 403, an allowed one 404."""
        assert call(cluster, f"{NODECLAIMS}/nope", operator).status == 403
        assert call(cluster, f"{NODEPOOLS}/nope", operator).status == 404

    def test_resource_names_limit_get_but_not_a_list_of_that_one_name(self, cluster):
        cluster.create(objects.nodepool("a", created_at=NOW), objects.nodepool("b", created_at=NOW))
        token = grant(
            cluster,
            "holdfast:one",
            {
                "apiGroups": ["karpenter.sh"],
                "resources": ["nodepools"],
                "resourceNames": ["a"],
                "verbs": ["get", "list"],
            },
        )

        assert call(cluster, f"{NODEPOOLS}/a", token).status == 200
        assert call(cluster, f"{NODEPOOLS}/b", token).status == 403
        assert call(cluster, NODEPOOLS, token).status == 403
        assert names(call(cluster, NODEPOOLS, token, fieldSelector="metadata.name=a")) == ["a"]

    @pytest.mark.parametrize(
        ("verb", "status"),
        [
            (
                "patch",
                {
                    "allowed": True,
                    "reason": 'RBAC: allowed by ClusterRoleBinding "under-test" of ClusterRole "under-test" '
                    'to Group "holdfast:operators"',
                },
            ),
            ("delete", {"allowed": False}),
        ],
    )
    def test_a_self_access_review_needs_no_role(self, cluster, operator, verb, status):
        answer = call(
            cluster,
            "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
            operator,
            "POST",
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": {"verb": verb, "group": "karpenter.sh", "resource": "nodepools"}},
            },
        )

        assert answer.status == 201
        assert answer.json["status"] == status


class TestContractErrors:
    def test_an_absent_object_is_404_in_json(self, cluster):
        answer = call(cluster, f"{NODEPOOLS}/nope", cluster.admin)

        assert answer.status == 404
        assert answer.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": 'nodepools.karpenter.sh "nope" not found',
            "reason": "NotFound",
            "details": {"name": "nope", "group": "karpenter.sh", "kind": "nodepools"},
            "code": 404,
        }

    def test_a_core_resource_has_no_group_in_its_404(self, cluster):
        answer = call(cluster, "/api/v1/nodes/nope", cluster.admin)

        assert answer.json["message"] == 'nodes "nope" not found'
        assert answer.json["details"] == {"name": "nope", "kind": "nodes"}

    @pytest.mark.parametrize(
        "path",
        [
            "/apis/karpenter.example/v1/nodepools",
            "/apis/karpenter.sh/v1/nonsense",
            "/apis/karpenter.sh/v1beta1/nodepools",
        ],
    )
    def test_an_unknown_group_version_or_resource_is_404_in_plain_text(self, cluster, path):
        """This is how "Karpenter is not installed" looks."""
        answer = call(cluster, path, cluster.admin)

        assert (answer.status, answer.text) == (404, "404 page not found\n")
        assert answer.headers["Content-Type"].startswith("text/plain")

    @pytest.mark.parametrize(
        ("query", "message"),
        [
            ({"limit": "abc"}, 'strconv.ParseInt: parsing "abc": invalid syntax'),
            ({"fieldSelector": "spec.weight=1"}, "field label not supported: spec.weight"),
            ({"labelSelector": "a==="}, "unable to parse requirement: found '=', expected: identifier"),
        ],
    )
    def test_a_bad_list_option_is_400_in_these_words(self, cluster, query, message):
        answer = call(cluster, NODEPOOLS, cluster.admin, **query)

        assert answer.status == 400
        assert (answer.json["reason"], answer.json["message"]) == ("BadRequest", message)

    def test_a_pod_refuses_a_field_selector_it_does_not_know(self, cluster):
        answer = call(cluster, "/api/v1/pods", cluster.admin, fieldSelector="spec.priority=1")

        assert (answer.status, answer.json["message"]) == (400, "field label not supported: spec.priority")

    def test_an_answer_in_another_media_type_is_406(self, cluster):
        answer = call(cluster, NODEPOOLS, cluster.admin, headers={"Accept": "text/csv"})

        assert answer.status == 406
        assert answer.json["message"].startswith("only the following media types are accepted: application/json")

    def test_a_resource_version_from_the_future_is_504(self, cluster):
        current = int(call(cluster, NODECLAIMS, cluster.admin).json["metadata"]["resourceVersion"])
        future = current + 1_000_000

        answer = call(cluster, NODECLAIMS, cluster.admin, resourceVersion=str(future))

        assert answer.status == 504
        assert answer.json["message"].startswith(f"Timeout: Too large resource version: {future}, current: ")


class TestContractPages:
    def test_pages_hold_the_limit_and_the_version_of_the_first(self, cluster):
        """The last page's `continue` is empty and counts nothing more."""
        cluster.create(*claims(5))
        first = call(cluster, NODECLAIMS, cluster.admin, limit="2")
        meta = first.json["metadata"]
        assert names(first) == ["claim-000", "claim-001"]
        assert meta["remainingItemCount"] == 3

        second = call(cluster, NODECLAIMS, cluster.admin, **{"limit": "2", "continue": meta["continue"]})
        assert names(second) == ["claim-002", "claim-003"]
        assert second.json["metadata"]["resourceVersion"] == meta["resourceVersion"]
        assert second.json["metadata"]["remainingItemCount"] == 1

        token = second.json["metadata"]["continue"]
        last = call(cluster, NODECLAIMS, cluster.admin, **{"limit": "2", "continue": token})
        assert names(last) == ["claim-004"]
        assert last.json["metadata"] == {"continue": "", "resourceVersion": meta["resourceVersion"]}

    def test_pages_are_a_snapshot(self, cluster):
        """What is deleted or created between two pages does not change the list."""
        cluster.create(*claims(4))
        first = call(cluster, NODECLAIMS, cluster.admin, limit="2").json["metadata"]
        cluster.delete("NodeClaim", "claim-002")
        cluster.create(objects.nodeclaim("claim-002a", instance_id="i-0a", created_at=NOW))

        rest = call(cluster, NODECLAIMS, cluster.admin, **{"continue": first["continue"]})

        assert names(rest) == ["claim-002", "claim-003"]
        assert names(call(cluster, NODECLAIMS, cluster.admin)) == [
            "claim-000",
            "claim-001",
            "claim-002a",
            "claim-003",
        ]

    def test_a_list_with_a_selector_counts_nothing_that_remains(self, cluster):
        cluster.create(*claims(3))

        meta = call(
            cluster, NODECLAIMS, cluster.admin, limit="1", labelSelector="karpenter.sh/nodepool=orders-spot"
        ).json["metadata"]

        assert meta["continue"]
        assert "remainingItemCount" not in meta

    def test_resource_version_zero_ignores_the_limit(self, cluster):
        cluster.create(*claims(3))

        answer = call(cluster, NODECLAIMS, cluster.admin, limit="1", resourceVersion="0")

        assert len(answer.json["items"]) == 3
        assert answer.json["metadata"]["continue"] == ""

    @pytest.mark.parametrize("limit", ["0", "-1"])
    def test_a_limit_below_one_is_none(self, cluster, limit):
        cluster.create(*claims(3))

        assert len(call(cluster, NODECLAIMS, cluster.admin, limit=limit).json["items"]) == 3

    def test_an_expired_token_is_410_and_offers_an_inconsistent_rest(self, cluster):
        cluster.create(*claims(3))
        token = call(cluster, NODECLAIMS, cluster.admin, limit="1").json["metadata"]["continue"]
        cluster.expire_lists()

        expired = call(cluster, NODECLAIMS, cluster.admin, **{"limit": "1", "continue": token})

        assert (expired.status, expired.json["reason"]) == (410, "Expired")
        assert expired.json["message"].startswith(
            "The provided continue parameter is too old to display a consistent list result. You can start a "
            "new list without the continue parameter, or use the continue token in this response"
        )
        offered = expired.json["metadata"]["continue"]
        assert names(call(cluster, NODECLAIMS, cluster.admin, **{"continue": offered})) == [
            "claim-001",
            "claim-002",
        ]

    def test_a_bad_token_is_400(self, cluster):
        answer = call(cluster, NODECLAIMS, cluster.admin, **{"continue": "!"})

        assert answer.status == 400
        assert answer.json["message"].startswith("invalid continue token: continue key is not valid: ")


class TestContractSelectors:
    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("tier=web", ["a"]),
            ("tier==web", ["a"]),
            ("tier!=web", ["b", "c"]),
            ("tier in (web, batch)", ["a", "b"]),
            ("tier notin (web)", ["b", "c"]),
            ("tier", ["a", "b"]),
            ("!tier", ["c"]),
            ("tier,team=x", ["a"]),
            ("tier in (web),team notin (x)", []),
            ("", ["a", "b", "c"]),
        ],
    )
    def test_label_selectors(self, cluster, selector, expected):
        """`!=` and `notin` match objects without the label too."""
        for name, labels in (("a", {"tier": "web", "team": "x"}), ("b", {"tier": "batch"}), ("c", {})):
            cluster.create(objects.nodepool(name, created_at=NOW) | {"metadata": {"name": name, "labels": labels}})

        assert names(call(cluster, NODEPOOLS, cluster.admin, labelSelector=selector)) == expected

    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            ("spec.nodeName=n1", ["a", "b"]),
            ("spec.nodeName=n1,status.phase!=Succeeded", ["a"]),
            ("status.phase==Succeeded", ["b"]),
            ("metadata.name=c", ["c"]),
            ("metadata.namespace=default", ["c"]),
            ("spec.nodeName=", []),
        ],
    )
    def test_pods_are_selected_by_node_and_phase(self, cluster, selector, expected):
        cluster.create(
            objects.pod("a", namespace="orders", node_name="n1", created_at=NOW),
            objects.pod("b", namespace="orders", node_name="n1", created_at=NOW, phase="Succeeded"),
            objects.pod("c", namespace="default", node_name="n2", created_at=NOW),
        )

        answer = call(cluster, "/api/v1/pods", cluster.admin, fieldSelector=selector)

        assert sorted(names(answer)) == expected

    def test_a_list_of_one_namespace_shows_that_namespace_only(self, cluster):
        cluster.create(
            objects.pod("a", namespace="orders", node_name="n", created_at=NOW),
            objects.pod("b", namespace="orders-2", node_name="n", created_at=NOW),
        )

        assert names(call(cluster, "/api/v1/namespaces/orders/pods", cluster.admin)) == ["a"]
        assert sorted(names(call(cluster, "/api/v1/pods", cluster.admin))) == ["a", "b"]


class TestContractObjects:
    def test_an_object_carries_what_the_server_gives(self, cluster):
        created = objects.nodepool("orders", created_at=NOW)
        del created["metadata"]["uid"]
        cluster.create(created)

        answer = call(cluster, f"{NODEPOOLS}/orders", cluster.admin).json

        assert (answer["apiVersion"], answer["kind"]) == ("karpenter.sh/v1", "NodePool")
        assert answer["metadata"]["generation"] == 1
        assert answer["metadata"]["uid"]
        assert answer["metadata"]["resourceVersion"].isdigit()

    def test_items_of_built_in_kinds_carry_no_kind_and_custom_ones_do(self, cluster):
        cluster.create(
            objects.pod("a", namespace="orders", node_name="n", created_at=NOW),
            objects.nodepool("orders", created_at=NOW),
        )

        pods = call(cluster, "/api/v1/pods", cluster.admin).json
        pools = call(cluster, NODEPOOLS, cluster.admin).json

        assert (pods["apiVersion"], pods["kind"]) == ("v1", "PodList")
        assert {"kind", "apiVersion"}.isdisjoint(pods["items"][0])
        assert "continue" not in pods["metadata"]
        assert (pools["apiVersion"], pools["kind"]) == ("karpenter.sh/v1", "NodePoolList")
        assert pools["items"][0]["kind"] == "NodePool"

    def test_a_nodeclaim_without_status_is_served(self, cluster):
        """That is what one looks like in its first second."""
        cluster.create(objects.nodeclaim("new", instance_id="i-0", created_at=NOW, launched=False))

        assert "status" not in call(cluster, f"{NODECLAIMS}/new", cluster.admin).json

    def test_several_calls_share_one_connection(self, cluster):
        """HTTP/1.1 with keep-alive."""
        pool = urllib3.PoolManager(ca_certs=str(cluster.ca_file), retries=False)
        try:
            for _ in range(3):
                pool.request("GET", f"{cluster.url}/version", headers={"Authorization": f"Bearer {cluster.admin}"})
            target = urlsplit(cluster.url)
            assert pool.connection_from_host(target.hostname, target.port, "https").num_connections == 1
        finally:
            pool.clear()


@pytest.fixture
def api_client(cluster: ClusterUnderTest) -> Iterator[client.ApiClient]:
    configuration = client.Configuration(host=cluster.url, ssl_ca_cert=str(cluster.ca_file))
    configuration.api_key["authorization"] = f"Bearer {cluster.admin}"
    with client.ApiClient(configuration) as opened:
        yield opened


class TestContractPythonClient:
    """The kubernetes client 37.0.1, as it comes."""

    def test_custom_objects_are_listed_in_pages(self, cluster, api_client):
        cluster.create(*claims(3))
        api = client.CustomObjectsApi(api_client)
        seen, token = [], None
        while token != "":
            page = api.list_cluster_custom_object(
                "karpenter.sh", "v1", "nodeclaims", limit=2, **({"_continue": token} if token else {})
            )
            seen += [item["status"]["providerID"] for item in page["items"]]
            token = page["metadata"]["continue"]

        assert seen == [f"aws:///ap-southeast-1a/i-{index:017x}" for index in range(3)]

    def test_core_objects_are_listed_as_plain_dicts(self, cluster, api_client):
        cluster.create(objects.pod("a", namespace="orders", node_name="n1", created_at=NOW))

        request = api_client.param_serialize(
            "GET",
            "/api/v1/pods",
            query_params=[("fieldSelector", "spec.nodeName=n1")],
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        response = api_client.call_api(*request)
        response.read()
        pods = api_client.response_deserialize(response, {"200": "object"}).data

        assert [item["metadata"]["name"] for item in pods["items"]] == ["a"]

    @pytest.mark.parametrize(
        ("resource", "error"),
        [("nodepools", exceptions.NotFoundException), ("nonsense", exceptions.NotFoundException)],
    )
    def test_a_missing_object_and_an_unknown_resource_raise(self, api_client, resource, error):
        with pytest.raises(error) as raised:
            client.CustomObjectsApi(api_client).get_cluster_custom_object("karpenter.sh", "v1", resource, "nope")

        assert (raised.value.body == "404 page not found\n") == (resource == "nonsense")

    def test_a_forbidden_call_raises(self, cluster, api_client):
        api_client.configuration.api_key["authorization"] = f"Bearer {cluster.token('holdfast')}"

        with pytest.raises(exceptions.ForbiddenException):
            client.CustomObjectsApi(api_client).list_cluster_custom_object("karpenter.sh", "v1", "nodeclaims")

    def test_a_refused_token_raises(self, api_client):
        api_client.configuration.api_key["authorization"] = "Bearer nonsense"

        with pytest.raises(exceptions.UnauthorizedException):
            client.CustomObjectsApi(api_client).list_cluster_custom_object("karpenter.sh", "v1", "nodeclaims")


class TestUnsupported:
    """What the stand-in does not know it says, instead of answering something plausible."""

    @pytest.mark.parametrize(
        ("method", "path", "named"),
        [
            ("GET", f"{NODECLAIMS}?watch=true", "watch nodeclaims.karpenter.sh"),
            ("PATCH", f"{NODEPOOLS}/orders", "patch nodepools.karpenter.sh"),
            ("DELETE", "/api/v1/namespaces/orders/pods/a", "delete pods"),
            ("POST", "/api/v1/namespaces/orders/pods/a/eviction", "create pods/eviction"),
            ("GET", "/api/v1/namespaces/orders/pods/a/log", "get pods/log"),
            ("GET", "/api/v1/secrets", "list secrets"),
            ("GET", "/apis/batch/v1/jobs", "list jobs.batch"),
            ("GET", f"{NODECLAIMS}?resourceVersionMatch=Exact", "resourceVersionMatch=Exact"),
            ("GET", f"{NODECLAIMS}?labelSelector=cpu%3E4", "label selector operator >"),
        ],
    )
    def test_a_call_of_a_real_server_that_is_missing_here_is_501_and_named(self, cluster, method, path, named):
        answer = call(cluster, path, cluster.admin, method)

        assert (answer.status, answer.json["reason"]) == (501, "NotImplemented")
        assert named in answer.json["message"]

    def test_rbac_still_comes_first(self, cluster, operator):
        assert call(cluster, "/api/v1/secrets", operator).status == 403
        assert call(cluster, f"{NODEPOOLS}/orders", operator, "PATCH").status == 501


class TestFaults:
    def test_429_carries_retry_after_for_the_ordered_number_of_calls(self, cluster, kube):
        kube.control.inject(Fault(status=429, retry_after=7, times=2, resource="nodeclaims"))

        other = call(cluster, NODEPOOLS, cluster.admin)
        refused = [call(cluster, NODECLAIMS, cluster.admin) for _ in range(2)]
        served = call(cluster, NODECLAIMS, cluster.admin)

        assert other.status == 200
        assert [answer.status for answer in refused] == [429, 429]
        assert refused[0].headers["Retry-After"] == "7"
        assert refused[0].json["details"] == {"retryAfterSeconds": 7}
        assert served.status == 200

    @pytest.mark.parametrize(("status", "reason"), [(500, "InternalError"), (503, "ServiceUnavailable")])
    def test_server_errors_can_be_ordered(self, cluster, kube, status, reason):
        kube.control.inject(Fault(status=status))

        answer = call(cluster, NODECLAIMS, cluster.admin)

        assert (answer.status, answer.json["reason"]) == (status, reason)

    def test_a_connection_can_be_closed_unanswered(self, cluster, kube):
        kube.control.inject(Fault(close=True))

        with pytest.raises(http.client.RemoteDisconnected):
            call(cluster, NODECLAIMS, cluster.admin)

        assert [logged.code for logged in kube.control.calls()] == [0]

    def test_an_answer_can_be_late(self, cluster, kube):
        kube.control.inject(Fault(delay=0.2))
        began = time.monotonic()

        assert call(cluster, NODECLAIMS, cluster.admin).status == 200
        assert time.monotonic() - began >= 0.2

    def test_a_server_that_is_closed_does_not_wait_for_late_answers(self, tmp_path):
        with KubeApi() as kube:
            kube.control.inject(Fault(delay=60))
            with socket.create_connection(("127.0.0.1", urlsplit(kube.url).port)) as plain:
                plain.settimeout(10)
                context = ssl.create_default_context(cadata=kube.ca_pem)
                with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                    connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
                    began = time.monotonic()
                    kube.__exit__()

        assert time.monotonic() - began < 10

    def test_connections_can_be_refused_and_taken_again_on_the_same_port(self, cluster, kube):
        kube.control.refuse_connections()
        with pytest.raises(ConnectionRefusedError):
            call(cluster, "/readyz", cluster.admin)

        kube.control.accept_connections()
        assert call(cluster, "/readyz", cluster.admin).status == 200

    def test_an_uninstalled_group_is_unknown(self, cluster, kube):
        kube.control.apply(objects.nodepool("orders", created_at=NOW))
        kube.control.uninstall("karpenter.sh")

        assert call(cluster, NODEPOOLS, cluster.admin).text == "404 page not found\n"
        assert call(cluster, "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", cluster.admin).status == 200

    def test_a_client_that_speaks_no_tls_disturbs_nobody(self, cluster, kube):
        with socket.create_connection(("127.0.0.1", urlsplit(kube.url).port)) as stalled:
            assert call(cluster, "/readyz", cluster.admin).status == 200
            stalled.sendall(b"GET / HTTP/1.1\r\n\r\n")

        assert call(cluster, "/readyz", cluster.admin).status == 200


class TestControl:
    def test_every_call_is_logged_with_user_name_code_and_agent(self, cluster, kube, operator):
        call(cluster, f"{NODEPOOLS}/orders?pretty=1", operator, headers={"User-Agent": "holdfast/1"})
        call(cluster, "/api/v1/namespaces/orders/pods", operator)
        call(cluster, NODEPOOLS, "nonsense")

        rows = [
            (c.user, c.verb, c.group, c.resource, c.namespace, c.name, c.code, c.user_agent)
            for c in kube.control.calls()
        ]

        assert rows == [
            ("holdfast", "get", "karpenter.sh", "nodepools", "", "orders", 404, "holdfast/1"),
            ("holdfast", "list", "", "pods", "orders", "", 403, ""),
            ("", "list", "karpenter.sh", "nodepools", "", "", 401, ""),
        ]
        assert kube.control.calls()[0].uri == f"{NODEPOOLS}/orders?pretty=1"

    def test_times_of_the_past_stay_as_they_are_written(self, cluster, kube):
        warned = NOW - timedelta(minutes=3)
        kube.control.apply(objects.nodeclaim("a", instance_id="i-0", created_at=NOW - timedelta(days=2)))
        kube.control.mark_deleted("NodeClaim", "a", warned, grace_seconds=0)

        metadata = call(cluster, f"{NODECLAIMS}/a", cluster.admin).json["metadata"]

        assert metadata["creationTimestamp"] == "2026-09-20T12:00:00Z"
        assert metadata["deletionTimestamp"] == "2026-09-22T11:57:00Z"
        assert metadata["deletionGracePeriodSeconds"] == 0

    def test_a_patch_merges_and_only_a_change_of_spec_raises_the_generation(self, kube):
        kube.control.apply(objects.nodepool("a", created_at=NOW))

        annotated = kube.control.patch("NodePool", "a", {"metadata": {"annotations": {"x": "1"}}})
        limited = kube.control.patch("NodePool", "a", {"spec": {"limits": {"cpu": None}}})

        assert annotated["metadata"]["generation"] == 1
        assert annotated["metadata"]["annotations"]["karpenter.sh/nodepool-hash-version"] == "v3"
        assert limited["metadata"]["generation"] == 2
        assert limited["spec"]["limits"] == {"memory": "400Gi"}
        assert int(limited["metadata"]["resourceVersion"]) > int(annotated["metadata"]["resourceVersion"])

    def test_rendered_yaml_is_applied_and_enforced(self, cluster, kube):
        kube.control.apply_yaml(RENDERED_RBAC)
        token = kube.control.issue_token("holdfast", ["holdfast:auditors"])

        assert call(cluster, "/api/v1/nodes", token).status == 200
        assert call(cluster, "/api/v1/nodes/a", token).status == 403

    @pytest.mark.parametrize(
        ("act", "named"),
        [
            (lambda c: c.delete("NodeClaim", "nope"), "there is no NodeClaim nope"),
            (lambda c: c.get("Gadget", "x"), "kind Gadget is not served"),
            (lambda c: c.apply({"apiVersion": "v1", "kind": "Role"}), "Role (v1) is not served"),
            (lambda c: c.apply({"apiVersion": "v1", "kind": "Node"}), "a Node without metadata.name"),
        ],
    )
    def test_what_cannot_be_done_is_refused_by_name(self, kube, act, named):
        with pytest.raises(SandboxError, match=named.replace("(", r"\(").replace(")", r"\)")):
            act(kube.control)


class TestAnyRequest:
    @given(
        method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]),
        path=st.lists(
            st.sampled_from(
                ["", "api", "apis", "v1", "karpenter.sh", "namespaces", "orders", "pods", "nodeclaims", "status", "%2F"]
            )
            | st.text(max_size=5),
            max_size=8,
        ),
        query=st.dictionaries(
            st.sampled_from(["limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "watch"]),
            st.text(alphabet="abc=!,()in .0123456789-{}", max_size=12),
        ),
        body=st.binary(max_size=20) | st.just(b"{}"),
    )
    def test_no_request_is_a_server_error(self, method, path, query, body):
        """Whatever is asked is served, refused as the client's fault, or named as unsupported."""
        admin = UserInfo("admin", ("system:masters",))
        api = Api(authenticate=lambda _: admin, now=lambda: NOW, log=CallLog(), stopping=threading.Event())
        api.store.put(objects.pod("a", namespace="orders", node_name="n", created_at=NOW))
        target = "/" + "/".join(path) + "?" + urlencode(query)

        answer = api.respond(Request(method, target, {"authorization": "Bearer x"}, body))

        assert answer is not None
        assert answer.status < 500 or answer.status in {501, 504}


@pytest.fixture
def process(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any], Path]]:
    """The server as a process of its own, ready; the facts of its ready file; its folder."""
    tls = certificates.ensure(tmp_path, datetime.now(UTC))
    ready = tmp_path / "ready.json"
    config = {
        "control_token": "control",
        "certificate": str(tls.certificate),
        "key": str(tls.key),
        "ca": str(tls.ca),
        "ready_file": str(ready),
        "request_log": str(tmp_path / "requests.jsonl"),
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "holdfast_cli.sandbox.kube_api", "--config", str(tmp_path / "config.json")]
    with subprocess.Popen(command) as child:
        try:
            deadline = time.monotonic() + 30
            while not ready.exists():
                assert child.poll() is None, "ended before it was ready"
                assert time.monotonic() < deadline, "not ready in 30 s"
                time.sleep(0.02)
            yield child, json.loads(ready.read_text()), tmp_path
        finally:
            child.kill()


class TestProcess:
    def test_it_serves_a_seeded_cluster_is_controlled_over_http_and_ends_on_sigterm(self, process):
        child, facts, folder = process
        control: Control = ControlClient(facts["control_url"], "control")
        server = ClusterUnderTest(
            facts["url"],
            folder / "ca.pem",
            control.issue_token,
            control.apply,
            control.delete,
            control.expire_continue_tokens,
        )

        control.apply(*seed_cluster(NOW))
        control.patch("NodeClaim", "orders-p8k4z", {"metadata": {"annotations": {"x": "1"}}})
        control.mark_deleted("NodeClaim", "orders-spot-fhmt9", NOW)
        control.inject(Fault(status=500, resource="nodes"))
        admin = server.admin

        assert facts["pid"] == child.pid
        assert len(control.objects("NodeClaim")) == 3
        assert control.get("Pod", "nope", "orders") is None
        assert call(server, "/api/v1/nodes", admin).status == 500
        claim = call(server, f"{NODECLAIMS}/orders-spot-fhmt9", admin).json
        assert claim["metadata"]["deletionTimestamp"] == "2026-09-22T12:00:00Z"
        assert [(c.resource, c.code) for c in control.calls()] == [("nodes", 500), ("nodeclaims", 200)]
        assert [json.loads(line)["code"] for line in (folder / "requests.jsonl").read_text().splitlines()] == [500, 200]
        control.refuse_connections()
        with pytest.raises(ConnectionRefusedError):
            call(server, "/readyz", admin)
        control.accept_connections()
        assert call(server, "/readyz", admin).status == 200

        child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0

    def test_the_control_side_wants_its_token_and_names_what_is_wrong(self, process):
        _, facts, _ = process

        with pytest.raises(SandboxError, match="control token"):
            ControlClient(facts["control_url"], "wrong").calls()
        with pytest.raises(SandboxError, match="there is no NodeClaim nope"):
            ControlClient(facts["control_url"], "control").delete("NodeClaim", "nope")
