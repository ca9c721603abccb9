"""When degraded mode begins, how long it lasts, and when its word no longer counts."""

from datetime import datetime, timedelta

import pytest

from holdfast.interruption.mode import Lag, Mode, Samples, lag_of, mode
from tests.builders import at

CALM = Samples(lag=None, open_cases=3)
BUSY = Samples(lag=None, open_cases=1001)


def degraded_at(seconds: float) -> Mode:
    return mode(at(seconds), BUSY, None)


@pytest.mark.parametrize(
    ("samples", "reason"),
    [
        (Samples(timedelta(seconds=30), 1000), None),
        (Samples(timedelta(seconds=31), 0), "the audit queue is 31 s behind"),
        (Samples(None, 1001), "more than 1000 cases are open"),
        (
            Samples(timedelta(seconds=45), 1001),
            "the audit queue is 45 s behind and more than 1000 cases are open",
        ),
        (Samples(timedelta(seconds=31), None), "the audit queue is 31 s behind"),
        (Samples(None, None), None),
    ],
)
def test_it_begins_above_either_limit_and_says_why(samples: Samples, reason: str | None):
    assert mode(at(0), samples, None).degraded(at(0)) == reason


def test_it_keeps_its_beginning_while_there_is_a_reason():
    later = mode(at(60), Samples(timedelta(seconds=90), 5), degraded_at(0))

    assert (later.since, later.degraded(at(60))) == (at(0), "the audit queue is 90 s behind")


@pytest.mark.parametrize(("calm_for", "still"), [(299, True), (300, False)])
def test_it_ends_after_five_calm_minutes(calm_for: float, still: bool):
    calm = mode(at(60), CALM, degraded_at(0))
    then = mode(at(60 + calm_for), CALM, calm)

    assert (then.since is not None) is still
    if not still:
        assert (then.began_at, then.ended_at) == (at(0), at(360))


def test_a_relapse_begins_the_calm_again():
    calm = mode(at(60), CALM, degraded_at(0))
    again = mode(at(300), BUSY, calm)
    then = mode(at(400), CALM, again)

    assert then.calm_since == at(400)
    assert then.since == at(0)


def test_what_is_not_known_is_no_calm():
    calm = mode(at(60), CALM, degraded_at(0))
    unknown = mode(at(200), Samples(None, None), calm)

    assert (unknown.since, unknown.calm_since) == (at(0), None)


def test_the_next_time_begins_anew_and_forgets_nothing_of_the_last():
    ended = mode(at(360), CALM, mode(at(60), CALM, degraded_at(0)))
    again = mode(at(900), BUSY, ended)

    assert (again.since, again.began_at, again.ended_at) == (at(900), at(0), at(360))


@pytest.mark.parametrize(("age", "known"), [(0, True), (299, True), (300, False)])
def test_a_mode_that_nobody_renewed_does_not_hold(age: float, known: bool):
    assert (degraded_at(0).degraded(at(age)) is not None) is known


@pytest.mark.parametrize(
    ("told", "now", "expected"),
    [
        (None, at(0), None),
        (Lag(45.5, at(0)), at(119), timedelta(seconds=45.5)),
        (Lag(45.5, at(0)), at(120), None),
    ],
)
def test_the_last_word_of_ingest_counts_for_two_minutes(told: Lag | None, now: datetime, expected: timedelta | None):
    assert lag_of(told, now) == expected
