"""Several destinations at once: each goes its own way through quiet hours, outages and refusals, and loses nothing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from holdfast.alerts.alert import Severity
from holdfast.alerts.deliver import DeliverResult, Destination, Pace, Run, deliver_all
from holdfast.alerts.forms import MailForm, SlackForm
from holdfast.alerts.links import Links
from holdfast.alerts.quiet import QuietHours
from holdfast.errors import Denied, HoldfastError, Unavailable
from holdfast.ports import Delivery, DeliveryStatus, Wakeup
from tests.builders import W, alert
from tests.fakes import Clock, FakeMessenger, FakeOutbox, FakeWakeups, Faults, Killed, Shelf, one_after_another

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
VISIBILITY = 4 * MINUTE  # of the wake-up queue: six times the function's timeout
TIMEOUT = timedelta(seconds=40)


class Post:
    """One destination: a shelf, and a messenger that an outage may hold."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name, self.shelf, self.faults = name, Shelf(), Faults()
        self.outbox = FakeOutbox(self.shelf, self.faults)
        self.messenger = FakeMessenger(self.faults)
        self.wakeups = FakeWakeups(clock, self.faults)
        form = MailForm(Links()) if name == "sns" else SlackForm(Links())
        self.destination = Destination(name, self.outbox, self.messenger, form, self.wakeups)

    def answers(self, *outcomes: Delivery) -> None:
        self.messenger.outcomes.extend(outcomes)


@dataclass
class Office:
    """The notifier with its queue, run as Lambda would: batches of ten, two at a time at most, failed ones come back."""

    posts: tuple[Post, ...]
    clock: Clock
    pace: Pace = field(default_factory=Pace)
    shared: FakeWakeups = field(init=False)
    runs: int = 0
    deaths: int = 0

    def __post_init__(self) -> None:
        self.shared = FakeWakeups(self.clock)

    def put(self, *alerts: Any, to: str) -> None:
        """Into one destination's outbox, as the ledger does, with a wake-up for all."""
        (post,) = [post for post in self.posts if post.name == to]
        for one in alerts:
            post.shelf.put(one, self.clock())
        self.shared.wake([one.id for one in alerts][:100])

    def tell(self, *wakeups: Wakeup) -> Mapping[str, DeliverResult | HoldfastError]:
        self.runs += 1
        run = Run(f"run-{self.runs}", self.clock, self.clock() + TIMEOUT, self.clock.forward)
        destinations = [post.destination for post in self.posts]
        return deliver_all(wakeups, destinations, run=run, pace=self.pace, parallel=one_after_another)

    def work(self, until: timedelta) -> None:
        """Everything that happens until then: wake-ups as they come due, and the sweeper's every minute."""
        end, next_sweep = self.clock() + until, self.clock() + MINUTE
        while True:
            queues = [(self.shared, None), *((post.wakeups, post.name) for post in self.posts)]
            moments = [moment for queue, _ in queues if (moment := queue.next_at()) is not None]
            moment = min([*moments, next_sweep])
            if moment > end:
                self.clock.now = end
                return
            self.clock.now = max(self.clock.now, moment)
            if self.clock() >= next_sweep:
                next_sweep = self.clock() + MINUTE
                if any(post.outbox.oldest(now=self.clock()) is not None for post in self.posts):
                    self.shared.wake(())
            arrived = [Wakeup(ids, name) for queue, name in queues for ids in queue.receive(self.clock())]
            for start in range(0, len(arrived), 10):
                self._batch(arrived[start : start + 10])

    def _batch(self, batch: list[Wakeup]) -> None:
        try:
            results = self.tell(*batch)
        except Killed:
            self.deaths += 1
            for post in self.posts:
                post.faults.revive()
            results = {post.name: Unavailable("died") for post in self.posts}
        for wakeup in batch:
            failed = [name for name, result in results.items() if isinstance(result, HoldfastError)]
            if any(wakeup.destination in {None, name} for name in failed):
                self.shared.put_back([wakeup.alert_ids], self.clock() + VISIBILITY)


def office(*names: str, window: timedelta = MINUTE, quiet: QuietHours | None = None) -> Office:
    clock = Clock(W)
    return Office(tuple(Post(name, clock) for name in names), clock, Pace(window, quiet))


def told(post: Post) -> list[str]:
    return sorted(post.shelf.told)


BUSY = Delivery(DeliveryStatus.RETRY, "429 rate_limited", 30)
DOWN = Delivery(DeliveryStatus.RETRY, "no answer")
GONE = Delivery(DeliveryStatus.REVOKED, "404 no_service")


def test_a_wakeup_for_one_destination_leaves_the_others_alone():
    made = office("slack", "sns")
    for post in made.posts:
        post.shelf.put(alert("a"), W)
    results = made.tell(Wakeup(("a",), "sns"), Wakeup((), "a channel that was taken out"))

    assert results == {"sns": DeliverResult(("a",), 0)}


