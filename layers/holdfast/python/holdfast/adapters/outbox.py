"""The outbox in DynamoDB: alerts that wait to be told, and the lease of the function that tells them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import batched
from typing import TYPE_CHECKING, Any, Final

from holdfast.adapters import table
from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.adapters.documents import load
from holdfast.adapters.rows import DOCUMENT, PUT_AT, Rows, need, row_in_the_way, text_of, time_of, update_of, where_is
from holdfast.alerts.alert import Alert
from holdfast.errors import Conflict, Throttled
from holdfast.ports import Busy, Lease

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

    from holdfast.adapters.rows import Row

_TOLD_AT = "told_at"
_NOT_BEFORE = "not_before"
_KEYS_A_READ: Final = 100  # DynamoDB's limit for BatchGetItem
_READ_ATTEMPTS: Final = 3
_STILL_WAITS: Final = f"attribute_exists(#pk) AND attribute_not_exists(#{_TOLD_AT})"


class DynamoOutbox:
    """The `Outbox` port for one destination, on the ledger's table."""

    def __init__(self, client: DynamoDBClient, table_name: str, *, destination: str = "slack") -> None:
        """Reads and marks what `DynamoLedger` put into the outbox of the same destination."""
        self._rows = Rows(client, table_name)
        self._destination = destination
        self._lease_key: Row = {
            table.PARTITION_KEY: {"S": table.lease_key(destination)},
            table.SORT_KEY: {"S": table.LEASE},
        }

    @calls("dynamodb:UpdateItem")
    def acquire(self, owner: str, *, now: datetime, lifetime: timedelta) -> Lease | Busy:
        """Takes the lease, or says until when it cannot be had."""
        lease = Lease(owner, now + lifetime)
        held_until = table.exact_time(lease.expires_at)
        try:
            self._rows.update(
                self._lease_key,
                f"taking the lease of {self._destination}",
                **update_of(
                    {"owner": {"S": owner}, "held_until": {"S": held_until}},
                    remove=["not_before"],
                    condition="(attribute_not_exists(#held_until) OR #held_until <= :now)"
                    " AND (attribute_not_exists(#not_before) OR #not_before <= :now)",
                    more={"now": {"S": table.exact_time(now)}},
                ),
            )
        except Conflict as conflict:
            row = row_in_the_way(conflict)
            if text_of(row, "owner") == owner and text_of(row, "held_until") == held_until:
                # botocore sent the write again because the first answer was lost: the lease is ours.
                return lease
            return Busy(max(time_of(row, name) for name in ("held_until", "not_before") if name in row))
        return lease

    @calls("dynamodb:UpdateItem")
    def release(self, lease: Lease, *, not_before: datetime | None = None) -> None:
        """Gives the lease back; nobody gets it before `not_before`. A lease that somebody else has by now stays his."""
        values: Row = {} if not_before is None else {"not_before": {"S": table.exact_time(not_before)}}
        try:
            self._rows.update(
                self._lease_key,
                f"giving back the lease of {self._destination}",
                **update_of(
                    values,
                    remove=["owner", "held_until"],
                    condition="#owner = :owner AND #held_until = :held_until",
                    more={"owner": {"S": lease.owner}, "held_until": {"S": table.exact_time(lease.expires_at)}},
                ),
            )
        except Conflict:
            return

    @calls("dynamodb:BatchGetItem", "dynamodb:Query")
    def pending(self, alert_ids: Sequence[str], *, now: datetime, limit: int) -> Sequence[Alert]:
        """Alerts not told yet and not put off beyond `now`, oldest first: those named (by a consistent read), then all
        others.

        The index lags behind the table, so what it names is read from the table before it counts as not told.
        """
        named = tuple(dict.fromkeys(table.alert_key(alert_id) for alert_id in alert_ids))
        waiting = self._waiting(named, now)
        others = (key for key in self._waiting_keys(now) if key not in named)
        for keys in batched(others, _KEYS_A_READ, strict=False):
            if len(waiting) >= limit:
                break
            waiting.extend(self._waiting(keys, now))
        return tuple(load(Alert, need(row, DOCUMENT), where_is(row)) for row in waiting[:limit])

    @calls("dynamodb:UpdateItem")
    def mark_told(self, alert_ids: Sequence[str], *, now: datetime) -> None:
        """Notes that the alerts were delivered; again, or after a row expired, is no error."""
        self._update(
            alert_ids,
            "marking alerts as told",
            **update_of(
                {_TOLD_AT: {"S": table.exact_time(now)}},
                remove=[table.OPEN.partition_key, table.OPEN.sort_key],
                condition=_STILL_WAITS,
            ),
        )

    @calls("dynamodb:UpdateItem")
    def put_off(self, alert_ids: Sequence[str], *, until: datetime) -> None:
        """Lets the alerts wait until then: they are neither pending nor counted before. What was told stays told."""
        self._update(
            alert_ids,
            "putting alerts off",
            **update_of(
                # The first orders the index, the second is what the row itself says: a moment that another machine's
                # clock wrote is no reason to leave an alert that was named for later.
                {table.OPEN.sort_key: {"S": table.exact_time(until)}, _NOT_BEFORE: {"S": table.exact_time(until)}},
                condition=_STILL_WAITS,
            ),
        )

    @calls("dynamodb:Query")
    def oldest(self, *, now: datetime) -> datetime | None:
        """Since when the oldest alert waits that could be told by `now`; None when there is none."""
        row = next(iter(self._index_rows(now, limit=1)), None)
        return None if row is None else time_of(row, table.OPEN.sort_key)

    def _update(self, alert_ids: Sequence[str], what: str, **arguments: Any) -> None:
        keys = dict.fromkeys(table.alert_key(alert_id) for alert_id in alert_ids)
        doing = f"{what} in the outbox of {self._destination}"
        self._rows.update_all([self._alert_key(key) for key in keys], doing, **arguments)

    def _waiting_keys(self, now: datetime) -> Iterable[str]:
        return (need(row, table.SORT_KEY) for row in self._index_rows(now))

    def _index_rows(self, now: datetime, *, limit: int | None = None) -> Iterable[Row]:
        return self._rows.query(
            f"{table.OPEN.partition_key} = :pk AND {table.OPEN.sort_key} <= :now",
            {":pk": table.open_alerts_key(self._destination), ":now": table.exact_time(now)},
            f"reading the outbox of {self._destination}",
            index=table.OPEN,
            limit=limit,
        )

    def _waiting(self, keys: Sequence[str], now: datetime) -> list[Row]:
        """The rows among these that are not told and may be by `now`, oldest first."""
        latest = table.exact_time(now)
        rows = [row for part in batched(keys, _KEYS_A_READ, strict=False) for row in self._read(part)]
        waiting = [row for row in rows if _TOLD_AT not in row and (text_of(row, _NOT_BEFORE) or "") <= latest]
        return sorted(waiting, key=lambda row: (need(row, PUT_AT), need(row, table.SORT_KEY)))

    def _read(self, keys: Sequence[str]) -> list[Row]:
        doing = f"reading {len(keys)} alerts of the outbox of {self._destination}"
        rows: list[Row] = []
        wanted = [self._alert_key(key) for key in keys]
        for _ in range(_READ_ATTEMPTS):
            with translated(doing, action="dynamodb:BatchGetItem", on=self._rows.resource):
                answer = self._rows.client.batch_get_item(
                    RequestItems={self._rows.name: {"Keys": wanted, "ConsistentRead": True}}
                )
            rows.extend(answer["Responses"].get(self._rows.name, []))
            left = answer.get("UnprocessedKeys", {}).get(self._rows.name)
            if not left:
                return rows
            wanted = [dict(key) for key in left["Keys"]]
        raise Throttled(f"{doing}: {len(wanted)} were not read in {_READ_ATTEMPTS} attempts")

    def _alert_key(self, key: str) -> Row:
        return {table.PARTITION_KEY: {"S": table.outbox_key(self._destination)}, table.SORT_KEY: {"S": key}}


class DynamoOutboxes:
    """The outboxes of several destinations, as far as the sweeper asks."""

    def __init__(self, client: DynamoDBClient, table_name: str, destinations: Sequence[str]) -> None:
        """Reads nothing but the index of what waits."""
        self._outboxes = [DynamoOutbox(client, table_name, destination=name) for name in destinations]

    @calls("dynamodb:Query")
    def oldest(self, *, now: datetime) -> datetime | None:
        """Since when the oldest alert of any destination waits that could be told by `now`; None when there is none."""
        found = [outbox.oldest(now=now) for outbox in self._outboxes]
        return min((moment for moment in found if moment is not None), default=None)
