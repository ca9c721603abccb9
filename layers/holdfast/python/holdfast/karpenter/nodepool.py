"""What a NodePool says of its limits and of what it uses (karpenter.sh/v1, Karpenter 1.14)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d+)|([A-Za-z]*))")
_SUFFIXES = {
    "": Decimal(1),
    **{name: Decimal(10) ** power for name, power in {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9}.items()},
    **{name: Decimal(10) ** power for name, power in {"T": 12, "P": 15, "E": 18}.items()},
    **{
        name: Decimal(2) ** power
        for name, power in {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}.items()
    },
}


@dataclass(frozen=True, slots=True)
class NodePool:
    """A NodePool's `spec.limits` and `status.resources`, quantities as they are written."""

    name: str
    limits: Mapping[str, str]
    used: Mapping[str, str]


def parse_nodepool(item: Mapping[str, Any]) -> NodePool:
    """The NodePool in one item of a list."""
    return NodePool(
        name=str((item.get("metadata") or {}).get("name", "")),
        limits=quantities((item.get("spec") or {}).get("limits")),
        used=quantities((item.get("status") or {}).get("resources")),
    )


def quantities(value: object) -> Mapping[str, str]:
    """A map of quantities as texts; the API lets a quantity be a number too."""
    return {str(key): str(amount) for key, amount in value.items()} if isinstance(value, dict) else {}


def parse_quantity(text: str) -> Decimal | None:
    """A Kubernetes quantity such as `100`, `1500m` or `64Gi`; None when it is none."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    number, exponent, suffix = found.groups()
    if exponent is not None:
        return Decimal(number + exponent)
    return Decimal(number) * _SUFFIXES[suffix] if suffix in _SUFFIXES else None


def limits_reached(pool: NodePool, capacities: Iterable[Mapping[str, str]]) -> tuple[str, ...]:
    """Each limit that leaves no room for another node, in words; empty when there is room as far as can be told.

    Karpenter leaves out the instance types that would exceed a limit, so a limit stops it before usage has reached it.
    What the smallest type takes is not told; the smallest of the pool's nodes, whose `capacities` are given, stands for
    it.
    """
    return tuple(_reached(pool, list(capacities)))


def _reached(pool: NodePool, capacities: list[Mapping[str, str]]) -> Iterator[str]:
    for resource, limit_text in pool.limits.items():
        used_text = pool.used.get(resource, "0")
        limit, used = parse_quantity(limit_text), parse_quantity(used_text)
        if limit is None or used is None:
            continue
        if used >= limit:
            yield f"{resource}: {used_text} of {limit_text} used"
            continue
        sizes = [(size, text) for node in capacities if (text := node.get(resource)) and (size := parse_quantity(text))]
        if sizes and limit - used < min(sizes)[0]:
            yield f"{resource}: {used_text} of {limit_text} used, and the pool's smallest node has {min(sizes)[1]}"
