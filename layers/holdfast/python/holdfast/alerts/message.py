"""An alert as a Slack message (Block Kit), within Slack's limits and with every foreign text escaped.

Limits: 150 characters in a header, 3,000 in a section, 10 fields of 2,000, and about 13,200 in all before a webhook
answers `msg_blocks_too_long` (slackapi/bolt-js#2509).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.alerts.alert import Alert, Severity
from holdfast.alerts.links import Links
from holdfast.times import format_time

HEADER = 150
SECTION = 2000
FIELD = 500
FIELDS = 10
COMMAND = 300
FOOTER = 1000
"""Together these stay below the limit for all blocks, however long an alert's texts are."""

MARKS: Final[Mapping[Severity, str]] = {
    Severity.PAGE: ":rotating_light:",
    Severity.WARNING: ":warning:",
    Severity.INFO: ":information_source:",
}


NO_LINKS: Final = Links()


def slack_payload(alert: Alert, links: Links = NO_LINKS) -> Mapping[str, Any]:
    """The JSON body for an incoming webhook."""
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
                    mrkdwn(f"*{escape(name)}*\n{escape(value)}", FIELD) for name, value in alert.fields[:FIELDS]
                ],
            }
        )
    blocks.append({"type": "context", "elements": [mrkdwn(_footer(alert, links), FOOTER)]})
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
    """One paragraph of text that is escaped already."""
    return {"type": "section", "text": mrkdwn(text, SECTION)}


def mrkdwn(text: str, limit: int) -> Mapping[str, Any]:
    """Escaped text with Slack's marks. Verbatim: a bare URL or #name in it, which is never ours, becomes no link."""
    return {"type": "mrkdwn", "text": cut(text, limit), "verbatim": True}


def link(url: str, words: str) -> str:
    """A link of ours; `url` comes from the configuration, never from an alert's text."""
    return f"<{url}|{words}>"


def _footer(alert: Alert, links: Links) -> str:
    parts = [format_time(alert.at)]
    section_url = links.section(alert.runbook)
    if section_url is not None:
        parts.append(link(section_url, "runbook"))
    elif alert.runbook:
        parts.append(f"runbook: {escape(alert.runbook)}")
    if links.dashboard_url is not None:
        parts.append(link(links.dashboard_url, "dashboard"))
    more = alert.command or alert.source
    if more:
        parts.append(f"`{cut(escape(more), COMMAND)}`")
    return " | ".join(parts)


def cut(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, with no half of a `&lt;` at the end and nothing that UTF-8 cannot say."""
    text = text.encode("utf-8", "replace").decode("utf-8")
    if len(text) <= limit:
        return text
    kept = text[: limit - 1]
    start = kept.rfind("&", limit - 5)
    return f"{kept if start < 0 or ';' in kept[start:] else kept[:start]}…"
