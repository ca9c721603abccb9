"""From rows of the ledger to the verdict: the fixed points, the precedence, the causes, and what may not be claimed."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from holdfast.interruption.case import Cluster, Deletion, Drained, End, Note, Scope, fold
from holdfast.interruption.event import Home, Kind
from holdfast.interruption.observation import (
    Answer,
    BlockerReason,
    ClusterView,
    Condition,
    InstanceView,
    Observation,
    QueueView,
)
from holdfast.interruption.verdict import Cause, Judgement, Verdict, judge
from tests.builders import (
    CONTROLLER,
    HOME,
    SCOPE,
    SOMEBODY,
    SPOT,
    USER,
    at,
    blocker,
    case_of,
    ec2,
    ended,
    fact,
    gone,
    judged,
    kube,
    notice,
    observation,
    queue,
    rebalance,
    state,
    terminate_call,
    warning,
)

V = Verdict
DAY = 24 * 3600.0


def verdict(*rows, **options) -> Verdict:
    return judged(*rows, **options).verdict


def look(seconds: float, reason: str | None = None, cluster: ClusterView | None = None, **fields) -> Observation:
    """A look that both answered; with a reason, the instance has ended."""
    return observation(seconds, ec2("terminated" if reason else "running", reason), cluster or gone(), **fields)


DRAINED = look(60, cluster=kube(deleted=5, drained=50))
DRAINING = look(110, cluster=kube(deleted=5, drained="Unknown", pods_answer=Answer.OK, pods_left=2, longest_grace=30))
UNTOUCHED = look(135, cluster=kube())


class TestTruthTable:
    """A Spot instance that EC2 wants to terminate; D is 120 s after the warning."""

    def test_deleted_and_drained_in_time_and_ended_by_a_client(self):
        judgement = judged(warning(), *ended(55), DRAINED, look(135, USER))

        assert (judgement.verdict, judgement.cause, judgement.final) == (V.HANDLED_IN_TIME, None, True)

    def test_deleted_and_drained_in_time_and_taken_by_ec2(self):
        assert verdict(warning(), *ended(121), DRAINED, look(135, SPOT, kube(deleted=5, drained=50))) is (
            V.HANDLED_IN_TIME
        )

    @pytest.mark.parametrize("grace", [None, 3600])
    def test_an_unseen_drain_is_inferred_when_nothing_can_have_forced_it(self, grace: int | None):
        seen = look(20, cluster=kube(deleted=5, drained="Unknown", grace_period=grace, longest_grace=30))
        judgement = judged(warning(), *ended(70), seen, look(135, USER))

        assert judgement.verdict is V.HANDLED_IN_TIME
        assert Note.DRAIN_INFERRED in judgement.notes

    @pytest.mark.parametrize(
        "view",
        [
            kube(deleted=5, grace_period=60, longest_grace=30),
            kube(deleted=5, ends_by=65, longest_grace=30),
            kube(deleted=5, ends_by=100, longest_grace=60),
            kube(deleted=5, grace_period=130, longest_grace=90),
            kube(deleted=5, grace_period=3600),  # nobody read how long the pods' grace is
        ],
    )
    def test_an_unseen_drain_that_a_grace_period_may_have_cut_is_inconclusive(self, view: ClusterView):
        judgement = judged(warning(), *ended(70), look(20, cluster=view), look(135, USER))

        assert judgement.verdict is V.INCONCLUSIVE
        assert Note.DRAIN_INFERRED not in judgement.notes

    @pytest.mark.parametrize("reason", [BlockerReason.PDB, BlockerReason.DO_NOT_DISRUPT])
    def test_where_a_pod_was_held_a_client_of_no_name_proves_no_drain(self, reason: BlockerReason):
        """Whoever loses patience with a node that does not drain ends it with the same StateReason as Karpenter."""
        pods = {"pods_answer": Answer.OK, "pods_left": 1, "longest_grace": 30}
        held = look(20, cluster=kube(deleted=5, drained="Unknown", blockers=(blocker(reason),), **pods))
        rows = [warning(), *ended(70), held, look(135, USER)]

        assert verdict(*rows) is V.INCONCLUSIVE
        assert verdict(*rows, terminate_call(70)) is V.HANDLED_IN_TIME
        let_go = look(60, cluster=kube(deleted=5, drained="Unknown", **pods))
        assert verdict(*rows, let_go) is V.HANDLED_IN_TIME

    def test_seen_undrained_and_ended_by_karpenter_was_forced(self):
        still_there = look(80, USER, kube(deleted=5, drained="False"))

        assert verdict(warning(), *ended(70), still_there) is V.HANDLED_FORCED

    @pytest.mark.parametrize(
        "seen",
        [[DRAINING], [look(110, cluster=kube(deleted=5))], [look(130, SPOT, kube(deleted=5, drained="Unknown"))]],
    )
    def test_deleted_in_time_and_taken_undrained(self, seen: list[Observation]):
        assert verdict(warning(), *ended(122), *seen, look(135, SPOT, kube(deleted=5))) is V.RECLAIMED_BEFORE_DRAIN

    def test_deleted_in_time_and_nothing_more_known(self):
        nothing = observation(135, InstanceView(Answer.DENIED, "denied"), ClusterView(Answer.ERROR, "down"))
        judgement = judged(warning(), *ended(122), look(20, cluster=kube(deleted=5)), nothing)

        assert judgement.verdict is V.INCONCLUSIVE
        assert "who ended the instance (EC2: denied, denied)" in judgement.missing

    def test_not_deleted_and_taken(self):
        judgement = judged(warning(), *ended(121), UNTOUCHED, look(300, SPOT))

        assert (judgement.verdict, judgement.final) == (V.MISSED, True)

    def test_not_deleted_and_ended_by_somebody_else(self):
        assert verdict(warning(), *ended(130), UNTOUCHED, look(300, USER, kube())) is V.SUPERSEDED

    def test_not_deleted_and_still_running(self):
        judgement = judged(warning(), UNTOUCHED, look(300, cluster=kube()), look(600, cluster=kube()))

        assert (judgement.verdict, judgement.final) == (V.NOT_RECLAIMED, True)
        assert Note.STILL_RUNNING in judgement.notes

    @pytest.mark.parametrize("reason", [USER, SPOT, None])
    def test_deleted_before_the_warning(self, reason: str | None):
        before = look(20, cluster=kube(deleted=-60, drained=30))

        assert verdict(warning(), *ended(40), before, look(135, reason)) is V.SUPERSEDED


class TestPrecedence:
    @pytest.mark.parametrize(
        "rows",
        [
            [warning(account="999999999999")],
            [warning(region="us-east-2"), UNTOUCHED, look(300, SPOT)],
            [warning(), observation(20, ec2(nodepool=None, cluster=None), gone())],
            [warning(), observation(20, ec2(cluster="somebody-elses"), gone())],
            [*ended(0), observation(20, ec2("terminated", SPOT, nodepool=None), gone())],
        ],
    )
    def test_foreign_is_above_everything(self, rows: list):
        judgement = judged(*rows)

        assert (judgement.verdict, judgement.final) == (V.FOREIGN, True)

    def test_a_nodeclaim_makes_an_instance_ours_whatever_its_tags_say(self):
        seen = observation(60, ec2(nodepool=None, cluster=None), kube(deleted=5, drained=50))

        assert verdict(warning(), seen) is V.HANDLED_IN_TIME

    def test_an_instance_that_ec2_does_not_describe_is_not_called_foreign(self):
        unknown = observation(20, InstanceView(Answer.NOT_FOUND), gone())

        assert verdict(warning(), unknown) is V.INCONCLUSIVE

    def test_taken_without_a_warning_is_unwarned_once_none_can_come_any_more(self):
        early, late = (judged(*ended(0), look(20, SPOT), now=now) for now in (899, 900))

        assert (early.verdict, early.final) == (V.INCONCLUSIVE, False)
        assert (late.verdict, late.final) == (V.UNWARNED, True)

    def test_a_launch_that_found_no_capacity_is_no_interruption(self):
        """The instance goes from pending to terminated and never held a pod."""
        judgement = judged(state("pending", -1), *ended(0), look(20, "Server.InsufficientInstanceCapacity"), now=900)

        assert (judgement.verdict, judgement.final) == (V.NOT_APPLICABLE, True)

    def test_a_warning_that_came_late_takes_unwarned_back(self):
        rows = [*ended(121), UNTOUCHED, look(300, SPOT)]

        assert (verdict(*rows), verdict(*rows, warning())) == (V.UNWARNED, V.MISSED)

    @pytest.mark.parametrize("cluster", [gone(), kube(deleted=-60), kube(), ClusterView(Answer.ERROR, "down")])
    def test_a_voluntary_end_is_no_interruption_whoever_asked_for_it(self, cluster: ClusterView):
        judgement = judged(*ended(0), look(20, USER, cluster), now=21)

        assert (judgement.verdict, judgement.final) == (V.NOT_APPLICABLE, True)

    def test_an_end_of_which_nobody_knows_the_reason_is_inconclusive(self):
        assert verdict(*ended(0), observation(20, InstanceView(Answer.NOT_FOUND), gone())) is V.INCONCLUSIVE

    def test_a_rebalance_recommendation_alone_is_no_interruption(self):
        assert verdict(rebalance(0)) is V.NOT_APPLICABLE

    def test_a_ghost_is_a_nodeclaim_ten_minutes_after_its_instance(self):
        lingering = [*ended(0), observation(20, ec2("shutting-down", USER), kube(deleted=-10))]

        assert verdict(*lingering, look(634, USER, kube(deleted=-10))) is V.NOT_APPLICABLE
        assert verdict(*lingering, look(635, USER, kube(deleted=-10))) is V.GHOST

    @pytest.mark.parametrize(
        ("rows", "later", "expected"),
        [
            ([warning(), look(20, cluster=kube(deleted=-60))], kube(deleted=-60), V.SUPERSEDED),
            ([warning()], kube(deleted=5), V.INCONCLUSIVE),
            (
                [warning(), look(60, cluster=kube(deleted=5, drained=50))],
                kube(deleted=5, drained=50),
                V.HANDLED_IN_TIME,
            ),
            ([warning(), look(135, cluster=kube()), look(300, SPOT, kube())], kube(), V.MISSED),
        ],
    )
    def test_a_ghost_beside_a_warning_is_a_note_and_changes_nothing(
        self, rows: list, later: ClusterView, expected: Verdict
    ):
        lingers = observation(900, InstanceView(Answer.NOT_FOUND), later)
        judgement = judged(*rows, *ended(122), lingers)

        assert judgement.verdict is expected
        assert Note.GHOST_NODECLAIM in judgement.notes

    def test_a_ghost_that_has_gone_is_noted(self):
        rows = [warning(), *ended(122), look(60, cluster=kube(deleted=5, drained=50))]
        seen = [
            observation(second, None, view) for second, view in ((900, kube(deleted=5, drained=50)), (2700, gone()))
        ]
        judgement = judged(*rows, *seen)

        assert (judgement.verdict, judgement.notes[-2:]) == (
            V.HANDLED_IN_TIME,
            (Note.GHOST_NODECLAIM, Note.GHOST_GONE),
        )
        assert case_of(*rows, *seen).ghost_gone_at == at(2700)

    def test_an_instance_was_terminated_when_its_event_says_or_a_look_saw(self):
        assert case_of(warning(), *ended(121)).terminated_at == at(156)
        assert case_of(warning(), look(300, SPOT, kube())).terminated_at == at(300)
        assert case_of(warning(), *ended(121), look(300, SPOT, kube())).terminated_at == at(156)
        forgotten = observation(5000, InstanceView(Answer.NOT_FOUND), kube())
        assert case_of(warning(), state("shutting-down", 121), forgotten).terminated_at is None


class TestHealth:
    """AWS Health announces maintenance days ahead; Karpenter drains at once, and acts on the closing of a notice too."""

    DAY = 24 * 3600.0

    def test_drained_on_the_day_of_the_notice_is_in_time(self):
        rows = [notice(starts=14 * self.DAY), look(60, cluster=kube(deleted=5, drained=50))]

        assert judged(*rows, now=70).verdict is V.HANDLED_IN_TIME

    def test_hours_of_draining_are_in_time_too(self):
        rows = [
            notice(starts=14 * self.DAY),
            look(600, cluster=kube(deleted=5, drained="Unknown")),
            *ended(7200),
            look(7220, USER, kube(deleted=5, drained=7190)),
        ]
        judgement = judged(*rows, now=7230)

        assert (judgement.verdict, judgement.final) == (V.HANDLED_IN_TIME, True)

    def test_not_begun_when_the_maintenance_began_is_missed(self):
        start = 2 * self.DAY
        rows = [notice(starts=start), *ended(start), look(start + 15, "Server.ScheduledStop", kube())]

        assert judged(*rows, now=start + 600).verdict is V.MISSED

    def test_before_the_maintenance_nothing_is_missed(self):
        rows = [notice(starts=14 * self.DAY), look(600, cluster=kube())]
        judgement = judged(*rows, now=700)

        assert (judgement.verdict, judgement.final) == (V.INCONCLUSIVE, False)

    def test_a_notice_that_was_closed_untouched_is_no_interruption(self):
        rows = [notice(starts=14 * self.DAY), notice(2 * self.DAY, starts=14 * self.DAY, status="closed")]
        rows.append(look(2 * self.DAY + 135, cluster=kube()))
        judgement = judged(*rows, now=3 * self.DAY)

        assert (judgement.verdict, judgement.final) == (V.NOT_APPLICABLE, True)

    def test_a_closing_alone_is_no_interruption(self):
        assert verdict(notice(starts=14 * self.DAY, status="closed")) is V.NOT_APPLICABLE

    def test_a_notice_is_open_again_when_it_is_announced_again(self):
        start = 2 * self.DAY
        rows = [
            notice(0, starts=start, status="upcoming"),
            notice(600, starts=start, status="closed"),
            notice(1200, starts=start, status="open"),
            *ended(start),
            look(start + 15, "Server.ScheduledStop", kube()),
        ]

        assert verdict(*rows, now=start + 600) is V.MISSED

    def test_a_closed_notice_that_ec2_carried_out_is_judged(self):
        start = 2 * self.DAY
        rows = [notice(starts=start), notice(600, starts=start, status="closed"), *ended(start)]

        assert verdict(*rows, look(start + 15, "Server.ScheduledStop", kube()), now=start + 600) is V.MISSED

    def test_without_a_readable_date_a_drain_is_judged_by_the_end_alone(self):
        seen = look(60, cluster=kube(deleted=5, drained=50))

        assert verdict(notice(starts=None), seen, *ended(70), look(90, USER)) is V.HANDLED_IN_TIME
        assert verdict(notice(starts=None), look(60, cluster=kube(deleted=5)), *ended(70), look(90, SPOT)) is (
            V.RECLAIMED_BEFORE_DRAIN
        )

    def test_a_spot_warning_days_after_a_notice_is_judged_by_its_own_two_minutes(self):
        day = 3 * self.DAY
        rows = [notice(starts=14 * self.DAY), look(600, cluster=kube())]
        rows += [warning(day), *ended(day + 121), look(day + 135, SPOT, kube())]
        case = case_of(*rows)

        assert (case.kind, case.warned_at, case.deadline) == (Kind.SPOT_WARNING, at(day), at(day + 120))
        assert verdict(*rows, now=day + 400) is V.MISSED

    def test_a_closed_notice_does_not_hide_a_later_spot_warning(self):
        day = 3 * self.DAY
        rows = [notice(starts=14 * self.DAY), notice(self.DAY, starts=14 * self.DAY, status="closed")]
        rows += [warning(day), look(day + 135, cluster=kube()), look(day + 600, cluster=kube())]

        assert case_of(*rows).closed_at is None
        assert verdict(*rows, now=day + 700) is V.NOT_RECLAIMED


class TestDeadlines:
    def test_a_capacity_reservation_names_its_own_end(self):
        announced = fact(Kind.CAPACITY_WARNING, action="terminate", announced=at(600))
        slow = look(500, cluster=kube(deleted=5, drained=480))

        assert case_of(announced).deadline == at(600)
        assert verdict(announced, slow) is V.HANDLED_IN_TIME
        assert verdict(warning(), slow, *ended(490), look(500, USER)) is V.HANDLED_LATE

    @pytest.mark.parametrize("kind", [Kind.CAPACITY_WARNING, Kind.UNKNOWN_WARNING, Kind.SPOT_WARNING])
    def test_every_other_warning_gives_two_minutes(self, kind: Kind):
        assert case_of(fact(kind, action="terminate")).deadline == at(120)

    def test_hibernation_begins_at_once(self):
        case = case_of(warning(action="hibernate"))

        assert (case.deadline, case.notes) == (at(0), (Note.NO_NOTICE_WINDOW,))

    def test_hibernation_leaves_no_time_to_drain(self):
        rows = [warning(action="hibernate"), state("stopping", 1), look(20, cluster=kube(deleted=4))]
        judgement = judged(*rows, look(135, "Server.SpotInstanceShutdown", kube(deleted=4)))

        assert (judgement.verdict, judgement.cause) == (V.RECLAIMED_BEFORE_DRAIN, Cause.NO_NOTICE_WINDOW)

    def test_karpenter_may_take_thirty_seconds_to_begin_even_where_ec2_leaves_no_time(self):
        rows = [warning(action="hibernate"), state("stopping", 1)]
        taken = look(135, "Server.SpotInstanceShutdown")

        assert verdict(*rows, look(20, cluster=kube()), taken) is V.INCONCLUSIVE
        assert verdict(*rows, look(60, cluster=kube()), taken) is V.MISSED

    @pytest.mark.parametrize(("seconds", "deletion"), [(122, Deletion.IN_TIME), (122.5, Deletion.LATE)])
    def test_two_seconds_of_skew_do_not_make_a_deletion_late(self, seconds: float, deletion: Deletion):
        assert case_of(warning(), look(135, cluster=kube(deleted=seconds))).deletion is deletion

    @pytest.mark.parametrize(("seconds", "deletion"), [(-2, Deletion.IN_TIME), (-2.5, Deletion.BEFORE_WARNING)])
    def test_two_seconds_of_skew_do_not_put_a_deletion_before_the_warning(self, seconds: float, deletion: Deletion):
        assert case_of(warning(), look(20, cluster=kube(deleted=seconds))).deletion is deletion

    @pytest.mark.parametrize(("seconds", "drained"), [(122, Drained.IN_TIME), (122.5, Drained.LATE)])
    def test_two_seconds_of_skew_do_not_make_a_drain_late(self, seconds: float, drained: Drained):
        assert case_of(warning(), look(135, cluster=kube(deleted=5, drained=seconds))).drained is drained

    @pytest.mark.parametrize(("seconds", "end"), [(60, End.CONTROLLER), (72, End.CONTROLLER), (73, End.OTHER_CLIENT)])
    def test_two_seconds_of_skew_do_not_take_an_end_from_karpenter(self, seconds: float, end: End):
        assert case_of(warning(), *ended(70), look(80, USER, kube(deleted=seconds))).end is end

    @pytest.mark.parametrize(("seconds", "deletion"), [(122, Deletion.UNSEEN), (122.5, Deletion.NOT_DELETING)])
    def test_a_look_too_near_the_deadline_does_not_prove_that_nothing_began(self, seconds: float, deletion: Deletion):
        assert case_of(warning(), look(seconds, cluster=kube())).deletion is deletion

    @pytest.mark.parametrize(("seconds", "drained"), [(122, Drained.UNSEEN), (122.5, Drained.SEEN_FALSE)])
    def test_a_look_too_near_the_deadline_does_not_prove_an_unfinished_drain(self, seconds: float, drained: Drained):
        assert case_of(warning(), look(seconds, cluster=kube(deleted=5))).drained is drained


class TestMissed:
    def test_never_looked_is_not_missed(self):
        judgement = judged(warning(), *ended(121), observation(135, ec2("terminated", SPOT)))

        assert judgement.verdict is V.INCONCLUSIVE
        assert "when the NodeClaim was deleted (nobody looked at the cluster)" in judgement.missing

    @pytest.mark.parametrize("answer", [Answer.DENIED, Answer.THROTTLED, Answer.ERROR, Answer.SKIPPED])
    def test_a_cluster_that_gave_no_answer_is_not_missed_and_is_named(self, answer: Answer):
        silent = observation(135, ec2("terminated", SPOT), ClusterView(answer, "nodeclaims is forbidden"))
        judgement = judged(warning(), *ended(121), silent)

        assert judgement.verdict is V.INCONCLUSIVE
        assert any(f"Kubernetes API: {answer}, nodeclaims is forbidden" in item for item in judgement.missing)
        assert "Not known:" in judgement.reason

    def test_a_look_before_the_deadline_is_not_enough(self):
        assert verdict(warning(), *ended(121), look(110, cluster=kube()), look(135, SPOT)) is V.INCONCLUSIVE

    def test_a_nodeclaim_that_is_gone_is_not_missed(self):
        assert verdict(warning(), *ended(121), look(135, SPOT, gone())) is V.INCONCLUSIVE

    def test_a_deletion_after_ec2_took_the_machine_is_no_handling(self):
        assert verdict(warning(), *ended(125), look(135, SPOT, kube(deleted=130, drained=134))) is V.MISSED

    def test_a_deletion_long_after_is_nobodys_handling_either(self):
        later = look(1500, SPOT, kube(deleted=1200, drained=1400))

        assert verdict(warning(), *ended(125), later) is V.MISSED


class TestEndOfTheInstance:
    def end(self, *rows, scope: Scope = SCOPE) -> End:
        return case_of(warning(), *rows, scope=scope).end

    def test_cloudtrail_names_karpenter(self):
        assert self.end(terminate_call(70), *ended(70), observation(80, ec2("terminated"))) is End.CONTROLLER

    def test_cloudtrail_names_somebody_else(self):
        seen = look(20, cluster=kube(deleted=5))

        assert self.end(terminate_call(70, SOMEBODY), *ended(70), seen) is End.OTHER_CLIENT

    def test_the_first_of_several_calls_ended_the_instance(self):
        seen = look(20, cluster=kube(deleted=5))
        calls = [terminate_call(70, SOMEBODY), terminate_call(75, CONTROLLER, event_id="second")]

        assert self.end(*calls, *ended(70), seen) is End.OTHER_CLIENT

    def test_two_calls_in_one_second_tell_nothing(self):
        calls = [terminate_call(70, SOMEBODY), terminate_call(70, CONTROLLER, event_id="second")]

        assert self.end(*calls, *ended(70)) is End.UNKNOWN

    def test_a_call_by_nobody_known_tells_nothing(self):
        assert self.end(terminate_call(70, None), *ended(70), look(20)) is End.UNKNOWN

    def test_without_the_controllers_role_a_caller_tells_nothing(self):
        scope = Scope(HOME, {"cluster-a": Cluster("cluster-a", None)})

        assert self.end(terminate_call(70), *ended(70), look(20), scope=scope) is End.UNKNOWN

    def test_ec2s_reason_outranks_cloudtrail(self):
        assert self.end(terminate_call(70), *ended(70), look(80, SPOT)) is End.SERVER

    def test_an_eviction_shows_that_ec2_took_it(self):
        assert self.end(fact(Kind.BID_EVICTED, 360), *ended(121)) is End.SERVER

    def test_ec2s_reason_outranks_an_eviction(self):
        rows = [fact(Kind.BID_EVICTED, 360), *ended(70), look(80, USER, kube(deleted=5))]

        assert self.end(*rows) is End.CONTROLLER

    @pytest.mark.parametrize(
        ("status", "end"),
        [
            ("instance-terminated-by-experiment", End.SERVER),
            ("instance-stopped-by-experiment", End.SERVER),
            ("instance-terminated-by-user", End.CONTROLLER),
            ("instance-terminated-no-capacity", End.UNKNOWN),  # shown while the instance still runs its two minutes
            ("fulfilled", End.UNKNOWN),
        ],
    )
    def test_the_spot_request_tells_who_when_ec2_gives_no_reason(self, status: str, end: End):
        seen = observation(80, ec2("shutting-down", spot_status=status), kube(deleted=5))

        assert self.end(*ended(70), seen) is end

    def test_a_shutdown_from_inside_is_somebody_elses(self):
        rows = [*ended(70), look(80, "Client.InstanceInitiatedShutdown", kube(deleted=5))]

        assert self.end(*rows) is End.OTHER_CLIENT

    def test_a_client_that_acted_on_an_untouched_nodeclaim_was_not_karpenter(self):
        assert self.end(*ended(70), look(80, USER, kube())) is End.OTHER_CLIENT

    def test_a_client_before_the_nodeclaim_was_deleted_was_not_karpenter(self):
        assert self.end(*ended(70), look(80, USER, kube(deleted=75))) is End.OTHER_CLIENT

    def test_a_nodeclaim_that_went_with_the_instance_was_karpenters_work(self):
        case = case_of(warning(), look(20, cluster=kube()), *ended(70), look(110, USER, gone()))

        assert (case.end, case.deletion) == (End.CONTROLLER, Deletion.IN_TIME)
        assert {Note.CONTROLLER_INFERRED, Note.ABSENCE_IS_DELETION} <= set(case.notes)

    def test_absence_before_the_nodeclaim_was_found_shows_nothing(self):
        rows = [look(0, cluster=gone()), look(20, cluster=kube()), *ended(70)]
        blind = observation(110, ec2("terminated", USER), ClusterView(Answer.ERROR, "down"))

        assert self.end(*rows, blind) is End.UNKNOWN

    def test_absence_after_the_deadline_shows_a_late_deletion(self):
        rows = [look(135, cluster=kube()), *ended(200), look(300, USER, gone())]
        case = case_of(warning(), *rows)

        assert (case.end, case.deletion) == (End.CONTROLLER, Deletion.LATE)
        assert verdict(warning(), *rows) is V.HANDLED_LATE

    def test_absence_that_may_have_begun_before_or_after_the_deadline_is_unseen(self):
        rows = [look(110, cluster=kube()), *ended(200), look(300, USER, gone())]

        assert verdict(warning(), *rows) is V.INCONCLUSIVE

    def test_without_a_time_a_client_end_is_nobodys(self):
        assert self.end(look(80, USER, kube(deleted=5))) is End.UNKNOWN

    @pytest.mark.parametrize("rows", [[], [state("terminated", 105)]])
    def test_ec2s_own_time_stands_in_for_a_lost_event(self, rows: list):
        seen = observation(80, ec2("terminated", USER, transitioned_at=at(70)), kube(deleted=5))

        assert (case_of(warning(), *rows, seen).ended_at, self.end(*rows, seen)) == (at(70), End.CONTROLLER)

    def test_the_time_of_the_call_stands_in_for_a_lost_event(self):
        blind = observation(125, InstanceView(Answer.DENIED), kube(deleted=5, drained="Unknown"))
        rows = [warning(), terminate_call(127), blind]

        assert case_of(*rows).ended_at == at(127)
        assert verdict(*rows) is V.HANDLED_LATE

    def test_running_needs_a_look_after_the_interruption_was_over(self):
        assert self.end(look(599, cluster=kube())) is End.UNKNOWN
        assert self.end(look(600, cluster=kube())) is End.RUNNING
        assert self.end(observation(600, InstanceView(Answer.NOT_FOUND))) is End.UNKNOWN


class TestFalseAlarm:
    """EC2 warned and let the instance run; what happens to it days later is another story."""

    DAY = 24 * 3600.0
    SURVIVED = (warning(), UNTOUCHED, look(600, cluster=kube()))

    @pytest.mark.parametrize(
        "later",
        [
            [*ended(DAY)],
            [*ended(DAY), terminate_call(DAY)],
            [*ended(DAY), look(DAY + 20, USER, kube(deleted=DAY - 60, drained=DAY - 10))],
            [*ended(DAY), look(DAY + 20, USER, gone())],
            [look(DAY, cluster=kube(deleted=DAY - 60))],
            [rebalance(DAY)],
        ],
    )
    def test_an_ordinary_end_days_later_leaves_the_verdict_alone(self, later: list):
        assert verdict(*self.SURVIVED, *later, now=2 * self.DAY) is V.NOT_RECLAIMED

    def test_the_end_event_alone_shows_that_the_instance_lived_on(self):
        assert verdict(warning(), UNTOUCHED, *ended(self.DAY), now=2 * self.DAY) is V.NOT_RECLAIMED

    def test_a_drain_that_took_long_is_late_and_no_false_alarm(self):
        rows = [warning(), look(600, cluster=kube(deleted=5, drained="Unknown"))]
        rows += [*ended(900), look(920, USER, kube(deleted=5, drained=880))]

        assert verdict(*rows) is V.HANDLED_LATE

    def test_the_next_warning_is_judged_by_itself(self):
        second = self.DAY
        rows = [*self.SURVIVED, warning(second), *ended(second + 121), look(second + 135, SPOT, kube())]
        case = case_of(*rows)

        assert (case.warned_at, case.deadline) == (at(second), at(second + 120))
        assert case.cycle == "2026-09-02T04:10:00Z"
        assert verdict(*rows, now=second + 400) is V.MISSED


class TestForce:
    def test_karpenter_reports_drained_for_a_forced_drain_too(self):
        forceful = look(60, cluster=kube(deleted=5, drained=40, ends_by=6))

        assert verdict(warning(), forceful) is V.HANDLED_FORCED

    def test_a_drain_that_a_blocked_pod_outlasted_was_forced(self):
        blocked = kube(
            deleted=5,
            ends_by=65,
            pods_answer=Answer.OK,
            pods_left=1,
            longest_grace=30,
            blockers=(blocker(BlockerReason.PDB),),
        )
        drained = kube(deleted=5, ends_by=65, drained=62)

        judgement = judged(warning(), look(20, cluster=blocked), look(64, cluster=drained))
        assert (judgement.verdict, judgement.cause) == (V.HANDLED_FORCED, Cause.BLOCKED_BY_PDB)

    def test_a_drain_before_karpenter_could_force_it_was_not(self):
        seen = kube(deleted=5, ends_by=105, pods_answer=Answer.OK, pods_left=1, longest_grace=30)

        assert verdict(
            warning(), look(20, cluster=seen), look(64, cluster=kube(deleted=5, ends_by=105, drained=60))
        ) is (V.HANDLED_IN_TIME)

    def test_a_drain_that_may_have_been_forced_is_inconclusive(self):
        judgement = judged(warning(), look(64, cluster=kube(deleted=5, ends_by=65, drained=62)))

        assert judgement.verdict is V.INCONCLUSIVE
        assert any("grace period" in item for item in judgement.missing)

    @pytest.mark.parametrize(
        ("seen_at", "reasons", "expected"),
        [
            (60, [], V.INCONCLUSIVE),  # before the grace period ended: the drain may still have finished by itself
            (60, [BlockerReason.GRACE_PERIOD], V.INCONCLUSIVE),
            (60, [BlockerReason.PDB], V.HANDLED_FORCED),  # they do not leave by themselves
            (60, [BlockerReason.DO_NOT_DISRUPT], V.HANDLED_FORCED),
            (100, [], V.HANDLED_FORCED),  # not over when the grace period was
        ],
    )
    def test_an_end_with_the_grace_period_was_forced_only_if_pods_were_seen_that_would_not_go(
        self, seen_at: float, reasons: list[BlockerReason], expected: Verdict
    ):
        blockers = tuple(blocker(reason) for reason in reasons)
        view = kube(deleted=5, ends_by=100, drained="Unknown", longest_grace=30, blockers=blockers)

        assert verdict(warning(), *ended(101), look(seen_at, cluster=view), look(135, USER)) is expected

    def test_ended_by_karpenter_before_its_drain_was_over(self):
        view = kube(deleted=5, drained=80)

        assert verdict(warning(), *ended(70), look(90, USER, view)) is V.HANDLED_FORCED

    def test_ended_by_force_after_the_deadline_is_late(self):
        rows = [warning(), *ended(200), look(135, cluster=kube(deleted=5, drained="Unknown"))]

        assert verdict(*rows, look(300, USER)) is V.HANDLED_LATE

    def test_a_pod_with_a_grace_of_centuries_is_counted(self):
        view = kube(deleted=5, ends_by=65, grace_period=10**18, longest_grace=2**63 - 1)

        assert verdict(warning(), *ended(70), look(20, cluster=view), look(135, USER)) is V.INCONCLUSIVE
        assert verdict(warning(), look(64, cluster=replace(view, conditions=kube(drained=60).conditions))) is (
            V.INCONCLUSIVE
        )


class TestUnknownIsNeverFine:
    def test_pods_that_went_because_the_machine_did_are_no_drain(self):
        """The end came at 100 s, by whom is not known; Drained became True at 115 s, still before the deadline."""
        gone_with_it = observation(135, InstanceView(Answer.DENIED), kube(deleted=5, drained=115))

        assert verdict(warning(), *ended(100), gone_with_it) is V.INCONCLUSIVE

    def test_a_late_drain_beside_a_reclaim_of_unknown_time_is_inconclusive(self):
        seen = observation(300, ec2("terminated", SPOT), kube(deleted=5, drained=200))

        assert verdict(warning(), seen) is V.INCONCLUSIVE
        assert verdict(warning(), *ended(210), seen) is V.HANDLED_LATE

    def test_a_drain_unseen_beside_an_end_by_somebody_else_is_inconclusive(self):
        seen = look(20, cluster=kube(deleted=5))

        assert verdict(warning(), terminate_call(70, SOMEBODY), *ended(70), seen, look(135, USER)) is V.INCONCLUSIVE

    def test_an_evicted_instance_that_nobody_knows_is_not_called_unwarned(self):
        nobody = observation(400, InstanceView(Answer.DENIED), gone())

        assert verdict(fact(Kind.BID_EVICTED, 240)) is V.INCONCLUSIVE
        assert verdict(fact(Kind.BID_EVICTED, 240), nobody) is V.INCONCLUSIVE
        assert verdict(fact(Kind.BID_EVICTED, 240), look(260)) is V.UNWARNED

    def test_an_eviction_alone_waits_for_its_warning(self):
        assert verdict(fact(Kind.BID_EVICTED, 240), look(260), now=240 + 899) is V.INCONCLUSIVE

    def test_seen_not_begun_after_the_end_contradicts_itself(self):
        rows = [warning(), terminate_call(100), *ended(100), look(135, USER, kube())]

        assert verdict(*rows) is V.INCONCLUSIVE

    def test_a_drain_before_its_deletion_is_noted(self):
        case = case_of(warning(), look(60, cluster=kube(deleted=50, drained=20)))

        assert Note.TIMES_CONTRADICT in case.notes

    def test_inconclusive_names_what_is_missing_and_others_do_not(self):
        assert judged(warning()).missing == (
            "when the NodeClaim was deleted (nobody looked at the cluster)",
            "whether the drain finished (nobody looked at the cluster)",
            "who ended the instance (nobody asked EC2)",
        )
        assert judged(warning(), DRAINED).missing == ()


class TestCauses:
    TAKEN = (warning(), *ended(121))

    def reclaimed(self, view: ClusterView, *more) -> Judgement:
        judgement = judged(*self.TAKEN, look(110, cluster=view), look(135, SPOT), *more)
        assert judgement.verdict is V.RECLAIMED_BEFORE_DRAIN
        return judgement

    def held(self, *reasons: BlockerReason, deleted: float = 5, **fields) -> ClusterView:
        blockers = tuple(blocker(reason, f"by {reason}", pod=f"pod-{number}") for number, reason in enumerate(reasons))
        values = {"pods_answer": Answer.OK, "pods_left": len(blockers), "longest_grace": 30, "blockers": blockers}
        return kube(deleted=deleted, **{**values, **fields})

    @pytest.mark.parametrize(
        ("reasons", "cause"),
        [
            ([BlockerReason.PDB], Cause.BLOCKED_BY_PDB),
            ([BlockerReason.DO_NOT_DISRUPT], Cause.BLOCKED_BY_DO_NOT_DISRUPT),
            ([BlockerReason.GRACE_PERIOD], Cause.LONG_POD_GRACE),
            ([BlockerReason.GRACE_PERIOD, BlockerReason.PDB], Cause.BLOCKED_BY_PDB),
            ([BlockerReason.PDB, BlockerReason.DO_NOT_DISRUPT], Cause.BLOCKED_BY_DO_NOT_DISRUPT),
            ([], Cause.UNKNOWN),
        ],
    )
    def test_what_held_the_pods_is_the_cause(self, reasons: list[BlockerReason], cause: Cause):
        judgement = self.reclaimed(self.held(*reasons))

        assert judgement.cause is cause
        if reasons:
            assert f"shop/pod-{len(reasons) - 1} (by {reasons[-1]})" in judgement.reason

    def test_pods_read_only_after_the_end_are_a_cause_that_says_so(self):
        judgement = judged(*self.TAKEN, look(700, SPOT, self.held(BlockerReason.PDB)))

        assert (judgement.verdict, judgement.cause) == (V.RECLAIMED_BEFORE_DRAIN, Cause.BLOCKED_BY_PDB)
        assert judgement.reason.endswith("It was seen only after the instance had ended.")
        assert Note.BLOCKERS_SEEN_LATE in judgement.notes

    def test_pods_read_in_the_instances_life_outrank_those_read_later(self):
        early, late = self.held(BlockerReason.DO_NOT_DISRUPT), self.held(BlockerReason.PDB)

        judgement = judged(*self.TAKEN, look(60, cluster=early), look(840, SPOT, late))

        assert judgement.cause is Cause.BLOCKED_BY_DO_NOT_DISRUPT
        assert Note.BLOCKERS_SEEN_LATE not in judgement.notes

    def test_a_volume_that_does_not_let_go_is_the_cause(self):
        conditions = kube(drained="Unknown").conditions
        detaching = (*conditions, replace(conditions[0], type="VolumesDetached", status="False"))
        view = self.held(pods_left=0, conditions=detaching)

        assert self.reclaimed(view).cause is Cause.VOLUME_DETACH

    @pytest.mark.parametrize(("deleted", "cause"), [(32, Cause.LONG_POD_GRACE), (33, Cause.LATE_START)])
    def test_a_late_start_leaves_the_pods_too_little_time(self, deleted: float, cause: Cause):
        assert self.reclaimed(self.held(BlockerReason.GRACE_PERIOD, deleted=deleted)).cause is cause

    def test_a_pdb_is_the_cause_of_a_late_start_too(self):
        assert self.reclaimed(self.held(BlockerReason.PDB, deleted=60)).cause is Cause.BLOCKED_BY_PDB

    def test_of_many_pods_three_are_named(self):
        judgement = self.reclaimed(self.held(*[BlockerReason.PDB] * 5))

        assert "shop/pod-2 (by pdb) and 2 more" in judgement.reason
        assert "pod-3" not in judgement.reason

    def missed(
        self, *queues, notes: tuple[str, ...] = (), at_: tuple[float, ...] = (135,), more: Sequence = (), **claim
    ) -> Judgement:
        seen = [look(second, SPOT, kube(**claim), waiting=view) for second, view in zip(at_, queues, strict=True)]
        judgement = judged(warning(notes=notes), *ended(121), *seen, look(301, SPOT, kube(**claim)), *more)
        assert judgement.verdict is V.MISSED
        return judgement

    def test_events_in_the_targets_dead_letter_queue_were_not_delivered(self):
        judgement = self.missed(queue(visible=3, undelivered=2))

        assert judgement.cause is Cause.NOT_DELIVERED
        assert "2 events" in judgement.reason

    def test_messages_that_wait_have_no_reader(self):
        judgement = self.missed(queue(visible=3))

        assert judgement.cause is Cause.CONSUMER_ABSENT
        assert "3 messages" in judgement.reason

    def test_messages_that_have_expired_since_had_no_reader_either(self):
        judgement = self.missed(queue(visible=3), queue(visible=0), at_=(135, 300))

        assert judgement.cause is Cause.CONSUMER_ABSENT

    def test_a_message_that_has_just_come_is_no_sign_of_an_absent_reader(self):
        judgement = self.missed(queue(visible=3), queue(visible=0), at_=(20, 135))

        assert judgement.cause is Cause.UNKNOWN

    @pytest.mark.parametrize("note", ["unknown_version", "resources_not_a_list", "sns_envelope", "double_encoded"])
    def test_a_message_that_karpenter_drops_unread_is_the_cause(self, note: str):
        assert self.missed(queue(), notes=(note,)).cause is Cause.UNREADABLE_MESSAGE

    def test_a_second_message_that_it_could_read_is_no_excuse(self):
        rows = [warning(notes=("unknown_version",)), warning(20), *ended(121), look(135, SPOT, kube())]

        assert judged(*rows).cause is Cause.UNKNOWN

    @pytest.mark.report("aws/karpenter-provider-aws#5400")
    def test_messages_that_wait_for_a_reader_who_is_seen_reading_are_behind(self):
        """karpenter-provider-aws#5400: the queue lags when many messages come at once."""
        judgement = self.missed(queue(in_flight=10, visible=40), queue(visible=25), at_=(110, 135))

        assert judgement.cause is Cause.QUEUE_BEHIND
        assert "25 messages" in judgement.reason

    def test_a_reader_of_later_days_was_not_there_then(self):
        later = [look(DAY, SPOT, kube(), waiting=queue(visible=5, in_flight=3))]

        assert self.missed(queue(visible=3), more=later).cause is Cause.CONSUMER_ABSENT
        assert self.missed(queue(), more=later).cause is Cause.UNKNOWN

    @pytest.mark.parametrize(
        ("born", "cause"),
        [(-60, Cause.UNKNOWN), (-59, Cause.NODECLAIM_TOO_NEW), (3, Cause.NODECLAIM_TOO_NEW)],
    )
    def test_a_nodeclaim_that_karpenter_may_not_have_known_is_too_new(self, born: float, cause: Cause):
        assert self.missed(queue(), created_at=at(born)).cause is cause

    def test_a_nodeclaim_that_waited_for_its_instance_is_as_old_as_the_launch(self):
        """Karpenter finds a NodeClaim by its provider id, which it has once it is Launched (interruption controller)."""
        judgement = self.missed(queue(), conditions=(Condition("Launched", "True", "Launched", at(-12)),))

        assert judgement.cause is Cause.NODECLAIM_TOO_NEW
        assert "had its instance 12 s before the warning" in judgement.reason

    def test_a_new_nodeclaim_is_no_excuse_for_a_queue_that_nobody_reads(self):
        assert self.missed(queue(visible=3), created_at=at(-10)).cause is Cause.CONSUMER_ABSENT
        assert self.missed(None, created_at=at(-10)).cause is Cause.UNKNOWN

    @pytest.mark.report("aws/karpenter-provider-aws#5536")
    def test_a_message_that_is_in_no_queue_was_taken_or_never_sent(self):
        """karpenter-provider-aws#5536: two clusters on one queue take each other's messages."""
        judgement = self.missed(queue(retention=300))

        assert judgement.cause is Cause.MESSAGE_TAKEN
        assert "whoever took it did not act on it, or no rule sent it" in judgement.reason

    @pytest.mark.parametrize(
        ("state", "second"),
        [
            (queue(retention=None), 135),
            (queue(retention=135), 135),
            (queue(retention=300, in_flight=1), 135),
            (queue(retention=300, dead_letters=1), 135),
            (queue(retention=300, dead_letters=None), 135),
            (queue(retention=300, undelivered=None), 135),
            (queue(retention=300), 29),
            (queue(retention=300), 300),
        ],
        ids=["unknown", "expired", "in flight", "failed", "unread", "undelivered", "too early", "too late"],
    )
    def test_a_message_of_which_it_is_not_certain_was_not_taken(self, state: QueueView, second: float):
        assert self.missed(state, at_=(second,)).cause is Cause.UNKNOWN

    def test_a_message_that_one_look_saw_waiting_was_not_taken(self):
        assert self.missed(queue(3, retention=300), queue(retention=300), at_=(60, 135)).cause is Cause.UNKNOWN

    def test_nothing_known_of_the_queue_is_an_unknown_cause(self):
        judgement = self.missed(None)

        assert judgement.cause is Cause.UNKNOWN
        assert judgement.reason.endswith("What held it up was not seen.")

    def test_a_drain_in_time_needs_no_cause(self):
        assert judged(warning(), DRAINED).cause is None


