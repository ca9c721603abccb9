"""Looks on our own queues, and the state of Karpenter's queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import batched
from typing import TYPE_CHECKING, Final

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.adapters.documents import dump, load
from holdfast.adapters.wakeups import LONGEST_DELAY, delay_seconds, queue_name
from holdfast.errors import HoldfastError, NotFound, Unavailable
from holdfast.interruption.observation import Answer, QueueView
from holdfast.ports import Look

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient
    from types_boto3_sqs.type_defs import SendMessageBatchRequestEntryTypeDef


_BATCH: Final = 10  # SQS's limit for a batch


class SqsLooks:
    """The `Looks` port: one recheck queue for each network that a judge stands in."""

    def __init__(self, client: SQSClient, queues: Mapping[str, str], default_url: str) -> None:
        """`queues` maps a cluster to its queue's URL; `default_url` takes looks of no or an unknown cluster."""
        self._client = client
        self._queues = queues
        self._default_url = default_url

    @calls("sqs:SendMessage")
    def send(self, looks: Sequence[Look], *, now: datetime) -> None:
        """Sends each look so that it arrives when it is due; those due in more than 15 minutes are left to the sweeper.

        Raises:
            Unavailable: at least one was not taken; sending all of them again is harmless.
        """
        by_queue: dict[str, list[Look]] = {}
        for look in looks:
            if look.due_at - now <= LONGEST_DELAY:
                by_queue.setdefault(self._queues.get(look.cluster or "", self._default_url), []).append(look)
        for url, waiting in by_queue.items():
            for batch in batched(waiting, _BATCH, strict=False):
                self._send(url, batch, now)

    def _send(self, url: str, looks: Sequence[Look], now: datetime) -> None:
        doing = f"sending {len(looks)} looks to {queue_name(url)}"
        entries: list[SendMessageBatchRequestEntryTypeDef] = [
            {"Id": str(number), "MessageBody": dump(look), "DelaySeconds": delay_seconds(look.due_at - now)}
            for number, look in enumerate(looks)
        ]
        with translated(doing, action="sqs:SendMessage", on=queue_name(url)):
            answer = self._client.send_message_batch(QueueUrl=url, Entries=entries)
        failed = answer.get("Failed", [])
        if failed:
            why = "; ".join(sorted({f"{item['Code']}: {item.get('Message', '')}" for item in failed}))
            raise Unavailable(f"{doing}: {len(failed)} were not taken: {why}")


@dataclass(frozen=True, slots=True)
class QueueNames:
    """A cluster's interruption queue, its dead-letter queue, and the queue of what EventBridge could not deliver."""

    queue: str
    dead_letters: str | None = None
    undelivered: str | None = None


class SqsQueues:
    """The `Queues` port. It reads attributes only: a receive would take a message away from Karpenter."""

    def __init__(self, client: SQSClient, queues: Mapping[str, QueueNames]) -> None:
        """`queues` has the queue names of every cluster that may be asked for."""
        self._client = client
        self._queues = queues
        self._urls: dict[str, str] = {}

    @calls("sqs:GetQueueUrl", "sqs:GetQueueAttributes")
    def depths(self, cluster: str) -> QueueView:
        """The approximate counts; a dead-letter queue that cannot be read is None with the reason, never 0."""
        names = self._queues.get(cluster)
        if names is None:
            return QueueView(Answer.SKIPPED, f"no queue is configured for cluster {cluster}")
        try:
            visible, in_flight, retention = self._attributes(names.queue)
        except NotFound as error:
            return QueueView(Answer.NOT_FOUND, f"Karpenter's queue {names.queue} does not exist: {error}")
        reasons: list[str] = []
        dead_letters = self._waiting(names.dead_letters, reasons)
        undelivered = self._waiting(names.undelivered, reasons)
        return QueueView(
            Answer.OK,
            "; ".join(reasons),
            visible=visible,
            in_flight=in_flight,
            dead_letters=dead_letters,
            undelivered=undelivered,
            retention=retention,
        )

    def _waiting(self, queue: str | None, reasons: list[str]) -> int | None:
        if queue is None:
            return None
        try:
            return self._attributes(queue)[0]
        except HoldfastError as error:
            reasons.append(str(error))
            return None

    def _attributes(self, queue: str) -> tuple[int, int, int]:
        """Messages that wait, messages in flight, and for how many seconds a message is kept."""
        url = self._urls.get(queue)
        if url is None:
            with translated(f"finding queue {queue}", action="sqs:GetQueueUrl", on=f"queue {queue}"):
                url = self._urls[queue] = self._client.get_queue_url(QueueName=queue)["QueueUrl"]
        with translated(f"reading queue {queue}", action="sqs:GetQueueAttributes", on=f"queue {queue}"):
            attributes = self._client.get_queue_attributes(
                QueueUrl=url,
                AttributeNames=[
                    "ApproximateNumberOfMessages",
                    "ApproximateNumberOfMessagesNotVisible",
                    "MessageRetentionPeriod",
                ],
            )["Attributes"]
        return (
            int(attributes["ApproximateNumberOfMessages"]),
            int(attributes["ApproximateNumberOfMessagesNotVisible"]),
            int(attributes["MessageRetentionPeriod"]),
        )


def parse_look(body: str) -> Look:
    """The look in a message of a recheck queue.

    Raises:
        InvalidDocument: the body is none.
    """
    return load(Look, body, "message")
