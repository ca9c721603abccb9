"""Slack's incoming webhook. Whatever it answers is an outcome; the caller decides what becomes of the alert."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final

from slack_sdk.webhook import WebhookClient, WebhookResponse

from holdfast.adapters.actions import calls
from holdfast.adapters.secrets import WebhookSecret, WebhookUrl
from holdfast.ports import Delivery, DeliveryStatus

TIMEOUT: Final = 5
"""Seconds that Slack has to answer."""

_GONE: Final = frozenset({403, 404, 410})
"""action_prohibited, no_service, channel_is_archived: this URL will not work again (Slack's webhook guide)."""

# slack-sdk writes the URL into its debug lines. This logger writes nothing, and as it is in no registry, nobody who
# configures logging can turn it up.
_SILENT = logging.Logger("slack-sdk", logging.CRITICAL + 1)  # noqa: LOG001


class SlackMessenger:
    """The `Messenger` port on a webhook whose URL is in a secret."""

    def __init__(self, secret: WebhookSecret, *, timeout: int = TIMEOUT) -> None:
        """`timeout` is in seconds, for the connection and for the answer each."""
        self._secret = secret
        self._timeout = timeout

    @calls("secretsmanager:GetSecretValue")
    def post(self, payload: Mapping[str, Any]) -> Delivery:
        """Posts one message. A refusal or an outage is an outcome; only a secret that cannot be read is an exception.

        A URL that Slack has revoked is read again once, since it may have been rotated a moment ago.
        """
        url = self._secret.url()
        outcome = self._post(url, payload)
        if outcome.status is DeliveryStatus.REVOKED:
            fresh = self._secret.url(refresh=True)
            if fresh.reveal() != url.reveal():
                outcome = self._post(fresh, payload)
        return outcome

    def _post(self, url: WebhookUrl, payload: Mapping[str, Any]) -> Delivery:
        client = WebhookClient(url.reveal(), timeout=self._timeout, logger=_SILENT, retry_handlers=[])
        try:
            answer = client.send_dict(dict(payload))
        except (OSError, HTTPException, ValueError) as error:
            # The text of an error may quote the URL.
            said = f"{type(error).__name__}: {error}".replace(url.reveal(), "***")
            return Delivery(DeliveryStatus.RETRY, f"posting to Slack: no answer: {said}")
        return _outcome(answer)


def _outcome(answer: WebhookResponse) -> Delivery:
    status, said = answer.status_code, answer.body.strip()[:200]
    if status == 200 and said == "ok":
        return Delivery(DeliveryStatus.DELIVERED)
    reason = f"posting to Slack: {status} {said}"
    if status == 429:
        return Delivery(DeliveryStatus.RETRY, reason, _retry_after(answer))
    if status in _GONE:
        return Delivery(DeliveryStatus.REVOKED, f"{reason}; make a new webhook and put its URL into the secret")
    if status >= 500 or status == 200:
        # A 200 without Slack's "ok" is somebody else's: a proxy's page, say.
        return Delivery(DeliveryStatus.RETRY, reason)
    return Delivery(DeliveryStatus.REFUSED, reason)


def _retry_after(answer: WebhookResponse) -> float | None:
    value = next((value for name, value in answer.headers.items() if name.lower() == "retry-after"), "")
    return float(value) if value.isdecimal() else None
