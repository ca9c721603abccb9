"""Telling people: the wake-up queue and the function that takes alerts from the outbox to Slack."""

from datetime import timedelta

from aws_cdk import Annotations, aws_dynamodb
from constructs import Construct

from holdfast.adapters import table
from holdfast.runtime import names
from holdfast.runtime.config import AUDIT_MAX_RECEIVE_COUNT, DEAD_LETTER_RETENTION, HoldfastConfig, Slack
from holdfast.runtime.settings import NotifierSettings
from stacks.constructs.alarms import Alarms
from stacks.constructs.arns import Arns
from stacks.constructs.event_queue import EventQueue, QueueSettings
from stacks.constructs.python_function import PythonFunction, consume
from stacks.constructs.python_layers import PythonLayers
from stacks.statement import Statement

NOTIFIER_TIMEOUT = timedelta(seconds=40)
"""Shorter than the lease on the webhook (holdfast.alerts.deliver, LEASE): no second one posts while the first runs."""

VISIBILITY_TIMEOUT = 6 * NOTIFIER_TIMEOUT
"""Six times the function's timeout (Lambda guide, using Lambda with SQS)."""

MAX_CONCURRENCY = 2
"""The least a mapping can have. One posts, by the lease; the other may find that out."""


class AlertDelivery(Construct):
    """The wake-up queue, and the notifier when Slack is configured.

    Without Slack the alerts stay in the outbox and the wake-ups expire unread.
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
    ) -> None:
        """`ledger` is the table that holds the outbox."""
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
        slack = config.alerts.slack
        if slack is None:
            Annotations.of(self).add_warning_v2(
                "holdfast:nobody-is-told",
                "alerts.slack is not configured: verdicts are kept, but nobody is told. Set"
                " alerts.slack.webhookSecretName in holdfast.yaml",
            )
            return
        self._notifier(slack, config, layers, alarms, ledger)
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
        slack: Slack,
        config: HoldfastConfig,
        layers: PythonLayers,
        alarms: Alarms,
        ledger: aws_dynamodb.ITable,
    ) -> None:
        arns = Arns.of(self)
        notifier = PythonFunction(
            self,
            "Notifier",
            source="alert_notifier",
            description="Takes alerts from the outbox to Slack",
            settings=NotifierSettings(
                account=arns.account,
                region=arns.region,
                table=ledger.table_name,
                wakeup_queue=self.wakeups.queue_url,
                webhook_secret=slack.webhook_secret_name,
                digest_window=str(int(config.alerts.digest_window.total_seconds())),
            ),
            statements=[
                consume("ReadWakeups", self.wakeups, "Lambda reads the wake-ups and deletes those that are done."),
                self.wake(),
                Statement(
                    sid="KeepOutbox",
                    reason="Takes and returns the lease on the webhook, finds the alerts the wake-up named, and marks"
                    " them as told.",
                    actions=["dynamodb:BatchGetItem", "dynamodb:UpdateItem"],
                    resources=[ledger.table_arn],
                ),
                Statement(
                    sid="FindWaitingAlerts",
                    reason="Finds the alerts that wait, oldest first.",
                    actions=["dynamodb:Query"],
                    resources=[f"{ledger.table_arn}/index/{table.OPEN.name}"],
                ),
                Statement(
                    sid="ReadWebhook",
                    reason="The webhook's URL is a secret; this is the only function that reads it, and the only secret"
                    " it reads. Secrets Manager appends six characters to the name.",
                    actions=["secretsmanager:GetSecretValue"],
                    resources=[arns.secret(slack.webhook_secret_name)],
                ),
            ],
            timeout=NOTIFIER_TIMEOUT,
            config=config,
            layers=layers,
            alarms=alarms,
        )
        notifier.read_from(self.wakeups, max_concurrency=MAX_CONCURRENCY)
