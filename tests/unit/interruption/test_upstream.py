"""What went wrong elsewhere, told as one interruption each: the public report, and what Holdfast makes of it."""

from pathlib import Path

import pytest

from holdfast.alerts.deliver import WINDOW
from holdfast.errors import HoldfastError, Unavailable
from holdfast.interruption.announce import alert_of
from holdfast.interruption.case import Note
from holdfast.interruption.event import parse
from holdfast.interruption.observation import Answer, Condition
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restored
from holdfast.interruption.verdict import Cause, Verdict, judge
from holdfast.karpenter.pods import left_on_node
from tests.builders import (
    CONTROLLER,
    HOME,
    KEY,
    SPOT,
    USER,
    at,
    budget,
    case_of,
    ec2,
    ended,
    gone,
    judged,
    kube,
    message,
    nodeclaim,
    notice,
    observation,
    pod,
    rebalance,
    state_body,
    terminate_call,
    warning,
    warning_body,
    workloads,
)
from tests.unit.interruption.plant import Plant
from tests.unit.interruption.scenarios import blocked, handled, missed, unread

EVENTS = Path(__file__).parents[2] / "events"
LONG = 3 * 3600


@pytest.mark.report("aws/karpenter-provider-aws#8160")
def test_karpenter_8160_the_words_forceful_termination_make_no_forced_drain():
    """karpenter-provider-aws#8160: events of a graceful path say "Forceful Termination" and raised false alarms."""
    words = (Condition("Drained", "True", "Forceful Termination", at(50)),)
    judgement = judged(
        warning(),
        *ended(55),
        observation(60, ec2("shutting-down", USER), kube(deleted=5, conditions=words)),
    )

    assert (judgement.verdict, judgement.cause) == (Verdict.HANDLED_IN_TIME, None)


@pytest.mark.report("aws/karpenter-provider-aws#8276")
def test_karpenter_8276_a_do_not_disrupt_pod_holds_the_drain_of_a_spot_node():
    """karpenter-provider-aws#8276 and #3383: the annotation keeps the pod until EC2 takes the machine."""
    plant = Plant()
    blocked().play(plant)
    plant.run(LONG)
    (record,) = plant.ledger.records[KEY].values()

    assert record.judgement.verdict is Verdict.RECLAIMED_BEFORE_DRAIN
    assert record.judgement.cause is Cause.BLOCKED_BY_DO_NOT_DISRUPT
    assert "shop/api-0 (karpenter.sh/do-not-disrupt=true)" in record.judgement.reason
    assert plant.posted() == [text for text in plant.posted() if "shop/api-0" in text]


@pytest.mark.report("aws/karpenter-provider-aws#7083")
def test_karpenter_7083_a_claim_deleted_for_another_reason_is_no_interruption():
    """karpenter-provider-aws#7083: a NodeClaim went, and nobody knew why."""
    seen = observation(20, ec2("shutting-down", USER), kube(deleted=-60, drained=-10))
    judgement = judged(terminate_call(0, CONTROLLER), *ended(0), seen)

    assert judgement.verdict is Verdict.NOT_APPLICABLE


@pytest.mark.report("aws/karpenter-provider-aws#4689")
def test_karpenter_4689_a_node_that_was_gone_four_seconds_after_the_notice_has_two_answers():
    """karpenter-provider-aws#4689: the drain was in time, and the replicas dipped until the replacement was ready."""
    first, dip = workloads(2, 2, here=1, found=True), workloads(1, 2)
    case = case_of(
        warning(),
        terminate_call(4),
        *ended(4),
        observation(1, ec2(), kube(deleted=1, drained="Unknown"), workloads=first),
        observation(20, ec2("shutting-down", USER), kube(deleted=1, drained=3), workloads=dip),
        observation(180, ec2("terminated", USER), gone(), workloads=dip),
        observation(300, ec2("terminated", USER), gone(), workloads=workloads(2, 2)),
    )

    assert judge(case, at(300), exhausted=False).verdict is Verdict.HANDLED_IN_TIME
    assert case.restoration is not None
    assert case.restoration.state is Restored.RESTORED_LATE


