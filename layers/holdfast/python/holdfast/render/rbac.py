"""What the Kubernetes API has to allow Holdfast's functions, as a ClusterRole and its binding.

The functions get no access policy of EKS: their access entries (or rows of aws-auth) only put them into a Kubernetes
group, and the ClusterRole below is all that the group may do. It reads; it writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

AUDIT_GROUP: Final = "holdfast:audit"
"""The Kubernetes group of the functions that look at a cluster; their access entries name it."""

AUDIT_ROLE: Final = "holdfast-audit"
"""The name of the ClusterRole and of its binding."""

_LABELS: Final = {"app.kubernetes.io/name": "holdfast", "app.kubernetes.io/component": "audit"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the ClusterRole, with the reason it is there."""

    api_group: str
    resource: str
    verbs: tuple[str, ...]
    why: str


AUDIT_RULES: Final = (
    Rule(
        "karpenter.sh",
        "nodeclaims",
        ("list",),
        "When Karpenter began (deletionTimestamp), whether the drain is over (condition Drained), which instance.",
    ),
    Rule(
        "",
        "pods",
        ("list",),
        "Which pods are still on the node of an interrupted instance; which wait for a node when none replaced it.",
    ),
    Rule(
        "policy",
        "poddisruptionbudgets",
        ("list",),
        "Whether a budget holds such a pod: status.disruptionsAllowed.",
    ),
    Rule(
        "apps",
        "replicasets",
        ("list",),
        "Whether the owners of these pods have as many ready replicas again as before the interruption.",
    ),
    Rule(
        "apps",
        "statefulsets",
        ("list",),
        "The same of pods that a StatefulSet owns.",
    ),
    Rule(
        "karpenter.sh",
        "nodepools",
        ("list",),
        "Whether a NodePool's limit keeps the replacement away: spec.limits against status.resources.",
    ),
)
"""Everything the interruption audit asks a cluster for."""


def audit_objects() -> tuple[Mapping[str, Any], ...]:
    """The ClusterRole and the ClusterRoleBinding as the Kubernetes API takes them."""
    return (
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": AUDIT_ROLE, "labels": dict(_LABELS)},
            "rules": [
                {"apiGroups": [rule.api_group], "resources": [rule.resource], "verbs": list(rule.verbs)}
                for rule in AUDIT_RULES
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": AUDIT_ROLE, "labels": dict(_LABELS)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": AUDIT_ROLE},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": AUDIT_GROUP}],
        },
    )


def render_rbac() -> str:
    """The same objects as YAML for `kubectl apply`, each rule with its reason as a comment."""
    labels = "\n".join(f"    {key}: {value}" for key, value in _LABELS.items())
    rules = "\n".join(_rule_yaml(rule) for rule in AUDIT_RULES)
    return f"""\
# Rendered by `holdfast render rbac`. Holdfast reads what is listed here and writes nothing.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {AUDIT_ROLE}
  labels:
{labels}
rules:
{rules}
---
# The access entries of Holdfast's functions put them into this group; they have no other access to the cluster.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {AUDIT_ROLE}
  labels:
{labels}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {AUDIT_ROLE}
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: Group
    name: "{AUDIT_GROUP}"
"""


def aws_auth_rows(role_arns: Sequence[str]) -> str:
    """The rows for `mapRoles` of the ConfigMap aws-auth, for clusters whose authentication mode is CONFIG_MAP.

    EKS compares role ARNs there without their path, so the path is left out.
    """
    return "".join(
        f"- rolearn: {_without_path(arn)}\n  username: {AUDIT_GROUP}\n  groups: [{AUDIT_GROUP}]\n" for arn in role_arns
    )


def _without_path(arn: str) -> str:
    start, _, path = arn.partition(":role/")
    return f"{start}:role/{path.rsplit('/', 1)[-1]}"


def _rule_yaml(rule: Rule) -> str:
    verbs = ", ".join(rule.verbs)
    return (
        f'  # {rule.why}\n  - apiGroups: ["{rule.api_group}"]\n    resources: ["{rule.resource}"]\n    verbs: [{verbs}]'
    )
