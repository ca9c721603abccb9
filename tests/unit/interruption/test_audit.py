"""Judging: one look for all that is due, one winner of two judges, and nothing sent that was sent already."""

from dataclasses import replace

import pytest

from holdfast.errors import Conflict, Denied, HoldfastError, Throttled, Unavailable
from holdfast.interruption.observation import Answer, InstanceView
from holdfast.ports import History, InstanceKey, Look
from tests.builders import ACCOUNT, KEY, OUR, REGION, SPOT, USER, at, ec2, message, nodeclaim, state_body, warning_body
from tests.unit.interruption.plant import Plant
from tests.unit.interruption.scenarios import handled, missed

LOOK = Look(KEY, at(0))
LONG = 3 * 3600


@pytest.fixture
def plant() -> Plant:
    """A warned instance that runs, with a NodeClaim nobody touches, one second after the warning."""
    plant = Plant(start=1)
    plant.instances.views[OUR] = ec2()
    plant.clusters.claims["cluster-a"] = [nodeclaim()]
    plant.ingest(message(warning_body()))
    plant.looks.receive(at(1))
    return plant


def test_a_look_is_stored_judged_and_followed_by_the_next(plant: Plant):
    result = plant.audit(LOOK)

    assert (result.failed, result.looked, result.told, result.problems) == ({}, 1, (), ())
    assert [record.judgement.verdict for record in result.judged] == ["INCONCLUSIVE"]
    assert len(plant.ledger.observations[KEY]) == 1
    assert plant.looks.sent[-1] == Look(KEY, at(20), "cluster-a")
    assert plant.ledger.watches[KEY].due_at == at(20)
    assert plant.ledger.watches[KEY].cluster == "cluster-a"


def test_an_interruption_begins_with_the_run_that_learns_of_it_and_with_no_other(plant: Plant):
    first = plant.audit(LOOK)
    again = plant.audit(LOOK)
    plant.clock.now = at(20)
    second = plant.audit(replace(LOOK, due_at=at(20)))

    assert [record.case.instance_id for record in first.begun] == [OUR]
    assert (again.begun, second.looked, second.begun) == ((), 1, ())


def test_a_look_after_the_verdict_leaves_the_time_of_the_decision_as_it_is():
    """Such as those for a ghost: the NodeClaim of a drained node is there until 20 minutes after the warning."""
    plant = Plant()
    handled(standing=True, removed=1200).play(plant)
    plant.run(LONG)
    (decided,) = plant.ledger.records[KEY].values()

    assert decided.judgement.final
    assert decided.judged_at < at(136)


def test_an_interruption_of_an_unknown_cluster_begins_when_the_cluster_is_known(plant: Plant):
    plant.instances.views[OUR] = InstanceView(Answer.ERROR, "down")
    plant.clusters.claims["cluster-a"] = []
    first = plant.audit(LOOK)
    plant.instances.views[OUR] = ec2()
    plant.clock.now = at(20)
    second = plant.audit(replace(LOOK, due_at=at(20)))

    assert (first.begun, [record.case.cluster for record in second.begun]) == ((), ["cluster-a"])


@pytest.mark.report("github-aws-runners/terraform-aws-github-runner#5055")
def test_github_runner_5055_thirty_losses_are_counted_as_thirty_before_one_is_decided():
    """The rate alarm rises with them; what is delivered twice, and the state changes, add nothing."""
    plant = Plant(start=1)
    ids = [f"i-0{number:016x}" for number in range(30)]
    plant.clusters.claims["cluster-a"] = [nodeclaim(name=f"spot-{name}", instance_id=name) for name in ids]
    plant.instances.views = {name: ec2() for name in ids}
    plant.ingest(*(message(warning_body(name), id=f"m-{name}") for name in ids))
    plant.ingest(*(message(warning_body(name), id=f"n-{name}") for name in ids))
    plant.ingest(*(message(state_body("shutting-down", name, 1), id=f"s-{name}") for name in ids))
    keys = [InstanceKey(ACCOUNT, REGION, name) for name in ids]
    result = plant.audit(*(Look(key, at(0)) for key in keys))
    again = plant.audit(*(Look(key, at(1)) for key in keys))

    assert (len(result.begun), len(again.begun)) == (30, 0)
    assert result.decided == ()


def test_one_instance_asked_for_often_is_looked_at_once(plant: Plant):
    result = plant.audit(*[LOOK] * 5, replace(LOOK, due_at=at(-5)))

    assert result.looked == 1
    assert plant.faults.calls.count("describe") == 1


