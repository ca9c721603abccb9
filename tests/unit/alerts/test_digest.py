"""A digest counts what differs in nothing but its subject, the most urgent first, and stays within Slack's limits."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.alerts.alert import NO_ACTION, Alert, Severity
from holdfast.alerts.digest import NAMED, ROWS, by_cluster, digest_payload, plain_digest, rows_of
from holdfast.alerts.forms import SlackForm, messages
from holdfast.alerts.links import Links
from holdfast_cli.sandbox.slack_payload import refusal
from tests.builders import alert

TEXT = st.text(max_size=400)
ALERTS = st.lists(
    st.builds(
        alert,
        st.text(min_size=1, max_size=20),
        severity=st.sampled_from(Severity),
        title=TEXT,
        what=TEXT,
        action=TEXT,
        subject=TEXT,
        group=st.lists(TEXT, max_size=4).map(tuple),
    ),
    min_size=1,
    max_size=40,
)


def missed(number: int, pool: str = "orders", **fields: Any) -> Alert:
    values = {"severity": Severity.PAGE, "subject": f"node-{number}", "group": ("MISSED", pool), **fields}
    return alert(f"missed-{pool}-{number}", **values)


def handled(number: int) -> Alert:
    return alert(
        f"handled-{number}", severity=Severity.INFO, subject=f"node-{number}", group=("HANDLED_IN_TIME", "orders")
    )


def sections(payload: Any) -> list[str]:
    return [block["text"]["text"] for block in payload["blocks"] if block["type"] == "section"]


def test_the_most_urgent_group_comes_first_however_rare():
    rows = rows_of([*(handled(number) for number in range(9)), missed(1)])

    assert [(row.group[0], len(row.alerts)) for row in rows] == [("MISSED", 1), ("HANDLED_IN_TIME", 9)]


def test_a_row_counts_its_alerts_and_names_three_subjects():
    (line, *_) = sections(digest_payload([missed(number) for number in range(12)]))

    assert line == f":rotating_light: *12* MISSED, orders: node-0, node-1, node-2 and {12 - NAMED} more"


def test_ten_rows_are_named_and_the_others_counted():
    alerts = [missed(number, f"pool-{pool:02}") for pool in range(ROWS + 3) for number in range(2)]
    lines = sections(digest_payload(alerts))

    assert lines[ROWS] == "and 6 more of 3 other kinds"
    assert len(lines) == ROWS + 2  # that line, and what to do


def test_alerts_without_a_group_are_counted_by_their_title():
    assert [row.group for row in rows_of([alert("a", title="odd"), alert("b", title="odd")])] == [("odd",)]


def test_each_cluster_has_a_digest_of_its_own():
    parts = by_cluster(
        [missed(1, cluster="a"), missed(2, cluster="b"), missed(3, cluster="a"), missed(4, cluster=None)]
    )

    assert {cluster: len(members) for cluster, members in parts.items()} == {"a": 2, "b": 1, None: 1}


def test_what_to_do_stands_in_the_digest_once():
    payload = digest_payload([missed(number, action="Look at the queue.") for number in range(5)])

    assert sections(payload)[-1] == "*What to do* Look at the queue."
    assert plain_digest([missed(1, action="Look.")])["text"].endswith("Look.")


def test_that_nothing_is_to_be_done_is_said_only_where_it_is_true_of_all():
    urgent = missed(1, action="Read the queue.")
    calm = missed(2, "batch", severity=Severity.INFO, action=NO_ACTION)

    assert "*What to do* Read the queue." in sections(digest_payload([urgent, calm]))
    assert "*What to do* Nothing." in sections(digest_payload([calm]))


@pytest.mark.report("slackapi/bolt-js#2509")
@given(ALERTS)
def test_slack_takes_every_digest(alerts: list[Alert]):
    for payload in (digest_payload(alerts), plain_digest(alerts)):
        assert refusal(payload) is None


@pytest.mark.parametrize("wicked", ["<!channel>", "<https://evil.example|click>", "a & b"])
def test_no_text_of_others_becomes_a_link_or_a_mention(wicked: str):
    text = json.dumps(
        digest_payload([missed(number, subject=wicked, group=(wicked,), action=wicked) for number in range(4)])
    )

    assert wicked not in text


@pytest.mark.parametrize(("in_digest", "sent"), [((False, False, False), 3), ((False, True, False), 1), ((True,), 1)])
def test_what_was_decided_in_degraded_mode_is_told_in_a_digest_unless_it_is_alone(
    in_digest: tuple[bool, ...], sent: int
):
    alerts = [missed(number, in_digest=flag) for number, flag in enumerate(in_digest)]

    assert len(messages(alerts, SlackForm(Links()))) == sent
