"""What fails, fails on the way: what is known is kept, the rest is INCONCLUSIVE with its reason, and it heals by itself.

Each outage is played as AWS and Kubernetes show it to the adapters (their own tests hold them to that): denied, throttled,
unreachable or too slow, an empty answer, a message that comes late or never.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from holdfast.errors import Denied, HoldfastError, Throttled, Unavailable
from holdfast.interruption.observation import Answer, InstanceView
from holdfast.interruption.record import CaseRecord
from holdfast.ports import Look
from tests.builders import KEY, OUR, USER, at, message, state_body, warning_body
from tests.fakes import FakeLooks
from tests.simulation.world import Outage, Weather
from tests.unit.interruption.plant import Plant
from tests.unit.interruption.scenarios import Story, blocked, handled, missed, unwarned

LONG = 4 * 3600
REMOVED = 9000.0
"""When the NodeClaim of a story that stands still goes at last, so that nobody looks for it for a week."""
MINUTE = 60
FOR_EVER = 24 * 3600
EC2_ERRORS = [Denied("ec2:DescribeInstances is missing"), Throttled("RequestLimitExceeded"), Unavailable("no answer")]
KUBE_ERRORS = [
    Unavailable("cannot be reached: connection refused"),
    Unavailable("gave no answer within 5 s"),
    Throttled("429 Too Many Requests"),
    Denied("401 Unauthorized: no access entry"),
]
NOT_THERE = "i-0b99999999999999f"


def named(error: HoldfastError) -> str:
    return str(error).replace(" ", "-")


def plant_with(*outages: Outage) -> Plant:
    weather = Weather(outages=list(outages))
    plant = Plant(faults=weather)
    weather.clock = plant.clock
    return plant


def out(names: Sequence[str], until: float, error: HoldfastError, since: float = -MINUTE) -> list[Outage]:
    return [Outage(name, at(since), at(until), error) for name in names]


def played(story: Story, *outages: Outage) -> Plant:
    plant = plant_with(*outages)
    story.play(plant)
    plant.run(LONG)
    return plant


def case(plant: Plant) -> CaseRecord:
    (record,) = plant.ledger.records[KEY].values()
    return record


def verdicts_told(plant: Plant) -> list[str]:
    """What was posted, but for a NodeClaim that outlived its instance, as that of a story that stands still does."""
    return [text for text in plant.posted() if "outlived its instance" not in text and "NodeClaim removed" not in text]


def closed(plant: Plant) -> bool:
    """Nothing is left to do, and every fact is there."""
    return not plant.outcome()["open"] and not plant.outcome()["waiting"] and not plant.inbox


class TestEc2:
    @pytest.mark.parametrize("error", EC2_ERRORS, ids=named)
    def test_what_the_cluster_saw_is_enough_for_a_verdict_without_ec2(self, error: HoldfastError):
        plant = played(handled(), *out(["describe"], FOR_EVER, error))

        assert plant.verdicts(KEY)["0"] == ("HANDLED_IN_TIME", None, True)
        assert closed(plant)

    @pytest.mark.parametrize("error", EC2_ERRORS, ids=named)
    def test_without_ec2_nobody_says_who_ended_the_instance_and_the_reason_is_named(self, error: HoldfastError):
        plant = played(missed(), *out(["describe"], FOR_EVER, error))
        record = case(plant)

        assert plant.verdicts(KEY)["0"] == ("INCONCLUSIVE", None, True)
        assert record.case.deletion == "not_deleting"
        assert any(
            text.startswith("who ended the instance (EC2: ") and str(error) in text for text in record.case.missing
        )
        assert str(error) in record.judgement.reason
        assert len(plant.ledger.facts) == 3
        assert closed(plant)

    @pytest.mark.parametrize("error", EC2_ERRORS, ids=named)
    def test_when_ec2_answers_again_the_case_is_decided(self, error: HoldfastError):
        plant = played(missed(), *out(["describe"], 20 * MINUTE, error))

        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)
        assert closed(plant)

    def test_an_empty_answer_says_nothing_of_the_end_and_heals(self):
        def story(until: float) -> Plant:
            plant = Plant()
            missed().play(plant)
            known = plant.instances.views[OUR]
            assert callable(known)

            def view() -> InstanceView | None:
                return None if plant.clock() < at(until) else known()

            plant.instances.views[OUR] = view
            plant.run(LONG)
            return plant

        record = case(story(FOR_EVER))
        assert (record.judgement.verdict, record.judgement.final) == ("INCONCLUSIVE", True)
        assert any("not_found" in text for text in record.case.missing)
        assert story(9 * MINUTE).verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)

    @pytest.mark.parametrize("error", EC2_ERRORS, ids=named)
    def test_an_end_that_ec2_would_not_explain_is_followed_until_it_does(self, error: HoldfastError):
        """Only EC2's reason tells a reclaim from an ordinary end: without it neither is assumed."""
        taken = played(unwarned(), *out(["describe"], 10 * MINUTE, error))
        ordinary = played(unwarned(reason=USER), *out(["describe"], 10 * MINUTE, error))

        assert taken.verdicts(KEY)["0"] == ("UNWARNED", None, True)
        assert ordinary.verdicts(KEY)["0"] == ("NOT_APPLICABLE", None, True)
        assert (len(verdicts_told(taken)), ordinary.posted()) == (1, [])


