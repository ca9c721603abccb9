"""The self check: canary, rules and mode, each on its own, and what people are told of them."""

from dataclasses import replace
from datetime import timedelta

import pytest

from holdfast.errors import Denied, Throttled, Unavailable
from holdfast.interruption.mode import Lag, Mode
from holdfast.interruption.selfcheck import Deployment, SelfCheck, self_check
from holdfast.ports import InstanceKey, RuleView
from tests.builders import ACCOUNT, HOME, KEY, OUR, REGION, at, ec2, message, nodeclaim, warning_body
from tests.fakes import FakeBus, FakeRules, Killed
from tests.unit.interruption.plant import Plant
from tests.unit.interruption.test_drift import GOOD, RULE


class Watched:
    """A plant that is swept once a minute and watches over itself."""

    def __init__(self) -> None:
        self.plant = Plant()
        faults = self.plant.faults
        self.states, self.rules, self.bus = self.plant.states, FakeRules(faults), FakeBus(faults)
        self.rules.views[RULE.name] = GOOD

    def check(self, seconds: float) -> SelfCheck:
        self.plant.clock.now = at(seconds)
        return self_check(
            now=at(seconds),
            deployment=Deployment(HOME, "holdfast", (RULE,)),
            ledger=self.plant.ledger,
            states=self.states,
            rules=self.rules,
            bus=self.bus,
            wakeups=self.plant.wakeups,
        )

    def every_minute(self, until: int) -> list[SelfCheck]:
        return [self.check(second) for second in range(0, until, 60)]

    @property
    def alerts(self) -> list[str]:
        return list(self.plant.ledger.shelf.alerts)

    def open_cases(self, count: int) -> None:
        for number in range(count):
            self.plant.ledger.open_watch(InstanceKey(ACCOUNT, REGION, f"i-{number:017x}"), at(0))

    def close_all(self) -> None:
        self.plant.ledger.watches.clear()


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_in_a_quiet_hour_nobody_is_told_and_the_rules_are_read_once(watched: Watched):
    checks = watched.every_minute(3600)

    assert {(check.drift, check.degraded, check.problems) for check in checks} == {(0, "", ())}
    assert watched.plant.faults.calls.count("describe") == 1
    assert watched.alerts == []


def test_a_difference_is_told_once_while_it_lasts_and_again_when_it_comes_back(watched: Watched):
    watched.rules.views[RULE.name] = replace(GOOD, enabled=False)
    lasting = watched.every_minute(3 * 3600)
    watched.rules.views[RULE.name] = GOOD
    mended = [watched.check(3 * 3600 + second) for second in range(0, 3600, 60)]
    watched.rules.views[RULE.name] = RuleView(False, GOOD.pattern, GOOD.targets)
    for second in range(0, 2 * 3600, 60):
        watched.check(4 * 3600 + second)

    assert [check.drift for check in lasting[:6]] == [0, 0, 0, 0, 0, 1]
    assert {check.drift for check in lasting[5:]} == {1}
    assert mended[-1].drift == 0
    assert len(watched.alerts) == 2


def test_an_alert_that_was_noted_and_not_told_is_told_by_the_next_sweep(watched: Watched):
    watched.rules.views[RULE.name] = replace(GOOD, enabled=False)
    watched.check(0)
    watched.plant.faults.fail("put_alert", Unavailable("down"))
    first = watched.check(300)

    assert first.problems == ("putting an alert into the outbox: down; the next sweep will",)
    watched.check(360)
    assert len(watched.alerts) == 1
    assert watched.plant.wakeups.sent == [((watched.alerts[0],), timedelta(0))]


def test_what_eventbridge_refuses_is_named_counted_and_asked_again_in_five_minutes(watched: Watched):
    watched.plant.faults.fail("describe", Denied("no events:DescribeRule"))

    first = watched.check(0)
    assert (first.drift, first.problems) == (1, ("rule holdfast-orders-state is not known: no events:DescribeRule",))
    assert watched.check(240).drift == 1
    assert watched.check(300).drift == 0
    assert watched.alerts == []


def test_of_two_sweeps_at_once_one_gives_a_difference_its_beginning(watched: Watched):
    watched.rules.views[RULE.name] = replace(GOOD, enabled=False)
    watched.check(0)
    held = dict(watched.states.rows)
    watched.check(300)
    read = watched.states.read
    stale = iter([held["canary"], held["drift"]])
    watched.states.read = lambda kind: next(stale, None) or read(kind)  # type: ignore[method-assign]
    watched.check(301)

    assert len(watched.alerts) == 1