@pytest.mark.report("aws/karpenter-provider-aws#5778")
def test_karpenter_5778_a_node_that_takes_pods_while_it_is_drained_is_noted():
    """karpenter-provider-aws#5778: the node was not tainted before the deletion. The verdict goes by the drain."""
    plain = [
        warning(),
        *ended(55),
        observation(20, ec2(), kube(deleted=5)),
        observation(60, ec2(), kube(deleted=5, drained=50)),
    ]
    taking = [
        *plain,
        observation(40, ec2(), kube(deleted=5, pods_answer=Answer.OK, pods_left=2, bound_after_deletion=1)),
    ]

    assert Note.NOT_TAINTED in case_of(*taking).notes
    assert Note.NOT_TAINTED not in case_of(*plain).notes
    assert judged(*taking).verdict is judged(*plain).verdict is Verdict.HANDLED_IN_TIME


@pytest.mark.report("aws/karpenter-provider-aws#4772")
def test_karpenter_4772_a_body_that_karpenter_deletes_is_kept_and_its_node_is_missed():
    """karpenter-provider-aws#4772: an event was ignored without a log line, malformed text deleted."""
    plant = Plant()
    missed(warned=False).play(plant)
    plant.inbox.clear()
    plant.arrive(1, message("abcd", id="garbage"))
    plant.arrive(1, message(warning_body(version="1"), id="unread"))
    plant.arrive(122, message(state_body("shutting-down", seconds=121), id="end"))
    plant.run(LONG)

    assert {row.rejection.code for row in plant.ledger.poison.values()} == {"not_json", "unknown_version"}
    assert plant.verdicts(KEY)["0"] == (Verdict.MISSED, Cause.UNREADABLE_MESSAGE, True)
    assert len(plant.posted()) == 3


@pytest.mark.report("kubernetes-sigs/karpenter#2802")
def test_karpenter_2802_a_budget_that_allows_nothing_holds_the_drain():
    """kubernetes-sigs/karpenter#2802 and #2985: a PodDisruptionBudget of 0 beside a single replica."""
    plant = Plant()
    blocked(blocked=False).play(plant)
    plant.clusters.budgets["cluster-a"] = [budget(0, {"matchLabels": {"app": "api"}}, name="api-pdb")]
    plant.run(LONG)
    (record,) = plant.ledger.records[KEY].values()

    assert record.judgement.cause is Cause.BLOCKED_BY_PDB
    assert "shop/api-0 (PodDisruptionBudget api-pdb allows 0 disruptions)" in record.judgement.reason


@pytest.mark.report("kubernetes-sigs/karpenter#655")
def test_karpenter_655_pods_that_tolerate_the_taint_hold_no_drain():
    """kubernetes-sigs/karpenter#655: such pods stay, and are not what the drain waited for."""
    assert left_on_node([pod(tolerates_disruption=True, do_not_disrupt="true")]) == ()


@pytest.mark.report("aws/aws-node-termination-handler#307")
def test_nth_307_several_events_for_one_node_are_one_case_and_one_alert():
    """aws-node-termination-handler#307: two warnings half a minute apart, and a recommendation."""
    case = case_of(rebalance(-900), warning(), warning(30), observation(60, ec2(), kube(deleted=5, drained=50)))
    assert (case.warned_at, case.deadline) == (at(0), at(120))
    assert Note.SEVERAL_WARNINGS in case.notes

    plant = Plant()
    handled(extra=[(31.0, warning_body(seconds=30))]).play(plant)
    plant.run(LONG)
    assert (len(plant.ledger.records[KEY]), len(plant.posted())) == (1, 1)


@pytest.mark.report("aws/aws-node-termination-handler#874")
def test_nth_874_a_state_change_alone_is_too_late_and_is_unwarned():
    """aws-node-termination-handler#874: the state change comes when there is nothing left to drain."""
    seen = observation(20, ec2("shutting-down", SPOT), kube())

    assert judged(*ended(0), seen).verdict is Verdict.UNWARNED


