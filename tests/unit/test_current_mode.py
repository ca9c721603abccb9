"""The mode for functions that go by it: read every few seconds, and normal when nobody can say."""

import pytest

from holdfast.errors import Unavailable
from holdfast.interruption.mode import Mode
from holdfast.runtime import observability
from holdfast.runtime.current_mode import CurrentMode
from tests.builders import at
from tests.fakes import FakeStates


@pytest.fixture
def states() -> FakeStates:
    made = FakeStates()
    made.put(Mode(at(0), since=at(0), reason="why"))
    return made


def current(states: FakeStates) -> CurrentMode:
    return CurrentMode(states, observability.logger("test"))


def test_it_is_read_once_in_five_seconds(states: FakeStates):
    mode = current(states)
    seen = [mode.degraded(at(second)) for second in (1, 2, 5.9)]
    states.put(Mode(at(6)))

    assert [*seen, mode.degraded(at(6))] == ["why", "why", "why", None]
    assert states.faults.calls.count("read") == 2


def test_what_was_never_decided_is_normal():
    assert current(FakeStates()).degraded(at(0)) is None


def test_what_cannot_be_read_is_normal_and_said(states: FakeStates, caplog: pytest.LogCaptureFixture):
    states.faults.fail("read", Unavailable("the table is down"))

    assert current(states).degraded(at(1)) is None
    assert "whether the audit is degraded is not known: the table is down" in caplog.text


def test_a_word_that_nobody_renewed_is_normal(states: FakeStates):
    assert current(states).degraded(at(300)) is None