def test_overdue_looks_are_one_look(plant: Plant):
    plant.clock.now = at(200)
    plant.audit(LOOK)

    assert len(plant.ledger.observations[KEY]) == 1
    assert plant.looks.sent[-1].due_at == at(300)


def test_the_same_message_again_neither_looks_nor_sends(plant: Plant):
    plant.audit(LOOK)
    before = (dict(plant.ledger.watches), list(plant.looks.sent), list(plant.ledger.observations[KEY]))
    result = plant.audit(LOOK)

    assert (result.looked, result.judged) == (0, ())
    assert (plant.ledger.watches, plant.looks.sent, plant.ledger.observations[KEY]) == before


def test_a_message_before_its_time_does_not_look(plant: Plant):
    plant.audit(LOOK)
    plant.clock.now = at(15)

    assert plant.audit(Look(KEY, at(20))).looked == 0


@pytest.mark.parametrize("copies", [2, 5])
def test_duplicated_messages_do_not_multiply(copies: int):
    """Every look message is delivered several times, and each delivery is answered."""
    once, often = Plant(), Plant()
    for plant in (once, often):
        missed(ended=None).play(plant)
        plant.instances.views[OUR] = ec2()
    once.run(LONG)
    send = often.looks.send
    often.looks.send = lambda looks, *, now: [send(looks, now=now) for _ in range(copies)] and None  # type: ignore[method-assign]
    often.run(LONG)

    assert len(often.looks.sent) == copies * len(once.looks.sent)
    assert len(often.ledger.observations[KEY]) == len(once.ledger.observations[KEY]) == 7
    assert often.posted() == once.posted()


def test_a_look_for_an_instance_nobody_watches_is_dropped_and_said(plant: Plant):
    other = InstanceKey(ACCOUNT, REGION, "i-0b99999999999999f")
    result = plant.audit(Look(other, at(0)))

    assert (result.failed, result.looked) == ({}, 0)
    assert result.problems == ("i-0b99999999999999f is not watched; its look is dropped",)


def test_a_final_case_is_not_looked_at_again(plant: Plant):
    plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
    plant.clock.now = at(60)
    plant.audit(LOOK)
    assert plant.ledger.watches[KEY].due_at is None
    plant.clock.now = at(700)

    assert plant.audit(LOOK).looked == 0


def test_a_case_is_decided_in_the_one_run_that_stored_it_as_final(plant: Plant):
    assert plant.audit(LOOK).decided == ()
    plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
    plant.clock.now = at(60)
    (decided,) = plant.audit(LOOK).decided

    assert (decided.judgement.verdict, decided.judgement.final) == ("HANDLED_IN_TIME", True)
    assert plant.audit(LOOK).decided == ()


def test_of_two_judges_of_one_look_one_decides_the_case(plant: Plant):
    """Both read the same history; the watch's version lets one of them store."""
    plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
    plant.clock.now = at(60)
    before = plant.ledger.history(KEY)
    first = plant.audit(LOOK)
    plant.ledger.history = lambda _key: before  # type: ignore[method-assign]
    second = plant.audit(LOOK)

    assert (len(first.decided), second.decided) == (1, ())
    assert set(second.failed) == {KEY}


def test_a_corrected_verdict_is_not_decided_again(plant: Plant):
    plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
    plant.clock.now = at(60)
    (decided,) = plant.audit(LOOK).decided
    record = plant.ledger.records[KEY]["0"]
    plant.ledger.records[KEY]["0"] = replace(record, judgement=replace(record.judgement, reason="another"))
    again = plant.audit(LOOK)

    assert decided.judgement.final
    assert [row.judgement for row in again.judged] == [decided.judgement]
    assert again.decided == ()


@pytest.mark.report("aws/aws-node-termination-handler#1284")
@pytest.mark.parametrize("error", [Unavailable("down"), Throttled("slow"), Denied("no")])
@pytest.mark.parametrize("call", ["history", "put_observation", "save"])
@pytest.mark.parametrize("after", [False, True])
def test_what_could_not_be_read_or_stored_comes_back(plant: Plant, call: str, error: HoldfastError, after: bool):
    plant.faults.fail(call, error, after=after)
    result = plant.audit(LOOK)

    assert result.failed == {KEY: str(error)}
    again = plant.audit(LOOK)
    assert again.failed == {}
    assert len(plant.ledger.observations[KEY]) == 1
    assert plant.verdicts(KEY)["0"][0] == "INCONCLUSIVE"
    plant.run(LONG)
    assert plant.verdicts(KEY)["0"] == ("NOT_RECLAIMED", None, True)
    assert len(plant.posted()) == 1


