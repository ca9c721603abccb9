"""The one alert that every capability hands over: what happened, what it means, what to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

NO_ACTION = "Nothing."
"""What to do about what is only good to know."""


class Severity(StrEnum):
    """How soon a person should look: now, today, or whenever they like. The most urgent comes first."""

    PAGE = "page"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Alert:
    """Something to tell people, once: an interruption judged, a limit reached, a finding that is new or resolved.

    `id` is its identity: the same id is never told twice. What may happen again (a limit reached in the next month, a
    finding that comes back) has what tells the occasions apart in its id. That something is over is an alert of its own.

    `title` is one line of plain text; `what`, `meaning` and `action` are a sentence or two each; `at` is when it happened;
    `fields` are short name and value pairs; `subject` is what it is about (a node, a NodePool, a check), and alerts of the
    same `group` (words such as verdict, NodePool and zone) differ in nothing else, so that a digest may count them.
    `runbook` is an anchor in docs/runbook.md; `source` names what it comes from: a case, a limit, a finding. `command`
    shows more of it in a terminal, `overview` shows it among others of its kind. `decided_at` is when it was known that
    this is to be told, None where that was not noted. `in_digest`: so many like it are to be expected that it is told with
    others where there are any.
    All text is plain: whoever renders it escapes it.
    """

    id: str
    severity: Severity
    title: str
    what: str
    meaning: str
    action: str
    at: datetime
    cluster: str | None = None
    fields: tuple[tuple[str, str], ...] = ()
    subject: str = ""
    group: tuple[str, ...] = ()
    runbook: str = ""
    source: str = ""
    decided_at: datetime | None = None
    command: str = ""
    overview: str = ""
    in_digest: bool = False
