"""The ledger, the outbox and the reports on a table (moto), with the failures DynamoDB is known for."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ParamValidationError, ReadTimeoutError
from moto import mock_aws

from holdfast.adapters import table
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.adapters.outbox import DynamoOutbox, DynamoOutboxes
from holdfast.adapters.reports import DynamoReports
from holdfast.errors import Conflict, Denied, InvalidDocument, NotFound, Throttled, Unavailable
from holdfast.interruption.event import Kind
from holdfast.ports import InstanceKey, Lease, Look, Watch
from tests.adapters import samples
from tests.adapters.samples import ALERT, FACT, KEY, LOOK, NOW, OTHER, REJECTION, WARNED
from tests.builders import W
from tests.contracts import LedgerContract, Make, OutboxContract, Store
from tests.fakes import Clock

TABLE = "holdfast-ledger"
MINUTE = timedelta(minutes=1)
LATER = NOW + timedelta(hours=3)
PK = f"I#{KEY.account}#{KEY.region}#{KEY.instance_id}"


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        made = samples.client("dynamodb")
        samples.create_table(made, TABLE)
        yield made


@pytest.fixture
def ledger(client: Any) -> DynamoLedger:
    return DynamoLedger(client, TABLE, clock=lambda: NOW)


@pytest.fixture
def outbox(client: Any) -> DynamoOutbox:
    return DynamoOutbox(client, TABLE)


def rows(client: Any) -> list[dict[str, Any]]:
    return client.scan(TableName=TABLE, ConsistentRead=True)["Items"]


def failing(client: Any, operation: str, code: str, message: str = "no", **more: Any) -> Any:
    """The client's method answers with an error of AWS."""
    error = ClientError({"Error": {"Code": code, "Message": message}, **more}, operation)
    return mock.patch.object(client, operation, side_effect=error)


def open_watch(ledger: DynamoLedger, key: InstanceKey = KEY, due_at: datetime = WARNED) -> Watch:
    assert ledger.open_watch(key, due_at)
    watch = ledger.history(key).watch
    assert watch is not None
    return watch


def store(client: Any) -> Store:
    clock = Clock(W)
    return Store(DynamoLedger(client, TABLE, clock=clock), DynamoOutbox(client, TABLE), clock)


class TestDynamoLedger(LedgerContract):
    @pytest.fixture
    def make(self, client: Any) -> Make:
        return lambda: store(client)


class TestDynamoOutbox(OutboxContract):
    @pytest.fixture
    def make(self, client: Any) -> Make:
        return lambda: store(client)


# Facts and looks


@pytest.mark.report("aws-powertools/powertools-lambda-python#2490")
def test_a_fact_is_new_once_however_often_it_comes(client: Any, ledger: DynamoLedger) -> None:
    assert ledger.put_fact(FACT)
    assert not ledger.put_fact(FACT)
    assert not ledger.put_fact(replace(FACT, received_at=NOW))
    (row,) = rows(client)
    assert row["pk"] == {"S": PK}
    assert row["sk"] == {"S": "F#2026-09-01T04:10:00.000000Z#spot_interrupted#12345678-1234-1234-1234-123456789012"}
    assert ledger.history(KEY).facts[0].received_at == FACT.received_at


def test_a_fact_lives_400_days_from_when_it_is_written(client: Any, ledger: DynamoLedger) -> None:
    ledger.put_fact(FACT)
    assert rows(client)[0]["expires_at"] == {"N": str(int((NOW + timedelta(days=400)).timestamp()))}


def test_a_fact_whose_answer_was_lost_is_still_new(client: Any, ledger: DynamoLedger) -> None:
    """botocore repeats the write and meets its own row: were that "had it already", nobody would watch the instance."""
    send = client.put_item

    def answer_is_lost(**arguments: Any) -> Any:
        send(**arguments)
        return send(**arguments)

    with mock.patch.object(client, "put_item", side_effect=answer_is_lost):
        assert ledger.put_fact(FACT)


