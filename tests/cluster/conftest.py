"""A real kube-apiserver for the whole session; each test gets a cluster that is empty again."""

import json
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from holdfast_cli.sandbox import certificates
from holdfast_cli.sandbox.cluster import build, control_plane
from holdfast_cli.sandbox.cluster.api import Api, ApiRefusedError
from holdfast_cli.sandbox.cluster.control_plane import RunningCluster, TokenWebhook
from holdfast_cli.sandbox.cluster.programs import PROGRAMS
from holdfast_cli.sandbox.kube.identity import UserInfo
from holdfast_cli.sandbox.loopback import LoopbackServer, Request, Response
from tests.adapters.test_kube_api_contract import NODECLAIMS, ClusterUnderTest

EXPIRES_WITHIN = 180.0
"""Seconds: several times the interval at which the API server of these tests compacts etcd."""


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
    needed = [program for program in PROGRAMS if program.name != "helm"]
    return build.ensure(build.cache_folder(), programs=needed, progress=print)


@pytest.fixture(scope="session")
def apiserver(binaries: Mapping[str, build.Binary], reviews: tuple[Reviews, str]) -> Iterator[RunningCluster]:
    """etcd and kube-apiserver with Karpenter's CRDs, and nobody else who writes."""
    with running(binaries, reviews[1], bare=True, api_server_arguments=["--etcd-compaction-interval=5s"]) as started:
        yield started


@pytest.fixture(scope="session")
def at_work(binaries: Mapping[str, build.Binary], reviews: tuple[Reviews, str]) -> Iterator[RunningCluster]:
    """A cluster whose scheduler, controllers and kubelets (kwok's) work."""
    with running(binaries, reviews[1]) as started:
        yield started


@contextmanager
def running(binaries: Mapping[str, build.Binary], review_url: str, **options: Any) -> Iterator[RunningCluster]:
    with tempfile.TemporaryDirectory(prefix="holdfast-tier-") as folder:
        path = Path(folder)
        started = control_plane.start(
            path / "cluster",
            binaries,
            served_with=certificates.ensure(path / "tls", datetime.now(UTC)),
            webhook=TokenWebhook(review_url),
            audited_groups=["holdfast:audit"],
            record=lambda *_: None,
            progress=print,
            **options,
        )
        try:
            yield started
        finally:
            control_plane.stop(started.started)


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
                self._api.patch_away(item)

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
        apiserver.url, apiserver.ca, reviews[0].issue, scratch.create, scratch.delete, expired_lists(apiserver)
    )
    scratch.clear()


def expired_lists(running: RunningCluster) -> Callable[[], None]:
    """Waits until a list that is under way now has expired, by the API server's own compaction of etcd."""

    def expire() -> None:
        api = running.api()
        under_way = api.call("GET", f"{NODECLAIMS}?limit=1")["metadata"]["continue"]
        # Only what was written since can make an earlier revision one that may be forgotten.
        tick = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "tick", "namespace": "default"}}
        deadline = time.monotonic() + EXPIRES_WITHIN
        while not gone(api, under_way):
            assert time.monotonic() < deadline, f"lists under way did not expire within {EXPIRES_WITHIN:g} s"
            api.apply({**tick, "data": {"at": datetime.now(UTC).isoformat()}})
            time.sleep(1)

    def gone(api: Api, token: str) -> bool:
        try:
            api.call("GET", f"{NODECLAIMS}?limit=1&continue={quote(token)}")
        except ApiRefusedError as error:
            return error.code == 410
        return False

    return expire
