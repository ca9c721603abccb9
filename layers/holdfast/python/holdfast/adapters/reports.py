"""What the command line reads of the ledger: judged cases by cluster and time, and the bodies that became no fact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from holdfast.adapters import table
from holdfast.adapters.actions import calls
from holdfast.adapters.documents import load
from holdfast.adapters.rows import DOCUMENT, Rows, need, number_of, time_of, where_is
from holdfast.interruption.event import Rejection
from holdfast.interruption.record import CaseRecord

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient

    from holdfast.adapters.rows import Row


@dataclass(frozen=True, slots=True)
class StoredRejection:
    """A body that became no fact, how often it was delivered, and when; `first_message_id` is the first delivery's."""

    rejection: Rejection
    count: int
    first_message_id: str
    first_at: datetime
    last_at: datetime


class DynamoReports:
    """Reads of the ledger's table that no function needs."""

    def __init__(self, client: DynamoDBClient, table_name: str) -> None:
        """Keeps the client, which has to be safe to use from threads (boto3's clients are)."""
        self._rows = Rows(client, table_name)

    @calls("dynamodb:Query")
    def records(self, cluster: str | None, *, since: datetime, until: datetime, limit: int) -> Sequence[CaseRecord]:
        """The cluster's cases that happened from `since` up to and including `until`, newest first.

        With `cluster` None: the cases of which no cluster is known.
        """
        found: list[Row] = []
        for month in _months_back(since, until):
            if len(found) >= limit:
                break
            keys = table.cluster_month_keys(cluster, month)
            found.extend(
                _side_by_side(
                    lambda key: list(
                        self._rows.query(
                            f"{table.BY_CLUSTER.partition_key} = :pk"
                            f" AND {table.BY_CLUSTER.sort_key} BETWEEN :since AND :until",
                            {":pk": key, ":since": table.exact_time(since), ":until": table.exact_time(until)},
                            f"listing the cases of {cluster or 'no known cluster'}",
                            index=table.BY_CLUSTER,
                            limit=limit,
                            newest_first=True,
                        )
                    ),
                    keys,
                )
            )
        found.sort(key=lambda row: need(row, table.BY_CLUSTER.sort_key), reverse=True)
        return tuple(load(CaseRecord, need(row, DOCUMENT), where_is(row)) for row in found[:limit])

    @calls("dynamodb:Query")
    def each_record(self, cluster: str | None, *, since: datetime, until: datetime) -> Iterator[CaseRecord]:
        """All of the cluster's cases that happened from `since` up to and including `until`, the newest month first.

        Within a month they have no order. With `cluster` None: the cases of which no cluster is known. Reads the month's
        partitions of the index side by side, and keeps the rows of one month.
        """
        between: dict[str, str] = {":since": table.exact_time(since), ":until": table.exact_time(until)}

        def read(key: str) -> list[Row]:
            return list(
                self._rows.query(
                    f"{table.BY_CLUSTER.partition_key} = :pk AND {table.BY_CLUSTER.sort_key} BETWEEN :since AND :until",
                    {":pk": key, **between},
                    f"reading the cases of {cluster or 'no known cluster'}",
                    index=table.BY_CLUSTER,
                    only=(table.PARTITION_KEY, table.SORT_KEY, DOCUMENT),
                )
            )

        for month in _months_back(since, until):
            for row in _side_by_side(read, table.cluster_month_keys(cluster, month)):
                yield load(CaseRecord, need(row, DOCUMENT), where_is(row))

    @calls("dynamodb:Query")
    def rejections(self, day: datetime) -> Sequence[StoredRejection]:
        """The rejections filed under the day (UTC) on which their first message was sent, newest first."""
        rows = _side_by_side(
            lambda key: list(self._rows.query("pk = :pk", {":pk": key}, "listing the rejections")),
            table.rejection_keys(day),
        )
        return tuple(sorted((_rejection(row) for row in rows), key=lambda item: item.first_at, reverse=True))


def _months_back(since: datetime, until: datetime) -> Iterator[datetime]:
    """A moment in each month (UTC) between the two, the newest first."""
    first = since.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    moment = until.astimezone(UTC).replace(day=1)
    while moment >= first:
        yield moment
        moment = (moment - timedelta(days=1)).replace(day=1)


def _rejection(row: Row) -> StoredRejection:
    return StoredRejection(
        rejection=load(Rejection, need(row, DOCUMENT), where_is(row)),
        count=number_of(row, "deliveries"),
        first_message_id=need(row, "first_message_id"),
        first_at=time_of(row, "first_at"),
        last_at=time_of(row, "last_at"),
    )


def _side_by_side(read: Callable[[str], list[Row]], keys: Sequence[str]) -> list[Row]:
    with ThreadPoolExecutor(len(keys)) as pool:
        return [row for rows in pool.map(read, keys) for row in rows]