@pytest.mark.report("aws/karpenter-provider-aws/pkg/controllers/interruption/messages/types.go")
def test_karpenter_source_resources_as_text_are_read_here_and_missed_there():
    """Karpenter reads `resources` as a list of strings; a plain string fails its parser, which deletes the message."""
    body = (EVENTS / "capacity_reservation_resources_string.json").read_text()
    (fact,) = parse(body, HOME).facts
    after = (fact.at - at(0)).total_seconds() + 120
    rows = [
        observation(after + 15, ec2("shutting-down", "Server.InsufficientInstanceCapacity"), kube()),
        *ended(after, subject=fact.subject),
    ]

    assert fact.announced == at(after)
    assert (judged(fact, *rows).verdict, judged(fact, *rows).cause) == (Verdict.MISSED, Cause.UNREADABLE_MESSAGE)


@pytest.mark.report("aws/karpenter-provider-aws/pkg/controllers/interruption/messages/scheduledchange/parser.go")
def test_karpenter_source_a_closed_notice_drains_a_node_and_is_noted():
    """Karpenter reads no statusCode: the update that closes a Health notice deletes the NodeClaim too."""
    day = 2 * 24 * 3600.0
    closing = notice(day, starts=14 * day, status="closed")
    drained = observation(day + 60, ec2(), kube(deleted=day + 3, drained=day + 40))

    for rows in ([closing, drained], [notice(starts=14 * day), closing, drained]):
        assert Note.DRAINED_ON_CLOSED_NOTICE in case_of(*rows).notes
    assert judged(closing, drained).verdict is Verdict.NOT_APPLICABLE
    untouched = observation(day + 60, ec2(), kube())
    assert Note.DRAINED_ON_CLOSED_NOTICE not in case_of(closing, untouched).notes


@pytest.mark.report("aws/karpenter-provider-aws/pkg/controllers/interruption/messages/scheduledchange/parser.go")
def test_a_drain_on_a_closed_notice_is_seen_by_the_functions_too():
    plant = Plant(start=1)
    name = "i-0d11111111111111a"
    plant.instances.views[name] = ec2()
    closed = 2 * 24 * 3600 - 2 * 3600 - 10 * 60  # dated two days later, 02:00
    plant.clusters.claims["cluster-a"] = lambda: [
        nodeclaim(instance_id=name, deleted=closed + 3 if plant.clock() >= at(closed + 3) else None)
    ]
    plant.arrive(closed + 1, message((EVENTS / "health_scheduled_closed_update.json").read_text()))
    plant.run(7 * 24 * 3600)
    ((record,),) = (cases.values() for cases in plant.ledger.records.values())

    assert Note.DRAINED_ON_CLOSED_NOTICE in record.case.notes
    assert (record.judgement.verdict, plant.posted()) == (Verdict.NOT_APPLICABLE, [])


@pytest.mark.report(
    "aws/karpenter-provider-aws/pkg/controllers/interruption/controller.go", "aws/karpenter-provider-aws#3005"
)
def test_karpenter_source_without_a_reader_messages_expire_and_the_cause_is_still_known():
    """Nobody receives, so the receive count does not rise and the dead-letter queue stays empty."""
    plant = Plant()
    missed().play(plant)
    unread(plant)
    plant.run(LONG)

    assert plant.verdicts(KEY)["0"] == (Verdict.MISSED, Cause.CONSUMER_ABSENT, True)


@pytest.mark.report("aws/karpenter-provider-aws#9226")
def test_karpenter_9226_a_nodeclaim_that_outlives_its_instance_is_a_ghost_and_told_once():
    """karpenter-provider-aws#9226, #8180 and #3562: the NodeClaim is still there ten minutes after the instance."""
    lingers = observation(900, ec2("terminated", USER), kube(deleted=-10))
    case = case_of(*ended(0), lingers)
    record = CaseRecord(case, judged(*ended(0), lingers), at(900))

    assert record.judgement.verdict is Verdict.GHOST
    alert = alert_of(record, corrects=False)
    assert alert is not None
    assert alert.runbook == "ghost"