def test_more_than_a_thousand_open_cases_begin_degraded_mode_and_five_calm_minutes_end_it(watched: Watched):
    watched.open_cases(1001)
    began = watched.check(0)
    watched.check(60)
    watched.close_all()
    calm = [watched.check(second).degraded for second in range(120, 480, 60)]

    assert began.degraded == "more than 1000 cases are open"
    assert [bool(reason) for reason in calm] == [True, True, True, True, True, False]
    assert [name.rpartition("/")[2] for name in watched.alerts] == ["began", "ended"]


def test_a_case_that_waits_for_a_day_next_week_is_no_work_now(watched: Watched):
    watched.open_cases(1001)
    for key, watch in list(watched.plant.ledger.watches.items()):
        watched.plant.ledger.watches[key] = replace(watch, due_at=at(901))

    assert watched.check(0).degraded == ""


def test_what_ingest_says_of_its_lag_begins_degraded_mode(watched: Watched):
    watched.states.put(Lag(31, at(0)))

    assert watched.check(30).degraded == "the audit queue is 31 s behind"


def test_when_the_open_cases_cannot_be_counted_nothing_begins_and_nothing_ends(watched: Watched):
    watched.plant.faults.fail("count_open", Throttled("slow down"))

    check = watched.check(0)
    assert (check.degraded, check.problems) == ("", ("counting open cases: slow down",))


def test_each_of_the_three_is_told_of_though_the_others_are_not_known(watched: Watched):
    watched.plant.faults.fail("read", Unavailable("down"))

    check = watched.check(0)
    assert (check.canary, check.drift, check.degraded) == (None, 0, "")
    assert check.problems == ("tending the canary: down",)


@pytest.mark.parametrize(("waited", "receive_count", "told"), [(30, 1, False), (31, 1, True), (200, 2, False)])
def test_ingest_tells_of_a_message_that_waited_for_its_first_try(
    watched: Watched, waited: float, receive_count: int, told: bool
):
    """A second try comes after the visibility timeout, however short the queue is."""
    plant = watched.plant
    plant.clock.now = at(waited)
    plant.ingest(message(warning_body(), sent=0, receive_count=receive_count))

    stored = watched.states.read(Lag)
    assert (stored.value if stored is not None else None) == (Lag(waited, at(waited)) if told else None)


def test_a_batch_is_not_failed_because_its_lag_could_not_be_told(watched: Watched):
    plant = watched.plant
    plant.clock.now = at(90)
    plant.faults.fail("put", Unavailable("down"))
    result = plant.ingest(message(warning_body(), sent=0))

    assert (result.failed, len(result.stored)) == ({}, 1)
    assert "telling that the audit is behind: down; the next batch will" in result.problems


def test_looks_and_verdicts_of_degraded_mode_say_so(watched: Watched):
    plant = watched.plant
    plant.instances.views[OUR] = ec2()
    plant.clusters.claims["cluster-a"] = [nodeclaim()]
    plant.ingest(message(warning_body(), sent=0))
    why = Mode(at(0), since=at(0), reason="more than 1000 cases are open").degraded(at(0))

    (row,) = plant.audit(*plant.looks.receive(at(0)), degraded=why).judged
    (look,) = plant.ledger.observations[KEY]

    assert (row.degraded, look.degraded) == (why, why)


@pytest.mark.parametrize("after", [False, True])
def test_wherever_a_sweep_dies_the_next_ones_make_it_good(after: bool):
    """A rule is broken and a thousand cases are open; the process dies before or after each call of the first sweeps."""
    numbers = iter(range(1000))
    for number in numbers:
        watched = Watched()
        watched.rules.views[RULE.name] = replace(GOOD, enabled=False)
        watched.open_cases(1001)
        faults = watched.plant.faults
        begun = len(faults.calls)
        faults.kill_before, faults.kill_after = (None, begun + number) if after else (begun + number, None)
        died = False
        for second in range(0, 900, 60):
            try:
                watched.check(second)
            except Killed:
                died = True
                faults.revive()
        assert [name.split("/")[0] for name in sorted(watched.alerts)] == ["degraded", "drift"]
        assert len({detail["id"] for _, _, detail in watched.bus.sent}) == 1
        if not died or number > 40:
            return