@pytest.mark.parametrize(
    ("kind", "subject", "prefix"),
    [(Kind.RESERVATION_NOTICE, "cr-0123456789abcdef0", "R#"), (Kind.EXPERIMENT, "EXP123", "D#")],
)
def test_facts_about_other_subjects_stand_apart(
    client: Any, ledger: DynamoLedger, kind: Kind, subject: str, prefix: str
) -> None:
    ledger.put_fact(replace(FACT, kind=kind, subject=subject))
    assert rows(client)[0]["pk"] == {"S": f"{prefix}{KEY.account}#{KEY.region}#{subject}"}


@pytest.mark.parametrize("event_id", ["x" * 512, "\N{SNOWMAN}" * 512, "a#b"])
def test_an_id_that_fits_no_key_is_hashed_and_still_found(ledger: DynamoLedger, event_id: str) -> None:
    fact = replace(FACT, event_id=event_id, account="1#" + "\N{SNOWMAN}" * 500)
    assert ledger.put_fact(fact)
    assert not ledger.put_fact(fact)
    assert ledger.history(InstanceKey(fact.account, fact.region, fact.subject)).facts == (fact,)


def test_separators_in_ids_never_make_one_instance_of_two(ledger: DynamoLedger) -> None:
    ledger.put_fact(replace(FACT, account="1#2", region="3"))
    assert ledger.history(InstanceKey("1", "2#3", FACT.subject)).facts == ()


def test_two_different_looks_at_one_moment_are_both_kept_and_the_same_look_once(ledger: DynamoLedger) -> None:
    other = replace(LOOK, queue=None)
    for look in (LOOK, other, LOOK):
        ledger.put_observation(KEY, look)
    assert set(ledger.history(KEY).observations) == {LOOK, other}
    assert len(ledger.history(KEY).observations) == 2


# Rejections


def test_a_rejection_is_counted_and_its_alert_put_once(client: Any, ledger: DynamoLedger) -> None:
    assert ledger.put_rejection(REJECTION, day=WARNED, message_id="m-1", alert=ALERT)
    assert not ledger.put_rejection(REJECTION, day=WARNED, message_id="m-2", alert=ALERT)
    (stored,) = DynamoReports(client, TABLE).rejections(WARNED)
    assert (stored.rejection, stored.count, stored.first_message_id) == (REJECTION, 2, "m-1")
    assert len([row for row in rows(client) if row["pk"]["S"].startswith("X#")]) == 1


def test_a_crash_between_rejection_and_alert_loses_no_alert(
    client: Any, ledger: DynamoLedger, outbox: DynamoOutbox
) -> None:
    with failing(client, "put_item", "InternalServerError"), pytest.raises(Unavailable):
        ledger.put_rejection(REJECTION, day=WARNED, message_id="m-1", alert=ALERT)
    assert outbox.pending([ALERT.id], now=LATER, limit=5) == ()
    assert not ledger.put_rejection(REJECTION, day=WARNED, message_id="m-1", alert=ALERT)
    assert outbox.pending([ALERT.id], now=LATER, limit=5) == (ALERT,)


def test_a_told_alert_is_not_put_again_by_a_redelivered_body(ledger: DynamoLedger, outbox: DynamoOutbox) -> None:
    ledger.put_rejection(REJECTION, day=WARNED, message_id="m-1", alert=ALERT)
    outbox.mark_told([ALERT.id], now=NOW)
    ledger.put_rejection(REJECTION, day=WARNED, message_id="m-1", alert=ALERT)
    assert outbox.pending([ALERT.id], now=LATER, limit=5) == ()


def test_rejections_are_listed_by_the_day_of_their_message(client: Any, ledger: DynamoLedger) -> None:
    ledger.put_rejection(REJECTION, day=WARNED - timedelta(days=1), message_id="m-1", alert=None)
    reports = DynamoReports(client, TABLE)
    assert len(reports.rejections(WARNED - timedelta(days=1))) == 1
    assert reports.rejections(WARNED) == ()


# The watch


def test_the_due_time_keeps_its_microseconds(ledger: DynamoLedger) -> None:
    """A due time that lost precision would differ from the computed one and be saved again at every look."""
    assert open_watch(ledger, due_at=NOW).due_at == NOW


def test_touching_reopens_a_watch_that_was_not_due(ledger: DynamoLedger) -> None:
    ledger.save(replace(open_watch(ledger), due_at=None), [], [], obsolete=[])
    assert ledger.touch_watch(KEY, NOW)
    assert ledger.history(KEY).watch == Watch(KEY, 3, NOW)
    assert ledger.overdue(NOW + MINUTE, limit=10) == (Look(KEY, NOW),)


