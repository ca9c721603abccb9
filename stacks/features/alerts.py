"""Telling people: the wake-up queue and the function that takes alerts from their outboxes to Slack and SNS."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import Annotations, aws_dynamodb
from constructs import Construct

from holdfast.adapters import table
from holdfast.runtime import names
from holdfast.runtime.config import AUDIT_MAX_RECEIVE_COUNT, DEAD_LETTER_RETENTION, HoldfastConfig, QuietHours
from holdfast.runtime.routes import webhooks_of
from holdfast.runtime.settings import NONE, NotifierSettings
from stacks.constructs.alarms import Alarms
from stacks.constructs.arns import Arns
from stacks.constructs.event_queue import EventQueue, QueueSettings
from stacks.constructs.python_function import PythonFunction, consume
from stacks.constructs.python_layers import PythonLayers
from stacks.features.observability import AlarmTopic
from stacks.statement import Statement

NOTIFIER_TIMEOUT = timedelta(seconds=40)
"""Shorter than the lease on a destination (holdfast.alerts.deliver, LEASE): no second one posts while the first runs."""

VISIBILITY_TIMEOUT = 6 * NOTIFIER_TIMEOUT
"""Six times the function's timeout (Lambda guide, using Lambda with SQS)."""

MAX_CONCURRENCY = 2
"""The least a mapping can have. One posts, by the lease; the other may find that out."""


@dataclass(frozen=True, slots=True)
class _Topic:
    """The topic that alerts are published to, and the key that encrypts it, if it has one of its own."""

    arn: str
    key_arn: str | None


class AlertDelivery(Construct):
    """The wake-up queue, and the notifier when Slack or SNS is configured.

    Without either the alerts stay in the outbox and the wake-ups expire unread.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: HoldfastConfig,
        layers: PythonLayers,
        alarms: Alarms,
        ledger: aws_dynamodb.ITable,
        topic: AlarmTopic,
    ) -> None:
        """`ledger` is the table that holds the outbox; `topic` is where alerts go by SNS unless a topic is configured."""
        super().__init__(scope, construct_id)
        self.wakeups = EventQueue(
            self,
            "Wakeups",
            name=names.alert_queue_name(config.name),
            settings=QueueSettings(
                retention=config.audit.queue_retention,
                visibility_timeout=VISIBILITY_TIMEOUT,
                max_receive_count=AUDIT_MAX_RECEIVE_COUNT,
                dead_letter_retention=DEAD_LETTER_RETENTION,
            ),
            alarms=alarms,
        ).queue
        if config.alerts.slack is None and config.alerts.sns is None:
            Annotations.of(self).add_warning_v2(
                "holdfast:nobody-is-told",
                "neither alerts.slack nor alerts.sns is configured: verdicts are kept, but nobody is told. Set"
                " alerts.slack.webhookSecretName in holdfast.yaml",
            )
            return
        self._notifier(config, layers, alarms, ledger, _topic(config, topic))
        alarms.notifier(self)

    def wake(self) -> Statement:
        """What a function needs to wake the notifier."""
        return Statement(
            sid="WakeNotifier",
            reason="Asks the notifier to look into the outbox.",
            actions=["sqs:SendMessage"],
            resources=[self.wakeups.queue_arn],
        )

    def _notifier(
        self,
        config: HoldfastConfig,
        layers: PythonLayers,
        alarms: Alarms,
        ledger: aws_dynamodb.ITable,
        topic: _Topic | None,
    ) -> None:
        arns = Arns.of(self)
        webhooks = webhooks_of(config, arns.account, arns.region)
        dashboard = names.dashboard_name(config.name, arns.region)
        notifier = PythonFunction(
            self,
            "Notifier",
            source="alert_notifier",
            description="Takes alerts from their outboxes to Slack and SNS",
            settings=NotifierSettings(
                account=arns.account,
                region=arns.region,
                table=ledger.table_name,
                wakeup_queue=self.wakeups.queue_url,
                webhooks=json.dumps(webhooks, separators=(",", ":")),
                topic=NONE if topic is None else topic.arn,
                digest_window=str(int(config.alerts.digest_window.total_seconds())),
                quiet_hours=_quiet_hours(config.alerts.quiet_hours),
                runbook_url=config.alerts.runbook_url or NONE,
                dashboard_url=names.dashboard_url(arns.partition, arns.region, dashboard),
            ),
            statements=[
                consume("ReadWakeups", self.wakeups, "Lambda reads the wake-ups and deletes those that are done."),
                self.wake(),
                Statement(
                    sid="KeepOutbox",
                    reason="Takes and returns the lease on a destination, finds the alerts the wake-up named, marks them as"
                    " told, and puts off what waits for quiet hours to end.",
                    actions=["dynamodb:BatchGetItem", "dynamodb:UpdateItem"],
                    resources=[ledger.table_arn],
                ),
                Statement(
                    sid="FindWaitingAlerts",
                    reason="Finds the alerts that wait, oldest first.",
                    actions=["dynamodb:Query"],
                    resources=[f"{ledger.table_arn}/index/{table.OPEN.name}"],
                ),
                *_read_webhooks(arns, list(webhooks.values())),
                *([] if topic is None else _publish(topic)),
            ],
            timeout=NOTIFIER_TIMEOUT,
            config=config,
            layers=layers,
            alarms=alarms,
        )
        notifier.read_from(self.wakeups, max_concurrency=MAX_CONCURRENCY)


def _topic(config: HoldfastConfig, own: AlarmTopic) -> _Topic | None:
    sns = config.alerts.sns
    if sns is None:
        return None
    if sns.topic_arn is None:
        return _Topic(own.topic.topic_arn, own.key.key_arn)
    return _Topic(sns.topic_arn, sns.key_arn)


def _quiet_hours(hours: QuietHours | None) -> str:
    return NONE if hours is None else f"{hours.start}-{hours.end} {hours.timezone}"


def _read_webhooks(arns: Arns, secrets: list[str]) -> Iterator[Statement]:
    if secrets:
        yield Statement(
            sid="ReadWebhook",
            reason="A webhook's URL is a secret; this is the only function that reads it, and the webhooks' are the only"
            " secrets it reads. Secrets Manager appends six characters to the name.",
            actions=["secretsmanager:GetSecretValue"],
            resources=[arns.secret(name) for name in secrets],
        )


def _publish(topic: _Topic) -> Iterator[Statement]:
    yield Statement(
        sid="PublishAlerts",
        reason="Alerts of the configured severities go to this topic, independent of Slack.",
        actions=["sns:Publish"],
        resources=[topic.arn],
    )
    if topic.key_arn is not None:
        yield Statement(
            sid="EncryptForTopic",
            reason="SNS encrypts a message with the topic's key in the name of whoever publishes it (SNS guide, key"
            " management).",
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=[topic.key_arn],
        )
