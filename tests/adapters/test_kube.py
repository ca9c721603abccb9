"""The clusters' API servers over TLS, as they answer and as they fail."""

import importlib.metadata
import ipaddress
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import holdfast
from holdfast.adapters import kube as adapter
from holdfast.adapters.eks import Connection
from holdfast.adapters.kube import KubeClusters
from holdfast.errors import Denied, HoldfastError, NotFound, Throttled, Unavailable
from holdfast.karpenter.nodeclaim import parse_nodeclaim
from holdfast.karpenter.workload import Replicas
from holdfast.render.rbac import AUDIT_GROUP, audit_objects
from holdfast_cli.sandbox.certificates import Certificates
from holdfast_cli.sandbox.kube import objects
from holdfast_cli.sandbox.kube.faults import Fault
from holdfast_cli.sandbox.kube_api import KubeApi

NOW = datetime(2026, 9, 1, 4, 0, tzinfo=UTC)
CLUSTER = "eksworkshop"


@dataclass
class Access:
    """Stands in for EKS: says how to reach the API server, and counts how often it was asked anew."""

    endpoint: str
    ca_pem: str
    issue: Callable[[], str]
    forgotten: int = 0
    _token: str | None = None

    def connection(self, _cluster: str) -> Connection:
        if self._token is None:
            self._token = self.issue()
        return Connection(self.endpoint, self.ca_pem, self._token)

    def forget(self, _cluster: str) -> None:
        self.forgotten += 1
        self._token = None


@dataclass
class Time:
    """A clock that only sleeping moves."""

    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@dataclass
class World:
    """A cluster, the adapter before it, and what is between them."""

    kube: KubeApi
    access: Access
    time: Time
    clusters: KubeClusters

    def calls(self) -> list[tuple[str, str, int]]:
        return [(call.verb, call.resource, call.code) for call in self.kube.control.calls()]


def world_of(kube: KubeApi, *, groups: tuple[str, ...] = (AUDIT_GROUP,), ca_pem: str | None = None) -> World:
    access = Access(kube.url, ca_pem or kube.ca_pem, lambda: kube.control.issue_token("holdfast-judge", groups))
    time = Time()
    clusters: Any = KubeClusters(access, [CLUSTER], clock=time.clock, sleep=time.sleep)  # type: ignore[arg-type]
    return World(kube, access, time, clusters)


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as running:
        running.control.apply(*audit_objects())
        yield running


@pytest.fixture
def world(kube: KubeApi) -> World:
    return world_of(kube)


def claim(number: int = 0) -> dict[str, Any]:
    return objects.nodeclaim(f"orders-spot-{number:05}", instance_id=f"i-{number:017x}", created_at=NOW)


# What it answers, by the rights that `holdfast render rbac` grants


def test_all_nodeclaims_are_read_page_by_page(world: World) -> None:
    items = [claim(number) for number in range(1001)]
    world.kube.control.apply(*items)
    found = world.clusters.nodeclaims(CLUSTER)
    assert sorted(found, key=lambda item: item.name) == [parse_nodeclaim(item) for item in items]
    calls = world.kube.control.calls()
    assert [call.resource for call in calls] == ["nodeclaims"] * 3
    assert all("limit=500" in call.uri for call in calls)
    assert {call.user_agent for call in calls} == {f"holdfast/{holdfast.__version__}"}


def test_no_nodeclaims_is_an_answer(world: World) -> None:
    assert world.clusters.nodeclaims(CLUSTER) == ()


def test_only_the_pods_of_the_node_are_asked_for(world: World) -> None:
    for number in (7, 8):
        node = f"ip-10-0-1-{number}.internal"
        pod = objects.pod(f"cart-{number}", namespace="shop", node_name=node, created_at=NOW, grace_seconds=90)
        world.kube.control.apply(pod)
    (found,) = world.clusters.pods(CLUSTER, "ip-10-0-1-7.internal")
    assert (found.namespace, found.name, found.grace) == ("shop", "cart-7", 90)
    (call,) = world.kube.control.calls()
    assert "fieldSelector=spec.nodeName%3Dip-10-0-1-7.internal" in call.uri


def budget(allowed: int) -> dict[str, Any]:
    return objects.pdb(
        "cart",
        namespace="shop",
        match_labels={"app": "cart"},
        max_unavailable=1,
        healthy=2,
        expected=2,
        created_at=NOW,
        disruptions_allowed=allowed,
    )


