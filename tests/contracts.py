"""What every implementation of the Ledger and Outbox ports has to do. A test module subclasses and gives `make`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from holdfast.errors import Conflict
from holdfast.interruption.event import Disposition, Fact, Home, Kind, Rejection
from holdfast.interruption.mode import Lag, Mode
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import judge
from holdfast.ports import Busy, History, InstanceKey, Lease, Ledger, Look, Outbox, States, Stored, Watch
from tests.builders import ACCOUNT, KEY, REGION, SPOT, W, alert, at, case_of, ec2, kube, observation, state, warning
from tests.fakes import Clock


@dataclass
class Store:
    """A ledger and the outbox on the same rows, empty. `clock` is what both call now."""

    ledger: Ledger
    outbox: Outbox
    clock: Clock


Make = Callable[[], Store]
OTHER = InstanceKey(ACCOUNT, REGION, "i-0b99999999999999f")
LIFETIME = timedelta(seconds=45)


def record(cycle: str = "0", seconds: float = 0) -> CaseRecord:
    """A judged case."""
    case = replace(case_of(warning(seconds)), cycle=cycle)
    return CaseRecord(case, judge(case, W, exhausted=False), W)


def rejection(digest: str = "a" * 64) -> Rejection:
    """A body nobody can read."""
    return Rejection(Disposition.POISON, "not_json", "the body is not JSON", digest, "abcd")


def watched(store: Store, due_at: float | None = 0, key: InstanceKey = KEY) -> Watch:
    """A watch that is due then; with None, one that is not due."""
    store.ledger.open_watch(key, at(due_at or 0))
    watch = store.ledger.history(key).watch
    assert watch is not None
    if due_at is not None:
        return watch
    store.ledger.save(replace(watch, due_at=None), [], [], obsolete=[])
    return replace(watch, due_at=None, version=watch.version + 1)


def watch_of(store: Store, key: InstanceKey = KEY) -> Watch:
    """The stored watch."""
    watch = store.ledger.history(key).watch
    assert watch is not None
    return watch


class LedgerContract:
    """The rules of the Ledger port."""

    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError

    @pytest.fixture
    def store(self, make: Make) -> Store:
        return make()

    def test_of_an_instance_nobody_heard_of_there_is_nothing(self, store: Store) -> None:
        assert store.ledger.history(KEY) == History(KEY, (), (), None, ())

    def test_a_fact_is_new_once(self, store: Store) -> None:
        assert [store.ledger.put_fact(warning()) for _ in range(3)] == [True, False, False]
        assert store.ledger.history(KEY).facts == (warning(),)

    def test_an_event_that_is_replayed_is_the_same_fact(self, store: Store) -> None:
        store.ledger.put_fact(warning())

        assert store.ledger.put_fact(warning(replay="audit-backfill")) is False
        assert store.ledger.history(KEY).facts == (warning(),)

    def test_the_same_fact_about_another_instance_is_another_one(self, store: Store) -> None:
        event_id = "6f0c2f5e-3f10-4d0c-9a55-0a1b2c3d4e16"
        store.ledger.put_fact(warning(event_id=event_id))

        assert store.ledger.put_fact(warning(event_id=event_id, subject=OTHER.instance_id)) is True
        assert [fact.subject for fact in store.ledger.history(OTHER).facts] == [OTHER.instance_id]

    def test_a_fact_keeps_all_it_says(self, store: Store) -> None:
        kept = warning(
            replay="backfill",
            notes=("unknown_action",),
            announced=at(90.5),
            event_arn="arn",
            event_code="CODE",
            sent_at=at(1.25),
            received_at=at(2),
        )
        store.ledger.put_fact(kept)

        (found,) = store.ledger.history(KEY).facts
        assert (found, found.sent_at, found.received_at) == (kept, kept.sent_at, kept.received_at)

    def test_a_rejection_is_new_once_a_day_and_its_alert_is_put_once(self, store: Store) -> None:
        def put(day: float) -> bool:
            return store.ledger.put_rejection(rejection(), day=at(day), message_id="m-1", alert=alert("poison"))

        assert [put(0), put(60), put(24 * 3600)] == [True, False, True]
        assert [item.id for item in store.outbox.pending((), now=store.clock(), limit=10)] == ["poison"]

    def test_a_rejection_without_an_alert_tells_nothing(self, store: Store) -> None:
        store.ledger.put_rejection(rejection(), day=W, message_id="m-1", alert=None)

        assert store.outbox.oldest(now=store.clock()) is None

    def test_a_look_is_kept_once_and_two_looks_at_one_moment_are_two(self, store: Store) -> None:
        first, second = observation(20, ec2(), kube()), observation(20, ec2("shutting-down", SPOT), kube())
        for look in (first, first, second):
            store.ledger.put_observation(KEY, look)

        assert set(store.ledger.history(KEY).observations) == {first, second}
        assert len(store.ledger.history(KEY).observations) == 2

    def test_a_watch_is_opened_once(self, store: Store) -> None:
        assert [store.ledger.open_watch(KEY, at(20)), store.ledger.open_watch(KEY, at(5))] == [True, False]
        watch = watch_of(store)
        assert (watch.due_at, watch.cluster, watch.told) == (at(20), None, ())

    def test_touching_what_nobody_watches_changes_nothing(self, store: Store) -> None:
        assert store.ledger.touch_watch(KEY, W) is False
        assert store.ledger.history(KEY).watch is None

    @pytest.mark.parametrize(("due", "touch", "then"), [(60, 20, 20), (20, 60, 20), (20, 20, 20), (None, 30, 30)])
    def test_a_touch_makes_a_watch_due_no_later_and_raises_its_version(
        self, store: Store, due: float | None, touch: float, then: float
    ) -> None:
        before = watched(store, due)

        assert store.ledger.touch_watch(KEY, at(touch)) is True
        assert watch_of(store) == replace(before, due_at=at(then), version=before.version + 1)

    def test_saving_writes_the_watch_the_cases_and_the_alerts(self, store: Store) -> None:
        watch = replace(watched(store), due_at=at(60), cluster="cluster-a", told=("0/MISSED/-",))
        store.ledger.save(watch, [record("0"), record("later", 9)], [alert("one")], obsolete=[])

        history = store.ledger.history(KEY)
        assert history.watch == replace(watch, version=watch.version + 1)
        assert {item.case.cycle: item for item in history.records} == {"0": record("0"), "later": record("later", 9)}
        assert [item.id for item in store.outbox.pending((), now=store.clock(), limit=10)] == ["one"]

    def test_saving_replaces_a_case_and_removes_the_obsolete(self, store: Store) -> None:
        watch = watched(store)
        store.ledger.save(watch, [record("0"), record("gone")], [], obsolete=[])
        store.ledger.save(watch_of(store), [record("0", 30)], [], obsolete=["gone"])

        assert store.ledger.history(KEY).records == (record("0", 30),)

    def test_nothing_is_saved_over_a_change(self, store: Store) -> None:
        watch = watched(store)
        store.ledger.touch_watch(KEY, W)
        before = store.ledger.history(KEY)

        with pytest.raises(Conflict):
            store.ledger.save(replace(watch, told=("x",)), [record()], [alert()], obsolete=[])
        assert store.ledger.history(KEY) == before
        assert store.outbox.oldest(now=store.clock()) is None

    def test_of_two_judges_one_saves(self, store: Store) -> None:
        watch = watched(store)
        store.ledger.save(watch, [record()], [alert("first")], obsolete=[])

        with pytest.raises(Conflict):
            store.ledger.save(watch, [record()], [alert("second")], obsolete=[])
        assert [item.id for item in store.outbox.pending((), now=store.clock(), limit=10)] == ["first"]

    def test_an_alert_of_a_known_id_is_not_put_again_and_holds_up_nothing(self, store: Store) -> None:
        store.ledger.save(watched(store), [], [alert("one")], obsolete=[])
        store.outbox.mark_told(["one"], now=at(5))
        store.ledger.save(watch_of(store), [record()], [alert("one"), alert("two")], obsolete=[])

        assert [item.id for item in store.outbox.pending(("one", "two"), now=store.clock(), limit=10)] == ["two"]
        assert store.ledger.history(KEY).records == (record(),)

    def test_overdue_watches_come_oldest_first_and_no_more_than_asked_for(self, store: Store) -> None:
        keys = [InstanceKey(ACCOUNT, REGION, f"i-0000000000000000{digit}") for digit in range(5)]
        for key, due in zip(keys, (40, 10, 30, 20, 61), strict=True):
            store.ledger.open_watch(key, at(due))
        closed = watched(store, None)

        assert closed.due_at is None
        expected = [Look(keys[index], at(due)) for index, due in ((1, 10), (3, 20), (2, 30), (0, 40))]
        assert list(store.ledger.overdue(at(61), limit=10)) == expected
        assert list(store.ledger.overdue(at(61), limit=2)) == expected[:2]

    def test_an_overdue_watch_names_its_cluster(self, store: Store) -> None:
        store.ledger.save(replace(watched(store), due_at=at(9), cluster="cluster-b"), [], [], obsolete=[])

        assert list(store.ledger.overdue(at(10), limit=10)) == [Look(KEY, at(9), "cluster-b")]

    def test_an_alert_is_put_once(self, store: Store) -> None:
        assert [store.ledger.put_alert(alert("one")), store.ledger.put_alert(alert("one"))] == [True, False]
        assert [item.id for item in store.outbox.pending((), limit=10, now=store.clock())] == ["one"]

    def test_a_canary_is_found_by_its_id_once_it_arrived(self, store: Store) -> None:
        name = "canary-2026-09-01T04:10:00Z"
        landed = Fact(Kind.CANARY, ACCOUNT, REGION, name, W, "e-1", received_at=at(3))

        assert store.ledger.canary(Home(ACCOUNT, REGION), name) is None
        store.ledger.put_fact(landed)
        found = store.ledger.canary(Home(ACCOUNT, REGION), name)
        assert found is not None
        assert (found, found.received_at) == (landed, at(3))
        assert store.ledger.canary(Home(ACCOUNT, "eu-west-1"), name) is None

    def test_watches_that_are_due_before_a_moment_are_counted_up_to_a_limit(self, store: Store) -> None:
        for digit, due in enumerate((10, 20, 60, 900)):
            store.ledger.open_watch(InstanceKey(ACCOUNT, REGION, f"i-0000000000000000{digit}"), at(due))

        assert [store.ledger.count_open(at(60.5), limit=limit) for limit in (10, 3, 2)] == [3, 3, 2]
        assert store.ledger.count_open(at(5), limit=10) == 0

    def test_facts_about_what_is_no_instance_are_kept_too(self, store: Store) -> None:
        kept = Fact(Kind.EXPERIMENT, ACCOUNT, REGION, "EXPfake1234567890", W, "e-1", status="running")

        assert [store.ledger.put_fact(kept), store.ledger.put_fact(kept)] == [True, False]

    def test_what_an_instance_did_is_found_by_that_instance_only(self, store: Store) -> None:
        store.ledger.put_fact(warning())
        store.ledger.put_fact(state("terminated", 70))

        assert len(store.ledger.history(KEY).facts) == 2
        assert store.ledger.history(OTHER).facts == ()
        assert store.ledger.history(replace(KEY, account="999999999999")).facts == ()


class OutboxContract:
    """The rules of the Outbox port."""

    @pytest.fixture
    def make(self) -> Make:
        raise NotImplementedError

    @pytest.fixture
    def store(self, make: Make) -> Store:
        return make()

    def put(self, store: Store, *ids: str) -> None:
        for name in ids:
            store.ledger.put_rejection(rejection(name.ljust(64, "0")), day=W, message_id=name, alert=alert(name))
            store.clock.forward(timedelta(seconds=1))

    def ids(self, store: Store, *named: str, limit: int = 10) -> list[str]:
        return [item.id for item in store.outbox.pending(named, now=store.clock(), limit=limit)]

    def test_an_empty_outbox_has_nothing_to_tell(self, store: Store) -> None:
        assert (self.ids(store, "unknown"), store.outbox.oldest(now=store.clock())) == ([], None)

    def test_alerts_wait_oldest_first_up_to_a_limit(self, store: Store) -> None:
        begun = store.clock()
        self.put(store, "b", "a", "c")

        assert self.ids(store) == ["b", "a", "c"]
        assert self.ids(store, limit=2) == ["b", "a"]
        assert store.outbox.oldest(now=store.clock()) == begun

    def test_the_named_come_first(self, store: Store) -> None:
        self.put(store, "a", "b", "c")

        assert self.ids(store, "c", "unknown") == ["c", "a", "b"]

    def test_an_alert_is_given_back_whole(self, store: Store) -> None:
        whole = alert("whole", cluster="cluster-a", fields=(("a", "1"), ("b", "2")), runbook="missed", source="row")
        store.ledger.put_rejection(rejection(), day=W, message_id="m", alert=whole)

        assert list(store.outbox.pending((), now=store.clock(), limit=1)) == [whole]

    def test_what_was_told_is_not_pending_again(self, store: Store) -> None:
        self.put(store, "a", "b")
        for _ in range(2):
            store.outbox.mark_told(["a"], now=store.clock())
        store.outbox.mark_told(["never heard of"], now=store.clock())

        assert self.ids(store, "a", "b") == ["b"]

    def test_many_are_marked_at_once_and_what_is_gone_or_told_holds_up_nothing(self, store: Store) -> None:
        names = [f"{number:03}" for number in range(105)]
        self.put(store, *names)
        store.outbox.mark_told(["003", "104"], now=store.clock())
        store.outbox.mark_told(["never heard of", *names], now=store.clock())

        assert (self.ids(store), store.outbox.oldest(now=store.clock())) == ([], None)

    def test_what_was_put_off_waits_neither_in_the_list_nor_in_the_count(self, store: Store) -> None:
        begun = store.clock()
        self.put(store, "a", "b", "c")
        until = begun + timedelta(hours=9)
        store.outbox.put_off(["a", "c", "never heard of"], until=until)

        assert (self.ids(store, "a", "b"), store.outbox.oldest(now=store.clock())) == (
            ["b"],
            begun + timedelta(seconds=1),
        )
        store.outbox.mark_told(["b"], now=store.clock())
        assert store.outbox.oldest(now=store.clock()) is None
        store.clock.now = until
        assert (self.ids(store), store.outbox.oldest(now=until)) == (["a", "c"], until)

    def test_what_was_told_is_not_put_off(self, store: Store) -> None:
        self.put(store, "a")
        store.outbox.mark_told(["a"], now=store.clock())
        store.outbox.put_off(["a"], until=store.clock())

        assert (self.ids(store, "a"), store.outbox.oldest(now=store.clock())) == ([], None)

    def test_a_lease_is_held_by_one_until_it_ends(self, store: Store) -> None:
        lease = store.outbox.acquire("one", now=at(0), lifetime=LIFETIME)

        assert lease == Lease("one", at(45))
        assert store.outbox.acquire("two", now=at(44), lifetime=LIFETIME) == Busy(at(45))
        assert store.outbox.acquire("two", now=at(45), lifetime=LIFETIME) == Lease("two", at(90))

    def test_a_lease_given_back_is_free_at_once(self, store: Store) -> None:
        lease = store.outbox.acquire("one", now=at(0), lifetime=LIFETIME)
        assert isinstance(lease, Lease)
        store.outbox.release(lease)

        assert store.outbox.acquire("two", now=at(1), lifetime=LIFETIME) == Lease("two", at(46))

    def test_a_lease_given_back_with_a_silence_is_nobodys_until_then(self, store: Store) -> None:
        lease = store.outbox.acquire("one", now=at(0), lifetime=LIFETIME)
        assert isinstance(lease, Lease)
        store.outbox.release(lease, not_before=at(30))

        assert store.outbox.acquire("one", now=at(29), lifetime=LIFETIME) == Busy(at(30))
        assert store.outbox.acquire("two", now=at(30), lifetime=LIFETIME) == Lease("two", at(75))

    def test_who_lost_the_lease_gives_back_nothing(self, store: Store) -> None:
        old = store.outbox.acquire("one", now=at(0), lifetime=LIFETIME)
        assert isinstance(old, Lease)
        store.outbox.acquire("two", now=at(50), lifetime=LIFETIME)
        store.outbox.release(old, not_before=at(500))

        assert store.outbox.acquire("three", now=at(60), lifetime=LIFETIME) == Busy(at(95))


class StatesContract:
    """The rules of the States port."""

    @pytest.fixture
    def states(self) -> States:
        raise NotImplementedError

    def test_of_what_nobody_wrote_nothing_is_remembered(self, states: States) -> None:
        assert states.read(Mode) is None

    def test_what_is_written_is_read_back_with_the_version_for_the_next_write(self, states: States) -> None:
        first, second = Mode(at(0)), Mode(at(60), since=at(60), reason="why")
        states.write(first, version=0)
        assert states.read(Mode) == Stored(first, 1)
        states.write(second, version=1)
        assert states.read(Mode) == Stored(second, 2)

    @pytest.mark.parametrize("version", [0, 2])
    def test_nothing_is_written_over_what_was_not_read(self, states: States, version: int) -> None:
        states.write(Mode(at(0)), version=0)

        with pytest.raises(Conflict):
            states.write(Mode(at(60)), version=version)
        assert states.read(Mode) == Stored(Mode(at(0)), 1)

    def test_a_row_that_is_not_there_has_no_version_to_write_over(self, states: States) -> None:
        with pytest.raises(Conflict):
            states.write(Mode(at(0)), version=1)

    def test_a_word_is_put_over_the_last_one(self, states: States) -> None:
        states.put(Lag(31.5, at(0)))
        states.put(Lag(45, at(20)))

        held = states.read(Lag)
        assert held is not None
        assert held.value == Lag(45, at(20))

    def test_each_kind_is_a_row_of_its_own(self, states: States) -> None:
        states.put(Lag(31.5, at(0)))
        states.write(Mode(at(0)), version=0)

        assert states.read(Mode) == Stored(Mode(at(0)), 1)
