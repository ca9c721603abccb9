"""Posting to a webhook: what each answer means for the alert, and that the URL stays secret whatever happens."""

import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast.adapters.secrets import WebhookUrl
from holdfast.adapters.slack import SlackMessenger
from holdfast.alerts.message import plain_payload, slack_payload
from holdfast.errors import Denied
from holdfast.ports import Delivery, DeliveryStatus
from holdfast_cli.sandbox.loopback import LoopbackServer, Request, Response
from holdfast_cli.sandbox.slack_receiver import SlackFault, SlackReceiver
from tests.adapters.samples import ALERT

PAYLOAD = slack_payload(ALERT)


@dataclass
class Secret:
    """A secret whose value may change between two reads."""

    url_now: str
    url_next: str | None = None
    refreshes: int = 0
    _kept: str | None = None
    errors: list[Exception] = field(default_factory=list)

    def url(self, *, refresh: bool = False) -> WebhookUrl:
        if self.errors:
            raise self.errors.pop()
        if refresh:
            self.refreshes += 1
            self.url_now = self.url_next or self.url_now
        return WebhookUrl(self.url_now)


@pytest.fixture
def slack() -> Iterator[SlackReceiver]:
    with SlackReceiver() as receiver:
        yield receiver


def messenger(secret: Secret, timeout: int = 5) -> SlackMessenger:
    made: Any = SlackMessenger(secret, timeout=timeout)  # type: ignore[arg-type]
    return made


def post(slack: SlackReceiver) -> Delivery:
    return messenger(Secret(slack.webhook_url)).post(PAYLOAD)


def test_a_message_is_delivered_as_it_was_made(slack: SlackReceiver) -> None:
    assert post(slack) == Delivery(DeliveryStatus.DELIVERED)
    (message,) = slack.messages()
    assert message.payload == PAYLOAD


@pytest.mark.report("goharbor/harbor#11281")
@pytest.mark.parametrize(("retry_after", "expected"), [(30, 30.0), (None, None)])
def test_too_many_messages_are_tried_again_when_slack_says(
    slack: SlackReceiver, retry_after: int | None, expected: float | None
) -> None:
    slack.inject(SlackFault(status=429, retry_after=retry_after))
    outcome = post(slack)
    assert (outcome.status, outcome.retry_after) == (DeliveryStatus.RETRY, expected)
    assert outcome.reason == "posting to Slack: 429 rate_limited"
    assert len(slack.answers()) == 1  # nothing in between tries again by itself


def test_a_failing_slack_is_tried_again(slack: SlackReceiver) -> None:
    slack.inject(SlackFault(status=500))
    assert post(slack) == Delivery(DeliveryStatus.RETRY, "posting to Slack: 500 rollup_error")


def test_an_answer_that_does_not_come_is_tried_again(slack: SlackReceiver) -> None:
    slack.inject(SlackFault(timeout=30.0))
    outcome = messenger(Secret(slack.webhook_url), timeout=1).post(PAYLOAD)
    assert outcome.status is DeliveryStatus.RETRY
    assert "timed out" in outcome.reason


def test_a_host_that_does_not_answer_is_tried_again() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/services/never-shown"
        outcome = messenger(Secret(url)).post(PAYLOAD)
    assert outcome.status is DeliveryStatus.RETRY
    assert "refused" in outcome.reason


def test_a_message_that_slack_cannot_read_is_refused_and_its_plain_form_is_not(slack: SlackReceiver) -> None:
    broken = {**PAYLOAD, "blocks": [{"type": "header"}]}
    outcome = messenger(Secret(slack.webhook_url)).post(broken)
    assert outcome.status is DeliveryStatus.REFUSED
    assert outcome.reason.startswith("posting to Slack: 400 invalid_blocks")
    assert messenger(Secret(slack.webhook_url)).post(plain_payload(ALERT)).status is DeliveryStatus.DELIVERED


def test_a_message_without_text_is_refused(slack: SlackReceiver) -> None:
    outcome = messenger(Secret(slack.webhook_url)).post({"text": ""})
    assert outcome.status is DeliveryStatus.REFUSED
    assert "400 no_text" in outcome.reason


@pytest.mark.parametrize(
    ("status", "said"), [(403, "action_prohibited"), (404, "no_service"), (410, "channel_is_archived")]
)
def test_a_revoked_webhook_is_said_so_after_one_look_for_a_new_url(
    slack: SlackReceiver, status: int, said: str
) -> None:
    slack.inject(SlackFault(status=status, times=5))
    secret = Secret(slack.webhook_url)
    outcome = messenger(secret).post(PAYLOAD)
    assert outcome.status is DeliveryStatus.REVOKED
    assert outcome.reason == (f"posting to Slack: {status} {said}; make a new webhook and put its URL into the secret")
    assert secret.refreshes == 1
    assert len(slack.answers()) == 1  # the same URL is not asked twice


def test_a_rotated_url_is_found_and_used_at_once(slack: SlackReceiver) -> None:
    secret = Secret(f"{slack.url}/services/T000/B000/of-yesterday", slack.webhook_url)
    assert messenger(secret).post(PAYLOAD) == Delivery(DeliveryStatus.DELIVERED)
    assert len(slack.messages()) == 1


def test_a_page_that_is_not_slacks_does_not_count_as_delivered() -> None:
    def proxy(_request: Request) -> Response:
        return Response(200, b"<html>log in first</html>", "text/html", {})

    server = LoopbackServer(proxy, port=0)
    server.start()
    try:
        outcome = messenger(Secret(f"{server.url}/services/x")).post(PAYLOAD)
    finally:
        server.close()
    assert outcome == Delivery(DeliveryStatus.RETRY, "posting to Slack: 200 <html>log in first</html>")


def test_a_secret_that_cannot_be_read_is_an_error_not_an_outcome(slack: SlackReceiver) -> None:
    with pytest.raises(Denied):
        messenger(Secret(slack.webhook_url, errors=[Denied("reading secret x")])).post(PAYLOAD)


@pytest.mark.parametrize(
    "fault", [None, SlackFault(status=429), SlackFault(status=404, times=2), SlackFault(timeout=30.0)]
)
def test_the_url_is_in_no_log_and_no_outcome(
    slack: SlackReceiver, caplog: pytest.LogCaptureFixture, fault: SlackFault | None
) -> None:
    if fault is not None:
        slack.inject(fault)
    token = slack.webhook_url.rsplit("/", 1)[-1]
    with caplog.at_level(logging.DEBUG):
        for name in ("slack_sdk", "slack_sdk.webhook.client", "urllib3"):
            logging.getLogger(name).setLevel(logging.DEBUG)
        outcome = messenger(Secret(slack.webhook_url), timeout=1).post(PAYLOAD)
    assert token not in caplog.text
    assert token not in repr(outcome)


def test_an_error_that_quotes_the_url_is_told_without_it(slack: SlackReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(client: Any, body: Any) -> None:
        raise OSError(f"cannot reach {client.url}")

    monkeypatch.setattr("holdfast.adapters.slack.WebhookClient.send_dict", refuse)
    assert post(slack) == Delivery(DeliveryStatus.RETRY, "posting to Slack: no answer: OSError: cannot reach ***")
