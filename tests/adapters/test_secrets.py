"""The webhook's URL: found in either form, kept for five minutes, and never shown."""

import json
import traceback
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from holdfast.adapters.secrets import WebhookSecret, WebhookUrl
from holdfast.errors import Denied, InvalidDocument, NotFound, Throttled
from tests.adapters import samples

NAME = "holdfast/slack"
URL = "https://hooks.slack.com/services/T000/B000/never-shown"


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        yield samples.client("secretsmanager")


def secret(client: Any, value: str) -> WebhookSecret:
    client.create_secret(Name=NAME, SecretString=value)
    return WebhookSecret(client, NAME)


@pytest.mark.parametrize("value", [URL, f"  {URL}\n", json.dumps({"url": URL}), json.dumps({"url": f"{URL} "})])
def test_the_url_is_plain_text_or_json(client: Any, value: str) -> None:
    assert secret(client, value).url().reveal() == URL


@pytest.mark.parametrize(
    "value",
    [
        "put-the-url-here",
        "{}",
        '{"url": 1}',
        '{"URL": "https://x"}',
        '{"url": ',
        "ftp://hooks.slack.com/never-shown",
        "https://",
        "https://hooks.slack.com:port/never-shown",
        f"{URL} {URL}",
        "https://hooks.slack.com/never-shown\nHost: evil",
        "https://hööks.slack.com/never-shown",
    ],
)
def test_a_secret_that_holds_no_url_says_what_to_put_into_it_but_not_what_it_holds(client: Any, value: str) -> None:
    with pytest.raises(InvalidDocument, match="secret holdfast/slack holds no webhook URL: put") as caught:
        secret(client, value).url()
    assert "never-shown" not in "".join(traceback.format_exception(caught.value))


def test_the_url_is_read_again_after_five_minutes_or_when_asked(client: Any) -> None:
    now = [0.0]
    client.create_secret(Name=NAME, SecretString=URL)
    kept = WebhookSecret(client, NAME, clock=lambda: now[0])
    with mock.patch.object(client, "get_secret_value", wraps=client.get_secret_value) as read:
        kept.url()
        now[0] = 300.0
        kept.url()
        assert read.call_count == 1
        now[0] = 301.0
        kept.url()
        assert read.call_count == 2
        kept.url(refresh=True)
        assert read.call_count == 3


def test_a_missing_secret_is_named(client: Any) -> None:
    with pytest.raises(NotFound, match="secret holdfast/slack does not exist"):
        WebhookSecret(client, NAME).url()


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        ("AccessDeniedException", Denied, "needs secretsmanager:GetSecretValue on secret holdfast/slack"),
        ("ThrottlingException", Throttled, "reading secret holdfast/slack"),
    ],
)
def test_errors_are_ours(client: Any, code: str, expected: type[Exception], said: str) -> None:
    error = ClientError({"Error": {"Code": code, "Message": "no"}}, "GetSecretValue")
    with mock.patch.object(client, "get_secret_value", side_effect=error), pytest.raises(expected, match=said):
        WebhookSecret(client, NAME).url()


def test_the_url_does_not_show_itself() -> None:
    url = WebhookUrl(URL)
    assert "never-shown" not in f"{url} {url!r} {[url]} {vars(WebhookUrl).get('__dict__')}"
