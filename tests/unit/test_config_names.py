"""Physical names: within AWS's limits and never the same for two clusters."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.runtime import names

CLUSTERS = st.text("abzABZ019_-", min_size=1, max_size=100).filter(lambda name: name[0] not in "_-")
PREFIX = "a2345678901234567890b"  # the longest that the configuration takes
ACCOUNT, REGION = "111122223333", "ap-southeast-1"


def test_a_short_cluster_name_stays_readable_in_every_name():
    queue = names.karpenter_queue_name("orders-prod")
    assert queue == "orders-prod"
    assert names.dlq_name(queue) == "orders-prod-dlq"
    assert names.target_dlq_name(queue) == "orders-prod-undelivered"
    assert names.rule_name("holdfast", "orders-prod", names.RuleKind.SPOT) == "holdfast-orders-prod-spot"
    assert (
        names.cluster_stack_id("holdfast", ACCOUNT, REGION, "orders-prod")
        == "holdfast-cluster-111122223333-ap-southeast-1-orders-prod"
    )
    assert names.state_stack_id("holdfast", ACCOUNT, REGION) == "holdfast-state-111122223333-ap-southeast-1"
    assert (
        names.control_plane_stack_id("holdfast", ACCOUNT, REGION)
        == "holdfast-control-plane-111122223333-ap-southeast-1"
    )


def test_a_configured_queue_name_wins_over_the_clusters():
    assert names.karpenter_queue_name("orders-prod", "karpenter-orders") == "karpenter-orders"


@given(CLUSTERS)
def test_every_name_of_a_cluster_has_the_form_and_length_that_aws_takes(cluster):
    queue = names.karpenter_queue_name(cluster)
    for name in (queue, names.dlq_name(queue), names.target_dlq_name(queue)):
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,80}", name)  # SQS, CreateQueue
    for kind in names.RuleKind:
        assert re.fullmatch(r"[A-Za-z0-9._-]{1,64}", names.rule_name(PREFIX, cluster, kind))  # EventBridge, PutRule
    # CloudFormation, CreateStack
    assert re.fullmatch(
        r"[A-Za-z][A-Za-z0-9-]{0,127}", names.cluster_stack_id(PREFIX, ACCOUNT, "ap-southeast-1", cluster)
    )


def _all_names(cluster):
    queue = names.karpenter_queue_name(cluster)
    rules = [names.rule_name("holdfast", cluster, kind) for kind in names.RuleKind]
    stack = names.cluster_stack_id("holdfast", ACCOUNT, REGION, cluster)
    return [queue, names.dlq_name(queue), names.target_dlq_name(queue), *rules, stack]


@settings(max_examples=50)
@given(st.sets(st.from_regex(r"cluster[_-][ab_-]{80,90}[ab]", fullmatch=True), min_size=2, max_size=6))
def test_long_cluster_names_that_begin_alike_never_share_a_name(clusters):
    found = [name for cluster in clusters for name in _all_names(cluster)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(("one", "other"), [("a_b", "a-b"), ("a", "a-health"), ("x" * 80, "x" * 81)])
def test_names_that_look_alike_stay_apart(one, other):
    assert not set(_all_names(one)) & set(_all_names(other))


def test_a_network_has_the_same_id_in_any_order_and_another_one_for_another_member():
    one = names.network_id("vpc-1", ["subnet-1", "subnet-2"], ["sg-1", "sg-2"])
    assert one == names.network_id("vpc-1", ["subnet-2", "subnet-1"], ["sg-2", "sg-1"])
    assert one != names.network_id("vpc-1", ["subnet-1"], ["sg-1", "sg-2"])
    assert one != names.network_id("vpc-2", ["subnet-1", "subnet-2"], ["sg-1", "sg-2"])
    assert re.fullmatch(r"[a-z][a-z0-9]+", one)  # fit for a logical id
    assert one != names.PUBLIC_NETWORK
