"""What Holdfast costs to run: counted in the templates, never with a price of nothing, within what was promised."""

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from holdfast.runtime.metric_names import MetricName
from stacks import cost, cost_page, example, metrics_page
from stacks.list_prices import PRICES, Item, Price, UnknownPrice, price_of
from tests.stacks.templates import ROOT, Assembly, of_type

BOUND = 25
"""Dollars a month for one cluster of ten NodePools."""

Templates = Mapping[str, Mapping[str, Any]]


@pytest.fixture(scope="module")
def templates() -> Templates:
    return example.templates()


@pytest.fixture(scope="module")
def counts(templates: Templates) -> cost.Counts:
    return cost.count(list(templates.values()))


def by_item(counts: cost.Counts, load: cost.Load = cost.SMALL) -> dict[Item, cost.Line]:
    return {line.item: line for line in cost.lines(counts, load, fact_days=400)}


# Generated pages


def test_the_readmes_table_is_what_the_templates_say(templates: Templates):
    page = (ROOT / "README.md").read_text()

    assert page == cost_page.with_block(page, cost_page.block(templates, example.config())), (
        "run: .venv/bin/python -m stacks.cost_page"
    )


def test_the_page_of_metrics_is_what_the_registry_and_the_templates_say(templates: Templates):
    page = (ROOT / "docs" / "metrics.md").read_text()

    assert page == metrics_page.page(templates), "run: .venv/bin/python -m stacks.metrics_page"
    for metric in MetricName:
        assert page.count(f"| `{metric}` | {metric.unit} |") == 1


def test_every_alarm_is_on_the_page_of_metrics_with_its_place_in_the_runbook(templates: Templates):
    for template in templates.values():
        found = list(metrics_page.alarms(template))
        assert len(found) == len(of_type(template, "AWS::CloudWatch::Alarm"))
        for alarm in found:
            assert alarm.metrics
            assert alarm.urgency in {"PAGE", "WARNING"}
            assert alarm.says.endswith(".")
            assert alarm.link == f"[{alarm.anchor}](runbook.md#{alarm.anchor})"


def test_a_page_without_the_markers_says_which_it_needs():
    with pytest.raises(cost_page.MarkersMissing, match=r"README\.md .* <!-- cost:begin --> and <!-- cost:end -->"):
        cost_page.with_block("# Nothing", "text")


def test_only_what_is_between_the_markers_changes():
    page = "before\n<!-- cost:begin -->\nold\n<!-- cost:end -->\nafter\n"

    assert cost_page.with_block(page, "new") == page.replace("old", "new")


# The bound


def test_a_cluster_of_ten_nodepools_costs_no_more_than_promised(counts: cost.Counts):
    assert cost.SMALL.nodepools == 10
    assert cost.total(list(cost.lines(counts, cost.SMALL, fact_days=400))) <= BOUND


def test_the_sum_is_that_of_the_shown_lines(templates: Templates):
    """To the cent, but for what rounding takes from each of them."""
    rows = [line for line in cost_page.block(templates, example.config()).splitlines() if line.startswith("| ")]
    cells = [[cell.strip(" *") for cell in row.split("|")[1:-1]] for row in rows[1:]]
    for column in (3, 5):
        shown = [Decimal(row[column].removeprefix("<")) for row in cells]
        assert abs(sum(shown[:-1]) - shown[-1]) <= Decimal("0.01") * len(shown)


# Counting


def test_alarms_are_counted_by_the_metrics_they_read(templates: Templates, counts: cost.Counts):
    """37 alarms: 22 on one metric, 8 on rules (four on each cluster's five rules, four on the audit's seven), 7 on two."""
    alarms = [
        item["Properties"]
        for template in templates.values()
        for item in of_type(template, "AWS::CloudWatch::Alarm").values()
    ]

    assert len(alarms) == 37
    assert counts.alarm_metrics == 22 + 4 * 5 + 4 * 7 + 7 * 2


def test_the_example_is_counted(counts: cost.Counts):
    assert (counts.dashboards, counts.keys, counts.secrets, counts.mappings, counts.karpenter_queues) == (1, 1, 1, 3, 1)
    assert (counts.memory_gigabytes, counts.architecture) == (Decimal("0.5"), "arm64")
    assert (counts.log_days, counts.archive_days) == (30, 30)


def test_a_sweep_a_minute_is_43800_in_730_hours(counts: cost.Counts):
    assert round(counts.scheduled_runs, 6) == 730 * 60
    assert [round(cost.runs_a_month(f"rate({rate})"), 6) for rate in ("5 minutes", "1 hour", "1 day")] == [
        8760,
        730,
        round(Decimal(730) / 24, 6),
    ]


@pytest.mark.parametrize("assembly", ["example", "wide", "silent"])
def test_every_kind_of_resource_that_any_configuration_makes_is_known(assembly: str, request: pytest.FixtureRequest):
    made: Assembly = request.getfixturevalue(assembly)
    kinds = {item["Type"] for template in made.templates.values() for item in template["Resources"].values()}

    assert kinds <= cost.FREE | cost.COUNTED