def test_a_watch_that_changes_between_the_two_touches_is_touched_all_the_same(
    client: Any, ledger: DynamoLedger
) -> None:
    """It was due earlier when the touch came, and not due at all a moment later."""
    open_watch(ledger)
    update = client.update_item
    seen: list[str] = []

    def meddled(**arguments: Any) -> Any:
        seen.append(arguments["ConditionExpression"])
        if len(seen) == 2:
            ledger.save(Watch(KEY, 1, None), [], [], obsolete=[])
        return update(**arguments)

    with mock.patch.object(client, "update_item", side_effect=meddled):
        assert ledger.touch_watch(KEY, NOW)
    assert ledger.history(KEY).watch == Watch(KEY, 3, NOW)
    assert len(seen) == 3


def test_a_watch_that_never_holds_still_is_a_conflict(client: Any, ledger: DynamoLedger) -> None:
    refused = failing(client, "update_item", "ConditionalCheckFailedException", Item={"pk": {"S": PK}})
    with refused as update, pytest.raises(Conflict, match="others kept changing it"):
        ledger.touch_watch(KEY, NOW)
    assert update.call_count == 10


def test_overdue_watches_come_oldest_first_from_all_shards(ledger: DynamoLedger) -> None:
    keys = [InstanceKey(KEY.account, KEY.region, f"i-0000000{number:010x}") for number in range(30)]
    for minutes, key in enumerate(keys):
        ledger.open_watch(key, WARNED + minutes * MINUTE)
    expected = [Look(key, WARNED + minutes * MINUTE) for minutes, key in enumerate(keys)]
    assert list(ledger.overdue(WARNED + 20 * MINUTE, limit=100)) == expected[:20]
    assert list(ledger.overdue(WARNED + 20 * MINUTE, limit=3)) == expected[:3]
    assert len({table.open_watch_key(f"I#{key}") for key in keys}) > 1


def test_what_is_not_due_is_not_overdue(ledger: DynamoLedger) -> None:
    ledger.save(replace(open_watch(ledger), due_at=None), [], [], obsolete=[])
    assert ledger.overdue(NOW, limit=10) == ()


# Saving a judgement


def test_a_cluster_that_is_not_known_any_more_is_forgotten(ledger: DynamoLedger) -> None:
    ledger.save(replace(open_watch(ledger), cluster="orders"), [], [], obsolete=[])
    watch = ledger.history(KEY).watch
    assert watch is not None
    ledger.save(replace(watch, cluster=None), [], [], obsolete=[])
    assert ledger.history(KEY).watch == Watch(KEY, 3, WARNED)


def test_an_instance_with_more_cycles_than_a_transaction_takes_is_saved_whole(
    ledger: DynamoLedger, outbox: DynamoOutbox
) -> None:
    """An instance that is stopped every night has a cycle for each day of the 400 its facts are kept."""
    watch = open_watch(ledger)
    record = samples.record()
    many = [replace(record, case=replace(record.case, cycle=f"{number:03}")) for number in range(250)]
    ledger.save(replace(watch, due_at=None, told=("told",)), many, [ALERT], obsolete=["gone"])
    history = ledger.history(KEY)
    assert history.records == tuple(many)
    assert history.watch == Watch(KEY, 4, None, told=("told",))
    assert outbox.pending([ALERT.id], now=LATER, limit=5) == (ALERT,)
    with pytest.raises(Conflict):
        ledger.save(watch, many, [], obsolete=[])


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (["ThrottlingError", "None"], Throttled),
        (["None", "ProvisionedThroughputExceeded"], Throttled),
        (["TransactionConflict", "None"], Conflict),
        (["None", "ValidationError"], Unavailable),
    ],
)
def test_each_reason_of_a_cancelled_transaction_has_its_error(
    client: Any, ledger: DynamoLedger, reasons: list[str], expected: type[Exception]
) -> None:
    watch = open_watch(ledger)
    codes = [{"Code": reason} for reason in reasons]
    with (
        failing(client, "transact_write_items", "TransactionCanceledException", CancellationReasons=codes),
        pytest.raises(expected) as caught,
    ):
        ledger.save(watch, [samples.record()], [], obsolete=[])
    assert type(caught.value) is expected


