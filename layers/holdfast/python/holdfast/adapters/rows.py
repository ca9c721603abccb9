"""Reading and writing rows of the ledger's table: what its ledger, its outbox and its reports have in common."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import batched
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ClientError

from holdfast.adapters import table
from holdfast.adapters.aws_errors import THROTTLED, error_code, translated
from holdfast.adapters.documents import dump
from holdfast.alerts.alert import Alert
from holdfast.errors import Conflict, InvalidDocument, Throttled, Unavailable
from holdfast.times import parse_time

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.type_defs import AttributeValueTypeDef

    type Row = dict[str, AttributeValueTypeDef]

DOCUMENT = "doc"
PUT_AT = "put_at"
WRITE_ID = "write_id"

_ROWS_A_TRANSACTION: Final = 100  # DynamoDB's limit for TransactWriteItems


class Rows:
    """The table by its name, with DynamoDB's paging and errors out of the way."""

    def __init__(self, client: DynamoDBClient, name: str) -> None:
        """Keeps the client and the table's name; nothing is called."""
        self.client = client
        self.name = name

    def put_once(self, row: Row, doing: str) -> bool:
        """Writes the row unless one of its key exists; True when this call wrote it."""
        write_id = uuid.uuid4().hex
        try:
            with translated(doing, action="dynamodb:PutItem", on=self.resource):
                self.client.put_item(
                    TableName=self.name,
                    Item={**row, WRITE_ID: {"S": write_id}},
                    ConditionExpression=f"attribute_not_exists({table.PARTITION_KEY})",
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                )
        except Conflict as conflict:
            # botocore sends a write again when its answer was lost; it then meets the row that it wrote itself.
            return text_of(row_in_the_way(conflict), WRITE_ID) == write_id
        return True

    def update(self, key: Row, doing: str, **arguments: Any) -> Row:
        """Updates one row; gives what `ReturnValues` asked for.

        Raises:
            Conflict: the condition did not hold; `row_in_the_way` tells the row that it did not hold for.
        """
        with translated(doing, action="dynamodb:UpdateItem", on=self.resource):
            answer = self.client.update_item(
                TableName=self.name, Key=key, ReturnValuesOnConditionCheckFailure="ALL_OLD", **arguments
            )
        return answer.get("Attributes", {})

    def update_all(self, keys: Sequence[Row], doing: str, **arguments: Any) -> None:
        """Updates the rows a hundred at a time, each hundred wholly or not at all; those whose condition fails stay.

        Raises:
            Conflict: somebody is writing the same rows.
        """
        for part in batched(keys, _ROWS_A_TRANSACTION, strict=False):
            wanted = list(part)
            while wanted:
                updates: Any = [{"Update": {"TableName": self.name, "Key": key, **arguments}} for key in wanted]
                with translated(doing, action="dynamodb:UpdateItem", on=self.resource):
                    try:
                        self.client.transact_write_items(TransactItems=updates)
                    except ClientError as error:
                        if error_code(error) != "TransactionCanceledException":
                            raise
                        failed = failed_conditions(error, doing)
                        wanted = [key for key, stays in zip(wanted, failed, strict=True) if not stays]
                    else:
                        break

    def query(
        self,
        condition: str,
        values: Mapping[str, str],
        doing: str,
        *,
        index: table.Index | None = None,
        limit: int | None = None,
        newest_first: bool = False,
        only: Sequence[str] = (),
    ) -> Iterator[Row]:
        """The rows whose keys meet the condition, in key order, page by page; read consistently from the table itself.

        `only` are the attributes to get, all when there are none.
        """
        where: dict[str, Any] = {"ConsistentRead": True} if index is None else {"IndexName": index.name}
        if limit is not None:
            where["Limit"] = limit
        if only:
            where["ProjectionExpression"] = ", ".join(only)
        count = 0
        while True:
            with translated(doing, action="dynamodb:Query", on=self.resource if index is None else self._index(index)):
                page = self.client.query(
                    TableName=self.name,
                    KeyConditionExpression=condition,
                    ExpressionAttributeValues={name: {"S": value} for name, value in values.items()},
                    ScanIndexForward=not newest_first,
                    **where,
                )
            for row in page["Items"]:
                yield row
                count += 1
                if count == limit:
                    return
            if "LastEvaluatedKey" not in page:
                return
            where["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def count(self, condition: str, values: Mapping[str, str], doing: str, *, index: table.Index, limit: int) -> int:
        """How many rows of the index meet the condition, at most `limit`; no row is sent over."""
        where: dict[str, Any] = {}
        found = 0
        while True:
            with translated(doing, action="dynamodb:Query", on=self._index(index)):
                page = self.client.query(
                    TableName=self.name,
                    IndexName=index.name,
                    Select="COUNT",
                    KeyConditionExpression=condition,
                    ExpressionAttributeValues={name: {"S": value} for name, value in values.items()},
                    Limit=limit - found,
                    **where,
                )
            found += page["Count"]
            if found >= limit or "LastEvaluatedKey" not in page:
                return found
            where = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    @property
    def resource(self) -> str:
        """The table as an IAM policy names it."""
        return f"table/{self.name}"

    def _index(self, index: table.Index) -> str:
        return f"{self.resource}/index/{index.name}"


def failed_conditions(error: ClientError, doing: str) -> list[bool]:
    """For each item of a cancelled transaction, whether its condition failed; at least one did.

    Raises:
        Conflict: somebody is writing the same rows.
        Throttled: the table asked to slow down.
        Unavailable: it was cancelled for another reason; the message has it.
    """
    answer: Any = error.response
    reasons = answer["CancellationReasons"]
    codes = [reason.get("Code", "None") for reason in reasons]
    if "TransactionConflict" in codes:
        raise Conflict(f"{doing}: somebody is writing the same rows") from error
    if "ConditionalCheckFailed" in codes:
        return [code == "ConditionalCheckFailed" for code in codes]
    said = "; ".join(f"{reason['Code']}: {reason.get('Message', '')}" for reason in reasons if reason["Code"] != "None")
    if THROTTLED & set(codes):
        raise Throttled(f"{doing}: {said}") from error
    raise Unavailable(f"{doing}: {said}") from error


def alert_row(alert: Alert, destination: str, *, now: datetime, keep: timedelta) -> Row:
    """The outbox's row of an alert that is yet to be told."""
    return {
        table.PARTITION_KEY: {"S": table.outbox_key(destination)},
        table.SORT_KEY: {"S": table.alert_key(alert.id)},
        DOCUMENT: {"S": dump(alert)},
        PUT_AT: {"S": table.exact_time(now)},
        table.OPEN.partition_key: {"S": table.open_alerts_key(destination)},
        table.OPEN.sort_key: {"S": table.exact_time(now)},
        table.TTL_ATTRIBUTE: expiry(now, keep),
    }


def expiry(now: datetime, keep: timedelta) -> AttributeValueTypeDef:
    """The value of the table's time-to-live attribute."""
    return {"N": str(int((now + keep).timestamp()))}


def update_of(
    values: Mapping[str, AttributeValueTypeDef],
    *,
    remove: Sequence[str] = (),
    condition: str,
    more: Mapping[str, AttributeValueTypeDef] | None = None,
) -> dict[str, Any]:
    """The arguments of an update that sets `values`, removes attributes, and holds only under the condition.

    Every attribute `x` is `#x` in the condition and its new value `:x`; `more` are further values by name.
    """
    changes = ["SET " + ", ".join(f"#{name} = :{name}" for name in values)] if values else []
    if remove:
        changes.append("REMOVE " + ", ".join(f"#{name}" for name in remove))
    names = {*values, *remove, *re.findall(r"#(\w+)", condition)}
    return {
        "UpdateExpression": " ".join(changes),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
        "ExpressionAttributeValues": {f":{name}": value for name, value in {**values, **(more or {})}.items()},
    }


def row_in_the_way(conflict: Conflict) -> Row:
    """The row that made the condition fail; empty when there was no row."""
    cause: Any = conflict.__cause__
    row: Row = cause.response.get("Item", {})
    return row


def text_of(row: Row, name: str) -> str | None:
    """A text attribute, or None when the row has none of that name."""
    return row.get(name, {}).get("S")


def need(row: Row, name: str) -> str:
    """A text attribute that the row must have.

    Raises:
        InvalidDocument: it has none; names the row.
    """
    value = text_of(row, name)
    if value is None:
        raise InvalidDocument(f"{where_is(row)} has no attribute {name}")
    return value


def number_of(row: Row, name: str) -> int:
    """A whole number that the row must have.

    Raises:
        InvalidDocument: it has none; names the row.
    """
    value = row.get(name, {}).get("N", "")
    if not value.isdecimal():
        raise InvalidDocument(f"{where_is(row)}: {name} is {value!r}, not a whole number")
    return int(value)


def time_of(row: Row, name: str) -> datetime:
    """A point in time that the row must have.

    Raises:
        InvalidDocument: it has none, or it is no time; names the row.
    """
    value = need(row, name)
    try:
        return parse_time(value)
    except ValueError as error:
        raise InvalidDocument(f"{where_is(row)}: {name} is {value!r}, not a time") from error


def where_is(row: Row) -> str:
    """The row by its key, for messages."""
    return f"row pk={text_of(row, table.PARTITION_KEY)} sk={text_of(row, table.SORT_KEY)}"