def test_a_429_of_one_channel_silences_that_channel_alone():
    made = office("slack", "slack/oncall")
    slack, oncall = made.posts
    slack.answers(BUSY)
    for post in made.posts:
        made.put(alert("a"), to=post.name)
    made.work(29 * SECOND)

    assert (told(slack), told(oncall)) == ([], ["a"])
    assert len(slack.messenger.offered) == 1  # not asked again before Slack's time is over
    made.work(5 * SECOND)
    assert told(slack) == ["a"]


def test_a_dead_webhook_holds_nothing_of_another_back_and_is_told_of():
    made = office("slack", "slack/oncall", "sns")
    slack, *others = made.posts
    slack.answers(*[GONE] * 1000)
    for post in made.posts:
        post.shelf.put(alert("a"), W)
    results = made.tell(Wakeup())

    assert results["slack"] == DeliverResult((), 1, "slack: 404 no_service", undeliverable=True)
    assert [results[post.name] for post in others] == [DeliverResult(("a",), 0)] * 2


@pytest.mark.parametrize("dead", ["slack", "sns"])
def test_slack_and_sns_are_independent(dead: str):
    made = office("slack", "sns")
    broken = next(post for post in made.posts if post.name == dead)
    well = next(post for post in made.posts if post.name != dead)
    broken.answers(*[DOWN] * 20)
    for post in made.posts:
        made.put(alert("a"), to=post.name)
    made.work(5 * MINUTE)
    assert (told(broken), told(well)) == ([], ["a"])

    broken.messenger.outcomes.clear()
    made.work(2 * MINUTE)
    assert told(broken) == ["a"]
    assert [len(post.messenger.posted) for post in made.posts] == [1, 1]


def test_an_error_at_one_destination_ends_that_one_alone():
    made = office("slack", "sns")
    slack, sns = made.posts
    slack.faults.fail("post", Denied("the secret may not be read"))
    for post in made.posts:
        post.shelf.put(alert("a"), W)
    results = made.tell(Wakeup())

    assert isinstance(results["slack"], Denied)
    assert (results["sns"], told(sns)) == (DeliverResult(("a",), 0), ["a"])


def test_a_defect_is_raised_after_every_destination_had_its_turn():
    made = office("slack", "sns")

    def defect(_: Any) -> Delivery:
        raise KeyError("payload")

    made.posts[0].messenger.post = defect  # type: ignore[method-assign]
    for post in made.posts:
        post.shelf.put(alert("a"), W)

    with pytest.raises(KeyError):
        made.tell(Wakeup())
    assert told(made.posts[1]) == ["a"]


def test_slack_down_for_an_hour_with_5000_alerts_tells_each_once_in_few_messages():
    """While it is down, alerts of two clusters keep coming; afterwards every one is told once, in ten messages at most."""
    made = office("slack", "sns")
    slack, sns = made.posts
    slack.answers(*[DOWN, BUSY] * 1000)
    names = [f"{number:04}" for number in range(5000)]
    for minute in range(60):
        for number in range(minute * 84, min((minute + 1) * 84, 5000)):
            one = alert(names[number], cluster=("orders", "web")[number % 2], group=("MISSED", "pool"))
            slack.shelf.put(one, made.clock())
            if number % 10 == 0:
                made.shared.wake([one.id])
        sns.shelf.put(alert(f"page-{minute:02}", severity=Severity.PAGE), made.clock())
        made.work(MINUTE)
    assert (told(slack), len(told(sns))) == ([], 60)
    tried = len(slack.messenger.offered)
    assert tried <= 2 * 60 + 1  # twice a minute, as both kinds of answer ask for

    slack.messenger.outcomes.clear()
    made.work(15 * MINUTE)
    assert told(slack) == names
    assert len(slack.messenger.posted) <= 10
    assert sum(int(payload["text"].split(" ")[0]) for payload in slack.messenger.posted) == 5000
    # Nothing goes round for ever: what is left to do is nothing.
    assert [queue.next_at() for queue in (made.shared, *(post.wakeups for post in made.posts))] == [None] * 3


@pytest.mark.parametrize("moment", ["kill_before", "kill_after"])
@pytest.mark.parametrize("call", range(5))  # acquire, pending, post, mark_told, release
def test_a_death_at_one_destination_tells_the_others_and_then_all(moment: str, call: int):
    made = office("slack", "sns")
    slack, sns = made.posts
    for post in made.posts:
        made.put(alert("a"), to=post.name)
    setattr(slack.faults, moment, call)
    made.work(10 * MINUTE)

    assert made.deaths == 1
    assert (told(slack), told(sns)) == (["a"], ["a"])
    again = (call, moment) in {(2, "kill_after"), (3, "kill_before")}
    assert [len(post.messenger.posted) for post in made.posts] == [1 + again, 1]
