"""Telling the outbox: one at a time, in order, never losing an alert, and never being held up by one."""

from datetime import UTC, time, timedelta

import pytest

from holdfast.alerts.alert import Severity
from holdfast.alerts.deliver import (
    LEASE,
    MAX_ALERTS,
    RETRY_AFTER,
    WINDOW,
    DeliverResult,
    Destination,
    Pace,
    Run,
    deliver,
)
from holdfast.alerts.forms import SlackForm
from holdfast.alerts.links import Links
from holdfast.alerts.quiet import QuietHours
from holdfast.errors import Unavailable
from holdfast.ports import Delivery, DeliveryStatus, Lease
from tests.builders import W, alert
from tests.fakes import Clock, FakeMessenger, FakeOutbox, FakeWakeups, Faults, Killed, Shelf

MINUTE = timedelta(minutes=1)
OK = Delivery(DeliveryStatus.DELIVERED)


class Desk:
    def __init__(self, *ids: str) -> None:
        self.clock, self.faults, self.shelf = Clock(W), Faults(), Shelf()
        self.outbox = FakeOutbox(self.shelf, self.faults)
        self.messenger = FakeMessenger(self.faults)
        self.wakeups = FakeWakeups(self.clock, self.faults)
        self.pauses: list[timedelta] = []
        self.quiet: QuietHours | None = None
        for name in ids:
            self.shelf.put(alert(name), self.clock())
            self.clock.forward(timedelta(seconds=1))

    def deliver(
        self, *ids: str, until: timedelta = MINUTE, owner: str = "one", window: timedelta = timedelta(0)
    ) -> DeliverResult:
        return deliver(
            ids,
            Destination("slack", self.outbox, self.messenger, SlackForm(Links()), self.wakeups),
            run=Run(owner, self.clock, self.clock() + until, self.pause),
            pace=Pace(window, self.quiet),
        )

    def pause(self, wait: timedelta) -> None:
        self.pauses.append(wait)
        self.clock.forward(wait)

    def posted(self) -> list[str]:
        return [
            payload["text"].removeprefix("title of ").split(":")[0].split("\n")[0] for payload in self.messenger.posted
        ]


def test_an_empty_outbox_is_told_to_nobody():
    desk = Desk()

    assert desk.deliver() == DeliverResult((), 0)
    assert (desk.messenger.posted, desk.wakeups.sent) == ([], [])


def test_alerts_are_told_oldest_first_a_second_apart_and_once():
    desk = Desk("a", "b", "c")

    assert desk.deliver() == DeliverResult(("a", "b", "c"), 0)
    assert desk.posted() == ["a", "b", "c"]
    assert desk.pauses == [timedelta(seconds=1)] * 2
    assert desk.deliver() == DeliverResult((), 0)


def test_how_long_an_urgent_alert_waited_is_told_from_its_decision():
    """Information may wait on purpose, and of an alert of an earlier version the time is not known."""
    desk = Desk()
    for name, fields in {
        "page": {"severity": Severity.PAGE, "decided_at": W - timedelta(seconds=30)},
        "warning": {"decided_at": W - timedelta(seconds=10)},
        "info": {"severity": Severity.INFO, "decided_at": W - timedelta(hours=8)},
        "old": {},
    }.items():
        desk.shelf.put(alert(name, **fields), W)

    result = desk.deliver()

    assert len(result.told) == 4
    assert sorted(result.waits) == [timedelta(seconds=10), timedelta(seconds=30)]


def test_what_the_wake_up_named_is_told_first():
    desk = Desk("a", "b", "c")
    desk.deliver("c")

    assert desk.posted() == ["c", "a", "b"]


def test_the_lease_is_given_back():
    desk = Desk("a")
    desk.deliver()

    assert isinstance(desk.outbox.acquire("two", now=desk.clock(), lifetime=LEASE), Lease)


def test_who_finds_another_at_work_asks_to_be_woken_when_the_lease_ends():
    desk = Desk("a")
    desk.outbox.acquire("other", now=desk.clock(), lifetime=LEASE)
    result = desk.deliver("a")

    assert (result.told, desk.posted()) == ((), [])
    assert result.problem is not None
    assert desk.wakeups.sent == [(("a",), LEASE)]


def test_a_full_load_is_told_in_several_turns():
    desk = Desk(*(f"{number:04}" for number in range(MAX_ALERTS + 5)))
    first = desk.deliver(window=WINDOW)

    assert (len(first.told), first.problem) == (MAX_ALERTS, None)
    assert first.waiting >= 1
    assert desk.wakeups.sent == [((), WINDOW)]
    desk.clock.forward(WINDOW)
    assert len(desk.deliver(window=WINDOW).told) == 5
    assert len(desk.messenger.posted) == 2


