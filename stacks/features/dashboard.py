"""The dashboard of one account and region: how interruptions were handled, and whether the audit itself works."""

from collections.abc import Iterable, Sequence

from aws_cdk import CfnOutput, Duration, aws_cloudwatch
from constructs import Construct

from holdfast.runtime import names
from holdfast.runtime.config import Cluster, HoldfastConfig
from holdfast.runtime.metric_names import NAMESPACE, MetricName
from holdfast.runtime.objectives import (
    ALERT_P95,
    FACT_P95,
    FACT_P99,
    FIRST_LOOK_P95,
    HANDLED,
    VERDICT_P95,
    VERDICT_P99,
    Target,
    Verdict,
)
from stacks.constructs.alarms import (
    AUDIT_QUEUE_LAG,
    KARPENTER_QUEUE_PAGE,
    OUTBOX_AGE,
    OVERDUE_LOOKS,
    own_metric,
)
from stacks.features.interruption import karpenter_queue_names

_DAY = Duration.days(1)
_FIVE_MINUTES = Duration.minutes(5)
_WINDOW = Duration.days(28)
"""Of the objectives: four weeks, so that every window has the same weekdays."""

_THIRD, _HALF, _HEIGHT = 8, 12, 6  # of the 24 columns of a dashboard, and rows


class Dashboard(Construct):
    """A row for each cluster, then what is the same for all of them."""

    def __init__(
        self, scope: Construct, construct_id: str, *, config: HoldfastConfig, clusters: Sequence[Cluster], region: str
    ) -> None:
        """`clusters` are those of this account and region."""
        super().__init__(scope, construct_id)
        self._prefix = config.name
        # CloudWatch knows a dashboard by its name in the account, whatever the region.
        name = names.dashboard_name(config.name, region)
        dashboard = aws_cloudwatch.Dashboard(self, "Dashboard", dashboard_name=name, default_interval=_WINDOW)
        dashboard.add_widgets(_introduction(config.alerts.runbook_url))
        for cluster in clusters:
            dashboard.add_widgets(*_handling(cluster.name))
            dashboard.add_widgets(*_objectives(cluster.name))
            dashboard.add_widgets(*_rates(cluster.name))
        dashboard.add_widgets(_facts_budget(), _facts(), _alerts())
        dashboard.add_widgets(self._waiting(clusters), self._put_aside(clusters))
        dashboard.add_widgets(_sweeper(), _outbox(), _ingest())
        CfnOutput(self, "DashboardName", value=name, description="The dashboard in the console of CloudWatch")

    def _waiting(self, clusters: Sequence[Cluster]) -> aws_cloudwatch.IWidget:
        own = (names.audit_queue_name(self._prefix), *self._look_queues(clusters), names.alert_queue_name(self._prefix))
        return aws_cloudwatch.GraphWidget(
            title="Seconds that the oldest message has waited",
            left=[_age(queue) for queue in (*(cluster.queue_name for cluster in clusters), *own)],
            left_annotations=[
                _line(KARPENTER_QUEUE_PAGE.total_seconds(), "alarm on Karpenter's queue"),
                _line(AUDIT_QUEUE_LAG.total_seconds(), "alarm on the audit's queue"),
            ],
            left_y_axis=_FROM_ZERO,
            width=_HALF,
            height=_HEIGHT,
        )

    def _put_aside(self, clusters: Sequence[Cluster]) -> aws_cloudwatch.IWidget:
        audit = names.audit_queue_name(self._prefix)
        own = (audit, *self._look_queues(clusters), names.alert_queue_name(self._prefix))
        queues = [
            *(name for cluster in clusters for name in karpenter_queue_names(cluster) if name != cluster.queue_name),
            *(names.dlq_name(queue) for queue in own),
            names.target_dlq_name(audit),
            names.sweep_failure_queue_name(self._prefix),
        ]
        return aws_cloudwatch.GraphWidget(
            title="Messages put aside",
            left=[_queue(queue, "ApproximateNumberOfMessagesVisible") for queue in queues],
            left_y_axis=_FROM_ZERO,
            width=_HALF,
            height=_HEIGHT,
        )

    def _look_queues(self, clusters: Iterable[Cluster]) -> list[str]:
        networks = dict.fromkeys(cluster.network_id for cluster in clusters)
        return [names.look_queue_name(self._prefix, network) for network in networks]


_FROM_ZERO = aws_cloudwatch.YAxisProps(min=0)


_INTRODUCTION = """\
**Holdfast**: error budgets are those of the time shown, four weeks unless you choose another: 100 % is an unused budget, \
less than 0 % an overspent one. An alarm's description names its section of {runbook}; `docs/metrics.md` explains \
every metric. Exact figures and single cases: `holdfast interruptions stats`, `list` and `show`."""


def _introduction(runbook_url: str | None) -> aws_cloudwatch.IWidget:
    runbook = "`docs/runbook.md`" if runbook_url is None else f"[the runbook]({runbook_url})"
    return aws_cloudwatch.TextWidget(markdown=_INTRODUCTION.format(runbook=runbook), width=2 * _HALF, height=2)


