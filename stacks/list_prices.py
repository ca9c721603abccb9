"""AWS's list prices that the estimate of the running cost is made with: data to check before you rely on it.

They are what was known on `AS_OF` for `REGION`, first tier, on demand, without free tiers, discounts and taxes. Nothing
looks them up: AWS's price pages have today's, for your region.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Final

AS_OF: Final = date(2026, 11, 30)
REGION: Final = "us-east-1"


class UnknownPrice(Exception):
    """Something costs money and no price is known for it. The message says what, and where prices are."""


class Item(StrEnum):
    """What AWS charges for."""

    ALARM_METRICS = "CloudWatch, metrics that alarms read"
    CUSTOM_METRICS = "CloudWatch, custom metrics"
    DASHBOARDS = "CloudWatch, dashboards"
    LOGS_WRITTEN = "CloudWatch Logs, written"
    LOGS_KEPT = "CloudWatch Logs, kept"
    KEYS = "KMS, keys"
    SECRETS = "Secrets Manager, secrets"
    SECRET_CALLS = "Secrets Manager, calls"  # noqa: S105 - a heading, no password
    QUEUE_REQUESTS = "SQS, requests"
    RUNS = "Lambda, runs"
    COMPUTE_ARM64 = "Lambda, arm64"
    COMPUTE_X86_64 = "Lambda, x86_64"
    TABLE_WRITES = "DynamoDB, writes"
    TABLE_READS = "DynamoDB, reads"
    TABLE_KEPT = "DynamoDB, kept"
    TABLE_RECOVERY = "DynamoDB, point-in-time recovery"
    ARCHIVE_WRITTEN = "EventBridge archive, written"
    ARCHIVE_KEPT = "EventBridge archive, kept"


@dataclass(frozen=True, slots=True)
class Price:
    """`dollars` for `per` of `unit`."""

    dollars: Decimal
    per: int
    unit: str


_MILLION = 1_000_000

PRICES: Final[Mapping[Item, Price]] = {
    Item.ALARM_METRICS: Price(Decimal("0.10"), 1, "metrics"),
    # Billed for the hours in which a value was sent.
    Item.CUSTOM_METRICS: Price(Decimal("0.30"), 1, "metrics"),
    Item.DASHBOARDS: Price(Decimal("3.00"), 1, "dashboards"),
    Item.LOGS_WRITTEN: Price(Decimal("0.50"), 1, "GB"),
    Item.LOGS_KEPT: Price(Decimal("0.03"), 1, "GB-months"),
    Item.KEYS: Price(Decimal("1.00"), 1, "keys"),
    Item.SECRETS: Price(Decimal("0.40"), 1, "secrets"),
    Item.SECRET_CALLS: Price(Decimal("0.05"), 10_000, "calls"),
    Item.QUEUE_REQUESTS: Price(Decimal("0.40"), _MILLION, "requests"),
    Item.RUNS: Price(Decimal("0.20"), _MILLION, "runs"),
    Item.COMPUTE_ARM64: Price(Decimal("0.0000133334"), 1, "GB-seconds"),
    Item.COMPUTE_X86_64: Price(Decimal("0.0000166667"), 1, "GB-seconds"),
    Item.TABLE_WRITES: Price(Decimal("0.625"), _MILLION, "write units"),
    Item.TABLE_READS: Price(Decimal("0.125"), _MILLION, "read units"),
    Item.TABLE_KEPT: Price(Decimal("0.25"), 1, "GB-months"),
    Item.TABLE_RECOVERY: Price(Decimal("0.20"), 1, "GB-months"),
    Item.ARCHIVE_WRITTEN: Price(Decimal("0.10"), 1, "GB"),
    Item.ARCHIVE_KEPT: Price(Decimal("0.023"), 1, "GB-months"),
}


def price_of(item: Item, prices: Mapping[Item, Price] = PRICES) -> Price:
    """The price of an item.

    Raises:
        UnknownPrice: there is none, or it is nothing: what AWS charges for has a price.
    """
    found = prices.get(item)
    if found is None or found.dollars <= 0 or found.per <= 0:
        raise UnknownPrice(f"no price is known for {item}: write it into stacks/list_prices.py")
    return found