def test_up_to_three_alerts_of_a_cluster_have_a_message_each_and_more_are_one():
    desk = Desk("a", "b", "c")
    desk.deliver()
    assert len(desk.messenger.posted) == 3

    desk = Desk("a", "b", "c", "d")
    assert desk.deliver().told == ("a", "b", "c", "d")
    assert len(desk.messenger.posted) == 1


@pytest.mark.report("aws/karpenter-provider-aws#5667")
def test_karpenter_5667_what_comes_within_a_minute_is_gathered_for_the_next_message():
    """aws/karpenter-provider-aws#5667: many Spot losses at once are one thing to read, not fifty."""
    desk = Desk("a")
    assert desk.deliver("a", window=WINDOW).told == ("a",)
    for number in range(50):
        desk.shelf.put(alert(f"b{number:02}"), desk.clock())
        desk.clock.forward(timedelta(seconds=1))
        assert desk.deliver(f"b{number:02}", window=WINDOW).told == ()
    desk.clock.forward(WINDOW)

    assert len(desk.deliver(window=WINDOW).told) == 50
    assert len(desk.messenger.posted) == 2
    assert desk.outbox.oldest(now=desk.clock()) is None


def test_a_digest_that_is_refused_is_told_as_plain_text():
    desk = Desk("a", "b", "c", "d")
    desk.messenger.outcomes.append(Delivery(DeliveryStatus.REFUSED, "invalid_blocks"))

    assert desk.deliver().told == ("a", "b", "c", "d")
    assert [("blocks" in payload) for payload in desk.messenger.offered] == [True, False]


def test_the_function_stops_before_its_time_is_over_and_asks_to_go_on():
    desk = Desk("a", "b", "c")
    result = desk.deliver(until=timedelta(seconds=13))

    assert (result.told, result.waiting) == (("a", "b"), 1)
    assert desk.wakeups.sent == [((), timedelta(seconds=1))]


def test_without_time_nothing_is_told():
    desk = Desk("a")

    assert desk.deliver(until=timedelta(seconds=1)) == DeliverResult((), 1)
    assert desk.wakeups.sent == [((), timedelta(0))]


@pytest.mark.report("goharbor/harbor#11281")
@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        (None, RETRY_AFTER),
        (30, timedelta(seconds=30)),
        (0, timedelta(seconds=1)),
        (7200, timedelta(minutes=15)),  # SQS delays a wake-up by no more
    ],
)
def test_a_full_webhook_is_left_alone_for_as_long_as_it_asks(retry_after: float | None, wait: timedelta):
    desk = Desk("a", "b")
    desk.messenger.outcomes.extend([OK, Delivery(DeliveryStatus.RETRY, "429", retry_after)])
    result = desk.deliver()

    assert result == DeliverResult(("a",), 1, "slack: 429")
    assert desk.wakeups.sent == [((), wait)]
    desk.clock.forward(wait - timedelta(seconds=0.5))
    assert desk.deliver("b").told == ()
    desk.clock.forward(timedelta(seconds=0.5))
    assert desk.deliver().told == ("b",)


@pytest.mark.report("aws/aws-node-termination-handler#534")
def test_nth_534_a_webhook_that_times_out_twice_is_told_once_afterwards():
    """aws-node-termination-handler#534: a timeout of the webhook lost the notice."""
    desk = Desk("a")
    for _ in range(2):
        desk.messenger.outcomes.append(Delivery(DeliveryStatus.RETRY, "timeout"))
        assert desk.deliver().told == ()
        desk.clock.forward(RETRY_AFTER)

    assert desk.deliver().told == ("a",)
    assert desk.posted() == ["a"]
    assert desk.outbox.oldest(now=desk.clock()) is None


@pytest.mark.report("sourcegraph/sourcegraph#49979")
def test_refused_blocks_are_told_as_plain_text():
    desk = Desk("a")
    desk.messenger.outcomes.append(Delivery(DeliveryStatus.REFUSED, "invalid_blocks"))

    assert desk.deliver() == DeliverResult(("a",), 0)
    assert [("blocks" in payload) for payload in desk.messenger.offered] == [True, False]


def test_one_alert_that_nobody_takes_holds_up_no_other():
    desk = Desk("a", "b", "c")
    refused = Delivery(DeliveryStatus.REFUSED, "no_text")
    desk.messenger.outcomes.extend([refused, refused])
    result = desk.deliver()

    assert (result.told, result.waiting, result.undeliverable) == (("b", "c"), 1, True)
    assert result.problem == "slack: a was refused, as plain text too: no_text"
    assert desk.wakeups.sent == []  # the sweeper asks again; a wake-up now would spin


@pytest.mark.report("goharbor/harbor#11281")
def test_a_webhook_that_is_gone_keeps_everything_waiting_and_says_so():
    desk = Desk("a", "b")
    desk.messenger.outcomes.append(Delivery(DeliveryStatus.REVOKED, "no_service"))

    assert desk.deliver() == DeliverResult((), 2, "slack: no_service", undeliverable=True)
    assert desk.wakeups.sent == [((), RETRY_AFTER)]


