"""Alarms: what each one means, when it fires, and where the runbook goes on.

All of them notify one SNS topic, so that they reach people by a way that needs neither Slack nor any function of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from aws_cdk import Duration, aws_cloudwatch, aws_cloudwatch_actions, aws_lambda, aws_sns, aws_sqs
from constructs import Construct

from holdfast.runtime.metric_names import NAMESPACE, MetricName

KARPENTER_QUEUE_WARNING = timedelta(seconds=30)
KARPENTER_QUEUE_PAGE = timedelta(seconds=60)
"""A Spot warning is two minutes long: a message that waited for one of them leaves Karpenter half of the time."""

AUDIT_QUEUE_LAG = timedelta(seconds=120)
OVERDUE_LOOKS = timedelta(seconds=300)
OUTBOX_AGE = timedelta(seconds=600)
CANARY_LATE = timedelta(seconds=60)
CANARY_MINUTES = 3
DRIFT_MINUTES = 10
"""Twice as long as the sweeper takes to ask again for what EventBridge would not tell."""

_MINUTE = Duration.minutes(1)
_RULE_METRICS = {
    "FailedInvocations": "EventBridge could not deliver events to the queue.",
    "InvocationsSentToDlq": "EventBridge gave up on events and put them into the queue's undelivered queue.",
    "InvocationsFailedToBeSentToDlq": "EventBridge lost events: neither the queue nor its undelivered queue took them.",
    "ThrottledRules": "EventBridge is throttled: events arrive late.",
}


class Runbook(StrEnum):
    """The headings of docs/runbook.md that alarms point at."""

    KARPENTER_QUEUE_AGE = "karpenter-queue-age"
    KARPENTER_NOT_POLLING = "karpenter-not-polling"
    DEAD_LETTERS = "dead-letters"
    UNDELIVERED_EVENTS = "undelivered-events"
    EVENT_DELIVERY = "event-delivery"
    AUDIT_QUEUE_AGE = "audit-queue-age"
    FUNCTION_ERRORS = "function-errors"
    SWEEPER_SILENT = "sweeper-silent"
    OVERDUE_LOOKS = "overdue-looks"
    ALERTS_WAITING = "alerts-waiting"
    ALERTS_UNDELIVERABLE = "alerts-undeliverable"
    CANARY = "canary"
    RULE_DRIFT = "rule-drift"
    FACTS_LATE = "facts-late"
    VERDICTS_LATE = "verdicts-late"
    NOT_HANDLED_IN_TIME = "not-handled-in-time"
    WARNINGS_MISSED = "warnings-missed"
    MANY_INTERRUPTIONS = "many-interruptions"


class Urgency(StrEnum):
    """How soon somebody should look; the first word of an alarm's description."""

    PAGE = "PAGE"
    WARNING = "WARNING"


