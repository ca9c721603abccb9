"""A NodePool's limits, and whether they leave room for another node."""

from decimal import Decimal

import pytest

from holdfast.karpenter.nodepool import NodePool, limits_reached, parse_nodepool, parse_quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("100", 100),
        ("0.5", Decimal("0.5")),
        (".5", Decimal("0.5")),
        ("1500m", Decimal("1.5")),
        ("64Gi", 64 * 2**30),
        ("2k", 2000),
        ("1e3", 1000),
        ("1E", 10**18),
        ("-1", -1),
        ("1 Gi", None),
        ("64gi", None),
        ("many", None),
        ("", None),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(text: str, value: Decimal | int | None):
    assert parse_quantity(text) == value


def test_limits_may_be_numbers_or_texts():
    pool = parse_nodepool(
        {
            "metadata": {"name": "spot"},
            "spec": {"limits": {"cpu": 100, "memory": "400Gi"}},
            "status": {"resources": {"cpu": "96", "nodes": "12"}},
        }
    )

    assert pool == NodePool("spot", {"cpu": "100", "memory": "400Gi"}, {"cpu": "96", "nodes": "12"})
    assert parse_nodepool({"metadata": {"name": "new"}}) == NodePool("new", {}, {})


@pytest.mark.parametrize(
    ("limits", "used", "nodes", "said"),
    [
        ({"cpu": "100"}, {"cpu": "100"}, [], ("cpu: 100 of 100 used",)),
        ({"cpu": "0"}, {}, [], ("cpu: 0 of 0 used",)),
        ({"cpu": "100"}, {"cpu": "96"}, [], ()),
        ({"cpu": "100"}, {"cpu": "96"}, [{"cpu": "4"}, {"cpu": "8"}], ()),
        (
            {"cpu": "100"},
            {"cpu": "96"},
            [{"cpu": "8"}, {}],
            ("cpu: 96 of 100 used, and the pool's smallest node has 8",),
        ),
        ({"memory": "1Gi"}, {"memory": "1024Mi"}, [], ("memory: 1024Mi of 1Gi used",)),
        ({"nodes": "2", "cpu": "9"}, {"nodes": "2", "cpu": "1"}, [], ("nodes: 2 of 2 used",)),
        ({"cpu": "odd"}, {"cpu": "1"}, [], ()),
        ({}, {"cpu": "1"}, [{"cpu": "1"}], ()),
    ],
)
def test_a_limit_is_reached_when_no_further_node_fits(limits, used, nodes, said):
    assert limits_reached(NodePool("spot", limits, used), nodes) == said
