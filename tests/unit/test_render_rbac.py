"""The RBAC that Holdfast asks a cluster for: to read what a verdict needs, and nothing else."""

import yaml

from holdfast.render.rbac import AUDIT_GROUP, AUDIT_RULES, audit_objects, render_rbac
from stacks.features.interruption import KUBERNETES_GROUP

# What holdfast.ports.Clusters asks, each as a list.
ASKED = {
    ("karpenter.sh", "nodeclaims"),
    ("karpenter.sh", "nodepools"),
    ("", "pods"),
    ("policy", "poddisruptionbudgets"),
}
ASKED |= {("apps", "replicasets"), ("apps", "statefulsets")}


def test_the_role_allows_to_list_what_the_judge_asks_for_and_nothing_more() -> None:
    role, _ = audit_objects()
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert granted == {(group, resource, "list") for group, resource in ASKED}


def test_the_binding_gives_the_role_to_the_group_of_the_access_entries() -> None:
    role, binding = audit_objects()
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [("Group", AUDIT_GROUP)]
    assert AUDIT_GROUP == KUBERNETES_GROUP


def test_the_yaml_is_the_objects_with_a_reason_above_each_rule() -> None:
    text = render_rbac()
    assert list(yaml.safe_load_all(text)) == list(audit_objects())
    lines = text.splitlines()
    for rule in AUDIT_RULES:
        place = lines.index(f"  # {rule.why}")
        assert lines[place + 2] == f'    resources: ["{rule.resource}"]'
