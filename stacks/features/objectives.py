"""Alarms on error budgets that burn too fast, and on many interruptions at once.

CloudWatch's metric math has one window for an alarm, so a budget has two alarms: a fast one that pages and a slow one
that warns, each with the burn rate and the window of chapter 5 of Google's Site Reliability Workbook. The workbook's
second, short window lets an alert end soon; it would need a composite alarm each, and an alarm tells only that it begins.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Duration, aws_cloudwatch
from constructs import Construct

from holdfast.runtime.config import Cluster, HoldfastConfig
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.objectives import FACT_P99, HANDLED, MISSED, VERDICT_P99, Kind, Target, Verdict
from stacks.constructs.alarms import Alarms, Runbook, Urgency, own_metric


@dataclass(frozen=True, slots=True)
class Burn:
    """A pace of spending an error budget: `rate` times the pace that uses it up in four weeks, measured over `window`."""

    id: str
    window: Duration
    rate: float
    urgency: Urgency
    says: str


BURNS = (
    Burn(
        "Fast",
        Duration.hours(1),
        14.4,
        Urgency.PAGE,
        "At the pace of the last hour four weeks' error budget is gone in two days.",
    ),
    Burn(
        "Slow",
        Duration.days(3),
        1,
        Urgency.WARNING,
        "At the pace of the last three days the error budget does not last four weeks.",
    ),
)

FEWEST = 3
"""So many bad events at least make an alarm: one of three is a bad share, and no reason to wake anybody."""

MISSED_WITHIN = Duration.days(7)
"""The longest that CloudWatch lets an alarm look back (PutMetricAlarm, Period)."""

RATE_WITHIN = Duration.minutes(10)


class Objectives(Construct):
    """The alarms of one account and region on what docs/interruptions.md promises, and on the rate of interruptions."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: HoldfastConfig,
        clusters: Sequence[Cluster],
        alarms: Alarms,
    ) -> None:
        """`clusters` are those of this account and region."""
        super().__init__(scope, construct_id)
        self._alarms = alarms
        self._budget(
            self,
            "Facts",
            MetricName.FACTS_IN_TIME,
            FACT_P99,
            says=f"Events reach the ledger later than {FACT_P99.value:g} s after they happened.",
            runbook=Runbook.FACTS_LATE,
        )
        for cluster in clusters:
            self._cluster(cluster.name, config.audit.interruption_rate)

    def _cluster(self, name: str, rate: int) -> None:
        scope = Construct(self, name)
        self._budget(
            scope,
            "Verdicts",
            MetricName.VERDICTS_IN_TIME,
            VERDICT_P99,
            says=f"Verdicts on {name} come later than {VERDICT_P99.value:g} s after the warning.",
            runbook=Runbook.VERDICTS_LATE,
            cluster=name,
        )
        self._budget(
            scope,
            "Handled",
            MetricName.HANDLED_IN_TIME,
            HANDLED,
            says=f"Karpenter does not get the pods of {name} off in time.",
            runbook=Runbook.NOT_HANDLED_IN_TIME,
            cluster=name,
        )
        self._alarms.above(
            scope,
            "Missed",
            metric=own_metric(MetricName.VERDICTS, "Sum", MISSED_WITHIN, cluster=name, verdict=Verdict.MISSED.value),
            limit=MISSED.value,
            says=f"Karpenter missed more than one warning of {name} in a week; the budget is one in four weeks.",
            runbook=Runbook.WARNINGS_MISSED,
            urgency=Urgency.PAGE,
        )
        self._alarms.above(
            scope,
            "ManyInterruptions",
            metric=own_metric(MetricName.INTERRUPTIONS, "Sum", RATE_WITHIN, cluster=name, kind=Kind.SPOT_WARNING.value),
            limit=rate - 1,
            says=f"EC2 takes {rate} or more Spot instances of {name} within {RATE_WITHIN.to_minutes()} minutes.",
            runbook=Runbook.MANY_INTERRUPTIONS,
        )

    def _budget(
        self,
        scope: Construct,
        construct_id: str,
        metric: MetricName,
        target: Target,
        *,
        says: str,
        runbook: Runbook,
        **dimensions: str,
    ) -> None:
        """Two alarms on a metric that is 1 for each good event and 0 for each bad one."""
        for burn in BURNS:
            self._alarms.above(
                scope,
                f"{construct_id}{burn.id}",
                metric=aws_cloudwatch.MathExpression(
                    # The bad share, as so many times the share that the objective allows.
                    expression=f"IF(events - good >= {FEWEST}, (events - good) / events * {100 / target.percent:g}, 0)",
                    using_metrics={
                        "good": own_metric(metric, "Sum", burn.window, **dimensions),
                        "events": own_metric(metric, "SampleCount", burn.window, **dimensions),
                    },
                    label="times too fast",
                    period=burn.window,
                ),
                limit=burn.rate,
                says=f"{says} {burn.says}",
                runbook=runbook,
                urgency=burn.urgency,
            )
