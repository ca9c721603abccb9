"""What Holdfast costs a month to run: quantities counted in the synthesized templates, times assumptions, times prices.

Where a figure is uncertain it is taken too high: every event is a run of its own, no free tier is used up, metrics of
functions that idle count as if they did not. A month has 730 hours, as in AWS's own calculator.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from holdfast.runtime.metric_names import PER_FUNCTION, MetricName
from holdfast.runtime.settings import parse_webhooks
from stacks.list_prices import PRICES, Item, Price, UnknownPrice, price_of

HOURS: Final = 730
DAYS: Final = Decimal(HOURS) / 24

FREE: Final = frozenset(
    {
        "AWS::EKS::AccessEntry",
        "AWS::Events::Rule",  # events of AWS services and schedules on the default bus, to targets in the account
        "AWS::IAM::Role",
        "AWS::Lambda::EventInvokeConfig",
        "AWS::Lambda::EventSourceMapping",  # what it polls is charged to the queue
        "AWS::Lambda::LayerVersion",
        "AWS::Lambda::Permission",
        "AWS::SNS::Topic",  # of the alarms: some mails a month, the first thousand of which are free
        "AWS::SNS::TopicPolicy",
        "AWS::SQS::QueuePolicy",
    }
)
"""The resources that cost nothing by themselves."""

COUNTED: Final = frozenset(
    {
        "AWS::CloudWatch::Alarm",
        "AWS::CloudWatch::Dashboard",
        "AWS::DynamoDB::Table",
        "AWS::Events::Archive",
        "AWS::KMS::Key",
        "AWS::Lambda::Function",
        "AWS::Logs::LogGroup",
        "AWS::SQS::Queue",
    }
)
"""The resources that the formula counts."""

POLLERS: Final = 5
"""How many Lambda keeps polling for one event source mapping (Lambda guide, using Lambda with SQS)."""

POLL_SECONDS: Final = 20
"""How long each of its polls, and each of Karpenter's, waits when nothing comes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What an account and region is assumed to do in a month.

    `state_changes` are those of all its EC2 instances: each that starts and ends has three which the rules match.
    """

    title: str
    nodes: int
    nodepools: int
    interruptions: int
    state_changes: int

    @property
    def events(self) -> int:
        """An interruption has a rebalance recommendation and a warning beside its state changes."""
        return self.state_changes + 2 * self.interruptions


SMALL: Final = Load(title="small", nodes=60, nodepools=10, interruptions=200, state_changes=20_000)
LARGE: Final = Load(title="large", nodes=5_000, nodepools=50, interruptions=1_000, state_changes=450_000)
"""A fifth of the nodes interrupted in a month, and each node replaced every day."""

LOOKS_PER_CASE: Final = 6
INGEST_SECONDS: Final = Decimal("0.3")
SWEEP_SECONDS: Final = Decimal("0.3")
NOTIFIER_SECONDS: Final = Decimal(1)
JUDGE_SECONDS: Final = Decimal(1)
JUDGE_SECONDS_PER_NODE: Final = Decimal("0.001")
"""Of a look: the list of all NodeClaims grows with the cluster."""

WRITES_PER_EVENT: Final = 3  # the fact, and the watch with its row in an index
WRITES_PER_LOOK: Final = 20  # the look, and in one transaction, which counts twice, watch and case with their indexes
READS_PER_SWEEP: Final = 15  # twenty-two eventually consistent queries, and four rows read consistently
READS_PER_LOOK: Final = 10  # the instance's history
KILOBYTES_PER_EVENT: Final = 1  # as a fact
KILOBYTES_PER_LOOK: Final = 4
LOG_KILOBYTES_PER_RUN: Final = 2
ARCHIVE_KILOBYTES_PER_EVENT: Final = 1

_GIGABYTE: Final = Decimal(1_000_000)  # in KB
_RATE: Final = re.compile(r"rate\((?P<count>\d+) (?P<unit>minute|hour|day)s?\)")
_PER_DAY: Final = {"minute": 1440, "hour": 24, "day": 1}


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that is paid for."""

    item: Item
    quantity: Decimal
    price: Price

    @property
    def dollars(self) -> Decimal:
        """A month's, not rounded."""
        return self.quantity / self.price.per * self.price.dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the templates of one account and region make."""

    alarm_metrics: int
    dashboards: int
    keys: int
    secrets: int
    mappings: int
    karpenter_queues: int
    scheduled_runs: Decimal
    memory_gigabytes: Decimal
    architecture: str
    log_days: int
    archive_days: int


def count(templates: Sequence[Mapping[str, Any]]) -> Counts:
    """Counts in the templates what costs money.

    Raises:
        UnknownPrice: a template has a resource of which this does not know what it costs.
    """
    resources = [resource for template in templates for resource in template["Resources"].values()]
    unknown = sorted({resource["Type"] for resource in resources} - FREE - COUNTED)
    if unknown:
        raise UnknownPrice(f"nothing is known of what {', '.join(unknown)} costs: add it to stacks/cost.py")
    functions = [item["Properties"] for item in _of(resources, "AWS::Lambda::Function")]
    secrets = {
        name
        for function in functions
        for name in parse_webhooks(function["Environment"]["Variables"].get("HOLDFAST_WEBHOOKS", "{}")).values()
    }
    schedules = [
        item["Properties"]["ScheduleExpression"]
        for item in _of(resources, "AWS::Events::Rule")
        if "ScheduleExpression" in item["Properties"]
    ]
    return Counts(
        alarm_metrics=sum(alarm_metrics(item["Properties"]) for item in _of(resources, "AWS::CloudWatch::Alarm")),
        dashboards=len(_of(resources, "AWS::CloudWatch::Dashboard")),
        keys=len(_of(resources, "AWS::KMS::Key")),
        secrets=len(secrets),
        mappings=len(_of(resources, "AWS::Lambda::EventSourceMapping")),
        karpenter_queues=sum(map(makes_karpenters_queue, templates)),
        scheduled_runs=sum((runs_a_month(schedule) for schedule in schedules), Decimal(0)),
        memory_gigabytes=_the_one([Decimal(function["MemorySize"]) / 1024 for function in functions]),
        architecture=_the_one([function["Architectures"][0] for function in functions]),
        log_days=_the_one([item["Properties"]["RetentionInDays"] for item in _of(resources, "AWS::Logs::LogGroup")]),
        archive_days=_the_one([item["Properties"]["RetentionDays"] for item in _of(resources, "AWS::Events::Archive")]),
    )


def lines(counts: Counts, load: Load, *, fact_days: int, prices: Mapping[Item, Price] = PRICES) -> Iterator[Line]:
    """What a month costs, item by item. `fact_days` is how long the ledger keeps facts.

    Raises:
        UnknownPrice: an item has no price.
    """
    for item, quantity in _quantities(counts, load, fact_days):
        yield Line(item, Decimal(quantity), price_of(item, prices))


def total(found: Sequence[Line]) -> Decimal:
    """The dollars of all lines."""
    return sum((line.dollars for line in found), Decimal(0))


def _quantities(counts: Counts, load: Load, fact_days: int) -> Iterator[tuple[Item, Decimal | int]]:
    looks = load.interruptions * LOOKS_PER_CASE
    alerts = load.interruptions
    judge_seconds = JUDGE_SECONDS + JUDGE_SECONDS_PER_NODE * load.nodes
    runs = counts.scheduled_runs + load.events + looks + alerts
    seconds = (
        counts.scheduled_runs * SWEEP_SECONDS
        + load.events * INGEST_SECONDS
        + looks * judge_seconds
        + alerts * NOTIFIER_SECONDS
    )
    polls = (POLLERS * counts.mappings + counts.karpenter_queues) * HOURS * 3600 / POLL_SECONDS
    # Sent, received and deleted: in the audit's queue and each Karpenter's, look queues, and the wake-ups.
    messages = 3 * (load.events * (1 + counts.karpenter_queues) + looks + alerts)
    kept = (load.events * KILOBYTES_PER_EVENT + looks * KILOBYTES_PER_LOOK) / _GIGABYTE * fact_days / DAYS
    logged = runs * LOG_KILOBYTES_PER_RUN / _GIGABYTE
    archived = load.events * ARCHIVE_KILOBYTES_PER_EVENT / _GIGABYTE
    yield Item.ALARM_METRICS, counts.alarm_metrics
    yield Item.CUSTOM_METRICS, constant_metrics() + Decimal(load.interruptions * metrics_per_case()) / HOURS
    yield Item.DASHBOARDS, counts.dashboards
    yield Item.KEYS, counts.keys
    yield Item.SECRETS, counts.secrets
    yield Item.SECRET_CALLS, alerts
    yield Item.QUEUE_REQUESTS, Decimal(polls) + messages
    yield Item.RUNS, runs
    yield _compute(counts.architecture), seconds * counts.memory_gigabytes
    yield Item.TABLE_WRITES, load.events * WRITES_PER_EVENT + looks * WRITES_PER_LOOK
    yield Item.TABLE_READS, counts.scheduled_runs * READS_PER_SWEEP + looks * READS_PER_LOOK
    yield Item.TABLE_KEPT, kept
    yield Item.TABLE_RECOVERY, kept
    yield Item.LOGS_WRITTEN, logged
    yield Item.LOGS_KEPT, logged * counts.log_days / DAYS
    yield Item.ARCHIVE_WRITTEN, archived
    yield Item.ARCHIVE_KEPT, archived * counts.archive_days / DAYS


def constant_metrics() -> int:
    """The metrics that functions write at each run: as many however much there is to do."""
    return sum(len(metric.dimensions) for metric in MetricName if metric.dimensions == PER_FUNCTION)


def metrics_per_case() -> int:
    """The metrics that a case touches. CloudWatch bills them for the hour in which it was decided, not for the month."""
    return sum(len(metric.dimensions) for metric in MetricName if metric.dimensions != PER_FUNCTION)


def alarm_metrics(properties: Mapping[str, Any]) -> int:
    """How many metrics an alarm reads, which is what is paid for."""
    return sum("MetricStat" in item for item in properties.get("Metrics", [])) or 1


def is_of_a_cluster(properties: Mapping[str, Any]) -> bool:
    """Whether an alarm is about one cluster: each further cluster has one too."""
    metrics = [item["MetricStat"]["Metric"] for item in properties.get("Metrics", []) if "MetricStat" in item]
    return any(
        dimension["Name"] == "cluster"
        for metric in metrics or [properties]
        for dimension in metric.get("Dimensions", [])
    )


def makes_karpenters_queue(template: Mapping[str, Any]) -> bool:
    """Whether it is the template of a cluster's stack."""
    return "KarpenterInterruptionQueueName" in template.get("Outputs", {})


def runs_a_month(schedule: str) -> Decimal:
    """How often a rule with this schedule starts its target.

    Raises:
        UnknownPrice: it is no rate.
    """
    found = _RATE.fullmatch(schedule)
    if found is None:
        raise UnknownPrice(f"how often {schedule} starts a function is not known: teach it to stacks/cost.py")
    return DAYS * _PER_DAY[found["unit"]] / int(found["count"])


def _compute(architecture: str) -> Item:
    return {"arm64": Item.COMPUTE_ARM64, "x86_64": Item.COMPUTE_X86_64}[architecture]


def _of(resources: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    return [resource for resource in resources if resource["Type"] == kind]


def _the_one[T](values: Sequence[T]) -> T:
    """The value that all have. The formula takes functions and log groups to be alike."""
    distinct = list(dict.fromkeys(values))
    if len(distinct) != 1:
        raise UnknownPrice(f"the formula in stacks/cost.py needs one value for all, there are {distinct}")
    return distinct[0]
