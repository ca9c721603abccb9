"""The canary: sent once an hour by one of all sweeps, looked for, and told of for as long as it does not arrive."""

import json
from datetime import timedelta

import pytest

from holdfast.errors import Denied, Unavailable
from holdfast.interruption.canary import Canary, CanaryResult, tend
from holdfast.interruption.event import CANARY_DETAIL_TYPE, CANARY_SOURCE
from holdfast.interruption.ingest import Message
from tests.builders import ACCOUNT, HOME, REGION, at
from tests.fakes import FakeBus, FakeStates
from tests.unit.interruption.plant import Plant


class Shaft:
    """The way of a canary: the bus gives what it took to ingest when told to."""

    def __init__(self) -> None:
        self.plant = Plant()
        self.states, self.bus = FakeStates(self.plant.faults), FakeBus(self.plant.faults)

    def tend(self, seconds: float) -> CanaryResult:
        self.plant.clock.now = at(seconds)
        return tend(
            now=at(seconds),
            home=HOME,
            deployment="holdfast",
            ledger=self.plant.ledger,
            states=self.states,
            bus=self.bus,
        )

    def arrive(self, seconds: float) -> None:
        """All that was sent comes to ingest."""
        self.plant.clock.now = at(seconds)
        result = self.plant.ingest(*(self.message(number) for number in range(len(self.bus.sent))))
        assert (result.failed, result.rejected) == ({}, ())

    def message(self, number: int) -> Message:
        source, detail_type, detail = self.bus.sent[number]
        body = {
            "version": "0",
            "id": f"e-{number}",
            "detail-type": detail_type,
            "source": source,
            "account": ACCOUNT,
            "time": "2026-09-01T04:10:00Z",
            "region": REGION,
            "resources": [],
            "detail": detail,
        }
        return Message(f"m-{number}", json.dumps(body), self.plant.clock())

    @property
    def ids(self) -> list[str]:
        return [detail["id"] for _, _, detail in self.bus.sent]


@pytest.fixture
def shaft() -> Shaft:
    return Shaft()


def test_the_first_sweep_sends_one(shaft: Shaft):
    assert shaft.tend(0) == CanaryResult(timedelta(0))
    detail = {"id": "canary-2026-09-01T04:10:00Z", "deployment": "holdfast"}
    assert shaft.bus.sent == [(CANARY_SOURCE, CANARY_DETAIL_TYPE, detail)]


def test_what_it_took_is_told_until_the_next_one(shaft: Shaft):
    shaft.tend(0)
    shaft.arrive(4)

    assert [shaft.tend(second) for second in (60, 120, 3540)] == [CanaryResult(timedelta(seconds=4))] * 3
    assert len(shaft.bus.sent) == 1


def test_an_hour_later_comes_the_next_one(shaft: Shaft):
    shaft.tend(0)
    shaft.arrive(4)
    shaft.tend(60)
    shaft.tend(3600)

    assert shaft.ids == ["canary-2026-09-01T04:10:00Z", "canary-2026-09-01T05:10:00Z"]


def test_one_that_does_not_arrive_grows_old_is_sent_again_and_is_not_replaced(shaft: Shaft):
    ages = [shaft.tend(second).waited for second in (0, 59, 60, 120, 3660)]

    assert ages == [timedelta(seconds=second) for second in (0, 59, 60, 120, 3660)]
    assert shaft.ids == ["canary-2026-09-01T04:10:00Z"] * 4


def test_when_the_way_is_mended_the_outage_is_measured_and_the_next_one_follows(shaft: Shaft):
    shaft.tend(0)
    shaft.tend(7200)
    shaft.arrive(7203)

    assert shaft.tend(7260) == CanaryResult(timedelta(seconds=7203))
    shaft.tend(7320)
    assert shaft.ids[-1] == "canary-2026-09-01T06:12:00Z"


def test_two_sweeps_at_once_send_one(shaft: Shaft):
    states = FakeStates()
    read = states.read
    # Both read before either writes.
    held = read(Canary)
    shaft.states = states
    shaft.tend(0)
    states.read = lambda kind: held if kind is Canary else read(kind)  # type: ignore[method-assign]
    shaft.tend(1)

    assert len(shaft.bus.sent) == 1


def test_one_that_was_not_taken_is_named_and_sent_again(shaft: Shaft):
    shaft.plant.faults.fail("send", Unavailable("EventBridge is down"))

    assert shaft.tend(0).problems == ("sending the canary: EventBridge is down",)
    assert shaft.tend(60) == CanaryResult(timedelta(seconds=60))
    assert len(shaft.bus.sent) == 1


def test_a_sweep_that_died_after_its_note_is_made_good(shaft: Shaft):
    shaft.states.write(Canary("canary-2026-09-01T04:10:00Z", at(0)), version=0)

    shaft.tend(60)
    assert shaft.ids == ["canary-2026-09-01T04:10:00Z"]


def test_when_none_can_be_begun_it_is_told_how_overdue_it_is(shaft: Shaft):
    shaft.tend(0)
    shaft.arrive(4)
    shaft.tend(60)
    shaft.plant.faults.fail("write", Denied("no dynamodb:PutItem"))

    assert shaft.tend(3600 + 90) == CanaryResult(timedelta(seconds=90), ("beginning a canary: no dynamodb:PutItem",))


def test_when_nobody_can_say_whether_it_arrived_it_counts_as_under_way(shaft: Shaft):
    shaft.tend(0)
    shaft.arrive(4)
    shaft.plant.faults.fail("canary", Unavailable("down"))

    assert shaft.tend(60) == CanaryResult(timedelta(seconds=60), ("looking for the canary: down",))
    assert shaft.tend(120) == CanaryResult(timedelta(seconds=4))


def test_a_canary_opens_no_case_and_is_counted_apart(shaft: Shaft):
    shaft.tend(0)
    result = shaft.plant.ingest(shaft.message(0), shaft.message(0))

    assert (result.canaries, result.stored, result.watched) == (2, (), ())
    assert (shaft.plant.ledger.watches, shaft.plant.ledger.shelf.alerts) == ({}, {})


def test_what_somebody_else_sends_as_a_canary_is_no_fact(shaft: Shaft):
    shaft.bus.sent.append((CANARY_SOURCE, CANARY_DETAIL_TYPE, {"id": "i-0a11111111111111a", "deployment": "holdfast"}))
    result = shaft.plant.ingest(shaft.message(0))

    assert [rejection.code for rejection in result.rejected] == ["not_our_canary"]
    assert shaft.plant.ledger.facts == {}
