"""From messages to facts and watches: record first, fail only what has to come back, and lose nothing."""

import pytest

from holdfast.errors import Denied, HoldfastError, Throttled, Unavailable
from holdfast.interruption.event import Kind, parse
from holdfast.interruption.ingest import IngestResult, ingest
from holdfast.interruption.observation import Answer, InstanceView
from holdfast.ports import InstanceKey, Look
from tests.builders import (
    ACCOUNT,
    HOME,
    KEY,
    OUR,
    REGION,
    SPOT,
    USER,
    at,
    body,
    ec2,
    message,
    nodeclaim,
    state_body,
    warning_body,
)
from tests.unit.interruption.plant import Plant

OTHER = "i-0b99999999999999f"
EVICTED = body(
    "AWS Service Event via CloudTrail",
    {"eventName": "BidEvictedEvent", "serviceEventDetails": {"instanceIdSet": [OUR, OTHER]}},
    240,
)


@pytest.fixture
def plant() -> Plant:
    return Plant(start=2)


def watches(plant: Plant) -> dict[str, float | None]:
    return {
        key.instance_id: None if watch.due_at is None else (watch.due_at - at(0)).total_seconds()
        for key, watch in plant.ledger.watches.items()
    }


def test_a_warning_is_a_fact_a_watch_and_a_look(plant: Plant):
    result = plant.ingest(message(warning_body(), sent=1))

    (stored,) = plant.ledger.facts.values()
    assert (stored.kind, stored.sent_at, stored.received_at) == (Kind.SPOT_WARNING, at(1), at(2))
    assert (result.failed, result.watched, result.problems, result.duplicates) == ({}, (KEY,), (), 0)
    assert [(item.message_id, item.new) for item in result.stored] == [("m-1", True)]
    assert watches(plant) == {OUR: 0}
    assert plant.looks.sent == [Look(KEY, at(0))]
    assert plant.instances.asked == []  # enrichment comes with the look


@pytest.mark.report("aws/aws-node-termination-handler#250")
def test_nth_250_one_event_fifty_times_is_one_row_one_watch_and_forty_nine_duplicates(plant: Plant):
    """aws-node-termination-handler#250: dozens of notices for one event."""
    results = [plant.ingest(*(message(warning_body(), id=f"m-{batch}-{n}") for n in range(10))) for batch in range(5)]
    plant.run()

    assert len(plant.ledger.facts) == 1
    assert sum(result.duplicates for result in results) == 49
    assert len(plant.looks.sent) <= 20
    assert len(plant.posted()) <= 1


@pytest.mark.report("aws-powertools/powertools-lambda-python#2490")
@pytest.mark.parametrize("call", ["put_fact", "open_watch", "send"])
@pytest.mark.parametrize("before", [True, False])
def test_powertools_2490_the_same_event_in_two_invocations_at_once_is_one_row(plant: Plant, call: str, before: bool):
    """powertools-lambda-python#2490: a second invocation with the same event ended in an exception."""
    owner = plant.looks if call == "send" else plant.ledger
    first = getattr(owner, call)
    others: list[IngestResult] = []

    def overtaken(*arguments, **more):
        setattr(owner, call, first)
        if before:
            others.append(plant.ingest(message(warning_body(), id="m-2")))
        done = first(*arguments, **more)
        if not before:
            others.append(plant.ingest(message(warning_body(), id="m-2")))
        return done

    setattr(owner, call, overtaken)
    results = [plant.ingest(message(warning_body())), *others]

    assert [(result.failed, result.problems) for result in results] == [({}, ()), ({}, ())]
    assert [result.duplicates for result in results].count(1) == 1
    assert len(plant.ledger.facts) == 1
    assert watches(plant) == {OUR: 0}
    assert len(plant.looks.sent) >= 1


@pytest.mark.report("aws/aws-node-termination-handler#360")
def test_nth_360_of_ten_messages_only_the_one_that_failed_comes_back(plant: Plant):
    """aws-node-termination-handler#360: a batch was deleted though only a part was processed."""
    messages = [message(warning_body(f"i-{number:017x}"), id=f"m-{number}") for number in range(10)]
    plant.faults.fail("put_fact", *[None] * 3, Throttled("slow down"))
    result = plant.ingest(*messages)

    assert result.failed == {"m-3": "slow down"}
    assert len(plant.ledger.facts) == len(plant.ledger.watches) == 9


