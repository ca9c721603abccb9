"""The whole path on fakes: what each story comes to, and that dying anywhere on the way changes nothing of it."""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from holdfast.alerts import forms
from holdfast.errors import Unavailable
from tests.builders import KEY, at, message
from tests.unit.interruption.plant import Plant
from tests.unit.interruption.scenarios import Story, blocked, handled, missed, unread, unwarned

LONG = 3 * 3600


@pytest.fixture(autouse=True)
def _alerts_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """How alerts are gathered depends on when they come; whether each is told does not, and is what is counted here."""
    monkeypatch.setattr(forms, "SINGLY", 1000)


def a_day() -> Plant:
    """Four instances with four fates, and a body nobody can read."""
    plant = Plant()
    handled().play(plant)
    blocked(instance="i-0a22222222222222b", name="two").play(plant)
    missed(instance="i-0a33333333333333c", name="three").play(plant)
    unwarned(instance="i-0a44444444444444d", name="four").play(plant)
    unread(plant)
    plant.arrive(3, message("abcd", id="poison", sent=3))
    return plant


def play(story: Story) -> Plant:
    plant = Plant()
    story.play(plant)
    plant.run(LONG)
    return plant


@pytest.mark.parametrize(
    ("story", "verdict", "cause"),
    [
        (handled(), "HANDLED_IN_TIME", None),
        (handled(drained=200.0, ended=205.0), "HANDLED_LATE", "UNKNOWN"),
        (handled(deleted=-60.0), "SUPERSEDED", None),
        (blocked(), "RECLAIMED_BEFORE_DRAIN", "BLOCKED_BY_DO_NOT_DISRUPT"),
        (missed(), "MISSED", "UNKNOWN"),
        (missed(ended=None), "NOT_RECLAIMED", None),
        (unwarned(), "UNWARNED", None),
    ],
)
def test_a_story_comes_to_its_verdict_and_is_told_once(story: Story, verdict: str, cause: str | None):
    plant = play(story)

    assert plant.verdicts(KEY) == {"0": (verdict, cause, True)}
    assert len(plant.posted()) == 1
    assert plant.outcome()["open"] == plant.outcome()["waiting"] == []


def test_an_ordinary_termination_is_not_even_watched():
    plant = play(unwarned(reason="Client.UserInitiatedShutdown"))

    assert (plant.ledger.watches, plant.posted()) == ({}, [])
    assert len(plant.ledger.facts) == 2


def test_looks_are_made_when_they_are_planned():
    plant = play(missed(ended=None))

    moments = [(look.at - at(0)).total_seconds() for look in plant.ledger.observations[KEY]]
    assert moments == [1, 20, 60, 110, 135, 300, 600]


def test_a_case_is_closed_as_soon_as_its_verdict_is_certain_and_its_nodeclaim_looked_for_once_more():
    plant = play(handled())

    assert [(look.at - at(0)).total_seconds() for look in plant.ledger.observations[KEY]] == [1, 20, 60, 690]
    assert len(plant.posted()) == 1