def test_an_outage_of_the_outbox_fails_loudly_and_gives_the_lease_back():
    desk = Desk("a", "b")
    desk.faults.fail("mark_told", None, Unavailable("down"))

    with pytest.raises(Unavailable):
        desk.deliver()
    assert desk.deliver().told == ("b",)
    assert desk.posted() == ["a", "b", "b"]


CALLS = ["acquire", "pending", "post", "mark_told", "post", "mark_told", "release"]


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
@pytest.mark.parametrize("call", range(len(CALLS)))
def test_killed_at_any_call_no_alert_is_lost_and_told_twice_only_between_post_and_mark(call: int, moment: str):
    desk = Desk("a", "b")
    setattr(desk.faults, moment, call)
    with pytest.raises(Killed):
        desk.deliver()
    desk.faults.revive()
    begun = len(desk.faults.calls)
    desk.clock.forward(LEASE)
    desk.deliver()

    assert desk.outbox.oldest(now=desk.clock()) is None
    told = desk.posted()
    assert sorted(set(told)) == ["a", "b"]
    between = (CALLS[call], moment) in {("post", "kill_after"), ("mark_told", "kill_before")}
    assert len(told) == 2 + between
    assert begun == call + 1


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
@pytest.mark.parametrize("call", range(len(["acquire", "pending", "post", "mark_told", "release"])))
def test_a_digest_killed_at_any_call_loses_no_alert(call: int, moment: str):
    """What was marked is told; what was not is told again, in what is left of the digest."""
    desk = Desk("a", "b", "c", "d")
    setattr(desk.faults, moment, call)
    with pytest.raises(Killed):
        desk.deliver()
    desk.faults.revive()
    desk.clock.forward(LEASE)
    desk.deliver()

    assert desk.outbox.oldest(now=desk.clock()) is None
    assert sorted(desk.shelf.told) == ["a", "b", "c", "d"]


def test_the_calls_are_those_that_the_test_above_counts():
    desk = Desk("a", "b")
    desk.deliver()

    assert desk.faults.calls == CALLS


EVENING = W - timedelta(hours=4, minutes=10)  # midnight UTC
NIGHT = QuietHours(time(23), time(6), UTC)


def test_in_quiet_hours_what_is_good_to_know_waits_for_the_morning_and_is_one_digest():
    desk = Desk()
    desk.quiet = NIGHT
    desk.clock.now = EVENING
    for number in range(4):
        desk.shelf.put(alert(f"info-{number}", severity=Severity.INFO), desk.clock())

    assert desk.deliver() == DeliverResult((), 0)
    assert desk.outbox.oldest(now=desk.clock()) is None  # so that no alarm about waiting alerts fires
    assert desk.wakeups.sent == []  # the sweeper wakes the notifier when they are due
    morning = EVENING + timedelta(hours=6)
    assert desk.outbox.oldest(now=morning) == morning
    desk.clock.now = morning
    assert len(desk.deliver().told) == 4
    assert len(desk.messenger.posted) == 1


@pytest.mark.parametrize("severity", [Severity.PAGE, Severity.WARNING])
def test_what_is_urgent_is_told_at_night_past_any_number_that_waits(severity: Severity):
    desk = Desk()
    desk.quiet = NIGHT
    desk.clock.now = EVENING
    for number in range(MAX_ALERTS + 1):
        desk.shelf.put(alert(f"info-{number:04}", severity=Severity.INFO), desk.clock())
    desk.clock.forward(timedelta(seconds=1))
    desk.shelf.put(alert("urgent", severity=severity), desk.clock())

    assert desk.deliver() == DeliverResult((), 1)
    assert desk.wakeups.sent == [((), timedelta(0))]
    assert desk.deliver().told == ("urgent",)


def test_outside_of_quiet_hours_all_are_told():
    desk = Desk()
    desk.quiet = NIGHT
    desk.shelf.put(alert("info", severity=Severity.INFO), EVENING)
    desk.clock.now = EVENING + timedelta(hours=6)

    assert desk.deliver().told == ("info",)


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
@pytest.mark.parametrize("call", range(len(["acquire", "pending", "put_off", "post", "mark_told", "release"])))
def test_killed_in_the_night_nothing_that_waits_is_told_or_lost(call: int, moment: str):
    desk = Desk()
    desk.quiet = NIGHT
    desk.clock.now = EVENING
    desk.shelf.put(alert("info", severity=Severity.INFO), desk.clock())
    desk.shelf.put(alert("page", severity=Severity.PAGE), desk.clock())
    setattr(desk.faults, moment, call)
    with pytest.raises(Killed):
        desk.deliver()
    desk.faults.revive()
    desk.clock.forward(LEASE)
    desk.deliver()

    assert set(desk.posted()) == {"page"}
    desk.clock.now = EVENING + timedelta(hours=6)
    desk.deliver()
    assert sorted(desk.shelf.told) == ["info", "page"]