def test_budgets_are_at_most_thirty_seconds_old(world: World) -> None:
    world.kube.control.apply(budget(0))
    assert [item.disruptions_allowed for item in world.clusters.disruption_budgets(CLUSTER)] == [0]
    world.kube.control.apply(budget(1))
    world.time.now += 30
    assert [item.disruptions_allowed for item in world.clusters.disruption_budgets(CLUSTER)] == [0]
    world.time.now += 1
    assert [item.disruptions_allowed for item in world.clusters.disruption_budgets(CLUSTER)] == [1]
    assert len(world.calls()) == 2


def apply_owners(world: World, ready: int) -> None:
    cart = objects.deployment("cart", namespace="shop", created_at=NOW, replicas=3)
    world.kube.control.apply(
        objects.replicaset(cart, template_hash="abc", ready=ready),
        objects.statefulset("db", namespace="shop", created_at=NOW, replicas=2, ready=ready),
    )


def test_owners_are_read_by_one_list_of_each_kind(world: World) -> None:
    apply_owners(world, 1)
    found = world.clusters.replicas(CLUSTER, max_age=timedelta(seconds=30))
    assert found.items == (
        Replicas("ReplicaSet", "shop", "cart-abc", "Deployment/cart", 3, 1),
        Replicas("StatefulSet", "shop", "db", None, 2, 1),
    )
    assert found.age == timedelta(0)
    assert [resource for _, resource, _ in world.calls()] == ["replicasets", "statefulsets"]


def test_owners_are_at_most_thirty_seconds_old_and_tell_their_age(world: World) -> None:
    def ready() -> tuple[int, float]:
        found = world.clusters.replicas(CLUSTER, max_age=timedelta(minutes=5))
        return found.items[0].ready, found.age.total_seconds()

    apply_owners(world, 1)
    assert ready() == (1, 0)
    apply_owners(world, 2)
    world.time.now += 30
    assert ready() == (1, 30)
    world.time.now += 1
    assert ready() == (2, 0)


def test_owners_that_are_too_old_for_the_question_are_read_again(world: World) -> None:
    apply_owners(world, 1)
    world.clusters.replicas(CLUSTER, max_age=timedelta(seconds=30))
    apply_owners(world, 2)
    world.time.now += 3
    assert world.clusters.replicas(CLUSTER, max_age=timedelta(seconds=3)).items[0].ready == 1
    assert world.clusters.replicas(CLUSTER, max_age=timedelta(seconds=2)).items[0].ready == 2


def test_owners_are_as_old_as_the_beginning_of_their_reading(world: World) -> None:
    """Ten pages and more take over a second at five requests a second."""
    cart = objects.deployment("cart", namespace="shop", created_at=NOW, replicas=1)
    world.kube.control.apply(*(objects.replicaset(cart, template_hash=f"{n:04}") for n in range(2600)))
    found = world.clusters.replicas(CLUSTER, max_age=timedelta(seconds=30))
    assert (len(found.items), found.age) == (2600, timedelta(seconds=1))


def test_nodepools_are_read_with_limits_and_usage(world: World) -> None:
    world.kube.control.apply(
        objects.nodepool("orders-spot", created_at=NOW, limits={"cpu": 16}, claims=[claim(1), claim(2)])
    )
    (found,) = world.clusters.nodepools(CLUSTER)
    assert (found.name, found.limits["cpu"], found.used["cpu"]) == ("orders-spot", "16", "16")


def test_a_cluster_without_karpenter_has_no_nodepools_to_tell_of(world: World) -> None:
    world.kube.control.uninstall("karpenter.sh")
    with pytest.raises(NotFound, match=r"listing nodepools\.karpenter\.sh .* CRDs are not installed"):
        world.clusters.nodepools(CLUSTER)


def test_only_pending_pods_are_asked_for(world: World) -> None:
    for name, phase in (("runs", "Running"), ("waits", "Pending")):
        world.kube.control.apply(objects.pod(name, namespace="shop", node_name="", created_at=NOW, phase=phase))
    assert [item.name for item in world.clusters.pending_pods(CLUSTER)] == ["waits"]
    (call,) = world.kube.control.calls()
    assert "fieldSelector=status.phase%3DPending" in call.uri


def test_the_clusters_are_those_it_was_given(world: World) -> None:
    assert world.clusters.names() == (CLUSTER,)


def test_the_version_it_shows_is_the_packages() -> None:
    assert holdfast.__version__ == importlib.metadata.version("holdfast")