def test_one_failure_fails_only_its_instance(plant: Plant):
    other = InstanceKey(ACCOUNT, REGION, "i-0b99999999999999f")
    plant.ingest(message(warning_body(other.instance_id), id="m-2"))
    plant.faults.fail("save", Unavailable("down"))
    result = plant.audit(LOOK, Look(other, at(0)))

    assert result.failed == {KEY: "down"}
    assert other in plant.ledger.records


@pytest.mark.parametrize("call", ["send", "wake"])
def test_what_could_not_be_sent_the_sweeper_sends(plant: Plant, call: str):
    plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)] if call == "wake" else [nodeclaim()]
    plant.clock.now = at(60)
    plant.faults.fail(call, Unavailable("down"))
    result = plant.audit(LOOK)

    assert result.failed == {}
    assert len(result.problems) == 1
    assert result.problems[0].endswith("down; the sweeper will")
    plant.run(LONG)
    assert plant.outcome()["open"] == plant.outcome()["waiting"] == []
    assert len(plant.posted()) == 1


def test_what_nobody_answered_is_named(plant: Plant):
    plant.faults.fail("describe", Denied("ec2:DescribeInstances"))
    plant.faults.fail("depths", Throttled("slow"))

    assert plant.audit(LOOK).blind == (
        f"looking at {OUR}: EC2 answered denied: ec2:DescribeInstances",
        f"looking at {OUR}: Karpenter's queue answered throttled: slow",
    )


class TestTwoJudges:
    def interleaved(self, plant: Plant, meanwhile) -> tuple[list[str], list[str]]:
        """What happens when somebody else acts after a judge has read the history and before it saves."""
        read = plant.ledger.history
        acted: list[object] = []

        def history(key: InstanceKey) -> History:
            found = read(key)
            if not acted:
                acted.append(None)
                acted[0] = meanwhile()
            return found

        plant.ledger.history = history  # type: ignore[method-assign]
        result = plant.audit(LOOK)
        plant.ledger.history = read  # type: ignore[method-assign]
        return list(result.failed.values()), list(result.told)

    def test_of_two_judges_one_saves_and_the_other_comes_back(self, plant: Plant):
        plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
        plant.clock.now = at(60)
        failed, told = self.interleaved(plant, lambda: plant.audit(LOOK))

        assert [isinstance(text, str) and "changed" in text for text in failed] == [True]
        assert told == []
        assert plant.audit(LOOK).failed == {}
        plant.run(LONG)
        assert len(plant.posted()) == 1
        assert len(plant.looks.sent) <= 3

    def test_a_fact_that_arrives_during_a_look_is_judged_too(self, plant: Plant):
        plant.instances.views[OUR] = ec2("terminated", SPOT)
        plant.clock.now = at(135)
        failed, _ = self.interleaved(
            plant, lambda: plant.ingest(message(state_body("shutting-down", seconds=121), id="m-2"))
        )

        assert len(failed) == 1
        plant.run(LONG)
        assert plant.verdicts(KEY)["0"] == ("MISSED", "UNKNOWN", True)

    def test_judges_of_two_clocks_do_not_look_for_ever(self, plant: Plant):
        plant.clock.now = at(61)
        plant.audit(LOOK)
        plant.clock.now = at(60)

        assert plant.audit(LOOK).looked == 0

    def test_a_conflict_is_no_error_of_ours(self):
        assert issubclass(Conflict, HoldfastError)