# History


def test_a_history_holds_only_its_instance_and_nothing_is_an_empty_one(ledger: DynamoLedger) -> None:
    ledger.put_fact(FACT)
    history = ledger.history(OTHER)
    assert (history.facts, history.observations, history.watch, history.records) == ((), (), None, ())


def test_a_history_of_several_pages_is_read_to_its_end(client: Any, ledger: DynamoLedger) -> None:
    facts = [replace(FACT, event_id=f"{number:04}") for number in range(30)]
    for fact in facts:
        ledger.put_fact(fact)
    query = client.query
    with mock.patch.object(client, "query", side_effect=lambda **arguments: query(**arguments, Limit=7)):
        assert ledger.history(KEY).facts == tuple(facts)


@pytest.mark.parametrize(
    ("sk", "attributes"),
    [
        ("F#broken", {"doc": {"S": "{"}}),
        ("O#broken", {}),
        ("C#broken", {"doc": {"S": '{"color":"red"}'}}),
        ("W", {"version": {"N": "1"}, "due_at": {"S": "soon"}}),
        ("W", {}),
        ("Z#new", {"doc": {"S": "{}"}}),
    ],
)
def test_a_row_that_cannot_be_read_is_named_and_not_skipped(
    client: Any, ledger: DynamoLedger, sk: str, attributes: dict[str, Any]
) -> None:
    client.put_item(TableName=TABLE, Item={"pk": {"S": PK}, "sk": {"S": sk}, **attributes})
    with pytest.raises(InvalidDocument) as caught:
        ledger.history(KEY)
    assert f"row pk={PK} sk={sk}" in str(caught.value)


# Errors


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("ProvisionedThroughputExceededException", Throttled),
        ("ThrottlingException", Throttled),
        ("RequestLimitExceeded", Throttled),
        ("AccessDeniedException", Denied),
        ("UnrecognizedClientException", Denied),
        ("ResourceNotFoundException", NotFound),
        ("InternalServerError", Unavailable),
    ],
)
def test_every_error_of_the_service_becomes_one_of_ours(
    client: Any, ledger: DynamoLedger, code: str, expected: type[Exception]
) -> None:
    with failing(client, "put_item", code, "as DynamoDB says"), pytest.raises(expected) as caught:
        ledger.put_fact(FACT)
    assert type(caught.value) is expected
    assert str(caught.value).startswith(f"writing the fact row pk={PK} sk=F#")
    assert f"{code}: as DynamoDB says" in str(caught.value)


def test_a_missing_permission_is_named_with_its_resource(client: Any, ledger: DynamoLedger) -> None:
    with (
        failing(client, "query", "AccessDeniedException"),
        pytest.raises(Denied, match=r"needs dynamodb:Query on table/holdfast-ledger$"),
    ):
        ledger.history(KEY)
    with (
        failing(client, "query", "AccessDeniedException"),
        pytest.raises(Denied, match=r"needs dynamodb:Query on table/holdfast-ledger/index/open$"),
    ):
        ledger.overdue(NOW, limit=1)


def test_missing_credentials_are_said_so(client: Any, ledger: DynamoLedger) -> None:
    with (
        mock.patch.object(client, "put_item", side_effect=NoCredentialsError()),
        pytest.raises(Denied, match="there are no AWS credentials"),
    ):
        ledger.put_fact(FACT)


def test_a_call_that_botocore_finds_wrong_is_our_defect_and_no_outage(client: Any) -> None:
    with pytest.raises(ParamValidationError):
        DynamoLedger(client, "").history(KEY)


def test_no_answer_is_unavailable(client: Any, ledger: DynamoLedger) -> None:
    error = ReadTimeoutError(endpoint_url="https://dynamodb")
    with mock.patch.object(client, "put_item", side_effect=error), pytest.raises(Unavailable, match="timeout"):
        ledger.put_fact(FACT)