def test_at_most_five_requests_a_second_go_to_one_cluster(world: World) -> None:
    sent: list[float] = []
    connection = world.access.connection

    def asked(cluster: str) -> Connection:
        sent.append(world.time.now)
        return connection(cluster)

    world.kube.control.apply(*(claim(number) for number in range(2600)))
    world.access.connection = asked  # type: ignore[method-assign]
    assert len(world.clusters.nodeclaims(CLUSTER)) == 2600
    world.clusters.nodeclaims(CLUSTER)
    times = [*sent[1:], world.time.now]  # each request goes out before the next is prepared
    assert len(sent) == 12
    assert all(later - earlier >= 1.0 for earlier, later in zip(times, times[5:], strict=False))
    assert world.time.slept == [1.0, 1.0]


# What it fails with


def fails(world: World, expected: type[HoldfastError], said: str) -> HoldfastError:
    with pytest.raises(expected, match=said) as caught:
        world.clusters.nodeclaims(CLUSTER)
    assert type(caught.value) is expected
    assert str(caught.value).startswith("listing nodeclaims.karpenter.sh in eksworkshop: ")
    return caught.value


def test_a_refused_token_is_made_anew_once(world: World) -> None:
    world.kube.control.inject(Fault(status=401))
    assert world.clusters.nodeclaims(CLUSTER) == ()
    assert world.access.forgotten == 1


def test_a_role_without_an_access_entry_is_told_how_to_make_one(world: World) -> None:
    world.access.issue = lambda: "forged"
    fails(world, Denied, "aws eks create-access-entry --cluster-name eksworkshop")
    assert [code for _, _, code in world.calls()] == [401, 401]


def test_a_missing_right_is_named_with_the_command_that_grants_it(kube: KubeApi) -> None:
    world = world_of(kube, groups=("somebody:else",))
    error = fails(world, Denied, "needs the verb list on nodeclaims.karpenter.sh: `holdfast render rbac")
    assert 'User "holdfast-judge" cannot list resource "nodeclaims"' in str(error)
    with pytest.raises(Denied, match="needs the verb list on pods"):
        world.clusters.pods(CLUSTER, "n")
    with pytest.raises(Denied, match=r"needs the verb list on poddisruptionbudgets\.policy"):
        world.clusters.disruption_budgets(CLUSTER)
    with pytest.raises(Denied, match=r"needs the verb list on replicasets\.apps"):
        world.clusters.replicas(CLUSTER, max_age=timedelta(0))


def test_a_cluster_without_karpenter_is_not_an_empty_cluster(world: World) -> None:
    world.kube.control.uninstall("karpenter.sh")
    fails(world, NotFound, "Karpenter's CRDs are not installed in eksworkshop")


def test_a_short_retry_after_is_waited_for_once(world: World) -> None:
    world.kube.control.inject(Fault(status=429, retry_after=2))
    assert world.clusters.nodeclaims(CLUSTER) == ()
    assert world.time.slept == [2.0]


@pytest.mark.parametrize(
    ("fault", "slept", "retry_after"),
    [
        (Fault(status=429, retry_after=1, times=2), [1.0], 1.0),
        (Fault(status=429, retry_after=30), [], 30.0),
        (Fault(status=429), [], None),
    ],
)
def test_a_longer_or_second_429_is_left_to_the_caller(
    world: World, fault: Fault, slept: list[float], retry_after: float | None
) -> None:
    world.kube.control.inject(fault)
    error = fails(world, Throttled, "429")
    assert isinstance(error, Throttled)
    assert error.retry_after == retry_after
    assert world.time.slept == slept


@pytest.mark.parametrize("status", [500, 503])
def test_a_failing_server_is_unavailable(world: World, status: int) -> None:
    world.kube.control.inject(Fault(status=status))
    fails(world, Unavailable, str(status))


def test_a_slow_server_is_unavailable_after_the_timeout(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "_TIMEOUTS", (1.0, 0.2))
    world.kube.control.inject(Fault(delay=30))
    fails(world, Unavailable, "timed out")


def test_a_server_that_refuses_connections_is_unavailable_and_found_again(world: World) -> None:
    world.kube.control.refuse_connections()
    fails(world, Unavailable, "refused")
    assert world.access.forgotten == 1  # it may have been made anew, with another endpoint
    world.kube.control.accept_connections()
    assert world.clusters.nodeclaims(CLUSTER) == ()


def test_a_connection_closed_unanswered_is_opened_again_once(world: World) -> None:
    world.kube.control.inject(Fault(close=True))
    assert world.clusters.nodeclaims(CLUSTER) == ()
    world.kube.control.inject(Fault(close=True, times=2))
    fails(world, Unavailable, "closed|aborted|disconnected")