class TestCorrections:
    def test_a_verdict_that_changed_after_it_was_told_is_corrected_once(self):
        plant = Plant()
        missed(warned=False).play(plant)
        plant.run(LONG)
        assert len(plant.posted()) == 1
        plant.clock.now = at(LONG)
        plant.ingest(message(warning_body(), id="late"), message(warning_body(), id="later"))
        plant.run(2 * LONG)

        assert len(plant.posted()) == 2
        assert plant.posted()[1].startswith("Corrected: ")

    def test_two_notices_are_told_once(self):
        plant = Plant()
        handled(extra=[(31.0, warning_body(seconds=30))]).play(plant)
        plant.run(LONG)

        assert len(plant.posted()) == 1

    def test_an_ordinary_end_a_day_after_a_false_alarm_is_told_to_nobody(self):
        plant = Plant()
        story = missed(ended=None)
        story.play(plant)
        plant.run(LONG)
        assert plant.verdicts(KEY)["0"] == ("NOT_RECLAIMED", None, True)
        day = 24 * 3600.0
        plant.instances.views[OUR] = ec2("terminated", USER, transitioned_at=at(day))
        plant.clusters.claims["cluster-a"] = []
        plant.arrive(day + 1, message(state_body("shutting-down", seconds=day), id="end"))
        plant.run(2 * day)

        assert plant.verdicts(KEY)["0"] == ("NOT_RECLAIMED", None, True)
        assert len(plant.posted()) == 1

    def test_a_second_warning_a_day_after_a_false_alarm_is_looked_at_and_told(self):
        day = 24 * 3600.0
        plant = Plant()
        story = missed(ended=None)
        story.play(plant)
        plant.run(LONG)
        story.ended, story.reason = day + 121, SPOT
        plant.arrive(day + 1, message(warning_body(seconds=day), id="second"))
        plant.arrive(day + 122, message(state_body("shutting-down", seconds=day + 121), id="end"))
        plant.run(2 * day)

        assert plant.verdicts(KEY) == {
            "0": ("NOT_RECLAIMED", None, True),
            "2026-09-02T04:10:00Z": ("MISSED", "UNKNOWN", True),
        }
        assert len(plant.posted()) == 2
        assert not any("Corrected" in text for text in plant.posted())

    @pytest.mark.parametrize("death", ["kill_before", "kill_after"])
    def test_two_false_alarms_in_one_run_are_two_cases_and_each_is_told_once(self, death: str):
        """Wherever somebody dies, from the second warning to its last look."""
        day = 24 * 3600.0

        def twice() -> Plant:
            plant = Plant()
            missed(ended=None).play(plant)
            plant.run(LONG)
            plant.arrive(day + 1, message(warning_body(seconds=day), id="second"))
            return plant

        undisturbed = twice()
        before = len(undisturbed.faults.calls)
        undisturbed.run(2 * day)
        false_alarm = ("NOT_RECLAIMED", None, True)
        assert undisturbed.verdicts(KEY) == {"0": false_alarm, "2026-09-02T04:10:00Z": false_alarm}
        assert len(undisturbed.posted()) == 2
        for number in range(before, len(undisturbed.faults.calls)):
            plant = twice()
            setattr(plant.faults, death, number)
            plant.run(2 * day)
            name = undisturbed.faults.calls[number]
            assert plant.outcome() == undisturbed.outcome(), name
            twice_told = (name, death) in {("post", "kill_after"), ("mark_told", "kill_before")}
            assert len(plant.posted()) == 2 + twice_told, name

    def test_a_second_interruption_is_decided_and_counted_as_the_first_was(self):
        day = 24 * 3600.0
        plant = Plant()
        missed(ended=None).play(plant)
        plant.run(LONG)
        plant.clock.now = at(day + 700)
        plant.ingest(message(warning_body(seconds=day), id="second"))
        result = plant.audit(Look(KEY, at(day)))

        assert [record.case.cycle for record in result.decided] == ["2026-09-02T04:10:00Z"]


class TestRestarts:
    """An instance that stops and starts again is two cases; a start that no event told of must not be looked at for ever."""

    STOPPED = 130.0

    def stopped(self) -> Plant:
        plant = Plant(start=1)
        plant.clusters.claims["cluster-a"] = []
        plant.instances.views[OUR] = lambda: (
            ec2("stopped", "Server.SpotInstanceShutdown", launched_at=at(-600))
            if plant.clock() < at(200)
            else ec2("running", launched_at=at(200))
        )
        plant.arrive(1, message(warning_body(action="stop")))
        plant.arrive(131, message(state_body("stopping", seconds=self.STOPPED), id="m-2"))
        return plant

    def test_a_restart_that_no_event_told_of_ends_the_looks(self):
        plant = self.stopped()
        plant.run(24 * 3600)

        assert len(plant.looks.sent) < 20
        assert len(plant.ledger.observations[KEY]) == 7
        assert plant.outcome()["open"] == []

    def test_a_second_warning_after_the_restart_is_a_second_case(self):
        day = 24 * 3600.0
        plant = self.stopped()
        plant.arrive(201, message(state_body("pending", seconds=200), id="m-3"))
        plant.arrive(day + 1, message(warning_body(seconds=day, action="stop"), id="m-4"))
        plant.run(2 * day)

        assert set(plant.verdicts(KEY)) == {"2026-09-01T04:00:00Z", "2026-09-01T04:13:20Z"}
        assert plant.outcome()["open"] == []

    def test_a_case_that_gets_its_launch_time_later_leaves_no_double_row(self):
        plant = Plant(start=1)
        plant.clusters.claims["cluster-a"] = []
        plant.ingest(message(warning_body(action="stop")))
        plant.audit(LOOK)
        assert set(plant.verdicts(KEY)) == {"0"}
        plant.instances.views[OUR] = ec2(launched_at=at(-600))
        plant.run(LONG)

        assert set(plant.verdicts(KEY)) == {"2026-09-01T04:00:00Z"}

    def test_a_case_that_gets_its_launch_time_after_it_was_told_is_not_told_again(self):
        plant = Plant(start=60)
        plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
        plant.faults.fail("describe", Unavailable("down"))
        plant.ingest(message(warning_body(action="stop")))
        plant.audit(LOOK)
        plant.deliver()
        assert set(plant.verdicts(KEY)) == {"0"}
        plant.instances.views[OUR] = ec2("stopping", SPOT, launched_at=at(-600))
        plant.arrive(131, message(state_body("stopping", seconds=130), id="m-2"))
        plant.run(LONG)

        assert plant.verdicts(KEY) == {"2026-09-01T04:00:00Z": ("HANDLED_IN_TIME", None, True)}
        assert len(plant.posted()) == 1


