"""What `holdfast redrive` asks of SQS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import batched
from typing import TYPE_CHECKING, Any, Final

from holdfast.adapters.aws_errors import translated
from holdfast_cli.redrive_rules import DeadLetters, Letter

if TYPE_CHECKING:
    from types_boto3_sqs import SQSClient

HIDDEN: Final = 120
"""Seconds that a message is kept from others while it is looked at; it is shown again as soon as that is over."""

_BATCH: Final = 10  # SQS's limit of a receive and of a batch
_IN_VAIN: Final = 5
"""So many receives in a row that bring only what was seen before end it: their time was over."""

_ALL_ATTRIBUTES: Final = "All"


class TaskStatus(StrEnum):
    """How far a move is (SQS, ListMessageMoveTasks)."""

    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    CANCELLING = "CANCELLING"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"

    @property
    def is_over(self) -> bool:
        """Nothing more happens."""
        return self not in {TaskStatus.RUNNING, TaskStatus.CANCELLING}


@dataclass(frozen=True, slots=True)
class Move:
    """A move of SQS. `to_move` is None when SQS does not say; `handle` only a running one has."""

    status: TaskStatus
    moved: int
    to_move: int | None
    reason: str | None = None
    handle: str | None = None


@dataclass(frozen=True, slots=True)
class Held:
    """A message that nobody else sees for a while, and the receipt to delete or release it by."""

    letter: Letter
    receipt: str


class Queues:
    """The dead-letter queue and the queue its messages belong to."""

    def __init__(self, client: SQSClient, queue: DeadLetters) -> None:
        """`client` is for the queue's region."""
        self._client = client
        self._queue = queue
        self._urls: dict[str, str] = {}

    def url(self, name: str) -> str:
        """The URL of a queue by its name.

        Raises:
            NotFound: there is no such queue.
        """
        if name not in self._urls:
            with translated(f"finding queue {name}", action="sqs:GetQueueUrl", on=f"queue {name}"):
                self._urls[name] = self._client.get_queue_url(QueueName=name)["QueueUrl"]
        return self._urls[name]

    def counts(self) -> tuple[int, int]:
        """About how many messages wait in the dead-letter queue, and how many somebody has just received."""
        name = self._queue.name
        url = self.url(name)
        with translated(f"reading queue {name}", action="sqs:GetQueueAttributes", on=f"queue {name}"):
            attributes = self._client.get_queue_attributes(
                QueueUrl=url, AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
            )["Attributes"]
        return (
            int(attributes["ApproximateNumberOfMessages"]),
            int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        )

    def receive(self, limit: int) -> Iterator[Held]:
        """Up to `limit` messages of the dead-letter queue, each once, hidden from others until they are released."""
        name, seen, in_vain = self._queue.name, set[str](), 0
        url = self.url(name)
        while len(seen) < limit and in_vain < _IN_VAIN:
            with translated(f"receiving from {name}", action="sqs:ReceiveMessage", on=f"queue {name}"):
                messages = self._client.receive_message(
                    QueueUrl=url,
                    MaxNumberOfMessages=min(_BATCH, limit - len(seen)),
                    VisibilityTimeout=HIDDEN,
                    WaitTimeSeconds=1,
                    MessageAttributeNames=[_ALL_ATTRIBUTES],
                    MessageSystemAttributeNames=["SentTimestamp"],
                ).get("Messages", [])
            if not messages:
                return
            fresh = [message for message in messages if message["MessageId"] not in seen]
            in_vain = 0 if fresh else in_vain + 1
            for message in fresh:
                seen.add(message["MessageId"])
                yield _held(message)

    def send(self, letter: Letter) -> None:
        """Puts the body into the queue it belongs to."""
        target = self._queue.target
        url = self.url(target)
        with translated(f"sending to {target}", action="sqs:SendMessage", on=f"queue {target}"):
            self._client.send_message(QueueUrl=url, MessageBody=letter.body)

    def delete(self, held: Held) -> None:
        """Takes a message out of the dead-letter queue for good."""
        name = self._queue.name
        url = self.url(name)
        with translated(f"deleting from {name}", action="sqs:DeleteMessage", on=f"queue {name}"):
            self._client.delete_message(QueueUrl=url, ReceiptHandle=held.receipt)

    def release(self, held: Sequence[Held]) -> None:
        """Shows messages to others again at once; one that cannot be released shows itself after two minutes."""
        name = self._queue.name
        url = self.url(name)
        for batch in batched(held, _BATCH, strict=False):
            with translated(f"releasing messages of {name}", action="sqs:ChangeMessageVisibility", on=f"queue {name}"):
                self._client.change_message_visibility_batch(
                    QueueUrl=url,
                    Entries=[
                        {"Id": str(number), "ReceiptHandle": one.receipt, "VisibilityTimeout": 0}
                        for number, one in enumerate(batch)
                    ],
                )

    def start_move(self, per_second: int | None) -> None:
        """Has SQS move everything back to where it came from, at most so many messages a second."""
        name = self._queue.name
        limit: dict[str, Any] = {} if per_second is None else {"MaxNumberOfMessagesPerSecond": per_second}
        with translated(f"starting to move {name}", action="sqs:StartMessageMoveTask", on=f"queue {name}"):
            self._client.start_message_move_task(SourceArn=self._queue.arn(name), **limit)

    def last_move(self) -> Move | None:
        """The newest move of the dead-letter queue; None when there was none lately."""
        name = self._queue.name
        with translated(f"looking for moves of {name}", action="sqs:ListMessageMoveTasks", on=f"queue {name}"):
            tasks = self._client.list_message_move_tasks(SourceArn=self._queue.arn(name), MaxResults=1).get(
                "Results", []
            )
        if not tasks:
            return None
        task = tasks[0]
        return Move(
            TaskStatus(task["Status"]),
            int(task.get("ApproximateNumberOfMessagesMoved", 0)),
            task.get("ApproximateNumberOfMessagesToMove"),
            task.get("FailureReason"),
            task.get("TaskHandle"),
        )


def _held(message: Any) -> Held:
    attributes = {name: value.get("StringValue") for name, value in message.get("MessageAttributes", {}).items()}
    sent = message.get("Attributes", {}).get("SentTimestamp")
    letter = Letter(
        message_id=message["MessageId"],
        body=message["Body"],
        sent_at=datetime.fromtimestamp(int(sent) / 1000, UTC) if sent else None,
        rule_arn=attributes.get("RULE_ARN"),
        target_arn=attributes.get("TARGET_ARN"),
        error_code=attributes.get("ERROR_CODE"),
        error_message=attributes.get("ERROR_MESSAGE"),
    )
    return Held(letter, message["ReceiptHandle"])
