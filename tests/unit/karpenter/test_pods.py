"""Which pods a drain moves, and what keeps them: as Karpenter and policy/v1 say."""

from datetime import timedelta
from typing import Any

import pytest

from holdfast.karpenter.pods import (
    Pod,
    blocking_budget,
    left_on_node,
    parse_budget,
    parse_pod,
    refuses_disruption,
    selects,
)
from tests.builders import W, at, budget, pod


def item(spec: dict[str, Any] | None = None, phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "shop", "name": "api-0", **metadata},
        "spec": spec or {},
        "status": {"phase": phase, "startTime": "2026-09-01T04:00:00Z"},
    }


def owner(kind: str, *, controller: bool | None = True, name: str = "x") -> dict[str, Any]:
    return {"kind": kind, "name": name, "controller": controller}


def left(one: dict[str, Any]) -> bool:
    return bool(left_on_node([parse_pod(one)]))


def test_a_pod_of_a_deployment_has_to_be_moved():
    one = item({"terminationGracePeriodSeconds": 45}, labels={"app": "api"}, ownerReferences=[owner("ReplicaSet")])

    assert parse_pod(one) == Pod(
        namespace="shop",
        name="api-0",
        labels={"app": "api"},
        owner_kind="ReplicaSet",
        owner="ReplicaSet/x",
        grace=45,
        do_not_disrupt=None,
        mirror=False,
        finished=False,
        tolerates_disruption=False,
        started_at=at(-600),
        bound_at=at(-600),
    )
    assert left(one)


def test_a_pod_tells_when_it_was_bound_whether_it_is_ready_and_whether_it_is_leaving():
    """PodScheduled turns True when the scheduler binds the pod; the kubelet starts it later."""
    one = item(deletionTimestamp="2026-09-01T04:10:30Z")
    one["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-09-01T03:59:57Z"},
        {"type": "Ready", "status": "True"},
    ]
    found = parse_pod(one)

    assert (found.bound_at, found.ready, found.leaving, found.waits_for) == (at(-603), True, True, None)


def test_a_pod_that_finds_no_node_tells_the_schedulers_reason():
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    found = parse_pod({"metadata": {"name": "a"}, "status": {"phase": "Pending", "conditions": [waits]}})

    assert (found.waits_for, found.bound_at, found.ready) == ("0/3 nodes are available", None, False)


def test_an_empty_item_is_a_pod_of_which_little_is_known():
    assert parse_pod({"metadata": None, "spec": None, "status": None}) == Pod(
        "", "", {}, None, None, 30, None, mirror=False, finished=False, tolerates_disruption=False
    )


@pytest.mark.parametrize(
    ("one", "stays"),
    [
        (item(ownerReferences=[owner("DaemonSet")]), True),
        (item(ownerReferences=[owner("Node")]), True),
        (item(annotations={"kubernetes.io/config.mirror": "x"}), True),
        (item(phase="Succeeded"), True),
        (item(phase="Failed"), True),
        (item(), False),  # a pod nobody owns
        (item(ownerReferences=[owner("Job")]), False),
        (item(phase="Pending"), False),
        (item(deletionTimestamp="2026-09-01T04:10:00Z"), False),  # it is leaving, and not gone
    ],
)
def test_daemonsets_mirror_and_finished_pods_are_not_moved(one: dict[str, Any], stays: bool):
    assert left(one) is not stays


def test_the_owner_is_the_controller_among_several():
    owners = [owner("Custom", controller=None, name="a"), owner("DaemonSet", name="b")]

    assert parse_pod(item(ownerReferences=owners)).owner == "DaemonSet/b"
    assert parse_pod(item(ownerReferences=owners[:1])).owner == "Custom/a"