class TestFinality:
    @pytest.mark.parametrize(
        ("rows", "now"),
        [
            ([warning()], 1),
            ([warning(), look(20, cluster=kube(deleted=5))], 25),
            ([warning(), UNTOUCHED], 140),
            ([warning(), *ended(121), look(110, cluster=kube())], 140),
            ([warning(), look(300, cluster=kube())], 310),
        ],
    )
    def test_what_a_later_look_may_change_is_not_final(self, rows: list, now: float):
        assert judged(*rows, now=now).final is False

    def test_a_drain_seen_in_time_is_final_before_the_machine_is_gone(self):
        judgement = judged(warning(), DRAINED, now=61)

        assert (judgement.verdict, judgement.final) == (V.HANDLED_IN_TIME, True)

    def test_superseded_from_before_the_warning_is_final(self):
        assert judged(warning(), look(20, cluster=kube(deleted=-60)), now=21).final is True

    def test_when_every_look_was_made_the_verdict_is_final_whatever_it_is(self):
        assert judged(warning(), look(600, cluster=kube(deleted=5)), now=601).final is True


class TestSentence:
    def test_it_names_the_times_against_the_warning(self):
        reason = judged(warning(), *ended(55), DRAINED, look(135, USER)).reason

        assert reason == (
            "Karpenter drained the node and ended the instance before the deadline (warned 2026-09-01T04:10:00Z, "
            "NodeClaim deleted +5 s, drained +50 s, ended +55 s, deadline +120 s)."
        )

    def test_without_a_warning_it_names_them_as_they_are(self):
        reason = judged(*ended(0), look(20, USER, kube(deleted=-60))).reason

        assert "NodeClaim deleted 2026-09-01T04:09:00Z, ended 2026-09-01T04:10:00Z" in reason

    def test_without_any_time_it_needs_no_brackets(self):
        assert judged(rebalance(0)).reason == ("Nothing announced an interruption and the instance did not end.")


