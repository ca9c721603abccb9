"""Many alerts of one cluster in one Slack message: what happened how often, the most urgent first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.alerts.alert import Alert, Severity
from holdfast.alerts.message import HEADER, MARKS, SECTION, cut, escape, section
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


def digest_payload(alerts: Sequence[Alert]) -> Mapping[str, Any]:
    """One message for all of the alerts, which are of one cluster (or of none) and at least one."""
    rows = rows_of(alerts)
    cluster = alerts[0].cluster
    where = f" [{cluster}]" if cluster else ""
    headline = cut(f"{MARKS[rows[0].severity]} {len(alerts)} alerts{where}", HEADER)
    lines = [_line(row) for row in rows[:ROWS]]
    if len(rows) > ROWS:
        rest = sum(len(row.alerts) for row in rows[ROWS:])
        lines.append(f"and {rest} more of {len(rows) - ROWS} other kinds")
    blocks: list[Mapping[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": headline, "emoji": True}},
        *(section(line) for line in lines),
        section(f"*What to do* {escape(_advice(rows))}"),
        {"type": "context", "elements": [{"type": "mrkdwn", "text": cut(_footer(alerts), SECTION)}]},
    ]
    return {"text": cut(escape(f"{len(alerts)} alerts{where}: {_counts(rows)}"), SECTION), "blocks": blocks}


def plain_digest(alerts: Sequence[Alert]) -> Mapping[str, Any]:
    """The same digest as plain text, for a webhook that refused the blocks."""
    rows = rows_of(alerts)
    cluster = f" [{alerts[0].cluster}]" if alerts[0].cluster else ""
    return {"text": cut(escape(f"{len(alerts)} alerts{cluster}: {_counts(rows)}. {_advice(rows)}"), SECTION)}


def _line(row: Row) -> str:
    subjects = [alert.subject or alert.title for alert in row.alerts]
    named = ", ".join(escape(subject) for subject in subjects[:NAMED])
    more = f" and {len(subjects) - NAMED} more" if len(subjects) > NAMED else ""
    return cut(f"{MARKS[row.severity]} *{len(row.alerts)}* {escape(', '.join(row.group))}: {named}{more}", _ROW)


def _counts(rows: Sequence[Row]) -> str:
    said = [f"{len(row.alerts)} {', '.join(row.group)}" for row in rows[:ROWS]]
    return "; ".join(said)


def _advice(rows: Sequence[Row]) -> str:
    """What to do about the most urgent kinds; the runbook has the rest."""
    return " ".join(dict.fromkeys(row.alerts[0].action for row in rows[:NAMED]))


def _footer(alerts: Sequence[Alert]) -> str:
    first, last = min(alert.at for alert in alerts), max(alert.at for alert in alerts)
    anchors = ", ".join(sorted({alert.runbook for alert in alerts if alert.runbook}))
    return escape(
        f"{format_time(first)} to {format_time(last)} | each one: `holdfast interruptions list` | runbook: {anchors}"
    )


_ROW = 800
"""Ten rows, the advice and the frame stay below Slack's limit for all blocks."""
