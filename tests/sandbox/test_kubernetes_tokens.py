"""Keys that the embedded AWS issued open the Kubernetes API, exactly as far as EKS access entries and RBAC let them."""

import json
import ssl
import urllib.error
import urllib.request
from datetime import UTC, datetime

import pytest

from holdfast_cli.sandbox.certificates import Certificates
from holdfast_cli.sandbox.control import ClusterSeed, MiniStackControl
from holdfast_cli.sandbox.kube_api import KubeApi, webhook
from holdfast_cli.sandbox.kube_seed import seed_cluster
from holdfast_cli.sandbox.state import SandboxState
from tests.eks_tokens import presigned, token
from tests.sandbox.conftest import Deployer

pytestmark = pytest.mark.sandbox


def status_of(kube: KubeApi, path: str, bearer: str) -> int:
    request = urllib.request.Request(f"{kube.url}{path}", headers={"Authorization": f"Bearer {bearer}"})
    context = ssl.create_default_context(cadata=kube.ca_pem)
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_role_session_gets_in_by_its_access_entry_and_reads_what_rbac_allows(
    sandbox: SandboxState, deployer: Deployer
):
    cluster = deployer.name("cluster")
    _, cluster_role = deployer.role()
    _, role = deployer.role()
    issued = deployer.client("sts").assume_role(RoleArn=role, RoleSessionName="judge")["Credentials"]
    keys = {
        "key": issued["AccessKeyId"],
        "secret": issued["SecretAccessKey"],
        "session_token": issued["SessionToken"],
        "cluster": cluster,
    }
    seed = ClusterSeed(cluster, "https://127.0.0.1:1", sandbox.ca.read_text(), "1.36", cluster_role)
    review_url = MiniStackControl(sandbox).seed_cluster(seed)
    tls = Certificates(sandbox.ca, sandbox.certificate, sandbox.key)
    with KubeApi(authenticate=webhook(review_url, sandbox.ca), served_with=tls) as kube:
        kube.control.apply(*seed_cluster(datetime.now(UTC), cluster))
        without_entry = status_of(kube, "/version", token(presigned(**keys)))
        deployer.client("eks").create_access_entry(
            clusterName=cluster, principalArn=role, kubernetesGroups=["holdfast:auditors"]
        )

        assert without_entry == 401
        assert status_of(kube, "/version", token(presigned(**keys))) == 200
        assert status_of(kube, "/version", token(presigned(**keys | {"secret": "forged"}))) == 401
        assert status_of(kube, "/version", token(presigned(**keys | {"cluster": "other"}))) == 401
        assert status_of(kube, "/api/v1/nodes", token(presigned(**keys))) == 403
        kube.control.apply_yaml(json.dumps({"kind": "List", "items": rbac("nodes")}))
        assert status_of(kube, "/api/v1/nodes", token(presigned(**keys))) == 200


def rbac(resource: str) -> list[dict[str, object]]:
    api = "rbac.authorization.k8s.io"
    return [
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "auditors"},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["list"]}],
        },
        {
            "apiVersion": f"{api}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "auditors"},
            "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": "auditors"},
            "subjects": [{"apiGroup": api, "kind": "Group", "name": "holdfast:auditors"}],
        },
    ]
