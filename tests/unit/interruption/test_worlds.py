"""Worlds made from seeds, played from the event to the verdict: it is the truth or INCONCLUSIVE, whatever fails."""

from collections import Counter

import pytest
from rich.console import Console

from holdfast.errors import HoldfastError
from holdfast.interruption.case import End
from holdfast.interruption.verdict import Verdict
from tests.builders import at
from tests.fakes import Clock
from tests.simulation.confusion import NO_CASE, Confusion, confusion, show
from tests.simulation.truth import Truth
from tests.simulation.world import Outage, Weather, world

V = Verdict
SEEDS = 150


@pytest.fixture(scope="module")
def found() -> Confusion:
    return confusion(range(SEEDS))


def test_the_verdict_is_the_truth_or_inconclusive_and_nothing_stays_open(found: Confusion):
    assert found.wrong == []


def test_the_worlds_hold_every_truth_and_most_of_each_is_found(found: Confusion):
    truths, right = Counter[str](), Counter[str]()
    for (truth, verdict), count in found.counts.items():
        truths[truth] += count
        right[truth] += count if verdict == truth or (truth == V.NOT_APPLICABLE and verdict == NO_CASE) else 0

    assert set(truths) == set(V) - {V.GHOST, V.INCONCLUSIVE}
    assert sum(right.values()) >= 0.75 * found.nodes
    assert all(right[truth] for truth in truths)


def test_inconclusive_names_what_is_missing(found: Confusion):
    unsure = sum(count for (_, verdict), count in found.counts.items() if verdict == V.INCONCLUSIVE)

    assert 0 < unsure <= found.missing.total()
    assert not [text for text in found.missing if text.startswith("nothing")]


def test_a_seed_is_the_same_world_each_time():
    one, other = world(7), world(7)
    one.play()
    other.play()

    assert one.nodes == other.nodes
    assert one.plant.faults.calls == other.plant.faults.calls
    assert one.plant.outcome() == other.plant.outcome()


@pytest.mark.parametrize(
    ("truth", "verdict", "agreed"),
    [
        (Truth(5, 50, 55, End.CONTROLLER), V.HANDLED_IN_TIME, set()),
        (Truth(5, 60, 62, End.CONTROLLER, forced_at=60), V.HANDLED_FORCED, set()),
        (Truth(5, None, 65, End.CONTROLLER, forced_at=65), V.HANDLED_FORCED, set()),
        (Truth(5, 200, 205, End.CONTROLLER), V.HANDLED_LATE, set()),
        (Truth(5, None, 300, End.CONTROLLER, forced_at=300), V.HANDLED_LATE, set()),
        (Truth(5, None, 121, End.SERVER), V.RECLAIMED_BEFORE_DRAIN, set()),
        (Truth(5, 118, 121, End.SERVER), V.HANDLED_IN_TIME, {V.RECLAIMED_BEFORE_DRAIN}),
        (Truth(None, None, 121, End.SERVER), V.MISSED, set()),
        (Truth(130, None, 140, End.SERVER), V.MISSED, set()),
        (Truth(130, None, 140, End.SERVER, deadline=300), V.RECLAIMED_BEFORE_DRAIN, set()),
        (Truth(None, None, None, End.RUNNING), V.NOT_RECLAIMED, set()),
        (Truth(-60, 30, 35, End.CONTROLLER), V.SUPERSEDED, set()),
        (Truth(None, None, 40, End.OTHER_CLIENT), V.SUPERSEDED, set()),
        (Truth(5, None, 40, End.OTHER_CLIENT), V.SUPERSEDED, {V.HANDLED_IN_TIME, V.HANDLED_FORCED}),
        (Truth(5, None, 140, End.OTHER_CLIENT), V.SUPERSEDED, {V.HANDLED_LATE}),
        (Truth(5, 130, 140, End.OTHER_CLIENT), V.HANDLED_LATE, {V.SUPERSEDED}),
        (Truth(None, None, 0, End.SERVER, warned=False), V.UNWARNED, set()),
        (Truth(None, None, 0, End.OTHER_CLIENT, warned=False), V.NOT_APPLICABLE, set()),
        (Truth(None, None, 121, End.SERVER, ours=False), V.FOREIGN, set()),
    ],
)
def test_a_truth_has_its_verdict_by_definition(truth: Truth, verdict: Verdict, agreed: set[Verdict]):
    assert (truth.verdict, truth.agreed) == (verdict, agreed)


def test_an_outage_ends_and_a_failure_may_hide_that_a_call_took_effect():
    clock = Clock(at(0))
    weather = Weather(clock=clock, outages=[Outage("describe", at(0), at(60))])
    done: list[str] = []

    with pytest.raises(HoldfastError, match="timed out"):
        weather.run("describe", lambda: done.append("describe"))
    clock.now = at(60)
    weather.run("describe", lambda: done.append("describe"))
    assert done == ["describe"]

    weather.rates = {"save": 1.0}
    for _ in range(50):
        with pytest.raises(HoldfastError, match="save failed"):
            weather.run("save", lambda: done.append("save"))
    assert 0 < done.count("save") < 50


def test_a_wrong_verdict_is_shown_and_told(found: Confusion):
    console = Console(record=True, width=200)
    show(found, console)
    text = console.export_text()

    assert f"{SEEDS} seeds, {found.nodes} instances" in text
    assert "whether the drain finished" in text

    played = world(3)
    played.play()
    for rows in played.plant.ledger.records.values():
        rows.clear()
    empty = Confusion()
    empty.add(played)
    assert any("no case, though it is" in sentence for sentence in empty.wrong)