def test_without_slack_there_is_no_secret_to_pay_for(silent: Assembly):
    assert cost.count(list(silent.templates.values())).secrets == 0


# Arithmetic


def test_metrics_of_cases_are_billed_by_the_hour(counts: cost.Counts):
    """14 for each case: its verdict; three measures by cluster and by NodePool, three by cluster; one count by kind, by
    NodePool and kind, by instance type and by zone."""
    assert cost.metrics_per_case() == 1 + 3 * 2 + 3 + 4
    assert cost.constant_metrics() == 24
    assert by_item(counts)[Item.CUSTOM_METRICS].quantity == 24 + Decimal(200 * 14) / 730


def test_a_further_cluster_has_the_alarms_of_its_queue_and_of_its_objectives(templates: Templates):
    """26 metrics of its queue and rules; 4 budgets alarms on two metrics each, its missed warnings and its rate on one."""
    note = "A further cluster in the account and region adds 36 alarm metrics ($3.60) and its own events."

    assert note in cost_page.block(templates, example.config())


def test_queues_are_billed_for_polls_and_messages(counts: cost.Counts):
    """3 mappings x 5 pollers and Karpenter poll every 20 s; a message is sent, received and deleted."""
    polls = 16 * 730 * 3600 // 20
    messages = 2 * 20_400 + 1_200 + 200
    line = by_item(counts)[Item.QUEUE_REQUESTS]

    assert line.quantity == polls + 3 * messages
    assert line.dollars == line.quantity * Decimal("0.40") / 1_000_000


def test_functions_are_billed_for_their_memory_and_time(counts: cost.Counts):
    """0.5 GB x (43,800 sweeps and 20,400 events of 0.3 s, 1,200 looks of 1.06 s, 200 alerts of 1 s)."""
    found = by_item(counts)

    assert round(found[Item.RUNS].quantity, 6) == 43_800 + 20_400 + 1_200 + 200
    assert round(found[Item.COMPUTE_ARM64].quantity, 6) == Decimal("0.5") * (
        Decimal("0.3") * 64_200 + Decimal("1.06") * 1_200 + 200
    )


def test_what_grows_with_events_grows_as_they_do(counts: cost.Counts):
    """Twice the load costs twice of that and no more."""
    double = replace(cost.LARGE, interruptions=2_000, state_changes=900_000)
    once, twice = by_item(counts, cost.LARGE), by_item(counts, double)

    for item in (Item.TABLE_WRITES, Item.TABLE_KEPT, Item.ARCHIVE_WRITTEN):
        assert twice[item].quantity == 2 * once[item].quantity
    assert all(twice[item].quantity <= 2 * once[item].quantity for item in once)
    for item in (Item.ALARM_METRICS, Item.DASHBOARDS, Item.KEYS):
        assert twice[item] == once[item]


def test_x86_functions_have_the_price_of_x86(counts: cost.Counts):
    assert Item.COMPUTE_X86_64 in by_item(replace(counts, architecture="x86_64"))


# Prices


@pytest.mark.parametrize("item", Item)
def test_everything_that_is_paid_for_has_a_price(item: Item):
    assert price_of(item).dollars > 0


def test_an_unknown_price_is_an_error(counts: cost.Counts):
    prices = {item: price for item, price in PRICES.items() if item is not Item.TABLE_WRITES}
    with pytest.raises(UnknownPrice, match=r"DynamoDB, writes: write it into stacks/list_prices\.py"):
        list(cost.lines(counts, cost.SMALL, fact_days=400, prices=prices))


@pytest.mark.parametrize(
    "price", [Price(Decimal(0), 1, "keys"), Price(Decimal(-1), 1, "keys"), Price(Decimal(1), 0, "keys")]
)
def test_a_price_of_nothing_is_no_price(price: Price):
    with pytest.raises(UnknownPrice, match="KMS, keys"):
        price_of(Item.KEYS, {Item.KEYS: price})


def test_a_resource_of_unknown_cost_is_an_error(templates: Templates):
    changed = copy.deepcopy(dict(next(iter(templates.values()))))
    changed["Resources"]["Gateway"] = {"Type": "AWS::EC2::NatGateway", "Properties": {}}
    with pytest.raises(UnknownPrice, match="AWS::EC2::NatGateway"):
        cost.count([changed])


def test_a_schedule_that_is_no_rate_is_an_error():
    with pytest.raises(UnknownPrice, match=r"cron\(0 12"):
        cost.runs_a_month("cron(0 12 * * ? *)")


def test_functions_that_differ_in_memory_are_an_error(templates: Templates):
    changed = json.loads(json.dumps(list(templates.values())))
    function = next(
        item for part in changed for item in part["Resources"].values() if item["Type"] == "AWS::Lambda::Function"
    )
    function["Properties"]["MemorySize"] = 1024
    with pytest.raises(UnknownPrice, match="one value for all"):
        cost.count(changed)