@pytest.mark.report("aws/aws-node-termination-handler#1284")
@pytest.mark.parametrize("error", [Unavailable("down"), Throttled("slow"), Denied("dynamodb:PutItem")])
@pytest.mark.parametrize("call", ["put_fact", "open_watch", "put_rejection"])
@pytest.mark.parametrize("after", [False, True])
def test_what_could_not_be_stored_comes_back_and_is_stored_then(
    plant: Plant, call: str, error: HoldfastError, after: bool
):
    text = "abcd" if call == "put_rejection" else warning_body()
    plant.faults.fail(call, error, after=after)
    failed = plant.ingest(message(text))
    again = plant.ingest(message(text, receive_count=2))

    assert failed.failed == {"m-1": str(error)}
    assert again.failed == {}
    assert (len(plant.ledger.facts), len(plant.ledger.watches), len(plant.ledger.poison)) == (
        (0, 0, 1) if call == "put_rejection" else (1, 1, 0)
    )
    assert len(plant.looks.sent) == (0 if call == "put_rejection" else 1)


def test_a_fact_whose_watch_was_never_opened_is_watched_when_its_message_comes_back_anew(plant: Plant):
    """A redrive from the dead-letter queue counts its deliveries from one again."""
    plant.faults.fail("open_watch", Unavailable("down"))
    plant.ingest(message(warning_body()))
    result = plant.ingest(message(warning_body(), id="redriven", receive_count=1))

    assert (result.duplicates, result.watched) == (1, (KEY,))
    assert watches(plant) == {OUR: 0}


@pytest.mark.parametrize("sent", [-60, 1.5, 60])
def test_clocks_that_disagree_keep_no_fact_out(plant: Plant, sent: float):
    """SQS took the message before the event, or after we had it: looks go by the event's own time."""
    result = plant.ingest(message(warning_body(), sent=sent))
    (stored,) = result.stored

    assert (stored.fact.at, watches(plant)) == (at(0), {OUR: 0})
    assert [fact.sent_at for fact in plant.ledger.facts.values()] == [at(sent)]


class TestRedrivenEnds:
    """The end of an instance was stored, and ingest died five times before it could ask EC2 who ended it."""

    @pytest.fixture
    def plant(self) -> Plant:
        plant = Plant(start=900)
        plant.ledger.put_fact(parse(state_body("terminated"), HOME).facts[0])
        plant.instances.views[OUR] = ec2("terminated", SPOT)
        return plant

    def test_it_is_asked_about_and_watched(self, plant: Plant):
        result = plant.ingest(message(state_body("terminated"), id="redriven", sent=900))

        assert (result.duplicates, result.watched) == (1, (KEY,))

    def test_an_ordinary_duplicate_is_not(self, plant: Plant):
        result = plant.ingest(message(state_body("terminated"), id="again", sent=120))

        assert (result.duplicates, result.watched, plant.instances.asked) == (1, (), [])

    def test_an_ordinary_termination_stays_unwatched(self, plant: Plant):
        plant.instances.views[OUR] = ec2("terminated", USER)

        assert plant.ingest(message(state_body("terminated"), id="redriven", sent=900)).watched == ()

    def test_all_of_a_batch_are_asked_about_by_one_call(self, plant: Plant):
        ids = [f"i-{number:017x}" for number in range(10)]
        for name in ids:
            plant.ledger.put_fact(parse(state_body("terminated", name), HOME).facts[0])
        plant.ingest(*(message(state_body("terminated", name), id=name, sent=900) for name in ids))

        assert plant.instances.asked == [tuple(ids)]

    def test_one_whose_case_is_judged_already_is_judged_once_more_and_told_once(self, plant: Plant):
        plant.clusters.claims["cluster-a"] = [nodeclaim()]
        for number in (1, 2):
            plant.ingest(message(state_body("terminated"), id=f"redriven-{number}", sent=900))
            plant.run(2 * 3600)

        assert len([text for text in plant.posted() if "without a warning" in text]) == 1

    def test_a_replay_of_what_is_known_asks_for_nothing(self, plant: Plant):
        text = state_body("terminated", **{"replay-name": "backfill"})
        result = plant.ingest(message(text, id="replayed", sent=900))

        assert (result.duplicates, result.watched, plant.instances.asked) == (1, (), [])


def test_a_duplicate_of_a_known_warning_asks_for_nothing(plant: Plant):
    plant.ingest(message(warning_body()))
    result = plant.ingest(message(warning_body(), id="again"))

    assert (result.duplicates, result.watched) == (1, ())
    assert len(plant.looks.sent) == 1