def test_a_throttle_says_how_long_to_wait_when_the_service_does(client: Any, ledger: DynamoLedger) -> None:
    metadata = {"HTTPStatusCode": 400, "HTTPHeaders": {"retry-after": "3"}}
    with (
        failing(client, "put_item", "ThrottlingException", ResponseMetadata=metadata),
        pytest.raises(Throttled) as caught,
    ):
        ledger.put_fact(FACT)
    assert caught.value.retry_after == 3.0


# The outbox


def put_alerts(client: Any, *ids: str) -> None:
    """Alerts in the outbox, put there a minute apart in this order."""
    for minutes, alert_id in enumerate(ids):
        moment = NOW + minutes * MINUTE
        ledger = DynamoLedger(client, TABLE, clock=lambda moment=moment: moment)
        ledger.put_rejection(REJECTION, day=WARNED, message_id="m", alert=samples.alert(alert_id))


def test_named_alerts_come_first_then_the_others_each_oldest_first(client: Any, outbox: DynamoOutbox) -> None:
    put_alerts(client, "a", "b", "c", "d")
    assert [alert.id for alert in outbox.pending(["d", "c"], now=LATER, limit=9)] == ["c", "d", "a", "b"]
    assert [alert.id for alert in outbox.pending(["d", "c", "d"], now=LATER, limit=3)] == ["c", "d", "a"]
    assert [alert.id for alert in outbox.pending([], now=LATER, limit=2)] == ["a", "b"]


def test_an_alert_marked_as_told_is_gone_even_while_the_index_still_shows_it(client: Any, outbox: DynamoOutbox) -> None:
    put_alerts(client, "a", "b")
    stale = client.query(
        TableName=TABLE,
        IndexName="open",
        KeyConditionExpression="gsi2pk = :pk",
        ExpressionAttributeValues={":pk": {"S": "OPEN#alerts#slack"}},
    )
    outbox.mark_told(["a"], now=NOW)
    outbox.mark_told(["a"], now=NOW + MINUTE)
    with mock.patch.object(client, "query", return_value=stale):
        assert [alert.id for alert in outbox.pending([], now=LATER, limit=9)] == ["b"]
    told = next(row for row in rows(client) if row["sk"] == {"S": "a"})
    assert told["told_at"] == {"S": "2026-09-01T04:12:30.123456Z"}
    assert "gsi2pk" not in told


def test_more_alerts_than_one_read_takes_are_all_found(client: Any, outbox: DynamoOutbox) -> None:
    ids = [f"{number:03}" for number in range(120)]
    put_alerts(client, *ids)
    assert [alert.id for alert in outbox.pending([], now=LATER, limit=500)] == ids
    assert [alert.id for alert in outbox.pending(ids, now=LATER, limit=500)] == ids


def test_keys_left_unread_are_read_again_and_never_taken_for_told(client: Any, outbox: DynamoOutbox) -> None:
    put_alerts(client, "a", "b")
    read = client.batch_get_item

    def one_at_a_time(**arguments: Any) -> Any:
        keys = arguments["RequestItems"][TABLE]["Keys"]
        answer = read(RequestItems={TABLE: {"Keys": keys[:1], "ConsistentRead": True}})
        return {**answer, "UnprocessedKeys": {TABLE: {"Keys": keys[1:]}} if keys[1:] else {}}

    with mock.patch.object(client, "batch_get_item", side_effect=one_at_a_time):
        assert [alert.id for alert in outbox.pending([], now=LATER, limit=9)] == ["a", "b"]

    def nothing(**arguments: Any) -> Any:
        return {"Responses": {}, "UnprocessedKeys": arguments["RequestItems"]}

    with mock.patch.object(client, "batch_get_item", side_effect=nothing), pytest.raises(Throttled):
        outbox.pending([], now=LATER, limit=9)


def test_marking_an_alert_that_expired_brings_no_row_back(client: Any, outbox: DynamoOutbox) -> None:
    outbox.mark_told(["gone"], now=NOW)
    assert rows(client) == []


def test_the_oldest_waiting_alert_has_the_time_it_was_put(client: Any, outbox: DynamoOutbox) -> None:
    assert outbox.oldest(now=LATER) is None
    put_alerts(client, "a", "b")
    assert outbox.oldest(now=LATER) == NOW
    outbox.mark_told(["a"], now=NOW)
    assert outbox.oldest(now=LATER) == NOW + MINUTE


