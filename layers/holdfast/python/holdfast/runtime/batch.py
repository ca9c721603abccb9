"""SQS batches: typed records in, partial failures out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSEvent, SQSRecord

from holdfast.errors import Unavailable


def records(event: Mapping[str, Any]) -> Sequence[SQSRecord]:
    """The records of the batch. One without a messageId gets an id made from its body, so that it is handled like the
    others (powertools-lambda-python#8273: a missing id failed the whole batch).
    """
    return list(SQSEvent(with_ids(event)).records)


def with_ids(event: Mapping[str, Any]) -> dict[str, Any]:
    """The event with an id on every record."""
    return {
        "Records": [
            record
            if record.get("messageId")
            else {
                **record,
                "messageId": f"no-id-{hashlib.sha256(str(record.get('body')).encode('utf-8', 'replace')).hexdigest()[:16]}",
            }
            for record in event.get("Records", ())
        ]
    }


def body(record: SQSRecord) -> str:
    """The message's body; a record without one counts as empty, and is refused as such."""
    return str(record.raw_event.get("body") or "")


def sent_at(record: SQSRecord) -> datetime | None:
    """When SQS took the message; None when the record does not say."""
    stamp = (record.raw_event.get("attributes") or {}).get("SentTimestamp")
    return datetime.fromtimestamp(int(stamp) / 1000, UTC) if stamp and str(stamp).isdecimal() else None


def receive_count(record: SQSRecord) -> int:
    """How often the message was delivered, this time included."""
    count = (record.raw_event.get("attributes") or {}).get("ApproximateReceiveCount")
    return int(count) if count and str(count).isdecimal() else 1


def settle(
    event: Mapping[str, Any], failed: Mapping[str, str], context: Any, logger: Logger
) -> PartialItemFailureResponse:
    """The response that sends back the messages in `failed` (message id to reason) and acknowledges the others.

    A batch that failed as a whole is reported like any other: raising would make Lambda slow its pollers down
    (powertools-lambda-python#4349), and the failures have a metric of their own.
    """

    def check(record: SQSRecord) -> None:
        reason = failed.get(record.message_id)
        if reason is not None:
            logger.error(reason, message_id=record.message_id)
            raise Unavailable(reason)

    processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)
    return process_partial_response(event=with_ids(event), record_handler=check, processor=processor, context=context)