class TestGhosts:
    """A NodeClaim that is there ten minutes after its instance was terminated, beside a verdict on the drain."""

    STORIES = (
        pytest.param(handled, "HANDLED_IN_TIME", None, id="handled"),
        pytest.param(blocked, "RECLAIMED_BEFORE_DRAIN", "BLOCKED_BY_DO_NOT_DISRUPT", id="blocked"),
        pytest.param(missed, "MISSED", "UNKNOWN", id="missed"),
    )

    @pytest.mark.report("aws/karpenter-provider-aws#9226")
    @pytest.mark.parametrize(("story", "verdict", "cause"), STORIES)
    def test_a_ghost_and_its_going_are_told_once_each_and_the_verdict_stays(
        self, story: Callable[..., Story], verdict: str, cause: str | None
    ):
        """karpenter-provider-aws#9226, #8180, #3562."""
        plant = Plant()
        story(standing=True, removed=9000.0).play(plant)
        plant.run(24 * 3600)

        first, ghost, gone = plant.posted()
        assert "outlived" not in first
        assert "NodeClaim outlived its instance" in ghost
        assert "NodeClaim removed" in gone
        assert plant.verdicts(KEY) == {"0": (verdict, cause, True)}
        assert plant.outcome()["open"] == []

    def test_looks_for_a_ghost_grow_rare_and_end_after_a_week(self):
        plant = Plant()
        handled(standing=True).play(plant)
        plant.run(30 * 24 * 3600)

        moments = [(look.at - at(0)).total_seconds() for look in plant.ledger.observations[KEY]]
        # 90 s after the warning it was terminated; what is further ahead than SQS reaches, the sweeper finds.
        expected = [690, 2490, 10_890, *(90 + day * 86_400 for day in range(1, 8))]
        assert moments[:3] == [1, 20, 60]
        assert [made - planned for made, planned in zip(moments[3:], expected, strict=True)] == pytest.approx(
            [60] * 10, abs=60
        )
        assert len(plant.posted()) == 2
        assert plant.outcome()["open"] == []

    def test_an_outage_at_a_look_for_a_ghost_neither_opens_the_case_nor_ends_the_looks(self):
        plant = Plant()
        handled(standing=True, removed=9000.0).play(plant)
        plant.run(600)
        decided = plant.verdicts(KEY)
        claims = plant.clusters.claims["cluster-a"]
        del plant.clusters.claims["cluster-a"]
        plant.clusters.claims["cluster-a"] = lambda: (_ for _ in ()).throw(Unavailable("down"))  # type: ignore[assignment]
        plant.run(1000)
        assert plant.verdicts(KEY) == decided == {"0": ("HANDLED_IN_TIME", None, True)}
        assert len(plant.posted()) == 1
        plant.clusters.claims["cluster-a"] = claims
        plant.run(24 * 3600)

        assert [text for text in plant.posted() if "outlived" in text] == plant.posted()[1:2]
        assert len(plant.posted()) == 3
        assert plant.outcome()["open"] == []

    def test_a_ghost_is_looked_for_though_the_event_of_its_end_was_lost(self):
        plant = Plant()
        missed(standing=True).play(plant)
        plant.inbox = plant.inbox[:1]
        plant.run(3600)

        assert len([text for text in plant.posted() if "outlived" in text]) == 1

    def test_an_instance_that_ec2_has_forgotten_is_no_proof_that_it_was_terminated(self):
        plant = Plant(start=4000)
        missed(standing=True).play(plant)
        plant.inbox = plant.inbox[:1]
        plant.run(24 * 3600)

        assert [text for text in plant.posted() if "outlived" in text] == []


def test_events_of_the_past_are_judged_by_one_look():
    plant = Plant(start=1800)
    missed(ended=None).play(plant)
    plant.run(LONG)

    assert [(look.at - at(0)).total_seconds() for look in plant.ledger.observations[KEY]] == [1800]
    assert plant.verdicts(KEY)["0"][0] == "NOT_RECLAIMED"


def test_a_day_with_everything():
    plant = a_day()
    plant.run(LONG)

    assert {key.instance_id: verdicts["0"] for key, verdicts in plant.outcome()["cases"].items()} == {
        "i-0a11111111111111a": ("HANDLED_IN_TIME", None, True),
        "i-0a22222222222222b": ("RECLAIMED_BEFORE_DRAIN", "BLOCKED_BY_DO_NOT_DISRUPT", True),
        "i-0a33333333333333c": ("MISSED", "CONSUMER_ABSENT", True),
        "i-0a44444444444444d": ("UNWARNED", None, True),
    }
    assert len(plant.posted()) == 5
    assert plant.deaths == 0