@pytest.mark.parametrize("call", ["send", "wake"])
def test_an_outage_of_the_queues_fails_no_message_because_the_sweeper_finds_the_rest(plant: Plant, call: str):
    plant.faults.fail(call, Unavailable("down"))
    result = plant.ingest(message(warning_body()), message("abcd", id="m-2"))

    assert result.failed == {}
    assert len(result.problems) == 1
    assert "down; the sweeper will" in result.problems[0]
    assert (len(plant.ledger.facts), len(plant.ledger.poison)) == (1, 1)


def test_an_error_that_is_none_of_ours_is_not_swallowed(plant: Plant):
    def broken(actions):
        return [ZeroDivisionError("bug")]

    with pytest.raises(ZeroDivisionError):
        ingest(
            [message(warning_body())],
            home=HOME,
            now=at(2),
            ledger=plant.ledger,
            instances=plant.instances,
            looks=plant.looks,
            wakeups=plant.wakeups,
            parallel=broken,
        )


def test_a_second_notice_for_a_watched_instance_makes_it_due_now(plant: Plant):
    plant.ingest(message(warning_body()))
    plant.clock.now = at(30)
    plant.ingest(message(warning_body(seconds=30), id="m-2"))

    assert plant.looks.sent[-1] == Look(KEY, at(30))
    assert plant.ledger.watches[KEY].version == 2


@pytest.mark.parametrize(
    ("text", "touched"),
    [
        (state_body("shutting-down", seconds=35), True),
        (state_body("stopped", seconds=35), True),
        (state_body("running", seconds=35), False),
        (state_body("pending", seconds=35), False),
        (body("EC2 Instance Rebalance Recommendation", {"instance-id": OUR}, -900), True),
        (EVICTED, True),
        (body("EC2 Spot Instance Request Fulfillment", {"instance-id": OUR}), False),
    ],
)
def test_what_may_change_a_verdict_makes_a_watched_instance_due(plant: Plant, text: str, touched: bool):
    plant.ingest(message(warning_body()))
    plant.instances.views[OTHER] = ec2(nodepool=None)
    plant.clock.now = at(36)
    plant.ingest(message(text, id="m-2"))

    assert (plant.ledger.watches[KEY].version == 2) is touched
    assert (len(plant.looks.sent) == 2) is touched


class TestUnwarned:
    """An end that nobody announced: EC2 says whether it was an interruption."""

    def ended(self, plant: Plant, view: InstanceView | None, text: str | None = None) -> dict[str, float | None]:
        if view is not None:
            plant.instances.views[OUR] = view
        plant.ingest(message(text or state_body("shutting-down")))
        return watches(plant)

    @pytest.mark.parametrize(
        ("view", "watched"),
        [
            (ec2("shutting-down", SPOT), True),
            (ec2("shutting-down", "Server.InternalError"), True),
            (ec2("shutting-down", None), True),  # not there yet: it may still become one
            (ec2("shutting-down", "Server.InsufficientInstanceCapacity"), False),
            (ec2("shutting-down", USER), False),
            (ec2("shutting-down", "Client.InstanceInitiatedShutdown"), False),
            (ec2("shutting-down", SPOT, nodepool=None), False),
            (None, True),  # EC2 does not know it: nobody can say that it was not
        ],
    )
    def test_only_what_ec2_may_have_taken_is_watched(self, plant: Plant, view: InstanceView | None, watched: bool):
        assert self.ended(plant, view) == ({OUR: 0} if watched else {})

    def test_an_outage_of_ec2_is_no_proof_of_an_ordinary_end(self, plant: Plant):
        plant.faults.fail("describe", Unavailable("down"))

        assert self.ended(plant, ec2("shutting-down", USER)) == {OUR: 0}

    def test_the_ends_of_a_batch_are_asked_for_at_once(self, plant: Plant):
        names = [f"i-{number:017x}" for number in range(10)]
        plant.ingest(*(message(state_body("terminated", name), id=name) for name in names))

        assert plant.instances.asked == [tuple(names)]

    def test_an_end_with_its_warning_in_one_batch_needs_no_question(self, plant: Plant):
        plant.ingest(message(state_body("terminated")), message(warning_body(), id="m-2"))

        assert (plant.instances.asked, watches(plant)) == ([], {OUR: 0})

    def test_every_evicted_instance_is_considered(self, plant: Plant):
        plant.instances.views[OTHER] = ec2(nodepool=None)

        assert self.ended(plant, ec2("terminated", SPOT), EVICTED) == {OUR: 240}

    def test_a_watch_that_could_not_be_opened_brings_its_message_back(self, plant: Plant):
        plant.instances.views[OUR] = ec2("terminated", SPOT)
        plant.faults.fail("open_watch", Unavailable("down"))
        result = plant.ingest(message(state_body("terminated")))

        assert result.failed == {"m-1": "down"}
        assert plant.ingest(message(state_body("terminated"), receive_count=2)).watched == (KEY,)

    @pytest.mark.report("github-aws-runners/terraform-aws-github-runner#5244")
    def test_github_runner_5244_a_thousand_ordinary_ends_are_no_interruption(self, plant: Plant):
        """terraform-aws-github-runner#5244 and #5245: state changes counted inflated interruptions 100 to 350 times."""
        for batch in range(100):
            names = [f"i-{batch * 10 + number:017x}" for number in range(10)]
            plant.instances.views.update({name: ec2("shutting-down", USER) for name in names})
            plant.ingest(*(message(state_body("shutting-down", name), id=name) for name in names))
        plant.run()

        assert len(plant.ledger.facts) == 1000
        assert (plant.ledger.watches, plant.ledger.records, plant.posted(), plant.looks.sent) == ({}, {}, [], [])


