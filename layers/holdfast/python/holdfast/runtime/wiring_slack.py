"""What alert_notifier is made of: the only function that tells people, in Slack and by SNS."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import time
from functools import cache

from holdfast.adapters import clients
from holdfast.adapters.outbox import DynamoOutbox
from holdfast.adapters.secrets import WebhookSecret
from holdfast.adapters.slack import SlackMessenger
from holdfast.adapters.sns import SnsMessenger
from holdfast.adapters.wakeups import SqsWakeups, parse_wakeup
from holdfast.alerts.deliver import Destination, Pace
from holdfast.alerts.forms import Form, MailForm, SlackForm
from holdfast.alerts.links import Links
from holdfast.alerts.quiet import QuietHours
from holdfast.alerts.route import TOPIC
from holdfast.errors import SettingsError
from holdfast.ports import Messenger, Wakeup
from holdfast.runtime.settings import NotifierSettings, optional, parse_seconds, parse_webhooks, variable


@dataclass(frozen=True, slots=True)
class Notifier:
    """What alert_notifier works with."""

    destinations: tuple[Destination, ...]
    pace: Pace
    parse_wakeup: Callable[[str], Wakeup]


@cache
def notifier() -> Notifier:
    """The parts of alert_notifier.

    Raises:
        SettingsError: the environment is not what `cdk deploy` makes.
    """
    settings = NotifierSettings.from_env(os.environ)
    links = Links(optional(settings.runbook_url), optional(settings.dashboard_url))

    def destination(name: str, messenger: Messenger, form: Form) -> Destination:
        return Destination(
            name,
            DynamoOutbox(clients.dynamodb(settings.region), settings.table, destination=name),
            messenger,
            form,
            SqsWakeups(clients.sqs(settings.region), settings.wakeup_queue, destination=name),
        )

    destinations = [
        destination(
            name, SlackMessenger(WebhookSecret(clients.secretsmanager(settings.region), secret)), SlackForm(links)
        )
        for name, secret in parse_webhooks(settings.webhooks).items()
    ]
    topic = optional(settings.topic)
    if topic is not None:
        region = topic.split(":")[3]
        destinations.append(destination(TOPIC, SnsMessenger(clients.sns(region), topic), MailForm(links)))
    return Notifier(
        tuple(destinations),
        Pace(parse_seconds(settings.digest_window, "digest_window"), parse_quiet_hours(settings.quiet_hours)),
        parse_wakeup,
    )


def parse_quiet_hours(text: str) -> QuietHours | None:
    """The quiet hours in a settings field.

    Raises:
        SettingsError: it is not of that form, or there is no such time zone.
    """
    said = optional(text)
    if said is None:
        return None
    # Only who asked for quiet hours pays for the time zones at the cold start.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        hours, zone = said.split(" ")
        start, end = hours.split("-")
        return QuietHours(time.fromisoformat(start), time.fromisoformat(end), ZoneInfo(zone))
    except (ValueError, KeyError) as error:
        raise SettingsError(
            f"{variable('quiet_hours')} must be like 22:00-07:00 Europe/Berlin, here {text!r}: {error}"
        ) from error
