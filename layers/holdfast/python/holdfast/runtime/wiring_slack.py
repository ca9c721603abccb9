"""What alert_notifier is made of: the only function that talks to Slack."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

from holdfast.adapters import clients
from holdfast.adapters.outbox import DynamoOutbox
from holdfast.adapters.secrets import WebhookSecret
from holdfast.adapters.slack import SlackMessenger
from holdfast.adapters.sqs import SqsWakeups, parse_wakeup
from holdfast.runtime.settings import NotifierSettings, parse_seconds


@dataclass(frozen=True, slots=True)
class Notifier:
    """What alert_notifier works with."""

    outbox: DynamoOutbox
    messenger: SlackMessenger
    wakeups: SqsWakeups
    parse_wakeup: Callable[[str], tuple[str, ...]]
    window: timedelta


@cache
def notifier() -> Notifier:
    """The parts of alert_notifier.

    Raises:
        SettingsError: the environment is not what `cdk deploy` makes.
    """
    settings = NotifierSettings.from_env(os.environ)
    return Notifier(
        outbox=DynamoOutbox(clients.dynamodb(settings.region), settings.table),
        messenger=SlackMessenger(WebhookSecret(clients.secretsmanager(settings.region), settings.webhook_secret)),
        wakeups=SqsWakeups(clients.sqs(settings.region), settings.wakeup_queue),
        parse_wakeup=parse_wakeup,
        window=parse_seconds(settings.digest_window, "digest_window"),
    )
