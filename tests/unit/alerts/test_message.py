"""An alert as Slack takes it: within its limits, with every foreign text as text."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.alerts.alert import Alert, Severity
from holdfast.alerts.links import Links
from holdfast.alerts.message import escape, plain_payload, slack_payload
from tests.builders import alert

ALL_BLOCKS = 13_000
"""Above about 13,200 characters Slack answers msg_blocks_too_long (slackapi/bolt-js#2509)."""

LINKS = Links("https://example.org/runbook", "https://console.example/dashboard")


def texts(payload: Any) -> list[str]:
    if isinstance(payload, dict):
        own = [payload["text"]] if isinstance(payload.get("text"), str) else []
        return own + [text for value in payload.values() for text in texts(value)]
    return [text for item in payload for text in texts(item)] if isinstance(payload, list) else []


def mrkdwn(payload: Any) -> list[str]:
    if isinstance(payload, dict):
        own = [payload["text"]] if payload.get("type") == "mrkdwn" else []
        return own + [text for value in payload.values() for text in mrkdwn(value)]
    return [text for item in payload for text in mrkdwn(item)] if isinstance(payload, list) else []


def within_limits(payload: Any) -> None:
    blocks = payload["blocks"]
    assert len(blocks) <= 50
    assert sum(len(text) for text in texts(blocks)) <= ALL_BLOCKS
    assert 1 <= len(payload["text"]) <= 3000
    for block in blocks:
        limit = {"header": 150, "section": 3000, "context": 3000}[block["type"]]
        assert all(1 <= len(text) <= limit for text in texts(block))
        assert len(block.get("fields", ())) <= 10
        assert all(len(field["text"]) <= 2000 for field in block.get("fields", ()))


def test_a_message_says_what_happened_what_it_means_and_what_to_do():
    payload = slack_payload(
        alert(
            title="node-1 missed",
            severity=Severity.PAGE,
            cluster="cluster-a",
            what="It happened.",
            meaning="It means.",
            action="Do it.",
            fields=(("Verdict", "MISSED"), ("NodePool", "orders")),
            runbook="missed",
            source="a/b/c",
            command="holdfast interruptions show a/b/c",
        ),
        LINKS,
    )

    assert payload["text"] == "node-1 missed [cluster-a]: It happened."
    assert payload["blocks"] == [
        {
            "type": "header",
            "text": {"type": "plain_text", "text": ":rotating_light: node-1 missed [cluster-a]", "emoji": True},
        },
        {"type": "section", "text": {"type": "mrkdwn", "text": "*What happened* It happened.", "verbatim": True}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*What it means* It means.", "verbatim": True}},
        {"type": "section", "text": {"type": "mrkdwn", "text": "*What to do* Do it.", "verbatim": True}},
        {
            "type": "section",
            "fields": [
                {"type": "mrkdwn", "text": "*Verdict*\nMISSED", "verbatim": True},
                {"type": "mrkdwn", "text": "*NodePool*\norders", "verbatim": True},
            ],
        },
        {
            "type": "context",
            "elements": [
                {
                    "type": "mrkdwn",
                    "text": "2026-09-01T04:10:00Z | <https://example.org/runbook#missed|runbook>"
                    " | <https://console.example/dashboard|dashboard> | `holdfast interruptions show a/b/c`",
                    "verbatim": True,
                }
            ],
        },
    ]


@pytest.mark.parametrize(
    ("severity", "mark"),
    [
        (Severity.PAGE, ":rotating_light:"),
        (Severity.WARNING, ":warning:"),
        (Severity.INFO, ":information_source:"),
    ],
)
def test_the_headline_shows_the_severity(severity: Severity, mark: str):
    assert texts(slack_payload(alert(severity=severity))["blocks"][0]) == [f"{mark} title of alert-1"]


def test_without_fields_runbook_or_source_only_the_time_is_below():
    assert slack_payload(alert())["blocks"][-1]["elements"][0]["text"] == "2026-09-01T04:10:00Z"


def test_without_an_address_the_runbooks_section_is_named():
    assert slack_payload(alert(runbook="missed"))["blocks"][-1]["elements"][0]["text"].endswith("runbook: missed")


def test_without_a_command_the_source_is_named():
    assert slack_payload(alert(source="a/b/c"))["blocks"][-1]["elements"][0]["text"].endswith(" | `a/b/c`")


def test_a_bare_url_in_foreign_text_is_not_made_a_link_by_slack():
    """`verbatim`: Slack leaves URLs and #names in the text alone (Block Kit, text object)."""
    payload = slack_payload(alert(what="https://evil.example", fields=(("a", "b"),)))
    objects = [block.get("text") for block in payload["blocks"]]
    objects += [part for block in payload["blocks"] for part in (*block.get("fields", ()), *block.get("elements", ()))]

    assert all(item["verbatim"] for item in objects if item is not None and item["type"] == "mrkdwn")


def test_foreign_text_is_no_link_and_no_mention():
    evil = "<!channel> <https://evil.example|click> & <@U1>"
    payload = slack_payload(
        alert(title=evil, what=evil, meaning=evil, action=evil, fields=((evil, evil),), source=evil)
    )

    assert escape(evil) == "&lt;!channel&gt; &lt;https://evil.example|click&gt; &amp; &lt;@U1&gt;"
    for text in [*mrkdwn(payload), payload["text"], plain_payload(alert(title=evil))["text"]]:
        assert "<" not in text
        assert ">" not in text


def test_only_ten_fields_are_shown():
    fields = tuple((f"name {number}", "value") for number in range(14))

    assert len(slack_payload(alert(fields=fields))["blocks"][4]["fields"]) == 10


def test_the_plain_message_says_it_all_in_lines():
    text = plain_payload(alert(fields=(("Verdict", "MISSED"),)))["text"]

    assert text.splitlines() == [
        "title of alert-1",
        "What happened.",
        "What it means.",
        "What to do.",
        "Verdict: MISSED",
    ]


@pytest.mark.report("slackapi/bolt-js#2509")
def test_slackapi_bolt_js_2509_an_alert_with_endless_texts_stays_below_the_limit_of_all_blocks():
    long = "x" * 5000
    whole = alert(
        title=long,
        what=long,
        meaning=long,
        action=long,
        cluster=long,
        fields=((long, long),) * 20,
        runbook="missed",
        source=long,
    )

    within_limits(slack_payload(whole, LINKS))
    assert len(plain_payload(whole)["text"]) <= 3000


@pytest.mark.parametrize("length", range(1990, 2010))
def test_a_cut_does_not_leave_half_an_escape(length: int):
    text = slack_payload(alert(what="x" * (length - 16) + "<<<<"))["blocks"][1]["text"]["text"]

    assert re.sub(r"&(lt|gt|amp);", "", text).count("&") == 0
    assert len(text) <= 2000


ANY = st.text(st.characters(), max_size=300)
LONG = ANY | st.builds(lambda text, times: text * times, ANY, st.integers(1, 40))


@settings(max_examples=80)
@given(
    st.builds(
        alert,
        title=LONG,
        what=LONG,
        meaning=LONG,
        action=LONG,
        cluster=st.none() | ANY,
        severity=st.sampled_from(Severity),
        fields=st.lists(st.tuples(ANY, LONG), max_size=14).map(tuple),
        runbook=st.sampled_from(["", "missed"]),
        source=LONG,
    )
)
def test_any_text_at_all_makes_a_message_that_slack_takes(any_alert: Alert):
    payload = slack_payload(any_alert, LINKS)
    plain = plain_payload(any_alert)

    within_limits(payload)
    assert len(plain["text"]) <= 3000
    json.dumps([payload, plain], ensure_ascii=False).encode("utf-8")
    for text in [*mrkdwn(payload["blocks"][:-1]), payload["text"], plain["text"]]:
        assert "<" not in text
        assert re.sub(r"&(lt|gt|amp);", "", text).count("&") == 0