class TestClocks:
    """The cluster's clock is not AWS's: small differences are tolerated, large ones are seen and named."""

    def seen(self, skew: float) -> list:
        """Deleted at 25 s and drained at 50 s by a cluster whose clock is ahead by so much."""
        done = kube(deleted=25 + skew, drained=50 + skew)
        return [
            warning(),
            observation(20, ec2(), kube()),
            observation(60, ec2("shutting-down", USER, transitioned_at=at(55)), done),
            *ended(55),
        ]

    @pytest.mark.parametrize("skew", [-2, -1, 0, 1, 2])
    def test_two_seconds_are_tolerated(self, skew: float):
        assert verdict(*self.seen(skew)) is V.HANDLED_IN_TIME

    @pytest.mark.parametrize(("skew", "least"), [(-300, 295), (-8, 3), (90, 80), (600, 590)])
    def test_more_is_seen_by_what_a_look_saw_and_named(self, skew: float, least: int):
        judgement = judged(*self.seen(skew))

        assert judgement.verdict is V.INCONCLUSIVE
        assert Note.CLUSTER_CLOCK_OFF in judgement.notes
        assert f"its clock is off by {least} s or more" in judgement.reason

    def test_a_deletion_just_after_the_look_that_saw_none_is_no_contradiction(self):
        rows = self.seen(0)[:1]
        rows += [observation(20, ec2(), kube()), observation(60, ec2(), kube(deleted=18, drained=50))]

        assert Note.CLUSTER_CLOCK_OFF not in case_of(*rows).notes

    def test_a_look_may_last_a_minute(self):
        """A look is dated when its function begins, before the cluster answers."""
        assert Note.CLUSTER_CLOCK_OFF not in case_of(warning(), observation(1, ec2(), kube(deleted=61))).notes
        assert Note.CLUSTER_CLOCK_OFF in case_of(warning(), observation(1, ec2(), kube(deleted=62))).notes

    def test_a_wrong_clock_is_no_excuse_for_a_nodeclaim_that_nobody_touched(self):
        rows = [warning(), *ended(121), observation(135, ec2("terminated", SPOT), kube(conditions=AHEAD))]

        assert verdict(*rows) is V.MISSED