@pytest.mark.report("kubernetes-sigs/karpenter#655")
@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "key": ""}, True),
        ({"operator": "Exists", "effect": "NoSchedule"}, True),
        ({"operator": "Exists", "key": "karpenter.sh/disrupted"}, True),
        ({"operator": "Exists", "key": "karpenter.sh/disrupted", "effect": "NoSchedule"}, True),
        ({"operator": "Equal", "key": "karpenter.sh/disrupted"}, True),
        ({"key": "karpenter.sh/disrupted", "value": ""}, True),
        ({"operator": "", "key": "karpenter.sh/disrupted"}, True),
        ({"operator": None, "key": "karpenter.sh/disrupted"}, True),
        ({"key": "karpenter.sh/disrupted", "value": "x"}, False),
        ({"operator": "Lt", "key": "karpenter.sh/disrupted"}, False),
        ({"operator": "Exists", "key": "karpenter.sh/disrupted", "effect": "NoExecute"}, False),
        ({"operator": "Exists", "effect": "PreferNoSchedule"}, False),
        ({"operator": "Exists", "key": "karpenter.sh/unregistered"}, False),
        ({"operator": "Equal"}, False),
        ({}, False),
    ],
)
def test_karpenter_655_pods_that_tolerate_the_taint_are_not_left_over(toleration: dict[str, Any], tolerates: bool):
    """kubernetes-sigs/karpenter#655: Karpenter does not evict them, so they hold no drain."""
    one = item({"tolerations": [{"key": "other", "operator": "Exists"}, toleration]})

    assert parse_pod(one).tolerates_disruption is tolerates
    assert left(one) is not tolerates


@pytest.mark.parametrize(
    ("value", "started", "refuses"),
    [
        ("true", -600, True),
        ("true", None, True),
        (None, -600, False),
        ("false", -600, False),
        ("", -600, False),
        ("True", -600, False),
        ("yes", -600, False),
        ("15m", -600, True),
        ("10m", -600, False),
        ("5m", -600, False),
        ("1.5h", -600, True),
        ("600500ms", -600, True),
        ("5m", None, True),  # not started yet: its protection has not begun to run out
        ("-5m", -600, False),
        ("5 minutes", -600, False),
    ],
)
def test_do_not_disrupt_is_true_or_a_duration_since_the_start(value: str | None, started: float | None, refuses: bool):
    """karpenter.sh, Well-Known Annotations: "a duration after the Pod's start time at which the protection ends"."""
    held = pod(do_not_disrupt=value, started_at=None if started is None else at(started))

    assert refuses_disruption(held, W) is refuses


def test_a_pod_with_do_not_disrupt_still_has_to_be_moved():
    one = item(annotations={"karpenter.sh/do-not-disrupt": "true"})

    assert left(one)
    assert refuses_disruption(parse_pod(one), W + timedelta(days=365))


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        (None, False),  # policy/v1: a null selector selects nothing
        ({}, True),  # and an empty one every pod of the namespace
        ({"matchLabels": None, "matchExpressions": None}, True),
        ({"matchLabels": {"app": "api"}}, True),
        ({"matchLabels": {"app": "web"}}, False),
        ({"matchLabels": {"app": "api", "tier": "x"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "api"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "In", "values": ["x"]}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["api"]}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}, {"key": "tier", "operator": "Exists"}]}, False),
        ({"matchLabels": {"app": "api"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]}, False),
        ({"matchExpressions": [{"key": "app", "operator": "Like", "values": ["api"]}]}, False),
        ({"matchExpressions": [{}]}, False),
    ],
)
def test_a_selector_means_what_policy_v1_says(selector: dict[str, Any] | None, selected: bool):
    assert selects(selector, {"app": "api"}) is selected


@pytest.mark.parametrize(
    ("held_by", "blocks"),
    [
        (budget(0), True),
        (budget(1), False),
        (budget(None), False),  # its status was not written yet: it holds nothing that we know of
        (budget(0, namespace="other"), False),
        (budget(0, {"matchLabels": {"app": "web"}}), False),
    ],
)
def test_a_budget_blocks_the_pods_it_selects_in_its_namespace_when_it_allows_none(held_by: Any, blocks: bool):
    assert (blocking_budget(pod(), [held_by]) is held_by) is blocks


def test_the_first_of_several_blocking_budgets_is_named():
    budgets = [budget(1, name="free"), budget(0, name="first"), budget(0, name="second")]

    found = blocking_budget(pod(), budgets)
    assert found is not None
    assert found.name == "first"


def test_a_budget_is_read_from_its_object():
    selector = {"matchLabels": {"app": "api"}}
    one = {
        "metadata": {"namespace": "shop", "name": "api"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 0},
    }

    assert parse_budget(one) == budget(0, selector)
    bare = parse_budget({"metadata": None})
    assert (bare.namespace, bare.name, bare.selector, bare.disruptions_allowed) == ("", "", None, None)
