"""What a demonstration counts after a wave: nothing that is lost, doubled, misjudged or told too often passes."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from holdfast.alerts.digest import digest_payload
from holdfast.alerts.message import slack_payload
from holdfast.interruption.verdict import Cause, Verdict
from holdfast_cli.sandbox import tally, wave
from holdfast_cli.sandbox.ec2_events import Ec2Events
from holdfast_cli.sandbox.slack_panel import slack_panel
from holdfast_cli.sandbox.slack_receiver import Answer
from holdfast_cli.sandbox.tally import Alerted, Found
from holdfast_cli.sandbox.wave import Truth, Wave
from tests.builders import alert

NOW = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
EVENTS = [
    event
    for number in range(2)
    for event in Ec2Events("111122223333", "ap-southeast-1").of_interruption(f"i-{number}", NOW, NOW)
]
HANDLED, HELD = Truth(Verdict.HANDLED_IN_TIME), Truth(Verdict.RECLAIMED_BEFORE_DRAIN, Cause.BLOCKED_BY_PDB)
WAVE = Wave({"i-0": HANDLED, "i-1": HELD}, (), (*EVENTS, *EVENTS[:3]), len(EVENTS))
GOOD = Found(
    facts=8,
    duplicates=3,
    verdicts=WAVE.truths,
    unsettled={},
    spared=frozenset(),
    alerts=(Alerted("case/111122223333/r/i-0/0/H/-", NOW), Alerted("case/111122223333/r/i-1/0/R/P", NOW)),
    messages=({"text": "one"}, {"text": "another"}),
    answers=(),
    put_aside={"holdfast-audit-dlq": 0},
)


def test_nothing_is_wrong_with_a_wave_that_is_as_it_should_be() -> None:
    assert tally.wrong(GOOD, WAVE) == ()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (replace(GOOD, facts=7), "the ledger has 7 facts of 8 different events"),
        (replace(GOOD, facts=9), "the ledger has 9 facts of 8 different events"),
        (
            replace(GOOD, unsettled={"i-1": "0 cases, 0 of them final"}),
            "1 instances have not one final case, first i-1: 0 cases, 0 of them final",
        ),
        (
            replace(GOOD, verdicts={"i-0": HANDLED, "i-1": HANDLED}),
            "1 verdicts are not the truth, first i-1: HANDLED_IN_TIME",
        ),
        (replace(GOOD, messages=GOOD.messages[:1]), "Slack shows 1 alerts, 2 were told"),
        (replace(GOOD, messages=(*GOOD.messages, {"text": "one"})), "Slack shows 3 alerts, 2 were told"),
        (replace(GOOD, put_aside={"holdfast-audit-dlq": 2}), "2 messages in dead-letter queue holdfast-audit-dlq"),
    ],
)
def test_each_thing_that_is_wrong_is_said(found: Found, said: str) -> None:
    assert tally.wrong(found, WAVE) == (said,)


def test_a_cause_may_be_unknown_only_where_the_pods_were_spared() -> None:
    unknown = replace(GOOD, verdicts={**GOOD.verdicts, "i-1": Truth(HELD.verdict, Cause.UNKNOWN)})

    assert len(tally.wrong(unknown, WAVE)) == 1
    assert len(tally.wrong(replace(unknown, spared=frozenset({"i-0"})), WAVE)) == 1
    assert tally.wrong(replace(unknown, spared=frozenset({"i-1"})), WAVE) == ()


def test_an_alert_that_waits_is_wrong() -> None:
    waiting = replace(GOOD, alerts=(GOOD.alerts[0], replace(GOOD.alerts[1], told_at=None)), messages=GOOD.messages[:1])

    assert tally.wrong(waiting, WAVE) == ("1 alerts wait to be told",)


def test_an_instance_told_of_twice_is_wrong() -> None:
    twice = replace(GOOD, alerts=(*GOOD.alerts, Alerted("case/111122223333/r/i-1/0/M/-", NOW)))

    assert "3 alerts are on 2 instances" in tally.wrong(twice, WAVE)


def test_alerts_on_other_things_are_counted_but_are_not_the_waves() -> None:
    more = replace(GOOD, alerts=(*GOOD.alerts, Alerted("poison/x", NOW)), messages=(*GOOD.messages, {"text": "poison"}))

    assert tally.wrong(more, WAVE) == ()


def test_more_messages_than_a_wave_may_cost_are_wrong() -> None:
    alerts = tuple(Alerted(f"poison/{number}", NOW) for number in range(9))
    many = replace(GOOD, alerts=(*GOOD.alerts, *alerts), messages=tuple({"text": "one"} for _ in range(11)))

    assert tally.wrong(many, WAVE) == ("11 Slack messages, more than 10",)


def test_a_message_says_how_many_alerts_it_tells_of() -> None:
    """Against what the product writes, which may change its words."""
    assert tally.alerts_in(slack_payload(alert("one", title="node-1 missed"))) == 1
    assert tally.alerts_in(digest_payload([alert(str(number), subject=str(number)) for number in range(37)])) == 37


def test_a_silence_that_was_not_kept_is_found() -> None:
    def answered(status: int, second: float) -> Answer:
        return Answer(NOW + timedelta(seconds=second), status, "")

    answers = [answered(429, 0), answered(429, 6.5), answered(200, 9), answered(200, 10), answered(429, 11)]

    assert tally.broken_silences(answers, timedelta(seconds=6)) == [2.5]


def test_every_event_of_a_wave_is_delivered_and_the_share_twice() -> None:
    delivered = wave.delivered(EVENTS, again=0.25, seed=1)

    counts = Counter(event["id"] for event in delivered)
    assert counts.keys() == {event["id"] for event in EVENTS}
    assert sorted(counts.values()) == [1] * 6 + [2] * 2
    assert [event["id"] for event in delivered] != [event["id"] for event in EVENTS]


def test_the_same_interruption_has_the_same_event_ids() -> None:
    again = Ec2Events("111122223333", "ap-southeast-1").of_interruption("i-0", NOW, NOW)

    assert again == EVENTS[:4]
    assert len({event["id"] for event in EVENTS}) == len(EVENTS)


def test_a_panel_shows_slacks_words_and_not_its_marks() -> None:
    payload = digest_payload([alert("one", subject="a & b", group=("MISSED",)), alert("two", group=("MISSED",))])
    console = Console(width=120, record=True)
    console.print(slack_panel(payload))

    text = console.export_text()
    assert "2 MISSED: a & b" in text
    assert "*" not in text
    assert "&amp;" not in text


def test_a_panel_shows_a_link_by_its_name() -> None:
    block = {
        "type": "context",
        "elements": [{"type": "mrkdwn", "text": "see <https://example.com/a&amp;b|the book>, *now*"}],
    }
    console = Console(width=120, record=True)
    console.print(slack_panel({"blocks": [block]}))

    assert "see the book, now" in console.export_text()
