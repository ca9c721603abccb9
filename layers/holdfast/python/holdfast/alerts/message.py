"""An alert as a Slack message (Block Kit), within Slack's limits and with every foreign text escaped.

Limits: 150 characters in a header, 3,000 in a section, 10 fields of 2,000, and about 13,200 in all before a webhook
answers `msg_blocks_too_long` (slackapi/bolt-js#2509).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.alerts.alert import Alert, Severity
from holdfast.times import format_time

HEADER = 150
SECTION = 2000
FIELD = 500
FIELDS = 10
FOOTER = 500
"""Together these stay below the limit for all blocks, however long an alert's texts are."""

MARKS: Final[Mapping[Severity, str]] = {
    Severity.PAGE: ":rotating_light:",
    Severity.WARNING: ":warning:",
    Severity.INFO: ":information_source:",
}


def slack_payload(alert: Alert, *, runbook_url: str | None = None) -> Mapping[str, Any]:
    """The JSON body for an incoming webhook. `runbook_url` is where the runbook's sections can be read."""
    where = f" [{alert.cluster}]" if alert.cluster else ""
    headline = cut(f"{MARKS[alert.severity]} {alert.title}{where}", HEADER)
    blocks: list[Mapping[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": headline, "emoji": True}},
        section(f"*What happened* {escape(alert.what)}"),
        section(f"*What it means* {escape(alert.meaning)}"),
        section(f"*What to do* {escape(alert.action)}"),
    ]
    if alert.fields:
        blocks.append(
            {
                "type": "section",
                "fields": [
                    {"type": "mrkdwn", "text": cut(f"*{escape(name)}*\n{escape(value)}", FIELD)}
                    for name, value in alert.fields[:FIELDS]
                ],
            }
        )
    blocks.append(
        {
            "type": "context",
            "elements": [{"type": "mrkdwn", "text": cut(_footer(alert, runbook_url), FOOTER)}],
        }
    )
    return {"text": cut(escape(f"{alert.title}{where}: {alert.what}"), SECTION), "blocks": blocks}


def plain_payload(alert: Alert) -> Mapping[str, Any]:
    """The same alert as plain text, for a webhook that refused the blocks."""
    lines = [
        alert.title,
        alert.what,
        alert.meaning,
        alert.action,
        *(f"{name}: {value}" for name, value in alert.fields),
    ]
    return {"text": cut(escape("\n".join(lines)), SECTION)}


def escape(text: str) -> str:
    """Text that Slack shows as it is: its three control characters replaced, so that nothing becomes a link or a mention."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def section(text: str) -> Mapping[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, SECTION)}}


def _footer(alert: Alert, runbook_url: str | None) -> str:
    parts = [format_time(alert.at)]
    if runbook_url and alert.runbook:
        parts.append(f"<{runbook_url}#{alert.runbook}|runbook>")
    elif alert.runbook:
        parts.append(f"runbook: {alert.runbook}")
    if alert.source:
        parts.append(f"`{escape(alert.source)}`")
    return " | ".join(parts)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, with no half of a `&lt;` at the end and nothing that UTF-8 cannot say."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    start = kept.rfind("&", limit - 5)
    return f"{kept if start < 0 or ';' in kept[start:] else kept[:start]}…"
