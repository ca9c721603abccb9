"""Wake-ups on the notifier's queue.

In a module of their own, as they are all of SQS that the notifier needs: it imports nothing about instances and clusters.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.errors import InvalidDocument
from holdfast.ports import Wakeup

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

LONGEST_DELAY: Final = timedelta(seconds=900)
"""SQS holds a message back no longer."""

_NAMED_ALERTS: Final = 100
"""Alerts that a wake-up names; the notifier finds all others by the outbox's index."""


class SqsWakeups:
    """The `Wakeups` port: the notifier's queue."""

    def __init__(self, client: SQSClient, queue_url: str, *, destination: str | None = None) -> None:
        """Sends to the queue of that URL, for one destination's outbox or for all."""
        self._client = client
        self._url = queue_url
        self._about = {} if destination is None else {"destination": destination}

    @calls("sqs:SendMessage")
    def wake(self, alert_ids: Sequence[str], *, delay: timedelta = timedelta(0)) -> None:
        """Asks the notifier to look into the outbox, for these alerts first, after `delay` (at most 15 minutes)."""
        with translated("waking the notifier", action="sqs:SendMessage", on=queue_name(self._url)):
            self._client.send_message(
                QueueUrl=self._url,
                MessageBody=json.dumps(
                    {"alerts": list(alert_ids[:_NAMED_ALERTS]), **self._about}, separators=(",", ":")
                ),
                DelaySeconds=delay_seconds(delay),
            )


def parse_wakeup(body: str) -> Wakeup:
    """The request in a message of the notifier's queue.

    Raises:
        InvalidDocument: the body is no wake-up.
    """
    try:
        message = json.loads(body)
        ids, destination = message["alerts"], message.get("destination")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidDocument(f"message is no wake-up: {error!r}") from error
    if not isinstance(ids, list) or not all(isinstance(item, str) for item in ids):
        raise InvalidDocument("message is no wake-up: alerts is not a list of ids")
    if not isinstance(destination, str | None):
        raise InvalidDocument("message is no wake-up: destination is not a name")
    return Wakeup(tuple(ids), destination)


def delay_seconds(wait: timedelta) -> int:
    """The wait as SQS takes it: whole seconds, 900 at most."""
    # Rounded up: a look that arrives a fraction early finds nothing due, and nobody looks again before the sweeper.
    return min(max(0, math.ceil(wait.total_seconds())), int(LONGEST_DELAY.total_seconds()))


def queue_name(url: str) -> str:
    """The queue, for a message."""
    return f"queue {url.rsplit('/', 1)[-1]}"
