"""A real kube-apiserver for the whole session; each test gets a cluster that is empty again."""

import json
import secrets
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holdfast_cli.sandbox import certificates
from holdfast_cli.sandbox.cluster import build, control_plane
from holdfast_cli.sandbox.cluster.api import Api
from holdfast_cli.sandbox.cluster.control_plane import RunningCluster, TokenWebhook
from holdfast_cli.sandbox.kube.identity import UserInfo
from holdfast_cli.sandbox.loopback import LoopbackServer, Request, Response
from tests.adapters.test_kube_api_contract import ClusterUnderTest


class Reviews:
    """A TokenReview webhook that knows the tokens it gave out."""

    def __init__(self) -> None:
        self.users: dict[str, UserInfo] = {}

    def issue(self, username: str, groups: Sequence[str] = ()) -> str:
        token = secrets.token_urlsafe(24)
        self.users[token] = UserInfo(username, tuple(groups), uid=username)
        return token

    def answer(self, request: Request) -> Response:
        review = json.loads(request.body)
        user = self.users.get(review["spec"]["token"])
        status: dict[str, Any] = {"authenticated": user is not None}
        if user is not None:
            status["user"] = {"username": user.username, "uid": user.uid, "groups": list(user.groups)}
        body = {"apiVersion": review["apiVersion"], "kind": "TokenReview", "status": status}
        return Response(200, json.dumps(body).encode())


@pytest.fixture(scope="session")
def reviews() -> Iterator[tuple[Reviews, str]]:
    reviews = Reviews()
    with LoopbackServer(reviews.answer) as server:
        yield reviews, server.url


@pytest.fixture(scope="session")
def binaries() -> Mapping[str, build.Binary]:
    return build.ensure(build.cache_folder(), progress=print)


@pytest.fixture(scope="session")
def apiserver(binaries: Mapping[str, build.Binary], reviews: tuple[Reviews, str]) -> Iterator[RunningCluster]:
    """etcd and kube-apiserver with Karpenter's CRDs, and nobody else who writes."""
    with tempfile.TemporaryDirectory(prefix="holdfast-cluster-") as folder:
        path = Path(folder)
        running = control_plane.start(
            path / "cluster",
            binaries,
            served_with=certificates.ensure(path / "tls", datetime.now(UTC)),
            webhook=TokenWebhook(reviews[1]),
            audited_groups=["holdfast:audit"],
            bare=True,
            record=lambda *_: None,
            progress=print,
        )
        try:
            yield running
        finally:
            control_plane.stop(running.started)


class Scratch:
    """Creates objects and takes them all away again."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._made: list[dict[str, Any]] = []
        self._namespaces = {"default", "kube-system"}

    def create(self, *items: Mapping[str, Any]) -> list[dict[str, Any]]:
        made = []
        for item in items:
            namespace = item.get("metadata", {}).get("namespace")
            if namespace and namespace not in self._namespaces:
                self._api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
                self._namespaces.add(namespace)
            made += self._api.apply(writable(item))
            self._made.append(dict(item))
        return made

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        for item in self._made:
            if (item["kind"], item["metadata"]["name"]) == (kind, name):
                self._api.delete(item)

    def clear(self) -> None:
        for item in reversed(self._made):
            self._api.patch_away(item)


def writable(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without what only a server writes."""
    metadata = {
        key: value
        for key, value in item["metadata"].items()
        if key
        not in {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields"}
    }
    return {**item, "metadata": metadata}


@pytest.fixture
def cluster(apiserver: RunningCluster, reviews: tuple[Reviews, str]) -> Iterator[ClusterUnderTest]:
    api = apiserver.api()
    scratch = Scratch(api)
    yield ClusterUnderTest(
        apiserver.url, apiserver.ca, reviews[0].issue, scratch.create, scratch.delete, compaction(apiserver)
    )
    scratch.clear()


def compaction(running: RunningCluster) -> Callable[[], None]:
    """What makes lists that are under way expire: etcd forgets all revisions but the last."""

    def post(path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{running.etcd_url}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10) as answer:
            return json.load(answer)

    def compact() -> None:
        api = running.api()
        # A list is as old as the revision it began at; somebody has to write before that one can be forgotten.
        api.apply(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "tick", "namespace": "default"},
                "data": {"at": datetime.now(UTC).isoformat()},
            }
        )
        revision = post("/v3/kv/range", {"key": "AA==", "range_end": "AA==", "limit": 1})["header"]["revision"]
        post("/v3/kv/compaction", {"revision": revision, "physical": True})

    return compact
