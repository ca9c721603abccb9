"""What a function takes from its environment, written by the stack and read by the handler through the same class.

The environment holds names that CloudFormation resolves and small scalars only; everything else is in the configuration
file of the config layer. Secrets are there by name, never by value.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any, ClassVar, Self

from holdfast.errors import SettingsError

PREFIX = "HOLDFAST_"

NONE = "none"
"""The value of a setting that says there is no such thing; an empty one was forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Base of the settings of all functions. Every field is text in a variable named after it."""

    service: ClassVar[str]

    def to_env(self) -> dict[str, str]:
        """The variables that `from_env` reads back into an equal object."""
        return {variable(field.name): getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Self:
        """The settings in `environ`.

        Raises:
            SettingsError: variables are missing or empty; the message names all of them.
        """
        values = {field.name: environ.get(variable(field.name), "") for field in fields(cls)}
        missing = [variable(name) for name, value in values.items() if not value]
        if missing:
            raise SettingsError(
                f"{cls.service} needs the environment variables {', '.join(missing)}: they are set by `cdk deploy`"
            )
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookSettings(Settings):
    """Of the functions that ask for looks. `look_queues` is a JSON object: network id to recheck queue URL."""

    account: str
    region: str
    table: str
    look_queues: str
    wakeup_queue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestSettings(LookSettings):
    """Of interruption_ingest."""

    service: ClassVar[str] = "interruption_ingest"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeSettings(LookSettings):
    """Of interruption_judge, one function per network."""

    service: ClassVar[str] = "interruption_judge"

    network: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SweeperSettings(LookSettings):
    """Of interruption_sweeper."""

    service: ClassVar[str] = "interruption_sweeper"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierSettings(Settings):
    """Of alert_notifier. `webhooks` is a JSON object: destination to the name of the secret that holds the webhook's URL.

    `topic` is the ARN of the topic that alerts are published to, `runbook_url` where the runbook's sections can be read,
    `quiet_hours` `FROM-TO ZONE`; each of these is `none` when there is none. `digest_window` are the seconds for which
    alerts are gathered after a message.
    """

    service: ClassVar[str] = "alert_notifier"

    account: str
    region: str
    table: str
    wakeup_queue: str
    webhooks: str
    topic: str
    digest_window: str
    quiet_hours: str
    runbook_url: str
    dashboard_url: str


def parse_seconds(text: str, name: str) -> timedelta:
    """The duration in a settings field.

    Raises:
        SettingsError: it is no whole number of seconds.
    """
    if not text.isdecimal():
        raise SettingsError(f"{variable(name)} must be whole seconds, here {text!r}: it is set by `cdk deploy`")
    return timedelta(seconds=int(text))


def optional(text: str) -> str | None:
    """The value of a settings field that may be `none`."""
    return None if text == NONE else text


def parse_webhooks(text: str) -> dict[str, str]:
    """The name of the webhook's secret of each Slack destination.

    Raises:
        SettingsError: the text is not a JSON object of texts.
    """
    return _texts(text, "webhooks", "destinations to secret names, for example {'slack': 'holdfast/slack-webhook'}")


def variable(name: str) -> str:
    """The environment variable of a settings field."""
    return f"{PREFIX}{name.upper()}"


def parse_look_queues(text: str) -> dict[str, str]:
    """The queue URL of each network.

    Raises:
        SettingsError: the text is not a JSON object of texts, or it is empty.
    """
    what = "network ids to queue URLs, for example {'public': 'https://…'}"
    found = _texts(text, "look_queues", what)
    if not found:
        raise SettingsError(f"{variable('look_queues')} must map {what}")
    return found


def _texts(text: str, name: str, what: str) -> dict[str, str]:
    try:
        value: Any = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"{variable(name)} is not JSON: {error}") from error
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise SettingsError(f"{variable(name)} must map {what}")
    return value