def test_destinations_do_not_see_each_others_alerts(client: Any) -> None:
    put_alerts(client, "a")
    other = DynamoOutbox(client, TABLE, destination="pager")
    assert other.oldest(now=LATER) is None
    assert other.pending(["a"], now=LATER, limit=5) == ()


def test_an_alert_is_put_into_the_outbox_of_each_of_its_destinations(client: Any, ledger: DynamoLedger) -> None:
    both = DynamoLedger(client, TABLE, clock=lambda: NOW, destinations=lambda alert: ("slack/a", "sns"))
    both.put_rejection(REJECTION, day=WARNED, message_id="m-1", alert=ALERT)
    both.open_watch(KEY, NOW)
    watch = both.history(KEY).watch
    assert watch is not None
    both.save(watch, [], [samples.alert("second")], obsolete=[])

    for destination in ("slack/a", "sns"):
        outbox = DynamoOutbox(client, TABLE, destination=destination)
        assert {alert.id for alert in outbox.pending([], now=LATER, limit=5)} == {ALERT.id, "second"}
        outbox.mark_told([ALERT.id, "second"], now=NOW)
    assert DynamoOutboxes(client, TABLE, ("slack", "slack/a", "sns")).oldest(now=LATER) is None


def test_the_oldest_of_several_destinations_is_that_of_any(client: Any) -> None:
    for minutes, destination in enumerate(("sns", "slack")):
        moment = NOW - minutes * MINUTE
        made = DynamoLedger(
            client, TABLE, clock=lambda moment=moment: moment, destinations=lambda _, to=destination: (to,)
        )
        made.put_rejection(REJECTION, day=WARNED, message_id="m", alert=ALERT)

    assert DynamoOutboxes(client, TABLE, ("sns", "slack")).oldest(now=LATER) == NOW - MINUTE
    assert DynamoOutboxes(client, TABLE, ("sns",)).oldest(now=LATER) == NOW
    assert DynamoOutboxes(client, TABLE, ()).oldest(now=LATER) is None


def test_an_alert_of_a_clock_ahead_of_ours_is_told_when_it_is_named(client: Any, outbox: DynamoOutbox) -> None:
    put_alerts(client, "a")

    assert [alert.id for alert in outbox.pending(["a"], now=NOW - MINUTE, limit=5)] == ["a"]