@dataclass(frozen=True, slots=True)
class Alarms:
    """Makes alarms that notify `topic`."""

    topic: aws_sns.ITopic

    def above(
        self,
        scope: Construct,
        construct_id: str,
        *,
        metric: aws_cloudwatch.IMetric,
        limit: float,
        says: str,
        runbook: Runbook,
        urgency: Urgency = Urgency.WARNING,
    ) -> None:
        """Fires when the value of the metric's last period is above `limit`; no data is fine."""
        alarm = aws_cloudwatch.Alarm(
            scope,
            construct_id,
            metric=metric,
            threshold=limit,
            comparison_operator=aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=1,
            treat_missing_data=aws_cloudwatch.TreatMissingData.NOT_BREACHING,
            alarm_description=_description(urgency, says, runbook),
        )
        alarm.add_alarm_action(aws_cloudwatch_actions.SnsAction(self.topic))

    def silent(
        self,
        scope: Construct,
        construct_id: str,
        *,
        metric: aws_cloudwatch.IMetric,
        minutes: int,
        says: str,
        runbook: Runbook,
    ) -> None:
        """Fires when the metric was zero, or not there, for so many minutes on end."""
        alarm = aws_cloudwatch.Alarm(
            scope,
            construct_id,
            metric=metric,
            threshold=1,
            comparison_operator=aws_cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            evaluation_periods=minutes,
            treat_missing_data=aws_cloudwatch.TreatMissingData.BREACHING,
            alarm_description=_description(Urgency.PAGE, says, runbook),
        )
        alarm.add_alarm_action(aws_cloudwatch_actions.SnsAction(self.topic))

    def queue_age(
        self,
        scope: Construct,
        construct_id: str,
        queue: aws_sqs.IQueue,
        *,
        limit: timedelta,
        says: str,
        runbook: Runbook,
        urgency: Urgency,
    ) -> None:
        """Fires when a message has waited longer than `limit`."""
        self.above(
            scope,
            construct_id,
            metric=queue.metric_approximate_age_of_oldest_message(period=_MINUTE, statistic="Maximum"),
            limit=limit.total_seconds(),
            says=says,
            runbook=runbook,
            urgency=urgency,
        )

    def dead_letters(self, scope: Construct, construct_id: str, queue: aws_sqs.IQueue) -> None:
        """Fires while a message is in the dead-letter queue.

        By depth: NumberOfMessagesSent does not count what a redrive moves there (SQS guide, available metrics).
        """
        self._not_empty(scope, construct_id, queue, "Messages failed until they were put aside.", Runbook.DEAD_LETTERS)

    def undelivered(self, scope: Construct, construct_id: str, queue: aws_sqs.IQueue) -> None:
        """Fires while an event that EventBridge could not deliver is kept."""
        self._not_empty(
            scope, construct_id, queue, "Events could not be delivered to their queue.", Runbook.UNDELIVERED_EVENTS
        )

    def _not_empty(
        self, scope: Construct, construct_id: str, queue: aws_sqs.IQueue, says: str, runbook: Runbook
    ) -> None:
        self.above(
            scope,
            construct_id,
            metric=queue.metric_approximate_number_of_messages_visible(period=_MINUTE, statistic="Maximum"),
            limit=0,
            says=says,
            runbook=runbook,
            urgency=Urgency.PAGE,
        )

    def rules(self, scope: Construct, rule_names: Sequence[str]) -> None:
        """Fires when EventBridge fails, loses, or throttles what these rules match (at most ten: one alarm's limit)."""
        for name, says in _RULE_METRICS.items():
            each: dict[str, aws_cloudwatch.IMetric] = {
                f"rule{number}": aws_cloudwatch.Metric(
                    namespace="AWS/Events",
                    metric_name=name,
                    dimensions_map={"RuleName": rule},
                    statistic="Sum",
                    period=_MINUTE,
                )
                for number, rule in enumerate(rule_names, start=1)
            }
            self.above(
                scope,
                f"{name}Alarm",
                metric=aws_cloudwatch.MathExpression(
                    expression="SUM(METRICS())", using_metrics=each, label=name, period=_MINUTE
                ),
                limit=0,
                says=says,
                runbook=Runbook.EVENT_DELIVERY,
                urgency=Urgency.PAGE,
            )

    def karpenter_not_polling(self, scope: Construct, construct_id: str, queue: aws_sqs.IQueue) -> None:
        """Fires when nobody asked Karpenter's queue for messages for five minutes: the controller polls without pause."""
        self.silent(
            scope,
            construct_id,
            metric=aws_cloudwatch.MathExpression(
                expression="FILL(empty, 0) + FILL(received, 0)",
                using_metrics={
                    "empty": queue.metric_number_of_empty_receives(period=_MINUTE, statistic="Sum"),
                    "received": queue.metric_number_of_messages_received(period=_MINUTE, statistic="Sum"),
                },
                label="Receives",
                period=_MINUTE,
            ),
            minutes=5,
            says="Karpenter does not poll its queue: no interruption is handled.",
            runbook=Runbook.KARPENTER_NOT_POLLING,
        )

    def function_errors(self, scope: Construct, construct_id: str, function: aws_lambda.IFunction) -> None:
        """Fires when a run of the function failed."""
        self.above(
            scope,
            construct_id,
            metric=function.metric_errors(period=_MINUTE, statistic="Sum"),
            limit=0,
            says="A run of the function failed. Its messages are tried again.",
            runbook=Runbook.FUNCTION_ERRORS,
        )

    def sweeper(self, scope: Construct) -> None:
        """Fires when the sweeper is silent, or finds looks that nobody makes."""
        self.silent(
            scope,
            "SilentAlarm",
            metric=own_metric(MetricName.SWEEPER_HEARTBEAT, "Sum"),
            minutes=5,
            says="The sweeper has not finished a sweep for five minutes: lost looks and alerts stay lost.",
            runbook=Runbook.SWEEPER_SILENT,
        )
        self.above(
            scope,
            "OverdueLooksAlarm",
            metric=own_metric(MetricName.OLDEST_OVERDUE_SECONDS, "Maximum"),
            limit=OVERDUE_LOOKS.total_seconds(),
            says="Looks at interrupted instances are overdue: verdicts are late.",
            runbook=Runbook.OVERDUE_LOOKS,
        )

    def self_check(self, scope: Construct) -> None:
        """Fires when the canary does not arrive, is not sent or is not known of, and when rules are not as deployed."""
        canary = aws_cloudwatch.Alarm(
            scope,
            "CanaryAlarm",
            metric=own_metric(MetricName.CANARY_SECONDS, "Maximum"),
            threshold=CANARY_LATE.total_seconds(),
            comparison_operator=aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=CANARY_MINUTES,
            # Each sweep tells of the canary, so no word of it is bad news.
            treat_missing_data=aws_cloudwatch.TreatMissingData.BREACHING,
            alarm_description=_description(
                Urgency.PAGE,
                "The hourly canary did not reach the ledger in a minute: the audit may be deaf.",
                Runbook.CANARY,
            ),
        )
        drift = aws_cloudwatch.Alarm(
            scope,
            "RuleDriftAlarm",
            metric=own_metric(MetricName.RULE_DRIFT, "Maximum"),
            threshold=0,
            comparison_operator=aws_cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            evaluation_periods=DRIFT_MINUTES,
            treat_missing_data=aws_cloudwatch.TreatMissingData.BREACHING,
            alarm_description=_description(
                Urgency.PAGE,
                "Rules that feed Karpenter or the audit are not as deployed, or it is not known.",
                Runbook.RULE_DRIFT,
            ),
        )
        for alarm in (canary, drift):
            alarm.add_alarm_action(aws_cloudwatch_actions.SnsAction(self.topic))

    def notifier(self, scope: Construct) -> None:
        """Fires when alerts wait in an outbox though they might be told, or a destination takes none."""
        self.above(
            scope,
            "AlertsWaitingAlarm",
            metric=own_metric(MetricName.OUTBOX_AGE_SECONDS, "Maximum"),
            limit=OUTBOX_AGE.total_seconds(),
            says="Alerts have waited for ten minutes: people are not told what the audit found.",
            runbook=Runbook.ALERTS_WAITING,
            urgency=Urgency.PAGE,
        )
        self.above(
            scope,
            "UndeliverableAlarm",
            metric=own_metric(MetricName.ALERTS_UNDELIVERABLE, "Sum"),
            limit=0,
            says="A destination of alerts refuses them for good: a webhook of Slack, or the SNS topic.",
            runbook=Runbook.ALERTS_UNDELIVERABLE,
            urgency=Urgency.PAGE,
        )


def _description(urgency: Urgency, says: str, runbook: Runbook) -> str:
    return f"{urgency}: {says} See docs/runbook.md#{runbook}"


def own_metric(name: MetricName, statistic: str, period: Duration = _MINUTE, **further: str) -> aws_cloudwatch.Metric:
    """A metric of the functions'; `further` are the dimensions it has beside `service`."""
    return aws_cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name.value,
        dimensions_map={"service": name.service, **further},
        statistic=statistic,
        period=period,
    )