def test_a_list_that_expires_while_it_is_read_is_read_again_from_its_beginning(world: World) -> None:
    world.kube.control.apply(*(claim(number) for number in range(501)))
    expired = []

    def connection(cluster: str, ask: Callable[[str], Connection] = world.access.connection) -> Connection:
        if len(world.calls()) == 1 and not expired:
            world.kube.control.expire_continue_tokens()
            expired.append(True)
        return ask(cluster)

    world.access.connection = connection  # type: ignore[method-assign]
    names = [item.name for item in world.clusters.nodeclaims(CLUSTER)]
    assert len(names) == len(set(names)) == 501
    assert [code for _, _, code in world.calls()] == [200, 410, 200, 200]


def test_a_list_that_expires_twice_is_unavailable_and_never_a_part_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    expired = adapter._Answer(410, {}, b'{"message": "The provided continue parameter is too old"}')
    monkeypatch.setattr(world.clusters, "_send", lambda *_: expired)
    fails(world, Unavailable, "expired twice")


def test_a_missing_built_in_resource_is_not_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = adapter._Answer(404, {}, b"404 page not found\n")
    monkeypatch.setattr(world.clusters, "_send", lambda *_: absent)
    with pytest.raises(NotFound, match=r"listing poddisruptionbudgets\.policy in eksworkshop: 404 page not found$"):
        world.clusters.disruption_budgets(CLUSTER)


def test_what_is_no_list_is_unavailable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    page = adapter._Answer(200, {}, b"<html>a proxy's page</html>")
    monkeypatch.setattr(world.clusters, "_send", lambda *_: page)
    fails(world, Unavailable, "200 <html>")


# TLS


def test_a_server_of_another_authority_is_not_believed_and_eks_is_asked_once_more(kube: KubeApi) -> None:
    with KubeApi() as stranger:
        world = world_of(kube, ca_pem=stranger.ca_pem)
        fails(world, Unavailable, "CERTIFICATE_VERIFY_FAILED|certificate verify failed")
    assert world.access.forgotten == 2
    assert world.calls() == []


def test_a_cluster_made_anew_is_reached_with_its_new_authority(kube: KubeApi) -> None:
    with KubeApi() as stranger:
        world = world_of(kube, ca_pem=stranger.ca_pem)
    forget = world.access.forget

    def made_anew(cluster: str) -> None:
        forget(cluster)
        world.access.ca_pem = kube.ca_pem

    world.access.forget = made_anew  # type: ignore[method-assign]
    assert world.clusters.nodeclaims(CLUSTER) == ()


def test_an_authority_that_is_no_certificate_is_unavailable(kube: KubeApi) -> None:
    with pytest.raises(Unavailable, match="the CA that EKS names cannot be read"):
        world_of(kube, ca_pem="no certificate").clusters.nodeclaims(CLUSTER)


def test_a_certificate_for_another_host_is_refused(tmp_path: Path) -> None:
    with KubeApi(served_with=plain_certificates(tmp_path, "127.0.0.2")) as kube:
        fails(world_of(kube), Unavailable, "mismatch|doesn't match")


def test_eks_authorities_without_key_identifiers_are_trusted(tmp_path: Path) -> None:
    """EKS's CA has basic constraints and nothing else, which Python 3.13 refuses unless told otherwise."""
    with KubeApi(served_with=plain_certificates(tmp_path, "127.0.0.1")) as kube:
        kube.control.apply(*audit_objects())
        assert world_of(kube).clusters.nodeclaims(CLUSTER) == ()


def plain_certificates(folder: Path, host: str) -> Certificates:
    """A CA and a server certificate like EKS's: no subject or authority key identifier, no key usage."""
    now = datetime.now(UTC)
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    ca_name, name = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in ("kubernetes", "kube-apiserver")
    )

    def builder(subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(ca_name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
        )

    basic = x509.BasicConstraints(ca=True, path_length=None)
    ca = builder(ca_name, ca_key.public_key()).add_extension(basic, critical=True).sign(ca_key, hashes.SHA256())
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    server = builder(name, key.public_key()).add_extension(names, critical=False).sign(ca_key, hashes.SHA256())
    made = Certificates(folder / "ca.pem", folder / "server.pem", folder / "server.key")
    made.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    made.certificate.write_bytes(server.public_bytes(serialization.Encoding.PEM))
    made.key.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return made