def an_hour_ago() -> Plant:
    """The same four fates and a false alarm, all of them over: whenever somebody looks, he sees the same.

    The NodeClaims of the four stay behind as ghosts, until they go between two looks for them.
    """
    plant = Plant(start=1800)
    stays = {"standing": True, "removed": 2300.0}
    handled(**stays).play(plant)
    blocked(**stays, blocked=False, instance="i-0a22222222222222b", name="two").play(plant)
    missed(**stays, instance="i-0a33333333333333c", name="three").play(plant)
    unwarned(**stays, deleted=1.0, instance="i-0a44444444444444d", name="four").play(plant)
    missed(standing=True, ended=None, instance="i-0a55555555555555e", name="five").play(plant)
    plant.arrive(3, message("abcd", id="poison", sent=3))
    return plant


EVERY_CALL = {"put_fact", "put_rejection", "put_observation", "open_watch", "touch_watch", "history", "save", "overdue"}
EVERY_CALL |= {"describe", "nodeclaims", "pods", "depths", "send", "wake", "acquire", "pending", "post", "mark_told"}
EVERY_CALL |= {"release", "oldest"}


def deaths(make: Callable[[], Plant], moment: str, *, of_each: int = 1000) -> Iterator[tuple[Plant, Plant, str]]:
    """For each call to the outside: the day without a disturbance, the day on which somebody died there, the call.

    `of_each` is how many calls of one kind are tried at most.
    """
    undisturbed = make()
    undisturbed.run(LONG)
    tried: Counter[str] = Counter()
    for number, name in enumerate(undisturbed.faults.calls):
        tried[name] += 1
        if tried[name] > of_each:
            continue
        plant = make()
        setattr(plant.faults, moment, number)
        plant.run(LONG)
        assert plant.deaths == 1
        yield undisturbed, plant, name


def told_twice(name: str, moment: str) -> bool:
    """Only between the webhook and the note that it took the alert may a death tell it twice."""
    return (name, moment) in {("post", "kill_after"), ("mark_told", "kill_before")}


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
def test_a_death_at_any_call_leaves_the_ledger_and_the_alerts_as_they_would_have_been(moment: str):
    """Ingest, judge, notifier and sweeper die at each call in turn; what they were doing comes back and is done again."""
    died: set[str] = set()
    for undisturbed, plant, name in deaths(an_hour_ago, moment):
        died.add(name)
        assert plant.outcome() == undisturbed.outcome(), name
        assert len(plant.posted()) == len(undisturbed.posted()) + told_twice(name, moment), name
        assert set(plant.posted()) == set(undisturbed.posted()), name
        assert len(plant.looks.sent) <= len(undisturbed.looks.sent) + 15, name
    assert died >= EVERY_CALL - {"overdue", "oldest"}


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
def test_a_death_while_the_world_goes_on_may_cost_evidence_and_nothing_else(moment: str):
    """A look that came too late makes a verdict INCONCLUSIVE or its cause unknown; no fact, case or alert is lost."""
    died: set[str] = set()
    for undisturbed, plant, name in deaths(a_day, moment, of_each=4):
        died.add(name)
        outcome, expected = plant.outcome(), undisturbed.outcome()
        for part in ("facts", "poison", "waiting", "open"):
            assert outcome[part] == expected[part], (name, part)
        for key, cases in expected["cases"].items():
            verdict, cause, final = outcome["cases"][key]["0"]
            assert verdict in {cases["0"][0], "INCONCLUSIVE"}, name
            assert cause in {cases["0"][1], "UNKNOWN", None}, name
            assert final, name
            assert any(f"{key.instance_id}/0/{verdict}/" in alert for alert in outcome["told"]), name
        assert len(plant.posted()) == len(outcome["told"]) + told_twice(name, moment), name
    assert died >= EVERY_CALL


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
def test_without_the_sweeper_a_message_that_comes_back_is_enough_for_its_facts(moment: str):
    undisturbed = an_hour_ago()
    undisturbed.run(LONG)
    for number in range(30):
        plant = an_hour_ago()
        setattr(plant.faults, moment, number)
        plant.run(LONG, sweeping=False)
        assert plant.outcome()["facts"] == undisturbed.outcome()["facts"]
        assert set(plant.ledger.watches) == set(undisturbed.ledger.watches)
