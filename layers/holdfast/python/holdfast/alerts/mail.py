"""An alert as a message of an SNS topic: a subject and plain text for people, attributes for subscription filters.

Limits: a subject of fewer than 100 ASCII characters without control characters, 256 KiB in all (SNS, Publish).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.alerts.alert import Alert
from holdfast.alerts.digest import ROWS, advice, counts, overviews, period, rows_of, subjects
from holdfast.alerts.links import Links
from holdfast.alerts.message import NO_LINKS, cut
from holdfast.times import format_time

SUBJECT = 99
LINE = 2000
ATTRIBUTE = 256


def mail_payload(alert: Alert, links: Links = NO_LINKS) -> Mapping[str, Any]:
    """What the topic publishes of one alert; attributes `severity`, `cluster` and `id`."""
    text = [
        _heading(alert),
        "",
        *_paragraph("What happened", alert.what),
        *_paragraph("What it means", alert.meaning),
        *_paragraph("What to do", alert.action),
        *(f"{_plain(name)}: {_plain(value)}" for name, value in alert.fields),
        f"At: {format_time(alert.at)}",
        *_runbook([alert.runbook], links),
        *_dashboard(links),
        *([f"More: {_plain(alert.command or alert.source)}"] if alert.command or alert.source else []),
    ]
    return _payload(_heading(alert), text, severity=alert.severity, cluster=alert.cluster, id=alert.id)


def mail_digest(alerts: Sequence[Alert], links: Links = NO_LINKS) -> Mapping[str, Any]:
    """What the topic publishes of many alerts, all of one cluster or of none; attributes `severity` and `cluster`.

    The severity is that of the most urgent alert in it.
    """
    rows = rows_of(alerts)
    worst, cluster = rows[0].severity, alerts[0].cluster
    where = f" [{cluster}]" if cluster else ""
    heading = f"{worst.upper()}: {len(alerts)} alerts{where}"
    left = sum(len(row.alerts) for row in rows[ROWS:])
    text = [
        _plain(f"{heading}: {counts(rows)}"),
        "",
        *(
            _plain(f"{row.severity.upper()} {len(row.alerts)} x {', '.join(row.group)}: {subjects(row)}")
            for row in rows[:ROWS]
        ),
        *([f"and {left} more of {len(rows) - ROWS} other kinds"] if left else []),
        "",
        *_paragraph("What to do", advice(rows)),
        f"From {period(alerts)}",
        *_runbook((row.alerts[0].runbook for row in rows[:ROWS]), links),
        *_dashboard(links),
        *(f"Each one: {_plain(command)}" for command in overviews(alerts)),
    ]
    return _payload(heading, text, severity=worst, cluster=cluster)


def plain_mail(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same message without attributes, for a topic that refused them."""
    return {name: value for name, value in payload.items() if name != "MessageAttributes"}


def _payload(heading: str, text: Sequence[str], **attributes: str | None) -> Mapping[str, Any]:
    said = {name: _plain(value)[:ATTRIBUTE] for name, value in attributes.items() if value}
    return {
        "Subject": _subject(heading),
        "Message": "\n".join(text),
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": value} for name, value in said.items() if value
        },
    }


def _heading(alert: Alert) -> str:
    where = f" [{alert.cluster}]" if alert.cluster else ""
    return _plain(f"{alert.severity.upper()}: {alert.title}{where}")


def _subject(text: str) -> str:
    ascii_only = _plain(text).encode("ascii", "replace").decode()
    return ascii_only if len(ascii_only) <= SUBJECT else f"{ascii_only[: SUBJECT - 3]}..."


def _paragraph(heading: str, text: str) -> Iterable[str]:
    return (heading, f"  {_plain(text)}", "")


def _runbook(anchors: Iterable[str], links: Links) -> Iterable[str]:
    for anchor in dict.fromkeys(filter(None, anchors)):
        yield f"Runbook: {links.section(anchor) or f'docs/runbook.md#{anchor}'}"


def _dashboard(links: Links) -> Iterable[str]:
    return () if links.dashboard_url is None else (f"Dashboard: {links.dashboard_url}",)


def _plain(text: str) -> str:
    """One line of printable text: no line of it passes for one of ours, and no mail program makes its URLs into links."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return cut(line.replace("://", "[:]//"), LINE)
