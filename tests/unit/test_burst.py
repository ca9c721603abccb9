"""A burst with duplicates in any order leaves the ledger that the same events leave in order and once."""

from dataclasses import replace

import pytest

from holdfast.errors import Throttled
from tests import burst
from tests.burst import Burst
from tests.unit.interruption.plant import Plant

INSTANCES = 240
EVENTS = burst.events(INSTANCES)


@pytest.fixture(scope="module")
def plain() -> Burst:
    return burst.play(EVENTS, INSTANCES)


@pytest.fixture(scope="module")
def mixed() -> Burst:
    return burst.play(burst.disturbed(EVENTS), INSTANCES)


def test_nothing_is_lost_and_nothing_is_doubled(mixed: Burst, plain: Burst):
    assert (mixed.events, plain.events) == (1500, 1200)
    assert burst.differences(mixed, plain) == []
    assert len(mixed.outcome["facts"]) == 1200
    assert mixed.outcome["open"] == mixed.outcome["waiting"] == mixed.outcome["poison"] == []


def test_every_instance_has_its_own_verdict_and_one_alert(mixed: Burst):
    """Of ten instances EC2 takes two: one that Karpenter had not begun with, one that it had not drained."""
    verdicts = [cases["0"][0] for cases in mixed.outcome["cases"].values()]

    assert {name: verdicts.count(name) for name in verdicts} == {
        "HANDLED_IN_TIME": 192,
        "MISSED": 24,
        "RECLAIMED_BEFORE_DRAIN": 24,
    }
    assert len(mixed.outcome["told"]) == INSTANCES
    assert mixed.messages <= 10


def test_another_order_with_other_duplicates_is_the_same_ledger(plain: Burst):
    other = burst.play(burst.disturbed(EVENTS, duplicates=0.5, seed=2), INSTANCES)

    assert burst.differences(other, plain) == []


def test_a_lost_and_a_doubled_row_are_noticed(mixed: Burst, plain: Burst):
    facts = mixed.outcome["facts"]

    assert burst.differences(replace(mixed, outcome={**mixed.outcome, "facts": facts[1:]}), plain) == ["facts differ"]
    assert burst.differences(replace(mixed, outcome={**mixed.outcome, "facts": [*facts, facts[0]]}), plain) == [
        "facts differ"
    ]
    assert burst.differences(replace(mixed, failed=2), plain) == ["2 messages were given back"]


def test_feeding_says_what_was_given_back():
    plant: Plant = burst.fleet(2)
    plant.ledger.faults.fail("put_fact", *[None] * 3, Throttled("slow"))

    failed, seconds = burst.feed(burst.events(2), plant)
    assert (failed, seconds > 0) == (1, True)
