"""What the Kubernetes APIs of the clusters say of NodeClaims, NodePools, pods, their owners and budgets, by lists only.

The only module that imports the Kubernetes client, and of that only its transport: the typed models cost a second of
import and refuse what they do not know. An API server that serves Karpenter during a mass interruption has to be
treated with care: at most five requests a second for each cluster, pages of 500, short timeouts, one repetition.
"""

from __future__ import annotations

import json
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final

from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError, ProtocolError

from holdfast import __version__
from holdfast.adapters.actions import calls
from holdfast.adapters.eks import Connection, EksAccess
from holdfast.errors import Denied, HoldfastError, NotFound, Throttled, Unavailable
from holdfast.karpenter.nodeclaim import NodeClaim, parse_nodeclaim
from holdfast.karpenter.nodepool import NodePool, parse_nodepool
from holdfast.karpenter.pods import Pod, PodDisruptionBudget, parse_budget, parse_pod
from holdfast.karpenter.workload import REPLICA_SET, STATEFUL_SET, ReplicaList, Replicas, parse_replicas

REQUESTS_A_SECOND: Final = 5
PAGE: Final = 500
LIST_KEPT: Final = 30.0
"""Seconds a list of PodDisruptionBudgets or of the pods' owners is used for."""

LONGEST_WAIT: Final = 2.0
"""Seconds of a 429's Retry-After that are waited for; longer ones are the caller's to wait for."""

_TIMEOUTS: Final = (2.0, 5.0)  # to connect, and between two pieces of the answer
_SECOND: Final = 1.0


@dataclass(frozen=True, slots=True)
class _List:
    """A list request: its path, and the words for it in a message."""

    path: str
    resource: str
    query: tuple[tuple[str, str], ...] = ()


_NODECLAIMS = _List("/apis/karpenter.sh/v1/nodeclaims", "nodeclaims.karpenter.sh")
_BUDGETS = _List("/apis/policy/v1/poddisruptionbudgets", "poddisruptionbudgets.policy")
_REPLICA_SETS = _List("/apis/apps/v1/replicasets", "replicasets.apps")
_STATEFUL_SETS = _List("/apis/apps/v1/statefulsets", "statefulsets.apps")
_NODEPOOLS = _List("/apis/karpenter.sh/v1/nodepools", "nodepools.karpenter.sh")
_PENDING = _List("/api/v1/pods", "pods", (("fieldSelector", "status.phase=Pending"),))


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes


class KubeClusters:
    """The `Clusters` port on the clusters' own API servers."""

    def __init__(
        self,
        access: EksAccess,
        names: Sequence[str],
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`names` are the clusters that this function's network reaches; `clock` and `sleep` count seconds."""
        self._access = access
        self._names = tuple(names)
        self._clock = clock
        self._sleep = sleep
        self._clients: dict[str, tuple[Connection, ApiClient]] = {}
        self._budgets: dict[str, tuple[float, tuple[PodDisruptionBudget, ...]]] = {}
        self._replicas: dict[str, tuple[float, tuple[Replicas, ...]]] = {}
        self._sent: dict[str, deque[float]] = {}

    def names(self) -> Sequence[str]:
        """The clusters that this function can reach."""
        return self._names

    @calls("eks:DescribeCluster")
    def nodeclaims(self, cluster: str) -> Sequence[NodeClaim]:
        """All NodeClaims of the cluster.

        Raises:
            NotFound: the cluster serves no NodeClaims: Karpenter's CRDs are not installed.
        """
        return self._all(cluster, _NODECLAIMS, parse_nodeclaim)

    @calls("eks:DescribeCluster")
    def pods(self, cluster: str, node: str) -> Sequence[Pod]:
        """The pods bound to the node (the API server has an index for that)."""
        return self._all(
            cluster, _List("/api/v1/pods", "pods", (("fieldSelector", f"spec.nodeName={node}"),)), parse_pod
        )

    @calls("eks:DescribeCluster")
    def disruption_budgets(self, cluster: str) -> Sequence[PodDisruptionBudget]:
        """All PodDisruptionBudgets of the cluster, at most 30 seconds old."""
        held = self._budgets.get(cluster)
        if held is not None and self._clock() - held[0] <= LIST_KEPT:
            return held[1]
        budgets = self._all(cluster, _BUDGETS, parse_budget)
        self._budgets[cluster] = (self._clock(), budgets)
        return budgets

    @calls("eks:DescribeCluster")
    def replicas(self, cluster: str, *, max_age: timedelta) -> ReplicaList:
        """All ReplicaSets and StatefulSets of the cluster, at most `max_age` and never over 30 seconds old."""
        held = self._replicas.get(cluster)
        now = self._clock()
        if held is None or now - held[0] > min(LIST_KEPT, max_age.total_seconds()):
            # Dated when the reading began: a page may be older than the answer, never younger.
            held = (
                now,
                (
                    *self._all(cluster, _REPLICA_SETS, partial(parse_replicas, REPLICA_SET)),
                    *self._all(cluster, _STATEFUL_SETS, partial(parse_replicas, STATEFUL_SET)),
                ),
            )
            self._replicas[cluster] = held
        return ReplicaList(timedelta(seconds=self._clock() - held[0]), held[1])

    @calls("eks:DescribeCluster")
    def nodepools(self, cluster: str) -> Sequence[NodePool]:
        """All NodePools of the cluster."""
        return self._all(cluster, _NODEPOOLS, parse_nodepool)

    @calls("eks:DescribeCluster")
    def pending_pods(self, cluster: str) -> Sequence[Pod]:
        """The pods of the cluster in phase Pending."""
        return self._all(cluster, _PENDING, parse_pod)

    def _all[T](self, cluster: str, wanted: _List, parse: Callable[[Mapping[str, Any]], T]) -> tuple[T, ...]:
        """Every item, each page reduced to what is needed before the next is fetched."""
        try:
            return tuple(self._items(cluster, wanted, parse))
        except _Expired:
            # The server has forgotten the snapshot that the pages came from: a list has to be whole, so begin anew.
            try:
                return tuple(self._items(cluster, wanted, parse))
            except _Expired as again:
                raise Unavailable(
                    f"listing {wanted.resource} in {cluster}: the list expired twice while read"
                ) from again

    def _items[T](self, cluster: str, wanted: _List, parse: Callable[[Mapping[str, Any]], T]) -> Iterator[T]:
        query = [*wanted.query, ("limit", str(PAGE))]
        token = ""
        while True:
            page = self._get(cluster, wanted, [*query, ("continue", token)] if token else query)
            yield from (parse(item) for item in page.get("items") or ())
            token = (page.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    def _get(self, cluster: str, wanted: _List, query: list[tuple[str, str]]) -> Mapping[str, Any]:
        doing = f"listing {wanted.resource} in {cluster}"
        may_refresh = may_wait = may_reconnect = True
        while True:
            try:
                answer = self._send(cluster, wanted.path, query)
            except ProtocolError as error:
                # A connection kept open may have been closed while the container was frozen.
                if not may_reconnect:
                    raise self._unreachable(cluster, doing, error) from error
                may_reconnect = False
                continue
            except HTTPError as error:
                raise self._unreachable(cluster, doing, error) from error
            except ApiException as error:
                # The client reports a failed TLS handshake so. A cluster made anew has another CA: ask EKS once.
                if not may_refresh:
                    raise self._unreachable(cluster, doing, error.reason) from error
                may_refresh = False
                self._access.forget(cluster)
                continue
            if answer.status == 401 and may_refresh:
                may_refresh = False
                self._access.forget(cluster)
                continue
            wait = _retry_after(answer)
            if answer.status == 429 and may_wait and wait is not None and wait <= LONGEST_WAIT:
                may_wait = False
                self._sleep(wait)
                continue
            return _document(cluster, wanted, doing, answer)

    def _send(self, cluster: str, path: str, query: list[tuple[str, str]]) -> _Answer:
        connection = self._access.connection(cluster)
        api = self._client(cluster, connection)
        self._keep_pace(cluster)
        request = api.param_serialize(
            "GET",
            path,
            query_params=query,
            header_params={"Accept": "application/json", "Authorization": f"Bearer {connection.token}"},
        )
        response = api.call_api(*request, _request_timeout=_TIMEOUTS)
        body: bytes = response.read()  # type: ignore[no-untyped-call] # the client's types leave it out
        return _Answer(response.status, response.headers, body)

    def _client(self, cluster: str, connection: Connection) -> ApiClient:
        held = self._clients.get(cluster)
        if held is not None:
            known, api = held
            if (known.endpoint, known.ca_pem) == (connection.endpoint, connection.ca_pem):
                return api
            api.close()  # type: ignore[no-untyped-call]
        api = ApiClient(Configuration(host=connection.endpoint, retries=False))
        api.user_agent = f"holdfast/{__version__}"
        api.rest_client.pool_manager.connection_pool_kw["ssl_context"] = _tls(cluster, connection)
        self._clients[cluster] = (connection, api)
        return api

    def _keep_pace(self, cluster: str) -> None:
        """Waits until fewer than five requests were sent to the cluster within the last second."""
        sent = self._sent.setdefault(cluster, deque(maxlen=REQUESTS_A_SECOND))
        if len(sent) == REQUESTS_A_SECOND:
            wait = sent[0] + _SECOND - self._clock()
            if wait > 0:
                self._sleep(wait)
        sent.append(self._clock())

    def _unreachable(self, cluster: str, doing: str, why: object) -> Unavailable:
        self._access.forget(cluster)
        return Unavailable(f"{doing}: {why}")


class _Expired(Exception):
    """The server does not continue this list."""


def _tls(cluster: str, connection: Connection) -> ssl.SSLContext:
    """Trust in the cluster's own CA and no other; chain, dates and host name are checked.

    Python 3.13 also asks for extensions that RFC 5280 lets a root leave out. EKS's CAs do leave them out
    (kubernetes-client/python#2394), so that alone is not asked for.
    """
    try:
        context = ssl.create_default_context(cadata=connection.ca_pem)
    except ssl.SSLError as error:
        raise Unavailable(f"connecting to {cluster}: the CA that EKS names cannot be read: {error}") from error
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _document(cluster: str, wanted: _List, doing: str, answer: _Answer) -> Mapping[str, Any]:
    try:
        document: Any = json.loads(answer.body)
    except ValueError:
        document = None
    if answer.status == 200 and isinstance(document, dict):
        return document
    message = document.get("message") if isinstance(document, dict) else None
    said = str(message) if message else answer.body[:200].decode("utf-8", "backslashreplace").strip()
    raise _error(cluster, wanted, doing, answer, said)


def _error(cluster: str, wanted: _List, doing: str, answer: _Answer, said: str) -> HoldfastError | _Expired:
    match answer.status:
        case 401:
            return Denied(
                f"{doing}: 401 {said}; the cluster does not know the function's role: it needs an EKS access entry "
                f"(aws eks create-access-entry --cluster-name {cluster} --principal-arn <the role> --kubernetes-groups "
                "<the group of `holdfast render rbac`>), which `cdk deploy` makes, or a row of aws-auth"
            )
        case 403:
            return Denied(
                f"{doing}: 403 {said}; the caller needs the verb list on {wanted.resource}: "
                "`holdfast render rbac | kubectl apply -f -` grants it"
            )
        case 404 if wanted in {_NODECLAIMS, _NODEPOOLS}:
            return NotFound(f"{doing}: Karpenter's CRDs are not installed in {cluster}")
        case 404:
            return NotFound(f"{doing}: {said}")
        case 410:
            return _Expired(said)
        case 429:
            return Throttled(f"{doing}: 429 {said}", retry_after=_retry_after(answer))
        case _:
            return Unavailable(f"{doing}: {answer.status} {said}")


def _retry_after(answer: _Answer) -> float | None:
    value = answer.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() else None
