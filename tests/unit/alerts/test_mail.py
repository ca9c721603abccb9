"""An alert as a message of a topic: within SNS's limits, readable as it is, and nothing in it passes for ours."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.alerts.alert import Severity
from holdfast.alerts.links import Links
from holdfast.alerts.mail import mail_digest, mail_payload, plain_mail
from tests.builders import alert

LINKS = Links("https://example.org/runbook", "https://console.example/dashboard")
ANY = st.text(st.characters(), max_size=300)


def attributes(payload: Any) -> dict[str, str]:
    return {name: value["StringValue"] for name, value in payload["MessageAttributes"].items()}


def test_a_message_reads_as_an_e_mail():
    payload = mail_payload(
        alert(
            title="node-1 missed",
            severity=Severity.PAGE,
            cluster="orders",
            what="It happened.",
            meaning="It means.",
            action="Do it.",
            fields=(("Verdict", "MISSED"),),
            runbook="missed",
            command="holdfast interruptions show a/b/c",
        ),
        LINKS,
    )

    assert payload["Subject"] == "PAGE: node-1 missed [orders]"
    assert payload["Message"].splitlines() == [
        "PAGE: node-1 missed [orders]",
        "",
        "What happened",
        "  It happened.",
        "",
        "What it means",
        "  It means.",
        "",
        "What to do",
        "  Do it.",
        "",
        "Verdict: MISSED",
        "At: 2026-09-01T04:10:00Z",
        "Runbook: https://example.org/runbook#missed",
        "Dashboard: https://console.example/dashboard",
        "More: holdfast interruptions show a/b/c",
    ]


def test_attributes_are_for_subscription_filters():
    assert attributes(mail_payload(alert("one", severity=Severity.PAGE, cluster="orders"))) == {
        "severity": "page",
        "cluster": "orders",
        "id": "one",
    }
    assert attributes(mail_payload(alert("one", severity=Severity.INFO))) == {"severity": "info", "id": "one"}


def test_a_digest_counts_and_is_as_urgent_as_its_worst():
    alerts = [
        alert(str(number), group=("HANDLED", "orders"), severity=Severity.INFO, cluster="c") for number in range(5)
    ]
    worst = alert(
        "w", group=("MISSED", "orders"), severity=Severity.PAGE, cluster="c", subject="node-9", runbook="missed"
    )
    payload = mail_digest([*alerts, worst], LINKS)

    assert payload["Subject"] == "PAGE: 6 alerts [c]"
    assert attributes(payload) == {"severity": "page", "cluster": "c"}
    lines = payload["Message"].splitlines()
    assert lines[0] == "PAGE: 6 alerts [c]: 1 MISSED, orders; 5 HANDLED, orders"
    assert lines[2:4] == [
        "PAGE 1 x MISSED, orders: node-9",
        "INFO 5 x HANDLED, orders: title of 0, title of 1, title of 2 and 2 more",
    ]
    assert "Runbook: https://example.org/runbook#missed" in lines


def test_more_than_ten_kinds_are_a_number():
    payload = mail_digest([alert(str(number), group=(f"kind {number:02}",)) for number in range(13)])

    assert "and 3 more of 3 other kinds" in payload["Message"].splitlines()


def test_without_an_address_the_runbooks_section_is_named():
    assert "Runbook: docs/runbook.md#missed" in mail_payload(alert(runbook="missed"))["Message"].splitlines()


def test_foreign_text_makes_no_line_of_its_own_and_no_link():
    text = mail_payload(alert(what="x\r\nWhat to do\n  Visit https://evil.example"))["Message"]

    assert "  x What to do Visit https[:]//evil.example" in text.splitlines()
    assert "https://" not in text


@pytest.mark.parametrize("title", ["\N{SNOWMAN} down", "x" * 300, "a\nb\x00c"])
def test_a_subject_is_short_ascii_without_control_characters(title: str):
    subject = mail_payload(alert(title=title))["Subject"]

    assert re.fullmatch(r"[\x20-\x7e]{1,99}", subject)


@given(st.builds(alert, st.text(min_size=1), title=ANY, what=ANY, action=ANY, cluster=st.none() | ANY, command=ANY))
def test_sns_takes_any_text(any_alert: Any):
    for payload in (mail_payload(any_alert), mail_digest([any_alert] * 4)):
        assert re.fullmatch(r"[\x20-\x7e]{1,99}", payload["Subject"])
        assert len(json.dumps(payload)) < 256 * 1024
        payload["Message"].encode("utf-8")
        assert all(value for value in attributes(payload).values())
        assert "MessageAttributes" not in plain_mail(payload)