class TestKubernetes:
    @pytest.mark.parametrize("error", KUBE_ERRORS, ids=named)
    @pytest.mark.parametrize("story", [handled, blocked, missed])
    def test_a_cluster_that_never_answers_leaves_the_case_open_to_doubt(self, story, error: HoldfastError):
        plant = played(story(), *out(["nodeclaims"], FOR_EVER, error))
        record = case(plant)

        assert plant.verdicts(KEY)["0"] == ("INCONCLUSIVE", None, True)
        assert record.case.end in {"server", "unknown"}  # what EC2 said is kept; that it was Karpenter, EC2 cannot say
        assert record.case.ended_at is not None
        assert any(str(error) in text for text in record.judgement.missing)
        assert closed(plant)

    @pytest.mark.parametrize("error", KUBE_ERRORS, ids=named)
    @pytest.mark.parametrize(
        ("story", "until", "verdict"),
        [
            (handled(), 55, "HANDLED_IN_TIME"),
            (blocked(), 100, "RECLAIMED_BEFORE_DRAIN"),
            (missed(), 130, "MISSED"),
            (missed(ended=None), 590, "NOT_RECLAIMED"),
        ],
    )
    def test_an_outage_that_ends_while_there_is_something_to_see_changes_no_verdict(
        self, story: Story, until: float, verdict: str, error: HoldfastError
    ):
        plant = played(story, *out(["nodeclaims", "pods"], until, error))

        assert plant.verdicts(KEY)["0"][0] == verdict
        assert case(plant).judgement.final
        assert closed(plant)

    @pytest.mark.parametrize("error", KUBE_ERRORS, ids=named)
    def test_pods_that_could_not_be_read_cost_the_cause_and_not_the_verdict(self, error: HoldfastError):
        plant = played(blocked(), *out(["pods"], FOR_EVER, error))

        assert plant.verdicts(KEY)["0"] == ("RECLAIMED_BEFORE_DRAIN", "UNKNOWN", True)
        reasons = {
            look.kubernetes.pods_reason
            for look in plant.ledger.observations[KEY]
            if look.kubernetes is not None and look.kubernetes.pods_answer not in {Answer.OK, Answer.SKIPPED}
        }
        assert reasons == {str(error)}

    def test_the_next_interruption_after_an_outage_is_judged_as_ever(self):
        plant = plant_with(*out(["nodeclaims", "pods", "describe"], 10 * MINUTE, Unavailable("down")))
        handled().play(plant)
        later = handled(instance=NOT_THERE, name="two", deleted=3605.0, drained=3650.0, ended=3655.0)
        later.warned = False
        later.extra = [(3601.0, warning_body(NOT_THERE, 3600))]
        later.play(plant)
        plant.run(LONG)

        verdicts = {key.instance_id: cases["0"][0] for key, cases in plant.outcome()["cases"].items()}
        assert verdicts == {OUR: "INCONCLUSIVE", NOT_THERE: "HANDLED_IN_TIME"}


class TestLedger:
    @pytest.mark.parametrize("call", ["put_fact", "open_watch", "touch_watch"])
    @pytest.mark.parametrize("error", [Throttled("slow down"), Unavailable("down"), Denied("dynamodb:PutItem")])
    def test_messages_come_back_until_the_table_takes_them(self, call: str, error: HoldfastError):
        """Three minutes apart; before the fifth time, when they would be put aside, the table is there again."""
        undisturbed = played(missed(standing=True, removed=REMOVED))
        plant = played(missed(standing=True, removed=REMOVED), *out([call], 10 * MINUTE, error))

        assert plant.outcome()["facts"] == undisturbed.outcome()["facts"]
        assert plant.verdicts(KEY) == undisturbed.verdicts(KEY)
        assert len(verdicts_told(plant)) == 1
        assert closed(plant)

    @pytest.mark.parametrize("call", ["history", "put_observation", "save"])
    @pytest.mark.parametrize("error", [Throttled("slow down"), Unavailable("down"), Denied("dynamodb:Query")])
    def test_looks_come_back_until_the_table_takes_what_they_saw(self, call: str, error: HoldfastError):
        undisturbed = played(missed(standing=True, removed=REMOVED))
        plant = played(missed(standing=True, removed=REMOVED), *out([call], 10 * MINUTE, error))

        assert plant.verdicts(KEY) == undisturbed.verdicts(KEY)
        assert set(plant.posted()) == set(undisturbed.posted())
        assert closed(plant)

    @pytest.mark.parametrize("call", ["overdue", "oldest"])
    @pytest.mark.parametrize("error", [Throttled("slow down"), Denied("dynamodb:Query")])
    def test_a_sweep_that_fails_is_said_and_the_next_one_does_its_work(self, call: str, error: HoldfastError):
        outages = [*out([call], 10 * MINUTE, error), *out(["send"], 5 * MINUTE, Unavailable("the queue is down"))]
        plant = played(missed(standing=True, removed=REMOVED), *outages)

        assert str(error) in plant.problems
        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)
        assert closed(plant)


