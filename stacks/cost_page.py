"""Writes the README's table of running costs from the templates: `python -m stacks.cost_page` (a test compares)."""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from holdfast.runtime.config import HoldfastConfig
from stacks import assembly, cost, example, list_prices

README_FILE = "README.md"
BEGIN, END = "<!-- cost:begin -->", "<!-- cost:end -->"


class MarkersMissing(Exception):
    """A page has no place for the table. The message names the file and the markers."""


def block(templates: Mapping[str, Mapping[str, Any]], config: HoldfastConfig) -> str:
    """The table and what it assumes, for the templates of `config`."""
    counts = cost.count(list(templates.values()))
    days = config.audit.fact_retention_days
    small, large = (list(cost.lines(counts, load, fact_days=days)) for load in (cost.SMALL, cost.LARGE))
    rows = [
        f"| {line.item} | {_price(line.price)} | {_amount(line)} | {_amount(other)} |"
        for line, other in zip(small, large, strict=True)
    ]
    rows.append(f"| **together** | | | **{_dollars(cost.total(small))}** | | **{_dollars(cost.total(large))}** |")
    return "\n".join([*_introduction(), *rows, "", *_notes(templates, config)])


def with_block(page: str, text: str, name: str = README_FILE) -> str:
    """`page` with `text` between its markers.

    Raises:
        MarkersMissing: the markers are not there.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkersMissing(f"{name} has no place for the running costs: put the lines {BEGIN} and {END} into it")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def write(root: Path) -> None:
    """Writes the table into the README below `root`, the repository."""
    path = root / README_FILE
    text = block(example.templates(), example.config())
    path.write_text(with_block(path.read_text(encoding="utf-8"), text), encoding="utf-8")


def _introduction() -> Iterator[str]:
    for load in (cost.SMALL, cost.LARGE):
        yield (
            f"- {load.title.capitalize()}: {load.nodepools} NodePools, {load.nodes:,} nodes;"
            f" {load.interruptions:,} interruptions and {load.state_changes:,} state changes a month."
        )
    yield ""
    yield f"| Part | Price in $ | {cost.SMALL.title} | $ a month | {cost.LARGE.title} | $ a month |"
    yield "|---|---|---:|---:|---:|---:|"


def _notes(templates: Mapping[str, Mapping[str, Any]], config: HoldfastConfig) -> Iterator[str]:
    further = sum(
        cost.alarm_metrics(resource["Properties"])
        for template in templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
        and (cost.makes_karpenters_queue(template) or cost.is_of_a_cluster(resource["Properties"]))
    )
    dollars = further * list_prices.price_of(list_prices.Item.ALARM_METRICS).dollars
    yield (
        f"These are list prices of {list_prices.REGION} as known on {list_prices.AS_OF}, without free tiers: check them"
        " before you rely on this."
    )
    yield (
        f"A further cluster in the account and region adds {further} alarm metrics (${_dollars(dollars)}) and its own events."
    )
    yield (
        "Metrics of cases are billed for the hour of the verdict only. The key costs 1.00 more after each of its first two"
        " rotations."
    )
    yield (
        f"The ledger is priced with {config.audit.fact_retention_days} days in it; NAT gateways and endpoints of your own"
        " networks are not in it."
    )
    yield "The assumptions are in `stacks/cost.py`, the prices in `stacks/list_prices.py`."


def _amount(line: cost.Line) -> str:
    quantity = f"{line.quantity:,.0f}" if line.quantity >= 1000 else f"{line.quantity:.2f}".removesuffix(".00")
    return f"{quantity} | {_dollars(line.dollars)}"


def _price(price: list_prices.Price) -> str:
    per = {1: "", 1_000_000: "million "}.get(price.per, f"{price.per:,} ")
    unit = price.unit if per else price.unit.removesuffix("s").replace("GB-months", "GB-month")
    return f"{price.dollars} per {per}{unit}"


def _dollars(dollars: Decimal) -> str:
    """Two decimals; what is less than a cent is not shown as nothing."""
    return "<0.01" if 0 < dollars < Decimal("0.01") else f"{dollars:.2f}"


if __name__ == "__main__":
    write(assembly.ROOT)