def _search(metric: MetricName, dimensions: Sequence[str], cluster: str, label: str) -> aws_cloudwatch.IMetric:
    """A search shows the values that there were, whichever they are; it has to name all dimensions of the metric."""
    assert tuple(dimensions) in metric.dimensions
    found = f"""{{{",".join((NAMESPACE, *dimensions))}}} MetricName="{metric}" cluster="{cluster}\""""
    return aws_cloudwatch.SearchExpression(
        expression=f"SEARCH('{found}', 'Sum', {_DAY.to_seconds()})", label=label, period=_DAY
    )


def _handling(cluster: str) -> list[aws_cloudwatch.IWidget]:
    (dimensions,) = MetricName.VERDICTS.dimensions
    verdicts = _search(MetricName.VERDICTS, dimensions, cluster, "${PROP('Dim.verdict')}")
    share = own_metric(MetricName.HANDLED_IN_TIME, "Average", _WINDOW, cluster=cluster)
    of = own_metric(MetricName.HANDLED_IN_TIME, "SampleCount", _WINDOW, cluster=cluster)
    reaction = own_metric(MetricName.REACTION_SECONDS, "p95", _DAY, cluster=cluster)
    drain = own_metric(MetricName.DRAIN_SECONDS, "p99", _DAY, cluster=cluster)
    return [
        aws_cloudwatch.GraphWidget(
            title=f"{cluster}: verdicts per day",
            left=[verdicts],
            stacked=True,
            left_y_axis=_FROM_ZERO,
            width=_THIRD,
            height=_HEIGHT,
        ),
        aws_cloudwatch.SingleValueWidget(
            title=f"{cluster}: Spot terminations handled in time",
            metrics=[
                aws_cloudwatch.MathExpression(
                    expression="100 * share", using_metrics={"share": share}, label="percent", period=_WINDOW
                ),
                of.with_(label="of so many"),
            ],
            # One number for the whole time that is shown, which begins as the four weeks of the objectives.
            set_period_to_time_range=True,
            width=_THIRD,
            height=_HEIGHT,
        ),
        aws_cloudwatch.GraphWidget(
            title=f"{cluster}: seconds from the warning",
            left=[reaction.with_(label="NodeClaim deleted, p95"), drain.with_(label="drained, p99")],
            left_annotations=[_line(120, "EC2 takes the instance")],
            left_y_axis=_FROM_ZERO,
            width=_THIRD,
            height=_HEIGHT,
        ),
    ]


def _objectives(cluster: str) -> list[aws_cloudwatch.IWidget]:
    counted = {Verdict.MISSED: "missed (budget: 1)", Verdict.INCONCLUSIVE: "not judged (budget: 1 % of all)"}
    return [
        aws_cloudwatch.SingleValueWidget(
            title=f"{cluster}: error budgets left",
            metrics=[
                _budget_left("handled", MetricName.HANDLED_IN_TIME, HANDLED, "handled in time, %", cluster=cluster),
                _budget_left(
                    "verdict", MetricName.VERDICTS_IN_TIME, VERDICT_P99, "verdict in 600 s, %", cluster=cluster
                ),
                *(
                    own_metric(MetricName.VERDICTS, "Sum", _WINDOW, cluster=cluster, verdict=verdict.value).with_(
                        label=label
                    )
                    for verdict, label in counted.items()
                ),
            ],
            set_period_to_time_range=True,
            width=_HALF,
            height=_HEIGHT,
        ),
        aws_cloudwatch.GraphWidget(
            title=f"{cluster}: seconds from the warning to the audit",
            left=[
                own_metric(metric, statistic, _DAY, cluster=cluster).with_(label=f"{what}, {statistic}")
                for metric, what in (
                    (MetricName.FIRST_LOOK_SECONDS, "first look"),
                    (MetricName.VERDICT_SECONDS, "verdict"),
                )
                for statistic in ("p95", "p99")
            ],
            left_annotations=[
                _line(FIRST_LOOK_P95.value, "first look, p95"),
                _line(VERDICT_P95.value, "verdict, p95"),
                _line(VERDICT_P99.value, "verdict, p99"),
            ],
            left_y_axis=_FROM_ZERO,
            width=_HALF,
            height=_HEIGHT,
        ),
    ]


def _rates(cluster: str) -> list[aws_cloudwatch.IWidget]:
    told_by = {
        ("service", "cluster", "nodepool", "kind"): (
            "NodePool and kind",
            "${PROP('Dim.nodepool')} ${PROP('Dim.kind')}",
        ),
        ("service", "cluster", "instance_type"): ("instance type", "${PROP('Dim.instance_type')}"),
        ("service", "cluster", "zone"): ("zone", "${PROP('Dim.zone')}"),
    }
    return [
        aws_cloudwatch.GraphWidget(
            title=f"{cluster}: interruptions per day, by {what}",
            left=[_search(MetricName.INTERRUPTIONS, dimensions, cluster, label)],
            stacked=True,
            left_y_axis=_FROM_ZERO,
            width=_THIRD,
            height=_HEIGHT,
        )
        for dimensions, (what, label) in told_by.items()
    ]


