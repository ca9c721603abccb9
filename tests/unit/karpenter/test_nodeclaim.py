"""What a NodeClaim says, and that a strange one says less instead of failing."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.karpenter.nodeclaim import NodeClaim, StatusCondition, instance_of, parse_duration, parse_nodeclaim
from tests.builders import at

WHOLE = {
    "metadata": {
        "name": "orders-spot-4x7kq",
        "creationTimestamp": "2026-09-01T04:00:00Z",
        "deletionTimestamp": "2026-09-01T04:10:05Z",
        "annotations": {"karpenter.sh/nodeclaim-termination-timestamp": "2026-09-01T05:10:05Z"},
        "labels": {
            "karpenter.sh/nodepool": "orders-spot",
            "karpenter.sh/capacity-type": "spot",
            "node.kubernetes.io/instance-type": "c6i.2xlarge",
            "topology.kubernetes.io/zone": "ap-southeast-1a",
        },
    },
    "spec": {"terminationGracePeriod": "1h0m0s"},
    "status": {
        "providerID": "aws:///ap-southeast-1a/i-0a11111111111111a",
        "nodeName": "ip-10-0-11-7",
        "conditions": [
            {
                "type": "Drained",
                "status": "Unknown",
                "reason": "Draining",
                "lastTransitionTime": "2026-09-01T04:10:06Z",
            },
            {"type": "Ready", "status": "True", "reason": "Ready", "lastTransitionTime": None},
        ],
    },
}


def test_a_nodeclaim_is_read_from_its_object():
    assert parse_nodeclaim(WHOLE) == NodeClaim(
        name="orders-spot-4x7kq",
        instance_id="i-0a11111111111111a",
        nodepool="orders-spot",
        node="ip-10-0-11-7",
        instance_type="c6i.2xlarge",
        zone="ap-southeast-1a",
        capacity_type="spot",
        created_at=at(-600),
        deleted_at=at(5),
        termination_at=at(3605),
        grace_period=timedelta(hours=1),
        conditions=(
            StatusCondition("Drained", "Unknown", "Draining", at(6)),
            StatusCondition("Ready", "True", "Ready", None),
        ),
    )


NOTHING = NodeClaim("", None, None, None, None, None, None, None, None, None, None, ())


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": None, "spec": None, "status": None},
        {"metadata": [], "spec": "x", "status": 3},
        {"metadata": {"labels": [], "annotations": "x"}, "status": {"conditions": {}, "nodeName": "", "providerID": 7}},
        {"status": {"conditions": [None, "x", []], "providerID": "kwok:///node-1"}},
        {"metadata": {"deletionTimestamp": "soon", "creationTimestamp": 7}},
        {"metadata": {"deletionTimestamp": "0001-01-01T00:00:00Z"}},  # Go's zero time is no time
        {"spec": {"terminationGracePeriod": "Never"}},
    ],
)
def test_what_is_missing_or_strange_is_none(item: dict[str, Any]):
    assert parse_nodeclaim(item) == NOTHING


@pytest.mark.parametrize(
    ("provider_id", "instance"),
    [
        ("aws:///ap-southeast-1a/i-0a11111111111111a", "i-0a11111111111111a"),
        ("i-0a11111111111111a", "i-0a11111111111111a"),
        ("aws:///ap-southeast-1a/", None),
        ("kwok://node", None),
        ("", None),
        (None, None),
    ],
)
def test_the_instance_is_the_last_part_of_the_provider_id(provider_id: object, instance: str | None):
    assert instance_of(provider_id) == instance


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h0m0s", 3600),
        ("720h", 2_592_000),
        ("1.5h", 5400),
        (".5m", 30),
        ("1500ms", 1.5),
        ("0s", 0),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, seconds: float):
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", [None, "", "Never", "30", "h", "-5m", "1d", "5m ", " 5m", "5 m", 30, "9" * 30 + "h"])
def test_what_is_no_duration_is_none(text: object):
    assert parse_duration(text) is None


@given(st.text() | st.from_regex(r"([0-9.]{1,40}(ns|us|ms|s|m|h)){1,3}", fullmatch=True))
def test_no_text_stops_the_reading_of_a_duration(text: str):
    duration = parse_duration(text)

    assert duration is None or timedelta(0) <= duration < timedelta(days=366 * 293)
