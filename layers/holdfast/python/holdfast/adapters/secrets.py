"""The Slack webhook's URL, which is a secret: whoever has it may post."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.errors import InvalidDocument

if TYPE_CHECKING:
    from types_boto3_secretsmanager import SecretsManagerClient

KEPT: Final = 300.0
"""Seconds a secret is used for; a URL that was rotated is noticed after that, or as soon as Slack refuses the old one."""


class WebhookUrl:
    """A URL that shows itself only when asked to: it never gets into a log, an exception or a repr by accident."""

    __slots__ = ("_url",)

    def __init__(self, url: str) -> None:
        """Keeps the URL."""
        self._url = url

    def reveal(self) -> str:
        """The URL itself."""
        return self._url

    def __repr__(self) -> str:
        """Never the URL."""
        return "WebhookUrl(***)"


class WebhookSecret:
    """A webhook's URL in Secrets Manager, as plain text or as JSON with the key `url`."""

    def __init__(self, client: SecretsManagerClient, name: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """`name` is the secret's name or ARN; `clock` counts seconds."""
        self._client = client
        self._name = name
        self._clock = clock
        self._kept: tuple[float, WebhookUrl] | None = None

    @calls("secretsmanager:GetSecretValue")
    def url(self, *, refresh: bool = False) -> WebhookUrl:
        """The URL, at most five minutes old; with `refresh`, read now.

        Raises:
            NotFound: there is no such secret.
            Denied: the role may not read it.
            InvalidDocument: it holds no URL.
        """
        if refresh or self._kept is None or self._clock() - self._kept[0] > KEPT:
            self._kept = (self._clock(), self._read())
        return self._kept[1]

    def _read(self) -> WebhookUrl:
        on = f"secret {self._name}"
        with translated(f"reading {on}", action="secretsmanager:GetSecretValue", on=on):
            value = self._client.get_secret_value(SecretId=self._name).get("SecretString", "").strip()
        if value.startswith("{"):
            value = _url_in(value)
        if not _is_url(value):
            raise InvalidDocument(
                f'{on} holds no webhook URL: put "https://hooks.slack.com/services/…" or {{"url": "…"}} into it'
            )
        return WebhookUrl(value)


def _url_in(text: str) -> str:
    try:
        url = json.loads(text).get("url")
    except ValueError:
        return ""
    return url.strip() if isinstance(url, str) else ""


def _is_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        usable = parts.scheme in {"https", "http"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False
    return usable and text.isascii() and text.isprintable() and " " not in text