class TestReplay:
    def test_a_replay_of_what_is_known_changes_nothing(self, plant: Plant):
        plant.ingest(message(warning_body()), message(state_body("terminated", seconds=70), id="m-2"))
        before = dict(plant.ledger.watches)
        sent = list(plant.looks.sent)
        plant.clock.now = at(7 * 24 * 3600)
        result = plant.ingest(
            message(warning_body(**{"replay-name": "again"}), id="m-3"),
            message(state_body("terminated", seconds=70, **{"replay-name": "again"}), id="m-4"),
        )

        assert (result.duplicates, result.watched) == (2, ())
        assert (plant.ledger.watches, plant.looks.sent, plant.instances.asked) == (before, sent, [])

    def test_a_replayed_end_is_not_asked_about(self, plant: Plant):
        plant.ingest(message(state_body("terminated", **{"replay-name": "again"})))

        assert (len(plant.ledger.facts), plant.instances.asked, watches(plant)) == (1, [], {})

    def test_a_replayed_warning_fills_a_gap_in_silence(self, plant: Plant):
        plant.clock.now = at(7 * 24 * 3600)
        plant.ingest(message(warning_body(**{"replay-name": "again"})))
        plant.run(8 * 24 * 3600)

        assert plant.verdicts(KEY) == {"0": ("INCONCLUSIVE", None, True)}
        assert (plant.posted(), plant.ledger.observations) == ([], {})

    def test_a_replayed_warning_after_a_live_end_is_history_too(self, plant: Plant):
        """The audit missed the warning, told UNWARNED, and learns of the warning from the archive a week later."""
        plant.instances.views[OUR] = ec2("terminated", SPOT, transitioned_at=at(0))
        plant.clusters.claims["cluster-a"] = []
        plant.ingest(message(state_body("terminated")))
        plant.run()
        told, looked = plant.posted(), len(plant.ledger.observations[KEY])
        plant.clock.now = at(7 * 24 * 3600)
        plant.ingest(message(warning_body(seconds=-120, **{"replay-name": "again"}), id="m-2"))
        plant.run(8 * 24 * 3600)

        assert [text.split(" reclaimed")[1][:18] for text in told] == [" without a warning"]
        assert (plant.posted(), len(plant.ledger.observations[KEY])) == (told, looked)