class TestHealth:
    def test_karpenter_7017_a_notice_two_weeks_ahead_is_handled_now(self):
        """karpenter-provider-aws#7017: Karpenter drains as soon as the maintenance is announced."""
        from tests.unit.interruption.test_event import health

        plant = Plant(start=1)
        plant.instances.views["i-0d11111111111111a"] = ec2()
        start = 2 * 3600 + 50 * 60  # the event is dated 07:00
        plant.clusters.claims["cluster-a"] = [
            nodeclaim(instance_id="i-0d11111111111111a", deleted=start + 5, drained=start + 50)
        ]
        plant.arrive(start + 1, message(health()))
        plant.run(24 * 3600)

        assert [text.split(" handled")[1][:8] for text in plant.posted()] == [" in time"]

    def test_a_notice_that_nobody_acts_on_stays_open_until_its_date_without_looking_all_the_time(self):
        from tests.unit.interruption.test_event import health

        plant = Plant(start=1)
        plant.instances.views["i-0d11111111111111a"] = ec2()
        plant.clusters.claims["cluster-a"] = [nodeclaim(instance_id="i-0d11111111111111a")]
        start = 2 * 3600 + 50 * 60
        plant.arrive(start + 1, message(health(startTime="Tue, 1 Sep 2026 13:00:00 GMT")))
        plant.run(5 * 24 * 3600)

        (looks,) = plant.ledger.observations.values()
        assert len(looks) == 7 + 3
        assert [text.split(" announced")[1][:16] for text in plant.posted()] == [", but not taken "[:16]]


class TestNetworks:
    """Functions in different networks reach different clusters; a look goes to the one that can make it."""

    def test_a_look_at_another_networks_cluster_is_forwarded_and_not_made(self, plant: Plant):
        plant.instances.views[OUR] = ec2(cluster="cluster-b")
        result = plant.audit(LOOK)

        assert (result.looked, result.judged, result.failed) == (0, (), {})
        assert plant.looks.sent[-1] == Look(KEY, at(1), "cluster-b")
        assert (plant.ledger.observations, plant.ledger.watches[KEY].due_at) == ({}, at(0))

    def test_a_look_that_could_not_be_forwarded_comes_back(self, plant: Plant):
        plant.instances.views[OUR] = ec2(cluster="cluster-b")
        plant.faults.fail("send", Unavailable("down"))

        assert plant.audit(LOOK).failed == {KEY: "forwarding the look to cluster-b's network: down"}

    def test_a_cluster_outside_the_configuration_is_foreign_and_not_forwarded(self, plant: Plant):
        plant.instances.views[OUR] = ec2(cluster="somebody-elses")
        plant.audit(LOOK)

        assert plant.verdicts(KEY)["0"] == ("FOREIGN", None, True)
        assert plant.ledger.watches[KEY].due_at is None

    def test_an_unanswered_question_about_the_cluster_is_kept(self, plant: Plant):
        plant.faults.fail("describe", Unavailable("down"))
        plant.clusters.claims["cluster-a"] = []
        plant.audit(LOOK)

        (look,) = plant.ledger.observations[KEY]
        assert look.kubernetes is not None
        assert look.kubernetes.answer is Answer.SKIPPED
