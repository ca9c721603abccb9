"""What `holdfast doctor --kube-context` reads of a Kubernetes API, by a kubeconfig as a person has it."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from holdfast.errors import Denied, Unavailable
from holdfast.render.rbac import AUDIT_ROLE, audit_objects
from holdfast_cli.doctor_checks import State, rbac
from holdfast_cli.doctor_kubernetes import Context
from holdfast_cli.errors import Mistake
from holdfast_cli.sandbox.kube.faults import Fault
from holdfast_cli.sandbox.kube_api import KubeApi


@dataclass(frozen=True)
class Cluster:
    kube: KubeApi
    kubeconfig: Path

    def context(self, groups: tuple[str, ...]) -> Context:
        """A context whose user is in these groups."""
        authority = base64.b64encode(self.kube.ca_pem.encode()).decode()
        token = self.kube.control.issue_token("person", groups)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": self.kube.url, "certificate-authority-data": authority}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "theirs", "context": {"cluster": "c", "user": "u"}}],
        }
        self.kubeconfig.write_text(yaml.safe_dump(document))
        return Context("theirs")


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    path = tmp_path / "kubeconfig"
    # The client reads the variable when it is imported; this is where it keeps what it read.
    monkeypatch.setattr("kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(path))
    with KubeApi() as kube:
        yield Cluster(kube, path)


ADMIN = ("system:masters",)


def test_the_rendered_rbac_is_ok_once_it_is_applied(cluster: Cluster) -> None:
    context = cluster.context(ADMIN)
    assert context.server == cluster.kube.url
    assert (context.role(), context.binding()) == (None, None)
    cluster.kube.control.apply(*(dict(one) for one in audit_objects()))
    assert rbac(context.role(), context.binding())[0] is State.OK


def test_it_reads_two_objects_and_writes_nothing(cluster: Cluster) -> None:
    context = cluster.context(ADMIN)
    context.role()
    context.binding()
    calls = [(call.verb, call.resource, call.name) for call in cluster.kube.control.calls()]
    assert calls == [("get", "clusterroles", AUDIT_ROLE), ("get", "clusterrolebindings", AUDIT_ROLE)]


def test_a_person_who_may_not_look_is_told_what_to_allow(cluster: Cluster) -> None:
    context = cluster.context(())
    with pytest.raises(Denied, match="allow yourself to get clusterroles"):
        context.role()


def test_an_api_server_that_does_not_answer_is_unavailable_not_without_rbac(cluster: Cluster) -> None:
    context = cluster.context(ADMIN)
    cluster.kube.control.inject(Fault(status=503))
    with pytest.raises(Unavailable, match="503"):
        context.role()


def test_a_context_that_is_not_there_is_a_mistake(cluster: Cluster) -> None:
    cluster.context(ADMIN)
    with pytest.raises(Mistake, match="--kube-context another"):
        Context("another")