AHEAD = (Condition("Launched", "True", "Launched", at(500)),)


class TestSecondInterruption:
    """A warning that comes when the instance has outlived the first is an interruption of its own."""

    LATER = 3 * 3600.0

    def cases(self, *rows) -> list[tuple[Verdict, float | None]]:
        facts = [row for row in rows if not isinstance(row, Observation)]
        looks = [row for row in rows if isinstance(row, Observation)]
        cases = fold(facts, looks, SCOPE)
        return [
            (
                judge(case, at(30 * DAY), exhausted=True).verdict,
                None if case.warned_at is None else (case.warned_at - at(0)).total_seconds(),
            )
            for case in cases
        ]

    @pytest.mark.parametrize(("second", "count"), [(600, 1), (601, 2)])
    def test_it_begins_480_s_after_the_first_deadline(self, second: float, count: int):
        assert len(self.cases(warning(), warning(second))) == count

    def test_each_is_judged_by_its_own_looks(self):
        first = observation(600, ec2(), kube())
        second = observation(self.LATER + 60, ec2(), kube(deleted=self.LATER + 5, drained=self.LATER + 50))

        assert self.cases(warning(), first, warning(self.LATER), second) == [
            (V.NOT_RECLAIMED, 0),
            (V.HANDLED_IN_TIME, self.LATER),
        ]

    def test_the_second_warning_shows_that_the_instance_outlived_the_first(self):
        """No look was made at the end of the first: EC2 warns of instances that run."""
        seen = observation(135, ec2(), kube())

        assert self.cases(warning(), seen, warning(self.LATER))[0] == (V.NOT_RECLAIMED, 0)

    @pytest.mark.parametrize(
        "rows",
        [
            [warning(), *ended(121), warning(3 * 3600.0)],
            [notice(starts=14 * DAY), warning(60), warning(3 * 3600.0)],
            [notice(starts=DAY), notice(DAY + 3600, starts=DAY, status="open")],
            [notice(starts=DAY), notice(3 * DAY, starts=DAY, status="closed")],
            [notice(starts=None), warning(DAY)],
        ],
        ids=["ended", "another is still to come", "an update of the past", "the closing", "no date"],
    )
    def test_what_is_no_interruption_of_its_own(self, rows: list):
        assert len(self.cases(*rows)) == 1

    def test_a_start_in_between_makes_runs_and_not_more(self):
        rows = [warning(action="stop"), state("stopped", 121), state("pending", 900), warning(DAY, action="stop")]

        assert len(self.cases(*rows)) == 2

    def test_three_are_three_in_any_order(self):
        rows = [warning(), warning(DAY), warning(2 * DAY)]

        assert self.cases(*rows) == self.cases(*reversed(rows))
        assert [when for _, when in self.cases(*rows)] == [0, DAY, 2 * DAY]


