"""When a case is looked at, and that this comes to an end."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.interruption.event import Kind
from holdfast.interruption.observation import Answer, ClusterView, InstanceView
from holdfast.interruption.schedule import look_times, next_ghost_look, next_look
from tests.builders import W, at, case_of, ec2, ended, fact, gone, kube, notice, observation, rebalance, state, warning
from tests.unit.interruption.histories import histories

DAY = 24 * 3600.0
BLIND = InstanceView(Answer.ERROR, "down")


def seconds(*rows: Any) -> list[float]:
    return [(moment - W).total_seconds() for moment in look_times(case_of(*rows))]


def following(*rows: Any) -> float | None:
    moment = next_look(case_of(*rows))
    return None if moment is None else (moment - W).total_seconds()


SPOT_TIMES = [0, 20, 60, 110, 135, 300, 600]
OPEN_TIMES = [0, 20, 60, 110, 135, 170, 180, 300, 600]
"""While it is not known whether the workloads stand again."""


@pytest.mark.parametrize(
    "rows",
    [
        [warning()],
        [warning(action="stop")],
        [warning(), warning(30)],
        [warning(), rebalance(-900)],
    ],
)
def test_a_spot_warning_is_looked_at_around_its_two_minutes_and_the_workloads_three(rows: list[Any]):
    assert seconds(*rows) == OPEN_TIMES


@pytest.mark.parametrize(
    "rows",
    [
        [warning(), *ended(55)],
        [warning(), *ended(121), observation(135, ec2("terminated"), kube(deleted=5))],
        [warning(), *ended(DAY)],
    ],
)
def test_of_workloads_that_nobody_knows_nothing_more_is_asked(rows: list[Any]):
    assert seconds(*rows) == SPOT_TIMES


def test_the_next_look_is_the_first_after_the_last():
    looked = [None, 0, 1, 20, 59.9, 60, 110, 134, 135, 599, 600, 5000]
    expected = [0, 20, 20, 60, 60, 110, 135, 135, 170, 600, None, None]

    assert [
        following(warning(), *([] if second is None else [observation(second, ec2())])) for second in looked
    ] == expected


def test_looks_that_were_not_made_in_time_collapse_into_one():
    assert following(warning(), observation(599, ec2())) == 600
    assert following(warning(), observation(70_000, ec2())) is None


def test_an_announced_end_is_looked_at_around_its_own_time():
    announced = fact(Kind.CAPACITY_WARNING, announced=at(1800))

    assert seconds(announced) == [*OPEN_TIMES, 1815, 1980, 2280]


def test_hibernation_is_looked_at_from_the_start():
    assert seconds(warning(action="hibernate")) == [0, 15, 20, 60, 110, 135, 170, 180, 300, 480, 600]


def test_an_end_without_a_warning_is_looked_at_until_no_warning_can_come():
    assert seconds(*ended(0)) == [20, 300, 900]
    assert seconds(fact(Kind.BID_EVICTED, 240)) == [260, 540, 1140]
    assert seconds(fact(Kind.BID_EVICTED, 240), *ended(0)) == [20, 300, 900]


class TestHealth:
    def test_a_notice_is_looked_at_now_and_around_its_date(self):
        start = 14 * DAY

        assert seconds(notice(starts=start)) == [*OPEN_TIMES, start + 15, start + 180, start + 480]

    def test_without_a_readable_date_it_is_looked_at_now(self):
        assert seconds(notice(starts=None)) == OPEN_TIMES

    @pytest.mark.parametrize("starts", [14 * DAY, None])
    def test_the_end_of_a_drain_that_took_hours_is_looked_at(self, starts: float | None):
        assert set(seconds(notice(starts=starts), *ended(7200))) >= {7220, 7500, 8100}

    def test_a_closed_notice_is_looked_at_once_more_and_its_date_is_forgotten(self):
        rows = [notice(starts=14 * DAY), notice(2 * DAY, starts=14 * DAY, status="closed")]

        assert seconds(*rows) == [*SPOT_TIMES, 2 * DAY + 20, 2 * DAY + 135]
        assert seconds(notice(starts=14 * DAY, status="closed")) == [20, 135]

    def test_a_closed_notice_on_which_karpenter_acted_keeps_its_date(self):
        rows = [notice(starts=14 * DAY), notice(2 * DAY, starts=14 * DAY, status="closed")]
        acted = observation(2 * DAY + 20, ec2(), kube(deleted=2 * DAY + 5))

        assert 14 * DAY + 15 in seconds(*rows, acted)


class TestNothingToWaitFor:
    @pytest.mark.parametrize(
        "rows",
        [
            [rebalance(0)],
            [warning(replay="backfill")],
            [warning(replay="backfill"), *ended(121)],
            [warning(account="999999999999")],
            [warning(), observation(0, ec2(nodepool=None), gone())],
        ],
    )
    def test_precursors_replays_and_foreign_instances_are_not_looked_at(self, rows: list[Any]):
        assert seconds(*rows) == []
        assert following(*rows) is None

    def test_a_live_warning_is_looked_at_though_its_end_was_replayed(self):
        assert seconds(warning(), *ended(121, replay="backfill")) == SPOT_TIMES


class TestGhost:
    """The NodeClaim of an instance that was terminated 156 s after the warning."""

    ROWS = (warning(), *ended(121))

    def after(self, *rows: Any) -> float | None:
        moment = next_ghost_look(case_of(*self.ROWS, *rows))
        return None if moment is None else (moment - W).total_seconds()

    def test_one_that_was_last_seen_is_looked_for_ten_minutes_after_the_end_and_then_ever_more_rarely(self):
        made = [135.0]
        while (moment := self.after(*(observation(second, None, kube()) for second in made))) is not None:
            made.append(moment)

        assert [second - 156 for second in made[1:]] == [600, 2400, 10_800, *(day * DAY for day in range(1, 8))]

    def test_one_that_was_seen_gone_or_never_is_not_looked_for(self):
        assert self.after() is None
        assert self.after(observation(135, None, gone())) is None
        assert self.after(observation(135, None, kube()), observation(300, None, gone())) is None

    def test_no_answer_is_no_sign_that_it_has_gone(self):
        silent = observation(756, None, ClusterView(Answer.ERROR, "down"))

        assert self.after(observation(135, None, kube()), silent) == 156 + 2400

    def test_one_look_finds_out_whether_an_instance_that_ended_is_terminated(self):
        rows = [warning(), state("shutting-down", 121), observation(135, ec2("shutting-down"), kube())]
        stopped = observation(721, ec2("stopped"), kube())

        assert next_ghost_look(case_of(*rows)) == at(121 + 600)
        assert next_ghost_look(case_of(*rows, stopped)) is None
        assert next_ghost_look(case_of(*rows, observation(721, ec2("terminated"), kube()))) == at(721 + 600)

    def test_of_an_instance_that_is_not_known_to_have_ended_none_is_looked_for(self):
        forgotten = observation(5000, InstanceView(Answer.NOT_FOUND), kube())

        assert next_ghost_look(case_of(warning(), forgotten)) is None

    @pytest.mark.parametrize("fields", [{"replay": "backfill"}, {"account": "999999999999"}])
    def test_replays_and_foreign_instances_have_none(self, fields: dict[str, str]):
        rows = [warning(**fields), *ended(121, **fields), observation(135, None, kube())]

        assert next_ghost_look(case_of(*rows)) is None

    def test_an_outage_at_a_look_for_it_says_nothing_about_the_verdict(self):
        seen, silent = observation(135, ec2(), kube()), observation(756, BLIND)

        assert next_look(case_of(*self.ROWS, seen, silent)) is None
        assert next_look(case_of(*self.ROWS, seen, observation(600, BLIND), silent)) == at(600 + 15 * 60)
        assert next_look(case_of(*self.ROWS, observation(756, BLIND))) == at(600 + 15 * 60)


class TestOutage:
    @pytest.mark.parametrize("answer", [Answer.DENIED, Answer.THROTTLED, Answer.ERROR])
    def test_a_look_without_answers_is_repeated_before_ec2_forgets_the_instance(self, answer: Answer):
        blind = [600 + minutes * 60 for minutes in (15, 25, 40)]

        assert seconds(warning(), observation(600, InstanceView(answer))) == [*OPEN_TIMES, *blind]
        assert seconds(warning(), observation(600, ec2(), ClusterView(answer))) == [*OPEN_TIMES, *blind]
        assert blind[-1] < 3600

    @pytest.mark.parametrize(("answer", "times"), [(Answer.NOT_FOUND, SPOT_TIMES), (Answer.SKIPPED, OPEN_TIMES)])
    def test_an_answer_is_no_outage(self, answer: Answer, times: list[int]):
        assert seconds(warning(), observation(600, ec2(), ClusterView(answer))) == times

    def test_an_outage_that_is_over_is_forgotten(self):
        rows = [warning(), observation(600, BLIND), observation(1500, ec2(), kube())]

        assert following(*rows[:2]) == 1500
        assert following(*rows) is None

    def test_an_outage_that_lasts_ends_the_looks_all_the_same(self):
        rows: list[Any] = [warning()]
        while (moment := following(*rows)) is not None:
            rows.append(observation(moment, BLIND))

        assert len(rows) - 1 == len(OPEN_TIMES) + 3


def test_a_deadline_announced_after_the_fact_asks_for_no_look_before_the_warning():
    rows = [fact(Kind.CAPACITY_WARNING, 110, announced=at(0)), observation(0, ec2(launched_at=at(0)))]

    assert min(look_times(case_of(*rows))) == at(110)


@settings(max_examples=40)
@given(histories(), st.floats(0, 90_000))
def test_looks_come_to_an_end_whatever_happened(history, late: float):
    """Each look is made up to `late` seconds after it is due, and nothing answers."""
    rows = list(history.facts)
    if not rows:
        return
    looks = list(history.observations)
    for _ in range(40):
        moment = next_look(case_of(*rows, *looks))
        if moment is None:
            return
        made = moment + timedelta(seconds=late)
        looks.append(observation((made - W).total_seconds(), BLIND))
    raise AssertionError("looks without end")
