"""What Holdfast remembers of itself, on the ledger's table: one row of each kind, guarded by its version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from holdfast.adapters import table
from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.adapters.documents import dump, load
from holdfast.adapters.rows import DOCUMENT, Rows, expiry, need, number_of, where_is
from holdfast.ports import Remembered, Stored

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

    from holdfast.adapters.rows import Row

_KEEP: Final = timedelta(days=30)
"""A row that nobody wrote for so long is of a Holdfast that does not run any more."""


class DynamoStates:
    """The `States` port of one account and region."""

    def __init__(
        self,
        client: DynamoDBClient,
        table_name: str,
        *,
        account: str,
        region: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """The rows are in the table that also is the ledger."""
        self._rows = Rows(client, table_name)
        self._partition = table.state_key(account, region)
        self._clock = clock

    @calls("dynamodb:GetItem")
    def read[T: Remembered](self, kind: type[T]) -> Stored[T] | None:
        """The row of that kind, by a consistent read; None when there is none."""
        doing = f"reading what is remembered of {kind.row}"
        with translated(doing, action="dynamodb:GetItem", on=self._rows.resource):
            answer = self._rows.client.get_item(TableName=self._rows.name, Key=self._key(kind.row), ConsistentRead=True)
        row = answer.get("Item")
        if row is None:
            return None
        return Stored(load(kind, need(row, DOCUMENT), where_is(row)), number_of(row, "version"))

    @calls("dynamodb:PutItem")
    def write(self, value: Remembered, *, version: int) -> None:
        """Writes the row if its version is still `version`, 0 for a row that is not there yet.

        Raises:
            Conflict: somebody else wrote it; or botocore sent this write twice, since the first answer was lost.
        """
        with translated(f"remembering {value.row}", action="dynamodb:PutItem", on=self._rows.resource):
            if version == 0:
                self._rows.client.put_item(
                    TableName=self._rows.name,
                    Item=self._row(value, 1),
                    ConditionExpression=f"attribute_not_exists({table.PARTITION_KEY})",
                )
            else:
                self._rows.client.put_item(
                    TableName=self._rows.name,
                    Item=self._row(value, version + 1),
                    ConditionExpression="#version = :read",
                    ExpressionAttributeNames={"#version": "version"},
                    ExpressionAttributeValues={":read": {"N": str(version)}},
                )

    @calls("dynamodb:PutItem")
    def put(self, value: Remembered) -> None:
        """Writes the row, whatever it holds."""
        with translated(f"remembering {value.row}", action="dynamodb:PutItem", on=self._rows.resource):
            self._rows.client.put_item(TableName=self._rows.name, Item=self._row(value, 1))

    def _key(self, name: str) -> Row:
        return {table.PARTITION_KEY: {"S": self._partition}, table.SORT_KEY: {"S": name}}

    def _row(self, value: Remembered, version: int) -> Row:
        return {
            **self._key(value.row),
            DOCUMENT: {"S": dump(value)},
            "version": {"N": str(version)},
            table.TTL_ATTRIBUTE: expiry(self._clock(), _KEEP),
        }