class TestCluster:
    ONE = Scope(HOME, {"cluster-a": Cluster("cluster-a", CONTROLLER)})
    UNKNOWN_TO_EC2 = observation(20, InstanceView(Answer.NOT_FOUND), gone())

    def test_with_one_cluster_an_instance_that_nobody_knows_is_filed_under_it(self):
        assert case_of(warning(), self.UNKNOWN_TO_EC2, scope=self.ONE).cluster == "cluster-a"
        assert case_of(warning(), replace(self.UNKNOWN_TO_EC2, kubernetes=gone(cluster=None))).cluster is None

    def test_a_foreign_instance_is_filed_under_no_cluster(self):
        foreign = observation(20, ec2(nodepool=None, cluster=None), gone())

        assert case_of(warning(), foreign, scope=self.ONE).cluster is None

    def test_the_cluster_that_holds_the_nodeclaim_outranks_the_tag(self):
        assert case_of(warning(), observation(20, ec2(cluster="cluster-b"), kube())).cluster == "cluster-a"


def test_a_lead_needs_a_warning_and_a_recommendation():
    assert [case_of(*rows).rebalance_lead for rows in ([warning()], [rebalance(0)])] == [None, None]
    assert case_of(warning(), rebalance(60)).rebalance_lead == -(at(60) - at(0))


def test_another_home_makes_the_instance_foreign():
    assert verdict(warning(), scope=Scope(Home("111122223333", "eu-central-1"), {})) is V.FOREIGN