class TestPoison:
    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("abcd", "not_json"),
            ('{"source":""}', "no_source_or_type"),
            (warning_body(version="1"), "unknown_version"),
            (warning_body(instance="i-nonsense"), "bad_instance_id"),
        ],
    )
    def test_a_body_nobody_can_read_is_a_row_an_alert_and_acknowledged(self, plant: Plant, text: str, code: str):
        result = plant.ingest(message(text))
        plant.run()

        assert result.failed == {}
        assert [row.rejection.code for row in plant.ledger.poison.values()] == [code]
        assert plant.ledger.shelf.told.keys() >= {f"poison/{ACCOUNT}/{REGION}/2026-09-01T04/{code}"}

    @pytest.mark.report("aws/aws-node-termination-handler#468")
    def test_nth_468_an_empty_source_stops_nothing(self, plant: Plant):
        """aws-node-termination-handler#468: a message with an empty source made it crash again and again."""
        result = plant.ingest(message('{"source":""}'), message(warning_body(), id="m-2"))

        assert (result.failed, len(plant.ledger.poison), len(plant.ledger.facts)) == ({}, 1, 1)

    def test_one_defect_is_told_once_an_hour(self, plant: Plant):
        for number in range(30):
            plant.ingest(message(f"abcd {number}", id=f"m-{number}", sent=number * 600))
        plant.run()

        assert len(plant.ledger.poison) == 30
        # 04:10 to 09:00, every ten minutes, in six different hours.
        assert len(plant.outcome()["told"]) == 6

    def test_what_is_merely_ignored_is_a_row_without_an_alert(self, plant: Plant):
        plant.ingest(message(body("EC2 Fleet Error", {})))
        plant.run()

        assert [row.rejection.code for row in plant.ledger.poison.values()] == ["not_audited"]
        assert (plant.posted(), plant.wakeups.sent) == ([], [])

    def test_the_same_body_again_is_counted(self, plant: Plant):
        for _ in range(3):
            plant.ingest(message("abcd"))

        assert [row.deliveries for row in plant.ledger.poison.values()] == [3]
        assert len(plant.ledger.shelf.alerts) == 1

    def test_without_a_send_time_the_hour_is_ours(self, plant: Plant):
        plant.ingest(message("abcd", sent=None))

        assert list(plant.ledger.shelf.alerts) == [f"poison/{ACCOUNT}/{REGION}/2026-09-01T04/not_json"]

    def test_the_alert_says_what_it_was_and_what_to_do(self, plant: Plant):
        plant.ingest(message("abcd"))
        ((_, alert),) = plant.ledger.shelf.alerts.values()

        assert alert.what.startswith("The body is not JSON:")
        assert alert.runbook == "poison-message"
        # printf abcd | sha256sum
        assert alert.fields == (("Defect", "not_json"), ("Message", "m-1"), ("SHA-256", "88d4266fd4e6338d"))


@pytest.mark.report("aws/aws-node-termination-handler/pkg/monitor/sqsevent/scheduled-change-event.go")
def test_nth_source_every_entity_of_a_health_event_is_a_row(plant: Plant):
    """aws-node-termination-handler gives all entities of a Health event one id, and so keeps the first only."""
    names = [f"i-{number:017x}" for number in range(5)]
    detail = {
        "service": "EC2",
        "eventTypeCategory": "scheduledChange",
        "eventTypeCode": "AWS_EC2_INSTANCE_STOP_SCHEDULED",
        "startTime": "Tue, 15 Sep 2026 07:00:00 GMT",
        "eventRegion": REGION,
        "statusCode": "upcoming",
        "affectedEntities": [{"entityValue": name} for name in names],
    }
    result = plant.ingest(message(body("AWS Health Event", detail, source="aws.health")))

    assert len(plant.ledger.facts) == 5
    assert result.watched == tuple(InstanceKey(ACCOUNT, REGION, name) for name in names)


def test_facts_about_other_subjects_are_kept_and_watch_nothing(plant: Plant):
    detail = {"experiment-id": "EXP1", "new-state": {"status": "running"}}
    plant.ingest(message(body("FIS Experiment State Change", detail, source="aws.fis")))

    assert (len(plant.ledger.facts), plant.ledger.watches) == (1, {})


def test_an_instance_in_another_account_is_kept_under_that_account(plant: Plant):
    plant.ingest(message(warning_body(account="999999999999")))

    assert list(plant.ledger.watches) == [InstanceKey("999999999999", REGION, OUR)]


def test_a_look_without_an_answer_is_still_a_fact(plant: Plant):
    plant.faults.fail("describe", *[Denied("denied")] * 20)
    plant.faults.fail("nodeclaims", *[Unavailable("down")] * 20)
    plant.clusters.claims["cluster-a"] = []
    plant.ingest(message(warning_body()))
    plant.run()

    looks = plant.ledger.observations[KEY]
    assert {look.ec2.answer for look in looks if look.ec2} == {Answer.DENIED}
    assert plant.verdicts(KEY) == {"0": ("INCONCLUSIVE", None, True)}
    assert len(looks) == 9 + 3