@pytest.mark.report("aws/karpenter-provider-aws#5400")
def test_karpenter_5400_a_start_after_half_a_minute_is_a_late_start():
    """karpenter-provider-aws#5400: with many messages in the queue Karpenter came to this one late."""
    late = observation(110, ec2(), kube(deleted=45, pods_answer=Answer.OK, pods_left=1))

    assert judged(warning(), *ended(121), late, observation(135, ec2("terminated", SPOT), gone())).cause is (
        Cause.LATE_START
    )


@pytest.mark.report("aws/karpenter-provider-aws#5667")
def test_karpenter_5667_each_of_many_nodes_names_its_own_pod():
    """karpenter-provider-aws#5667: many Spot losses at once, held by one slow budget."""
    plant = Plant(window=WINDOW)
    for number in range(50):
        blocked(blocked=False, instance=f"i-{number:017x}", name=f"n{number}").play(plant)
    plant.clusters.budgets["cluster-a"] = [budget(0)]
    plant.run(LONG)

    assert {cases["0"] for cases in plant.outcome()["cases"].values()} == {
        (Verdict.RECLAIMED_BEFORE_DRAIN, Cause.BLOCKED_BY_PDB, True)
    }
    assert len(plant.outcome()["told"]) == 50
    # Told within three minutes: at most one message a minute, or up to three that are few enough to read.
    assert len(plant.posted()) <= 4
    assert plant.faults.calls.count("nodeclaims") <= 5 * 7 * 2  # five batches of ten at each of seven looks, and room


@pytest.mark.report("aws/karpenter-provider-aws#5778")
def test_karpenter_5778_a_pod_that_was_put_on_the_node_after_the_warning_has_to_be_off_in_time_too():
    """karpenter-provider-aws#5778: without a taint pods are still put on a node that is on its way out."""
    seen = [observation(20, ec2(), kube(deleted=5, drained="Unknown", pods_answer=Answer.OK, pods_left=1))]
    seen += [observation(60, ec2(), kube(deleted=5, drained="Unknown", pods_answer=Answer.OK, pods_left=2))]

    in_time = observation(110, ec2(), kube(deleted=5, drained=100))
    assert judged(warning(), *ended(105), *seen, in_time).verdict is Verdict.HANDLED_IN_TIME
    taken = observation(135, ec2("terminated", SPOT), gone())
    assert judged(warning(), *ended(121), *seen, taken).verdict is Verdict.RECLAIMED_BEFORE_DRAIN


@pytest.mark.report("github-aws-runners/terraform-aws-github-runner#5055")
def test_github_runner_5055_a_look_up_that_fails_for_one_of_ten_is_made_again():
    """terraform-aws-github-runner#5055 and #931: what failed was logged, and users learnt of it from broken jobs."""

    def played(*errors: HoldfastError | None) -> Plant:
        plant = Plant()
        for number in range(10):
            blocked(instance=f"i-{number:017x}", name=f"n{number}").play(plant)
        plant.faults.fail("pods", *errors)
        plant.run(LONG)
        return plant

    whole, disturbed = played(), played(*[None] * 3, Unavailable("the connection was closed"))

    assert disturbed.outcome() == whole.outcome()
    assert len(disturbed.ledger.facts) == 30
    (unread,) = [
        view.kubernetes
        for views in disturbed.ledger.observations.values()
        for view in views
        if view.kubernetes is not None and view.kubernetes.pods_answer is Answer.ERROR
    ]
    assert unread.pods_reason == "the connection was closed"


@pytest.mark.report("openshift/hypershift#8500")
def test_hypershift_8500_a_hundred_warnings_in_one_second_are_looked_at_within_thirty_seconds():
    """hypershift#8500: with ten workers a hundred interruptions at once reach the end of the two minutes.

    At most five requests a second go to one cluster, lists of NodeClaims and of the pods of a node among them. Whatever
    else a look needs comes from a cache that is read anew every 30 s.
    """
    plant = Plant()
    for number in range(100):
        handled(instance=f"i-{number:017x}", name=f"n{number}").play(plant)
    plant.run(2)
    requests = [call for call in plant.faults.calls if call in {"nodeclaims", "pods"}]

    assert len(plant.ledger.observations) == 100
    assert all(views[0].kubernetes is not None for views in plant.ledger.observations.values())
    assert len(requests) <= 5 * 25
