"""Many alerts of one cluster in one Slack message: what happened how often, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.alerts.alert import NO_ACTION, Alert, Severity
from holdfast.alerts.links import Links
from holdfast.alerts.message import HEADER, MARKS, NO_LINKS, SECTION, cut, escape, link, mrkdwn, section
from holdfast.times import format_time

SINGLY = 3
"""So many alerts are told each in a message of its own; more are counted in one."""

ROWS = 10
"""Groups that a digest names; the others are a number."""

NAMED = 3
"""Subjects that a row names; the others are a number."""

_URGENCY = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Row:
    """Alerts that differ in nothing but their subject."""

    severity: Severity
    group: tuple[str, ...]
    alerts: tuple[Alert, ...]


def by_cluster(alerts: Sequence[Alert]) -> Mapping[str | None, tuple[Alert, ...]]:
    """The alerts of each cluster, in their order; None holds those of no cluster."""
    parts: dict[str | None, list[Alert]] = {}
    for alert in alerts:
        parts.setdefault(alert.cluster, []).append(alert)
    return {cluster: tuple(members) for cluster, members in parts.items()}


def rows_of(alerts: Sequence[Alert]) -> tuple[Row, ...]:
    """The alerts by severity and group: the most urgent first, then the most frequent."""
    groups: dict[tuple[Severity, tuple[str, ...]], list[Alert]] = {}
    for alert in alerts:
        groups.setdefault((alert.severity, alert.group or (alert.title,)), []).append(alert)
    rows = [Row(severity, group, tuple(members)) for (severity, group), members in groups.items()]
    return tuple(sorted(rows, key=lambda row: (_URGENCY.index(row.severity), -len(row.alerts), row.group)))


def digest_payload(alerts: Sequence[Alert], links: Links = NO_LINKS) -> Mapping[str, Any]:
    """One message for all of the alerts, which are of one cluster (or of none) and at least one."""
    rows = rows_of(alerts)
    cluster = alerts[0].cluster
    where = f" [{cluster}]" if cluster else ""
    headline = cut(f"{MARKS[rows[0].severity]} {len(alerts)} alerts{where}", HEADER)
    lines = [_line(row, links) for row in rows[:ROWS]]
    if len(rows) > ROWS:
        rest = sum(len(row.alerts) for row in rows[ROWS:])
        lines.append(f"and {rest} more of {len(rows) - ROWS} other kinds")
    blocks: list[Mapping[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": headline, "emoji": True}},
        *(section(line) for line in lines),
        section(f"*What to do* {escape(advice(rows))}"),
        {"type": "context", "elements": [mrkdwn(_footer(alerts, links), SECTION)]},
    ]
    return {"text": cut(escape(f"{len(alerts)} alerts{where}: {counts(rows)}"), SECTION), "blocks": blocks}


def plain_digest(alerts: Sequence[Alert]) -> Mapping[str, Any]:
    """The same digest as plain text, for a webhook that refused the blocks."""
    rows = rows_of(alerts)
    cluster = f" [{alerts[0].cluster}]" if alerts[0].cluster else ""
    return {"text": cut(escape(f"{len(alerts)} alerts{cluster}: {counts(rows)}. {advice(rows)}"), SECTION)}


def subjects(row: Row) -> str:
    """What the row is about: the first few by name, the others as a number."""
    said = [alert.subject or alert.title for alert in row.alerts]
    more = f" and {len(said) - NAMED} more" if len(said) > NAMED else ""
    return f"{', '.join(said[:NAMED])}{more}"


def counts(rows: Sequence[Row]) -> str:
    """How often what happened, in one line."""
    said = [f"{len(row.alerts)} {', '.join(row.group)}" for row in rows[:ROWS]]
    return "; ".join(said)


def advice(rows: Sequence[Row]) -> str:
    """What to do about the most urgent kinds; the runbook has the rest."""
    actions = dict.fromkeys(row.alerts[0].action for row in rows[:NAMED])
    return " ".join(action for action in actions if action != NO_ACTION) or NO_ACTION


def period(alerts: Sequence[Alert]) -> str:
    """From the first to the last of what happened."""
    first, last = min(alert.at for alert in alerts), max(alert.at for alert in alerts)
    return f"{format_time(first)} to {format_time(last)}"


def overviews(alerts: Sequence[Alert]) -> tuple[str, ...]:
    """The commands that list such things, each once."""
    return tuple(sorted({alert.overview for alert in alerts if alert.overview}))


def _line(row: Row, links: Links) -> str:
    runbook = links.section(row.alerts[0].runbook)
    tail = "" if runbook is None else f" | {link(runbook, 'runbook')}"
    text = f"{MARKS[row.severity]} *{len(row.alerts)}* {escape(', '.join(row.group))}: {escape(subjects(row))}"
    return f"{cut(text, _ROW - len(tail))}{tail}"


def _footer(alerts: Sequence[Alert], links: Links) -> str:
    parts = [period(alerts)]
    if links.runbook_url is None:
        anchors = sorted({alert.runbook for alert in alerts if alert.runbook})
        parts += [f"runbook: {escape(', '.join(anchors))}"] if anchors else []
    if links.dashboard_url is not None:
        parts.append(link(links.dashboard_url, "dashboard"))
    commands = overviews(alerts)
    if commands:
        parts.append("each one: " + ", ".join(f"`{escape(command)}`" for command in commands))
    return " | ".join(parts)


_ROW = 800
"""Ten rows, the advice and the frame stay below Slack's limit for all blocks."""
