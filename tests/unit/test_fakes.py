"""The fakes keep the ports' contract, and their faults do what they promise."""

import pytest

from holdfast.errors import Unavailable
from holdfast.ports import States
from tests.builders import W, warning
from tests.contracts import LedgerContract, Make, OutboxContract, StatesContract, Store
from tests.fakes import Clock, FakeLedger, FakeOutbox, FakeStates, Faults, Killed


def fresh() -> Store:
    clock = Clock(W)
    ledger = FakeLedger(clock)
    return Store(ledger, FakeOutbox(ledger.shelf), clock)


class TestFakeLedger(LedgerContract):
    @pytest.fixture
    def make(self) -> Make:
        return fresh


class TestFakeOutbox(OutboxContract):
    @pytest.fixture
    def make(self) -> Make:
        return fresh


class TestFakeStates(StatesContract):
    @pytest.fixture
    def states(self) -> States:
        return FakeStates()


@pytest.mark.parametrize(("kill", "stored"), [({"kill_before": 0}, 0), ({"kill_after": 0}, 1)])
def test_a_killed_process_stays_dead_until_it_is_revived(kill, stored):
    faults = Faults(**kill)
    ledger = FakeLedger(Clock(W), faults)
    for _ in range(2):
        with pytest.raises(Killed):
            ledger.put_fact(warning())
    assert len(ledger.facts) == stored
    faults.revive()
    ledger.put_fact(warning())
    assert len(ledger.facts) == 1


@pytest.mark.parametrize(("after", "stored"), [(False, 0), (True, 1)])
def test_a_call_fails_before_or_after_it_took_effect(after, stored):
    faults = Faults()
    ledger = FakeLedger(Clock(W), faults)
    faults.fail("put_fact", Unavailable("down"), after=after)
    with pytest.raises(Unavailable):
        ledger.put_fact(warning())
    assert len(ledger.facts) == stored
    assert ledger.put_fact(warning()) is not after
