"""The dashboard of one account and region: how interruptions were handled, and whether the audit itself works."""

from collections.abc import Iterable, Sequence

from aws_cdk import CfnOutput, Duration, aws_cloudwatch
from constructs import Construct

from holdfast.runtime import names
from holdfast.runtime.config import Cluster, HoldfastConfig
from holdfast.runtime.metric_names import NAMESPACE, MetricName
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
        for cluster in clusters:
            dashboard.add_widgets(*_handling(cluster.name))
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


def _handling(cluster: str) -> list[aws_cloudwatch.IWidget]:
    # A search shows the verdicts that there were, whichever they are; it has to name all dimensions of the metric.
    (dimensions,) = MetricName.VERDICTS.dimensions
    found = f"""{{{",".join((NAMESPACE, *dimensions))}}} MetricName="{MetricName.VERDICTS}" cluster="{cluster}\""""
    verdicts = aws_cloudwatch.SearchExpression(
        expression=f"SEARCH('{found}', 'Sum', {_DAY.to_seconds()})", label="${PROP('Dim.verdict')}", period=_DAY
    )
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
        right=[own_metric(MetricName.INGEST_LAG_SECONDS, "p95", _FIVE_MINUTES).with_(label="lag, seconds, p95")],
        left_y_axis=_FROM_ZERO,
        right_y_axis=_FROM_ZERO,
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
