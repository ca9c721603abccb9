"""The receiver that plays Slack refuses what Slack refuses, keeps what Slack would show, and fails on order."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from slack_sdk.webhook import WebhookClient

from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.slack_payload import refusal
from holdfast_cli.sandbox.slack_receiver import SlackClient, SlackFault, SlackReceiver


@pytest.fixture
def slack(tmp_path: Path) -> Iterator[SlackReceiver]:
    with SlackReceiver(messages_file=tmp_path / "messages.jsonl") as receiver:
        yield receiver


def post(url: str, body: Any, content_type: str = "application/json", timeout: float = 10) -> tuple[int, str]:
    with urllib3.PoolManager(retries=False) as pool:
        encoded = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = pool.request("POST", url, body=encoded, headers={"Content-Type": content_type}, timeout=timeout)
        return response.status, response.data.decode()


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": text}}


def header(text: str) -> dict[str, Any]:
    return {"type": "header", "text": {"type": "plain_text", "text": text}}


def fields(count: int, length: int = 1) -> dict[str, Any]:
    return {"type": "section", "fields": [{"type": "mrkdwn", "text": "x" * length}] * count}


def test_slacks_own_client_gets_ok_and_the_message_is_kept(slack, tmp_path):
    client = WebhookClient(slack.webhook_url)

    response = client.send(text="fallback", blocks=[header("Interruption handled"), section("*orders*")])

    assert (response.status_code, response.body) == (200, "ok")
    [message] = slack.messages()
    assert message.payload["blocks"][0]["text"]["text"] == "Interruption handled"
    assert message.path.startswith("/services/T000/B000/")
    [line] = (tmp_path / "messages.jsonl").read_text().splitlines()
    assert json.loads(line)["payload"]["text"] == "fallback"


@pytest.mark.parametrize(
    ("payload", "answer"),
    [
        ({"text": "x"}, "ok"),
        ({"blocks": [section("x")]}, "ok"),
        ({"blocks": [{"type": "divider"}] * 50}, "ok"),
        ({"text": "x", "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ({"blocks": [section("x" * 3000)]}, "ok"),
        ({"blocks": [section("x" * 3001)]}, "invalid_blocks"),
        ({"blocks": [header("x" * 150)]}, "ok"),
        ({"blocks": [header("x" * 151)]}, "invalid_blocks"),
        ({"blocks": [{"type": "header", "text": {"type": "mrkdwn", "text": "x"}}]}, "invalid_blocks"),
        ({"blocks": [fields(10, 1300)]}, "ok"),
        ({"blocks": [fields(11)]}, "invalid_blocks"),
        ({"blocks": [fields(1, 2000)]}, "ok"),
        ({"blocks": [fields(1, 2001)]}, "invalid_blocks"),
        ({"blocks": [{"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 10}]}, "ok"),
        ({"blocks": [{"type": "context", "elements": [{"type": "mrkdwn", "text": "x"}] * 11}]}, "invalid_blocks"),
        ({"blocks": [section("")]}, "invalid_blocks"),
        ({"blocks": [{"type": "section"}]}, "invalid_blocks"),
        ({"blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
        ({"blocks": "x"}, "invalid_blocks"),
        ({"blocks": [section("x" * 3000)] * 4 + [section("x" * 1200)]}, "ok"),
        ({"blocks": [section("x" * 3000)] * 4 + [section("x" * 1201)]}, "msg_blocks_too_long"),
        ({}, "no_text"),
        ({"text": ""}, "no_text"),
        ({"text": 1}, "invalid_payload"),
        (["text"], "invalid_payload"),
        (b"{", "invalid_payload"),
        (b"\xff", "invalid_payload"),
    ],
)
def test_limits_are_slacks(slack, payload, answer):
    """50 blocks, section text 3000, header 150 plain, 10 fields of 2000, about 13,200 characters in all."""
    assert post(slack.webhook_url, payload) == (200 if answer == "ok" else 400, answer)
    assert len(slack.messages()) == (answer == "ok")


def test_only_json_to_the_right_path_is_taken(slack):
    url = slack.webhook_url

    assert post(url, {"text": "x"}, "text/plain") == (400, "invalid_payload")
    assert post(url + "x", {"text": "x"}) == (403, "invalid_token")
    assert post(url.replace("T000", "T001"), {"text": "x"}) == (404, "no_service")
    assert slack.messages() == []


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, "action_prohibited"),
        (404, "no_service"),
        (410, "channel_is_archived"),
        (429, "rate_limited"),
        (500, "rollup_error"),
    ],
)
def test_failures_come_for_the_ordered_number_of_requests(slack, status, body):
    slack.inject(SlackFault(status=status, times=2))

    answers = [post(slack.webhook_url, {"text": "x"}) for _ in range(3)]

    assert answers == [(status, body), (status, body), (200, "ok")]
    assert len(slack.messages()) == 1
    assert [answer.status for answer in slack.answers()] == [status, status, 200]


def test_an_outage_lasts_until_it_is_over(slack):
    slack.inject(SlackFault(status=503, times=1000))
    assert post(slack.webhook_url, {"text": "hello"}) == (503, "service_unavailable")

    slack.clear_faults()

    assert post(slack.webhook_url, {"text": "hello"}) == (200, "ok")
    assert [answer.status for answer in slack.answers()] == [503, 200]


def test_429_carries_retry_after(slack):
    slack.inject(SlackFault(status=429, retry_after=30))

    response = WebhookClient(slack.webhook_url).send(text="x")

    assert (response.status_code, response.headers["Retry-After"]) == (429, "30")


def test_a_message_can_be_shown_although_its_answer_is_lost(slack):
    slack.inject(SlackFault(timeout=0.01, delivered=True))

    with pytest.raises(urllib3.exceptions.ProtocolError):
        post(slack.webhook_url, {"text": "x"})

    assert len(slack.messages()) == 1
    assert [answer.status for answer in slack.answers()] == [0]


def test_a_timeout_outlasts_the_client_but_not_the_receiver():
    with SlackReceiver() as slack:
        slack.inject(SlackFault(timeout=60))
        began = time.monotonic()
        with pytest.raises(urllib3.exceptions.ReadTimeoutError):
            post(slack.webhook_url, {"text": "x"}, timeout=0.1)

    assert time.monotonic() - began < 10
    assert slack.messages() == []


@pytest.mark.parametrize("wrong", [{}, {"status": 429, "timeout": 1.0}, {"status": 418}])
def test_a_fault_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError):
        SlackFault(**wrong)


def test_it_runs_as_a_process_and_ends_on_sigterm(tmp_path):
    ready, config = tmp_path / "ready.json", tmp_path / "config.json"
    settings = {
        "control_token": "control",
        "path_token": "hook",
        "messages_file": str(tmp_path / "messages.jsonl"),
        "ready_file": str(ready),
    }
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "holdfast_cli.sandbox.slack_receiver", "--config", str(config)]
    with subprocess.Popen(command) as child:
        try:
            deadline = time.monotonic() + 30
            while not ready.exists():
                assert child.poll() is None, "ended before it was ready"
                assert time.monotonic() < deadline, "not ready in 30 s"
                time.sleep(0.02)
            facts = json.loads(ready.read_text())
            remote = SlackClient(facts["url"], "control")
            assert facts["webhook_url"].endswith("/services/T000/B000/hook")

            remote.inject(SlackFault(status=500))
            assert post(facts["webhook_url"], {"text": "x"}) == (500, "rollup_error")
            assert post(facts["webhook_url"], {"text": "y"}) == (200, "ok")
            assert [message.payload for message in remote.messages()] == [{"text": "y"}]
            assert [answer.status for answer in remote.answers()] == [500, 200]
            remote.clear()
            assert remote.messages() == []
            with pytest.raises(SandboxError, match="control token"):
                SlackClient(facts["url"], "wrong").messages()

            child.send_signal(signal.SIGTERM)
            assert child.wait(10) == 0
        finally:
            child.kill()


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["section", "header", "mrkdwn"]),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["text", "blocks", "type", "fields", "elements"]), inner, max_size=4)
        ),
        max_leaves=12,
    )
)
def test_any_json_is_judged(payload):
    assert refusal(payload) in {None, "invalid_payload", "no_text", "invalid_blocks", "msg_blocks_too_long"}