@pytest.mark.parametrize(
    ("code", "error"),
    [("TransactionConflict", Conflict), ("ThrottlingError", Throttled), ("ValidationError", Unavailable)],
)
def test_a_cancelled_marking_is_loud(client: Any, outbox: DynamoOutbox, code: str, error: type[Exception]) -> None:
    cancelled = ClientError(
        {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": [{"Code": code}]},  # type: ignore[typeddict-unknown-key]
        "TransactWriteItems",
    )
    with mock.patch.object(client, "transact_write_items", side_effect=cancelled), pytest.raises(error):
        outbox.mark_told(["a"], now=NOW)


def test_a_hundred_alerts_are_marked_by_one_call(client: Any, outbox: DynamoOutbox) -> None:
    ids = [f"{number:03}" for number in range(250)]
    with mock.patch.object(client, "transact_write_items") as transact:
        outbox.mark_told(ids, now=NOW)

    assert [len(call.kwargs["TransactItems"]) for call in transact.call_args_list] == [100, 100, 50]


def test_an_alert_id_too_long_for_a_key_is_told_like_any_other(client: Any, outbox: DynamoOutbox) -> None:
    alert_id = "case/" + "\N{SNOWMAN}" * 500
    put_alerts(client, alert_id)
    assert [alert.id for alert in outbox.pending([alert_id], now=LATER, limit=5)] == [alert_id]
    outbox.mark_told([alert_id], now=NOW)
    assert outbox.pending([alert_id], now=LATER, limit=5) == ()


# The lease

LIFETIME = timedelta(seconds=45)


def test_a_lease_whose_answer_was_lost_is_ours(client: Any, outbox: DynamoOutbox) -> None:
    send = client.update_item

    def answer_is_lost(**arguments: Any) -> Any:
        send(**arguments)
        return send(**arguments)

    with mock.patch.object(client, "update_item", side_effect=answer_is_lost):
        assert outbox.acquire("one", now=NOW, lifetime=LIFETIME) == Lease("one", NOW + LIFETIME)


# Reports


def test_cases_are_listed_by_cluster_and_time_newest_first(client: Any, ledger: DynamoLedger) -> None:
    keys = [InstanceKey(KEY.account, KEY.region, f"i-0000000{number:010x}") for number in range(5)]
    stored = [samples.record(key, warned=WARNED - hours * timedelta(hours=10)) for hours, key in enumerate(keys)]
    for key, item in zip(keys, stored, strict=True):
        ledger.save(open_watch(ledger, key), [item], [], obsolete=[])
    unknown = samples.record(OTHER, cluster=None)
    ledger.save(open_watch(ledger, OTHER), [unknown], [], obsolete=[])
    reports = DynamoReports(client, TABLE)
    since, until = WARNED - timedelta(hours=30), WARNED
    assert reports.records("orders", since=since, until=until, limit=10) == tuple(stored[:4])
    assert reports.records("orders", since=since, until=until, limit=2) == tuple(stored[:2])
    assert reports.records(None, since=since, until=until, limit=10) == (unknown,)
    assert reports.records("shop", since=since, until=until, limit=10) == ()


def test_all_cases_of_a_time_are_read_from_the_index_however_many_there_are(client: Any, ledger: DynamoLedger) -> None:
    """Sixty days lie in three months; the bounds count, and the table is never scanned."""
    keys = [InstanceKey(KEY.account, KEY.region, f"i-0000000{number:010x}") for number in range(31)]
    stored = [samples.record(key, warned=WARNED - days * timedelta(days=2)) for days, key in enumerate(keys)]
    for key, item in zip(keys, stored, strict=True):
        ledger.save(open_watch(ledger, key), [item], [], obsolete=[])
    unknown = samples.record(OTHER, cluster=None)
    ledger.save(open_watch(ledger, OTHER), [unknown], [], obsolete=[])
    reports = DynamoReports(client, TABLE)
    since = WARNED - timedelta(days=58)
    with failing(client, "scan", "AccessDenied"):
        assert set(reports.each_record("orders", since=since, until=WARNED)) == set(stored[:30])
        assert list(reports.each_record(None, since=WARNED, until=WARNED)) == [unknown]
        assert list(reports.each_record("shop", since=WARNED, until=WARNED)) == []


def test_an_unreadable_case_is_named_and_ends_the_reading(client: Any, ledger: DynamoLedger) -> None:
    ledger.save(open_watch(ledger), [samples.record()], [], obsolete=[])
    (row,) = [row for row in rows(client) if table.BY_CLUSTER.partition_key in row]
    client.put_item(TableName=TABLE, Item={**row, "doc": {"S": "{}"}})
    with pytest.raises(InvalidDocument, match="is no case record"):
        list(DynamoReports(client, TABLE).each_record("orders", since=WARNED, until=NOW))


def test_a_case_without_any_time_is_kept_but_not_listed(client: Any, ledger: DynamoLedger) -> None:
    record = samples.record()
    timeless = replace(record, case=replace(record.case, warned_at=None, first_look=None))
    assert timeless.happened_at is None
    ledger.save(open_watch(ledger), [timeless], [], obsolete=[])
    assert ledger.history(KEY).records == (timeless,)
    assert not any(table.BY_CLUSTER.partition_key in row for row in rows(client))


def test_a_case_whose_cluster_becomes_known_moves_in_the_list(client: Any, ledger: DynamoLedger) -> None:
    watch = open_watch(ledger)
    ledger.save(watch, [samples.record(cluster=None)], [], obsolete=[])
    ledger.save(replace(watch, version=2), [samples.record()], [], obsolete=[])
    reports = DynamoReports(client, TABLE)
    assert reports.records(None, since=WARNED, until=NOW, limit=10) == ()
    assert reports.records("orders", since=WARNED, until=NOW, limit=10) == (samples.record(),)


def test_years_before_1000_have_keys_that_sort() -> None:
    assert table.rejection_key(datetime(1, 2, 3, tzinfo=UTC), "ab").startswith("P#0001-02-03#")
