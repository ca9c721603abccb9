"""The ledger in DynamoDB: facts and looks are appended once, the watch is guarded by its version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from botocore.exceptions import ClientError

from holdfast.adapters import table
from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import error_code, translated
from holdfast.adapters.documents import dump, load
from holdfast.adapters.rows import (
    DOCUMENT,
    Rows,
    alert_row,
    expiry,
    failed_conditions,
    need,
    number_of,
    row_in_the_way,
    text_of,
    time_of,
    update_of,
    where_is,
)
from holdfast.alerts.alert import Alert
from holdfast.errors import Conflict, InvalidDocument
from holdfast.interruption.event import Fact, Home, Kind, Rejection
from holdfast.interruption.observation import Observation
from holdfast.interruption.record import CaseRecord
from holdfast.ports import History, InstanceKey, Look, Watch

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_dynamodb.type_defs import AttributeValueTypeDef, TransactWriteItemTypeDef

    from holdfast.adapters.rows import Row

_ITEMS_BESIDE_WATCH: Final = 99
"""DynamoDB takes 100 items in one transaction; the watch is one of them."""

_TOUCH_ATTEMPTS: Final = 5

_KEEP_CANARIES: Final = timedelta(days=7)


class DynamoLedger:
    """The `Ledger` port on one DynamoDB table (schema in `adapters.table`).

    The days are how long rows are kept by the table's time to live; they count from when the row is written.
    """

    def __init__(
        self,
        client: DynamoDBClient,
        table_name: str,
        *,
        destinations: Callable[[Alert], Sequence[str]] = lambda _: ("slack",),
        fact_days: int = 400,
        rejection_days: int = 30,
        outbox_days: int = 90,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """An alert goes into the outbox of each of its `destinations`."""
        self._rows = Rows(client, table_name)
        self._destinations = destinations
        self._keep_facts = timedelta(days=fact_days)
        self._keep_rejections = timedelta(days=rejection_days)
        self._keep_alerts = timedelta(days=outbox_days)
        self._clock = clock

    @calls("dynamodb:PutItem")
    def put_fact(self, fact: Fact) -> bool:
        """Stores the fact unless it is there; True when it is new."""
        key = _fact_key(fact)
        keep = _KEEP_CANARIES if fact.kind is Kind.CANARY else self._keep_facts
        row: Row = {**key, DOCUMENT: {"S": dump(fact)}, **self._expires(keep)}
        return self._rows.put_once(row, f"writing the fact {where_is(key)}")

    @calls("dynamodb:PutItem", "dynamodb:UpdateItem")
    def put_rejection(self, rejection: Rejection, *, day: datetime, message_id: str, alert: Alert | None) -> bool:
        """Stores or counts the rejection, then puts the alert into the outbox unless it is there; True for a new row.

        The two writes need no transaction: the message comes back when the second did not happen, and both may be
        repeated.
        """
        now = table.exact_time(self._clock())
        key: Row = {
            table.PARTITION_KEY: {"S": table.rejection_key(day, rejection.digest)},
            table.SORT_KEY: {"S": rejection.digest},
        }
        first: Row = {
            DOCUMENT: {"S": dump(rejection)},
            "first_at": {"S": now},
            "first_message_id": {"S": message_id},
            **self._expires(self._keep_rejections),
        }
        before = self._rows.update(
            key,
            f"writing the rejection {where_is(key)}",
            UpdateExpression="SET "
            + ", ".join(f"#{name} = if_not_exists(#{name}, :{name})" for name in first)
            + ", last_at = :last_at ADD deliveries :one",
            ExpressionAttributeNames={f"#{name}": name for name in first},
            ExpressionAttributeValues={
                **{f":{name}": value for name, value in first.items()},
                ":last_at": {"S": now},
                ":one": {"N": "1"},
            },
            ReturnValues="ALL_OLD",
        )
        for row in () if alert is None else self._alert_rows(alert):
            self._rows.put_once(row, f"putting an alert into the outbox: {where_is(row)}")
        return not before

    @calls("dynamodb:PutItem")
    def put_observation(self, key: InstanceKey, observation: Observation) -> None:
        """Stores a look; the same look again is no error."""
        document = dump(observation)
        row: Row = {
            table.PARTITION_KEY: {"S": _instance_key(key)},
            table.SORT_KEY: {"S": table.observation_key(observation.at, document)},
            DOCUMENT: {"S": document},
            **self._expires(self._keep_facts),
        }
        self._rows.put_once(row, f"writing the observation {where_is(row)}")

    @calls("dynamodb:PutItem")
    def open_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        """Begins watching the instance; False, and nothing changed, when it is watched already."""
        row: Row = {
            **_watch_key(key),
            "account": {"S": key.account},
            "region": {"S": key.region},
            "instance_id": {"S": key.instance_id},
            "version": {"N": "1"},
            "told": {"L": []},
            **_due(key, due_at),
            **self._expires(self._keep_facts),
        }
        return self._rows.put_once(row, f"beginning to watch {key.instance_id}")

    @calls("dynamodb:UpdateItem")
    def touch_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        """Makes an existing watch due at `due_at` or earlier and raises its version; False when there is none."""
        doing = f"touching the watch of {key.instance_id}"
        due = _due(key, due_at)
        later_or_never = "attribute_exists(#pk) AND (attribute_not_exists(#due_at) OR #due_at > :due_at)"
        for _ in range(_TOUCH_ATTEMPTS):
            try:
                self._raise_version(key, due, later_or_never, {}, doing)
            except Conflict as conflict:
                if not row_in_the_way(conflict):
                    return False
            else:
                return True
            # It is due earlier already: only the version has to change, so that a judgement under way is done again.
            try:
                self._raise_version(key, {}, "#due_at <= :due_at", {"due_at": due["due_at"]}, doing)
            except Conflict:
                continue
            return True
        raise Conflict(f"{doing}: others kept changing it; read again")

    @calls("dynamodb:Query")
    def history(self, key: InstanceKey) -> History:
        """All rows of the instance, by a consistent read.

        Raises:
            InvalidDocument: a row cannot be read; names it. A history with a hole would be judged as if it were whole.
        """
        facts: list[Fact] = []
        observations: list[Observation] = []
        records: list[CaseRecord] = []
        watch: Watch | None = None
        for row in self._rows.query("pk = :pk", {":pk": _instance_key(key)}, f"reading all about {key.instance_id}"):
            match need(row, table.SORT_KEY).split("#", 1)[0]:
                case "F":
                    facts.append(load(Fact, need(row, DOCUMENT), where_is(row)))
                case "O":
                    observations.append(load(Observation, need(row, DOCUMENT), where_is(row)))
                case "C":
                    records.append(load(CaseRecord, need(row, DOCUMENT), where_is(row)))
                case table.WATCH:
                    watch = _watch(key, row)
                case _:
                    raise InvalidDocument(f"{where_is(row)} is of a kind that this version does not know")
        return History(key, tuple(facts), tuple(observations), watch, tuple(records))

    @calls("dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem")
    def save(
        self, watch: Watch, records: Sequence[CaseRecord], alerts: Sequence[Alert], *, obsolete: Sequence[str]
    ) -> None:
        """The watch, its case rows and its alerts in one transaction, if nobody changed the watch since it was read.

        An instance with more than 99 rows to write (one that stops and starts every night) takes several transactions,
        each guarded by the version; the watch itself changes with the last, so a crash in between is judged again.

        Raises:
            Conflict: somebody changed the watch.
        """
        doing = f"saving the judgement on {watch.key.instance_id}"
        items = [
            *[self._put(self._case_row(watch.key, record)) for record in records],
            *[self._delete(_case_key(watch.key, cycle)) for cycle in obsolete],
            *[
                self._put(row, f"attribute_not_exists({table.PARTITION_KEY})")
                for alert in alerts
                for row in self._alert_rows(alert)
            ],
        ]
        version = watch.version
        while len(items) > _ITEMS_BESIDE_WATCH:
            part, items = items[:_ITEMS_BESIDE_WATCH], items[_ITEMS_BESIDE_WATCH:]
            self._transact(self._watch_update(watch.key, version, {}, ()), part, doing)
            version += 1
        values: Row = {
            "told": {"L": [{"S": mark} for mark in watch.told]},
            **({} if watch.cluster is None else {"cluster": {"S": watch.cluster}}),
            **({} if watch.due_at is None else _due(watch.key, watch.due_at)),
        }
        absent = [
            *(["cluster"] if watch.cluster is None else []),
            *(_DUE_ATTRIBUTES if watch.due_at is None else []),
        ]
        self._transact(self._watch_update(watch.key, version, values, absent), items, doing)

    @calls("dynamodb:Query")
    def overdue(self, before: datetime, *, limit: int) -> Sequence[Look]:
        """Watches that were due before `before`, oldest first."""
        looks: list[Look] = []
        for key in table.open_watch_keys():
            rows = self._rows.query(
                f"{table.OPEN.partition_key} = :pk AND {table.OPEN.sort_key} < :before",
                {":pk": key, ":before": table.exact_time(before)},
                "looking for overdue watches",
                index=table.OPEN,
                limit=limit,
            )
            looks.extend(_look(row) for row in rows)
        return tuple(sorted(looks, key=lambda look: look.due_at)[:limit])

    @calls("dynamodb:PutItem")
    def put_alert(self, alert: Alert) -> bool:
        """Puts the alert into each outbox that has none of its id yet; True when this call put it into one at least."""
        doing = f"putting the alert {alert.id} into the outbox"
        put = [self._rows.put_once(row, doing) for row in self._alert_rows(alert)]
        return any(put)

    @calls("dynamodb:Query")
    def canary(self, home: Home, canary_id: str) -> Fact | None:
        """The fact of a canary, by a consistent read; None when it has not arrived."""
        key = table.subject_key(home.account, home.region, canary_id, letter="K")
        row = next(self._rows.query("pk = :pk", {":pk": key}, f"looking for {canary_id}", limit=1), None)
        return None if row is None else load(Fact, need(row, DOCUMENT), where_is(row))

    @calls("dynamodb:Query")
    def count_open(self, before: datetime, *, limit: int) -> int:
        """How many watches are due before `before`, at most `limit`; the index lags by moments."""
        count = 0
        for key in table.open_watch_keys():
            count += self._rows.count(
                f"{table.OPEN.partition_key} = :pk AND {table.OPEN.sort_key} < :before",
                {":pk": key, ":before": table.exact_time(before)},
                "counting open watches",
                index=table.OPEN,
                limit=limit - count,
            )
            if count >= limit:
                break
        return count

    def _raise_version(self, key: InstanceKey, values: Row, condition: str, more: Row, doing: str) -> None:
        arguments = update_of({**values, **self._expires(self._keep_facts)}, condition=condition, more=more)
        arguments["UpdateExpression"] += " ADD version :one"
        arguments["ExpressionAttributeValues"][":one"] = {"N": "1"}
        self._rows.update(_watch_key(key), doing, **arguments)

    def _watch_update(
        self, key: InstanceKey, version: int, values: Row, remove: Sequence[str]
    ) -> TransactWriteItemTypeDef:
        values = {**values, "version": {"N": str(version + 1)}, **self._expires(self._keep_facts)}
        update: Any = {
            "TableName": self._rows.name,
            "Key": _watch_key(key),
            **update_of(values, remove=remove, condition="#version = :read", more={"read": {"N": str(version)}}),
        }
        return {"Update": update}

    def _put(self, row: Row, condition: str | None = None) -> TransactWriteItemTypeDef:
        if condition is None:
            return {"Put": {"TableName": self._rows.name, "Item": row}}
        return {"Put": {"TableName": self._rows.name, "Item": row, "ConditionExpression": condition}}

    def _delete(self, key: Row) -> TransactWriteItemTypeDef:
        return {"Delete": {"TableName": self._rows.name, "Key": key}}

    def _transact(self, watch: TransactWriteItemTypeDef, items: list[TransactWriteItemTypeDef], doing: str) -> None:
        with translated(doing, action="dynamodb:PutItem, UpdateItem and DeleteItem", on=self._rows.resource):
            while True:
                try:
                    self._rows.client.transact_write_items(TransactItems=[watch, *items])
                except ClientError as error:
                    if error_code(error) != "TransactionCanceledException":
                        raise
                    items = _worth_repeating(error, items, doing)
                else:
                    return

    def _case_row(self, key: InstanceKey, record: CaseRecord) -> Row:
        row: Row = {
            **_case_key(key, record.case.cycle),
            DOCUMENT: {"S": dump(record)},
            **self._expires(self._keep_facts),
        }
        happened_at = record.happened_at
        if happened_at is not None:
            row[table.BY_CLUSTER.partition_key] = {
                "S": table.cluster_month_key(record.case.cluster, happened_at, _instance_key(key))
            }
            row[table.BY_CLUSTER.sort_key] = {"S": table.exact_time(happened_at)}
        return row

    def _alert_rows(self, alert: Alert) -> list[Row]:
        now = self._clock()
        return [alert_row(alert, name, now=now, keep=self._keep_alerts) for name in self._destinations(alert)]

    def _expires(self, keep: timedelta) -> Row:
        return {table.TTL_ATTRIBUTE: expiry(self._clock(), keep)}


_DUE_ATTRIBUTES = ("due_at", table.OPEN.partition_key, table.OPEN.sort_key)


def _worth_repeating(
    error: ClientError, items: list[TransactWriteItemTypeDef], doing: str
) -> list[TransactWriteItemTypeDef]:
    """The items of a cancelled transaction without those whose condition failed: alerts the outbox holds already.

    Raises:
        Conflict: the watch was changed, or somebody is writing the same rows.
        Throttled: the table asked to slow down.
        Unavailable: it was cancelled for another reason; the message has it.
    """
    watch_changed, *there_already = failed_conditions(error, doing)
    if watch_changed:
        raise Conflict(f"{doing}: the watch was changed since it was read") from error
    return [item for item, there in zip(items, there_already, strict=True) if not there]


def _instance_key(key: InstanceKey) -> str:
    return table.subject_key(key.account, key.region, key.instance_id)


def _fact_key(fact: Fact) -> Row:
    letter: Literal["I", "R", "D", "K"] = "I"
    if fact.kind is Kind.RESERVATION_NOTICE:
        letter = "R"
    elif fact.kind is Kind.EXPERIMENT:
        letter = "D"
    elif fact.kind is Kind.CANARY:
        letter = "K"
    return {
        table.PARTITION_KEY: {"S": table.subject_key(fact.account, fact.region, fact.subject, letter=letter)},
        table.SORT_KEY: {"S": table.fact_key(fact.at, fact.kind, fact.event_id)},
    }


def _watch_key(key: InstanceKey) -> Row:
    return {table.PARTITION_KEY: {"S": _instance_key(key)}, table.SORT_KEY: {"S": table.WATCH}}


def _case_key(key: InstanceKey, cycle: str) -> Row:
    return {table.PARTITION_KEY: {"S": _instance_key(key)}, table.SORT_KEY: {"S": table.case_key(cycle)}}


def _due(key: InstanceKey, due_at: datetime) -> Row:
    when: AttributeValueTypeDef = {"S": table.exact_time(due_at)}
    return {
        "due_at": when,
        table.OPEN.partition_key: {"S": table.open_watch_key(_instance_key(key))},
        table.OPEN.sort_key: when,
    }


def _watch(key: InstanceKey, row: Row) -> Watch:
    return Watch(
        key=key,
        version=number_of(row, "version"),
        due_at=time_of(row, "due_at") if "due_at" in row else None,
        cluster=text_of(row, "cluster"),
        told=tuple(mark["S"] for mark in row.get("told", {}).get("L", [])),
    )


def _look(row: Row) -> Look:
    key = InstanceKey(need(row, "account"), need(row, "region"), need(row, "instance_id"))
    return Look(key, time_of(row, table.OPEN.sort_key), text_of(row, "cluster"))