def _budget_left(key: str, metric: MetricName, target: Target, label: str, **dimensions: str) -> aws_cloudwatch.IMetric:
    """Of a metric that is 1 for each good event and 0 for each bad one: 100 less the percent of the budget used.

    `key` is what its parts are called in the widget, which has no two of a name.
    """
    good, events = f"{key}Good", f"{key}Events"
    return aws_cloudwatch.MathExpression(
        expression=f"100 - ({events} - {good}) / {events} * {100 * 100 / target.percent:g}",
        using_metrics={
            good: own_metric(metric, "Sum", _WINDOW, **dimensions),
            events: own_metric(metric, "SampleCount", _WINDOW, **dimensions),
        },
        label=label,
        period=_WINDOW,
    )


def _facts_budget() -> aws_cloudwatch.IWidget:
    return aws_cloudwatch.SingleValueWidget(
        title="Events in the ledger within 60 s: error budget left",
        metrics=[_budget_left("fact", MetricName.FACTS_IN_TIME, FACT_P99, "percent")],
        set_period_to_time_range=True,
        width=_THIRD,
        height=_HEIGHT,
    )


def _facts() -> aws_cloudwatch.IWidget:
    return aws_cloudwatch.GraphWidget(
        title="Seconds from the event to the ledger",
        left=[
            own_metric(MetricName.FACT_LAG_SECONDS, statistic, _FIVE_MINUTES).with_(label=statistic)
            for statistic in ("p95", "p99")
        ],
        left_annotations=[_line(FACT_P95.value, "p95"), _line(FACT_P99.value, "p99")],
        left_y_axis=_FROM_ZERO,
        width=_THIRD,
        height=_HEIGHT,
    )


def _alerts() -> aws_cloudwatch.IWidget:
    return aws_cloudwatch.GraphWidget(
        title="Seconds from deciding an alert to telling it",
        left=[own_metric(MetricName.ALERT_LAG_SECONDS, "p95", _FIVE_MINUTES).with_(label="p95")],
        left_annotations=[_line(ALERT_P95.value, "p95")],
        left_y_axis=_FROM_ZERO,
        width=_THIRD,
        height=_HEIGHT,
    )


def _sweeper() -> aws_cloudwatch.IWidget:
    return aws_cloudwatch.GraphWidget(
        title="Sweeper",
        left=[
            own_metric(MetricName.SWEEPER_HEARTBEAT, "Sum", _FIVE_MINUTES).with_(label="sweeps in five minutes"),
            own_metric(MetricName.OVERDUE_LOOKS, "Maximum", _FIVE_MINUTES).with_(label="overdue looks"),
        ],
        right=[own_metric(MetricName.OLDEST_OVERDUE_SECONDS, "Maximum", _FIVE_MINUTES).with_(label="latest, seconds")],
        right_annotations=[_line(OVERDUE_LOOKS.total_seconds(), "alarm")],
        left_y_axis=_FROM_ZERO,
        right_y_axis=_FROM_ZERO,
        width=_THIRD,
        height=_HEIGHT,
    )


def _outbox() -> aws_cloudwatch.IWidget:
    return aws_cloudwatch.GraphWidget(
        title="Alerts",
        left=[
            own_metric(MetricName.ALERTS_TOLD, "Sum", _FIVE_MINUTES).with_(label="told"),
            own_metric(MetricName.ALERTS_UNDELIVERABLE, "Sum", _FIVE_MINUTES).with_(label="runs refused for good"),
        ],
        right=[own_metric(MetricName.OUTBOX_AGE_SECONDS, "Maximum", _FIVE_MINUTES).with_(label="oldest, seconds")],
        right_annotations=[_line(OUTBOX_AGE.total_seconds(), "alarm")],
        left_y_axis=_FROM_ZERO,
        right_y_axis=_FROM_ZERO,
        width=_THIRD,
        height=_HEIGHT,
    )


def _ingest() -> aws_cloudwatch.IWidget:
    return aws_cloudwatch.GraphWidget(
        title="Events",
        left=[
            own_metric(MetricName.FACTS_STORED, "Sum", _FIVE_MINUTES).with_(label="facts"),
            own_metric(MetricName.POISON_MESSAGES, "Sum", _FIVE_MINUTES).with_(label="unreadable"),
            own_metric(MetricName.BLIND_LOOKS, "Sum", _FIVE_MINUTES).with_(label="looks without an answer"),
        ],
        left_y_axis=_FROM_ZERO,
        width=_THIRD,
        height=_HEIGHT,
    )


def _age(queue: str) -> aws_cloudwatch.Metric:
    return _queue(queue, "ApproximateAgeOfOldestMessage")


def _queue(queue: str, metric: str) -> aws_cloudwatch.Metric:
    return aws_cloudwatch.Metric(
        namespace="AWS/SQS",
        metric_name=metric,
        dimensions_map={"QueueName": queue},
        statistic="Maximum",
        period=_FIVE_MINUTES,
        label=queue,
    )


def _line(value: float, label: str) -> aws_cloudwatch.HorizontalAnnotation:
    return aws_cloudwatch.HorizontalAnnotation(value=value, label=label)
