"""What EC2 costs in the sandbox: near the list prices of Linux in us-east-1, by a formula from vCPUs and memory.

m5, c5 and r5 come within a few percent of their list prices (AWS, EC2 On-Demand Pricing, 2026-11). Karpenter chooses by
price: with one price for all it would choose at random.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

_PER_VCPU: Final = Decimal("0.033")
_PER_GIB: Final = Decimal("0.0037")
_SPOT_SHARE: Final = Decimal("0.35")
_ZONE_STEP: Final = Decimal("0.02")

GET_PRODUCTS: Final = "AWSPriceListService.GetProducts"
"""The X-Amz-Target of the one call that Karpenter makes to the price list."""


@dataclass(frozen=True, slots=True)
class Size:
    """An instance type's vCPUs and memory."""

    vcpus: int
    mebibytes: int


def on_demand(size: Size) -> Decimal:
    """Dollars an hour."""
    return (size.vcpus * _PER_VCPU + Decimal(size.mebibytes) / 1024 * _PER_GIB).quantize(Decimal("0.0001"))


def spot(size: Size, zone: str) -> Decimal:
    """Dollars an hour in one zone: zones differ by a few percent, so that the cheapest of them is a fact."""
    step = _ZONE_STEP * (ord(zone[-1]) - ord("a"))
    return (on_demand(size) * (_SPOT_SHARE + step)).quantize(Decimal("0.0001"))


def products(sizes: Mapping[str, Size], filters: Iterable[Mapping[str, str]]) -> dict[str, Any]:
    """GetProducts' answer, all on one page: the types that the filters leave, shared tenancy only."""
    wanted = {item["Field"]: item["Value"] for item in filters}
    if wanted.get("tenancy", "Shared") != "Shared":
        return {"FormatVersion": "aws_v1", "PriceList": []}
    only = wanted.get("instanceType")
    return {
        "FormatVersion": "aws_v1",
        "PriceList": [_product(name, size) for name, size in sizes.items() if only in {None, name}],
    }


def _product(name: str, size: Size) -> str:
    return json.dumps(
        {
            "product": {"productFamily": "Compute Instance", "attributes": {"instanceType": name}, "sku": name},
            "terms": {
                "OnDemand": {
                    name: {
                        "priceDimensions": {
                            f"{name}.hour": {"unit": "Hrs", "pricePerUnit": {"USD": str(on_demand(size))}}
                        }
                    }
                }
            },
        }
    )
