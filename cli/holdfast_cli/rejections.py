"""Message bodies that became no fact, as JSON and on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding

from holdfast.times import format_time
from holdfast_cli.output import plain

if TYPE_CHECKING:
    from holdfast.adapters.reports import StoredRejection

_SHOWN = 200


def rejection_document(item: StoredRejection) -> dict[str, Any]:
    """The rejection under the keys that docs/cli.md lists."""
    rejection = item.rejection
    return {
        "first_at": format_time(item.first_at),
        "last_at": format_time(item.last_at),
        "count": item.count,
        "code": rejection.code,
        "reason": rejection.reason,
        "harmless": rejection.disposition.value == "ignored",
        "source": rejection.source,
        "detail_type": rejection.detail_type,
        "first_message_id": item.first_message_id,
        "sha256": rejection.digest,
        "body": rejection.body,
    }


def print_rejections(items: Sequence[StoredRejection], out: Console) -> None:
    """Prints each rejection with the beginning of its body."""
    for item in items:
        times = "" if item.count == 1 else f", {item.count} times until {format_time(item.last_at)}"
        out.print(plain(f"{item.rejection.code}  {format_time(item.first_at)}{times}", "bold"))
        body = item.rejection.body
        shown = body if len(body) <= _SHOWN else f"{body[:_SHOWN]}…"
        for text, style in ((item.rejection.reason, ""), (shown.replace("\n", " ") or "(empty)", "dim")):
            out.print(Padding(plain(text, style), (0, 0, 0, 2), expand=False))
