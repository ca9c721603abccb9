"""How the alerts look at a destination: one message for one alert, or one for many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from holdfast.alerts.alert import Alert
from holdfast.alerts.digest import SINGLY, by_cluster, digest_payload, plain_digest
from holdfast.alerts.links import Links
from holdfast.alerts.mail import mail_digest, mail_payload, plain_mail
from holdfast.alerts.message import plain_payload, slack_payload


@dataclass(frozen=True, slots=True)
class Message:
    """One post: the alerts it tells, as it should look, and plainer for a destination that refused that."""

    alerts: tuple[Alert, ...]
    payload: Mapping[str, Any]
    plain: Mapping[str, Any]


class Form(Protocol):
    """The looks of a kind of destination."""

    def one(self, alert: Alert) -> Message:
        """The message about one alert."""

    def digest(self, alerts: tuple[Alert, ...]) -> Message:
        """The message about many alerts, all of one cluster or all of none."""


@dataclass(frozen=True, slots=True)
class SlackForm:
    """Block Kit for an incoming webhook."""

    links: Links

    def one(self, alert: Alert) -> Message:
        """The message about one alert."""
        return Message((alert,), slack_payload(alert, self.links), plain_payload(alert))

    def digest(self, alerts: tuple[Alert, ...]) -> Message:
        """The message about many alerts, all of one cluster or all of none."""
        return Message(alerts, digest_payload(alerts, self.links), plain_digest(alerts))


@dataclass(frozen=True, slots=True)
class MailForm:
    """Subject, text and attributes for an SNS topic."""

    links: Links

    def one(self, alert: Alert) -> Message:
        """The message about one alert."""
        payload = mail_payload(alert, self.links)
        return Message((alert,), payload, plain_mail(payload))

    def digest(self, alerts: tuple[Alert, ...]) -> Message:
        """The message about many alerts, all of one cluster or all of none."""
        payload = mail_digest(alerts, self.links)
        return Message(alerts, payload, plain_mail(payload))


def messages(alerts: Sequence[Alert], form: Form) -> list[Message]:
    """The fewest messages that tell the alerts: up to three of a cluster each in its own, more in one digest.

    With one that belongs into a digest, two are a digest already.
    """
    found: list[Message] = []
    for members in by_cluster(alerts).values():
        singly = 1 if any(alert.in_digest for alert in members) else SINGLY
        found += [form.digest(members)] if len(members) > singly else [form.one(alert) for alert in members]
    return found
