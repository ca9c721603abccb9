"""The safety net: what was due and did not happen is asked for again."""

from datetime import timedelta

import pytest

from holdfast.errors import Unavailable
from holdfast.interruption.sweep import SweepResult, sweep
from holdfast.ports import InstanceKey, Look
from tests.builders import ACCOUNT, KEY, REGION, W, alert, at
from tests.unit.interruption.plant import Plant


@pytest.fixture
def plant() -> Plant:
    return Plant()


def swept(plant: Plant, seconds: float) -> SweepResult:
    plant.clock.now = at(seconds)
    return sweep(now=plant.clock(), ledger=plant.ledger, outbox=plant.outbox, looks=plant.looks, wakeups=plant.wakeups)


def test_when_nothing_is_open_nothing_is_sent(plant: Plant):
    assert swept(plant, 0) == SweepResult(0, None, None, ())
    assert (plant.looks.sent, plant.wakeups.sent) == ([], [])


def test_a_look_is_lost_when_it_is_a_minute_late(plant: Plant):
    plant.ledger.open_watch(KEY, W)

    assert swept(plant, 60) == SweepResult(0, None, None, ())
    assert swept(plant, 61) == SweepResult(1, timedelta(seconds=61), None, ())
    assert plant.looks.sent == [Look(KEY, W)]


def test_the_oldest_come_first_and_the_rest_next_time(plant: Plant):
    keys = [InstanceKey(ACCOUNT, REGION, f"i-{number:017x}") for number in range(510)]
    for number, key in enumerate(keys):
        plant.ledger.open_watch(key, at(-number))
    result = swept(plant, 120)

    assert (result.overdue, result.oldest_overdue) == (500, timedelta(seconds=120 + 509))
    assert [look.key for look in plant.looks.sent] == keys[:9:-1]


def test_an_alert_that_waits_wakes_the_notifier(plant: Plant):
    plant.ledger.shelf.put(alert(), W)

    assert swept(plant, 90) == SweepResult(0, None, timedelta(seconds=90), ())
    assert plant.wakeups.sent == [((), timedelta(0))]


def test_an_alert_that_was_put_off_is_not_late_and_wakes_nobody_before_its_time(plant: Plant):
    plant.ledger.shelf.put(alert(), W)
    plant.ledger.shelf.put_off["alert-1"] = at(3600)

    assert swept(plant, 3599) == SweepResult(0, None, None, ())
    assert plant.wakeups.sent == []
    assert swept(plant, 3630).outbox_age == timedelta(seconds=30)
    assert plant.wakeups.sent == [((), timedelta(0))]


def test_one_queues_outage_does_not_keep_the_other_from_its_message(plant: Plant):
    plant.ledger.open_watch(KEY, W)
    plant.ledger.shelf.put(alert(), W)
    plant.faults.fail("send", Unavailable("down"))
    plant.faults.fail("wake", Unavailable("down too"))
    result = swept(plant, 120)

    assert (result.overdue, result.outbox_age) == (1, timedelta(seconds=120))
    assert result.problems == ("sending overdue looks: down", "waking the notifier: down too")


@pytest.mark.parametrize("call", ["overdue", "oldest"])
def test_an_outage_of_the_ledger_is_loud(plant: Plant, call: str):
    plant.faults.fail(call, Unavailable("down"))

    with pytest.raises(Unavailable):
        swept(plant, 120)
