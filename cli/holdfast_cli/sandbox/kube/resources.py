"""The resources that are served, and which others a real API server has."""

from collections.abc import Mapping
from dataclasses import dataclass

KARPENTER_GROUP = "karpenter.sh"
KARPENTER_AWS_GROUP = "karpenter.k8s.aws"
RBAC_GROUP = "rbac.authorization.k8s.io"
AUTHENTICATION_GROUP = "authentication.k8s.io"
AUTHORIZATION_GROUP = "authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of object. `fields` are the field selectors it takes beside name and namespace."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    custom: bool = False
    fields: tuple[str, ...] = ()
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`nodeclaims.karpenter.sh`, as error messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def selectable(self) -> tuple[str, ...]:
        # Nodes and namespaces are the two built-in kinds whose conversion leaves metadata.namespace out.
        names = ("metadata.name",) if self.kind in {"Node", "Namespace"} else ("metadata.name", "metadata.namespace")
        return names + self.fields

    def refuse_field(self, label: str) -> str:
        """The message of the 400 for a field selector it does not take.

        Core kinds and custom resources word it otherwise than the default.
        """
        if self.custom or not self.group:
            return f"field label not supported: {label}"
        return f'"{label}" is not a known field selector: only "metadata.name", "metadata.namespace"'


_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)

RESOURCES: tuple[Resource, ...] = (
    Resource(KARPENTER_GROUP, "v1", "nodeclaims", "NodeClaim", namespaced=False, custom=True),
    Resource(KARPENTER_GROUP, "v1", "nodepools", "NodePool", namespaced=False, custom=True),
    Resource(
        KARPENTER_AWS_GROUP,
        "v1",
        "ec2nodeclasses",
        "EC2NodeClass",
        namespaced=False,
        custom=True,
        short_names=("ec2nc", "ec2ncs"),
    ),
    Resource("", "v1", "pods", "Pod", namespaced=True, fields=_POD_FIELDS, short_names=("po",)),
    Resource("", "v1", "nodes", "Node", namespaced=False, fields=("spec.unschedulable",), short_names=("no",)),
    Resource("", "v1", "namespaces", "Namespace", namespaced=False, fields=("status.phase",), short_names=("ns",)),
    Resource("apps", "v1", "deployments", "Deployment", namespaced=True, short_names=("deploy",)),
    Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True, short_names=("rs",)),
    Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True, short_names=("sts",)),
    Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True, short_names=("ds",)),
    Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True, short_names=("pdb",)),
    Resource(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False),
    Resource(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
)

BY_PATH: Mapping[tuple[str, str, str], Resource] = {(r.group, r.version, r.plural): r for r in RESOURCES}
BY_KIND: Mapping[str, Resource] = {r.kind: r for r in RESOURCES}

# What a real server 1.36 with Karpenter 1.14 serves and this one does not: 501 instead of 404.
_KNOWN_GROUPS = frozenset(
    {
        "",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        AUTHENTICATION_GROUP,
        AUTHORIZATION_GROUP,
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        RBAC_GROUP,
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    }
)
_KNOWN_CUSTOM = frozenset({(KARPENTER_GROUP, "nodeoverlays"), ("autoscaling.x-k8s.io", "capacitybuffers")})


def known_elsewhere(group: str, version: str, plural: str) -> bool:
    """Whether a real server may serve this resource although it is not in RESOURCES."""
    served_versions = {r.version for r in RESOURCES if r.group == group}
    if served_versions and version not in served_versions:
        return False
    return group in _KNOWN_GROUPS or (group, plural) in _KNOWN_CUSTOM