class LateLooks(FakeLooks):
    """Looks arrive later than they are due, or, up to a point in time, never."""

    def __init__(self, plant: Plant, late: float = 0, lost_until: float = -FOR_EVER) -> None:
        super().__init__(plant.faults)
        self._late, self._lost_until = timedelta(seconds=late), at(lost_until)

    def send(self, looks: Sequence[Look], *, now: datetime) -> None:
        if now >= self._lost_until:
            super().send([Look(look.key, max(look.due_at, now) + self._late, look.cluster) for look in looks], now=now)


class TestQueues:
    @pytest.mark.parametrize("late", [30, 300, 3000])
    def test_looks_that_come_late_see_what_is_left_and_claim_no_more(self, late: float):
        plant = Plant()
        plant.looks = LateLooks(plant, late)
        handled().play(plant)
        plant.run(LONG)

        assert plant.verdicts(KEY)["0"][0] in {"HANDLED_IN_TIME", "INCONCLUSIVE"}
        assert case(plant).judgement.final
        assert closed(plant)

    @pytest.mark.parametrize("late", [30, 300, 3000])
    def test_what_stands_still_is_judged_the_same_however_late(self, late: float):
        plant = Plant()
        plant.looks = LateLooks(plant, late)
        missed(standing=True, removed=REMOVED).play(plant)
        plant.run(LONG)

        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)
        assert len(verdicts_told(plant)) == 1

    def test_looks_that_never_come_are_sent_again_by_the_sweeper(self):
        plant = Plant()
        plant.looks = LateLooks(plant, lost_until=20 * MINUTE)
        missed(standing=True, removed=REMOVED).play(plant)
        plant.run(LONG)

        assert plant.ledger.observations[KEY][0].at >= at(20 * MINUTE)
        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)
        assert closed(plant)

    def test_without_a_sweeper_they_would_be_lost(self):
        plant = Plant()
        plant.looks = LateLooks(plant, lost_until=20 * MINUTE)
        missed(standing=True, removed=REMOVED).play(plant)
        plant.run(LONG, sweeping=False)

        assert plant.outcome()["open"] == [KEY]

    @pytest.mark.parametrize("minutes", [10, 30, 59, 75])
    @pytest.mark.parametrize("story", [handled, blocked, missed])
    def test_events_that_come_an_hour_late_are_judged_by_what_can_still_be_known(self, story, minutes: float):
        """By then the NodeClaim is gone, and later EC2 forgets too: only who ended the instance may still be known."""
        plant = Plant()
        story().play(plant)
        plant.inbox = [(moment + timedelta(minutes=minutes), late) for moment, late in plant.inbox]
        plant.run(LONG)

        record = case(plant)
        assert (record.judgement.verdict, record.judgement.final) == ("INCONCLUSIVE", True)
        assert record.judgement.missing
        assert len(plant.ledger.facts) == 3
        assert closed(plant)

    def test_a_warning_that_comes_after_the_end_takes_back_that_there_was_none(self):
        plant = Plant()
        missed(standing=True, removed=REMOVED, warned=False).play(plant)
        plant.run(25 * MINUTE)
        assert plant.verdicts(KEY)["0"] == ("UNWARNED", None, True)

        plant.arrive(30 * MINUTE, message(warning_body(), id="late", sent=1))
        plant.run(LONG)

        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)
        assert len(verdicts_told(plant)) == 2

    def test_an_end_that_is_told_an_hour_after_the_warning_was_judged_changes_nothing(self):
        plant = Plant()
        missed(standing=True, removed=REMOVED).play(plant)
        plant.inbox = [item for item in plant.inbox if "Warning" in item[1].body]
        plant.arrive(3600, message(state_body("shutting-down", seconds=121), id="late"))
        plant.run(LONG)

        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)
        assert len(verdicts_told(plant)) == 1
