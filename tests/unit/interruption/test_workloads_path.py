"""The workloads on the whole path: how long a case is watched for them, what that costs, and what is told."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from holdfast.errors import Denied
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restored, Shortage
from tests.builders import KEY, at, message, pod, replicas, warning_body
from tests.unit.interruption.plant import Plant
from tests.unit.interruption.scenarios import Story, handled, missed

LONG = 3 * 3600


def plant_with(story: Story, ready: Callable[[float], int]) -> Plant:
    """The story with a Deployment of three, of which so many replicas are ready at that second."""
    plant = Plant()
    story.play(plant)
    plant.clusters.owners["cluster-a"] = lambda: [replicas(ready((plant.clock() - at(0)).total_seconds()))]
    return plant


def back_at(second: float) -> Callable[[float], int]:
    """One replica goes with the node at 50 s, and is ready elsewhere at `second`."""
    return lambda now: 2 if 50 <= now < second else 3


NEVER = back_at(float("inf"))


def record(plant: Plant) -> CaseRecord:
    (found,) = plant.ledger.records[KEY].values()
    return found


def state(plant: Plant) -> Restored | None:
    restoration = record(plant).case.restoration
    return restoration.state if restoration is not None else None


def looks(plant: Plant) -> list[float]:
    """The seconds of the looks; later ones are for a NodeClaim that outlives its instance."""
    return [second for look in plant.ledger.observations[KEY] if (second := (look.at - at(0)).total_seconds()) <= 600]


@pytest.mark.parametrize(
    ("back", "expected", "made"),
    [
        (55, Restored.RESTORED_IN_TIME, [1, 20, 60]),
        (130, Restored.RESTORED_IN_TIME, [1, 20, 60, 110, 135]),
        (175, Restored.RESTORED_IN_TIME, [1, 20, 60, 110, 135, 170, 180]),
        (200, Restored.RESTORED_LATE, [1, 20, 60, 110, 135, 170, 180, 300]),
        (900, Restored.NO_REPLACEMENT, [1, 20, 60, 110, 135, 170, 180, 300, 600]),
    ],
)
def test_a_case_is_watched_until_its_workloads_are_back_or_given_up(back: float, expected: Restored, made: list[float]):
    plant = plant_with(handled(), back_at(back))
    plant.run(LONG)

    assert (state(plant), looks(plant)) == (expected, made)
    assert plant.outcome()["open"] == []


def test_the_verdict_is_told_when_it_is_known_and_not_when_the_workloads_are():
    plant = plant_with(handled(), back_at(200))
    plant.run(61)

    assert plant.verdicts(KEY)["0"] == ("HANDLED_IN_TIME", None, True)
    assert len(plant.posted()) == 1
    (alert,) = plant.ledger.shelf.alerts.values()
    assert ("Workload", "not known yet") in alert[1].fields
    plant.run(LONG)
    assert (state(plant), len(plant.posted())) == (Restored.RESTORED_LATE, 1)


def test_a_verdict_is_as_old_as_when_it_was_reached():
    """The case is stored again when its workloads are back; that makes the verdict no later."""
    plant = plant_with(handled(), back_at(200))
    plant.run(LONG)

    assert record(plant).judged_at == at(60)


def test_a_case_is_decided_once_though_its_workloads_are_known_later():
    plant = plant_with(handled(), back_at(200))
    decided: list[CaseRecord] = []
    audit = plant.audit
    plant.audit = lambda *asked: (result := audit(*asked), decided.extend(result.decided))[0]  # type: ignore[method-assign]
    plant.run(LONG)

    assert len(decided) == 1


def test_workloads_that_do_not_come_back_are_told_once_beside_the_verdict():
    plant = plant_with(handled(), NEVER)
    plant.clusters.pending["cluster-a"] = [pod("api-9", waits_for="0/9 nodes are available")]
    plant.run(LONG)

    assert len(plant.posted()) == 2
    assert plant.posted()[1] != plant.posted()[0]
    restoration = record(plant).case.restoration
    assert restoration is not None
    assert restoration.cause is Shortage.UNSCHEDULABLE
    alert = plant.ledger.shelf.alerts[f"case/{record(plant).case.key}/NO_REPLACEMENT"][1]
    assert (alert.severity, alert.runbook, alert.decided_at) == ("page", "no-replacement", at(600))

    plant.ingest(message(warning_body(seconds=30), id="again"))
    plant.run(2 * LONG)
    assert len(plant.posted()) == 2


def test_a_case_that_was_missed_is_told_of_its_workloads_too():
    plant = plant_with(missed(), lambda now: 3 if now < 170 else 2)
    plant.run(LONG)

    assert plant.verdicts(KEY)["0"][0] == "MISSED"
    assert (state(plant), len(plant.posted())) == (Restored.NO_REPLACEMENT, 2)


def test_owners_are_read_once_in_each_look_and_what_is_short_after_five_minutes():
    plant = plant_with(handled(), NEVER)
    plant.run(LONG)

    calls = plant.faults.calls
    assert calls.count("replicas") == calls.count("nodeclaims") == len(looks(plant)) == 9
    assert (calls.count("pending_pods"), calls.count("nodepools")) == (2, 2)  # at 300 s and at 600 s
    assert calls.count("pods") == 2  # at 1 s and at 20 s; later the drain is over


def test_nothing_is_asked_about_workloads_once_their_state_is_known():
    plant = plant_with(missed(ended=None), lambda _now: 3)
    plant.clusters.bound["cluster-a", "node-one"] = []
    plant.run(LONG)

    assert state(plant) is Restored.NOTHING_TO_RESTORE
    assert plant.faults.calls.count("replicas") == 0
    assert looks(plant) == [1, 20, 60, 110, 135, 300, 600]


def test_owners_that_may_not_be_read_are_named_and_keep_no_case_open():
    plant = plant_with(handled(), back_at(130))
    blind: list[str] = []
    audit = plant.audit
    plant.audit = lambda *asked: (result := audit(*asked), blind.extend(result.blind))[0]  # type: ignore[method-assign]
    plant.faults.fail("replicas", *[Denied("replicasets.apps is forbidden")] * 9)
    plant.run(LONG)

    assert state(plant) is Restored.UNKNOWN
    assert (
        blind
        == [
            f"looking at {KEY.instance_id}: Kubernetes, for the owners of the pods, answered denied: replicasets.apps is forbidden"
        ]
        * 2
    )
    assert looks(plant) == [1, 20, 60]


def test_a_look_that_comes_seconds_late_asks_for_replicas_from_after_the_limit():
    """A list of half a minute ago would say of 180 s what was so at 150 s."""
    plant = plant_with(handled(), back_at(175))
    plant.clusters.age = timedelta(seconds=30)
    plant.run(LONG)

    assert state(plant) is Restored.RESTORED_IN_TIME
    restoration = record(plant).case.restoration
    assert restoration is not None
    assert restoration.back_at == at(180)
