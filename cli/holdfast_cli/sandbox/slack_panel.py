"""A Slack message in the terminal."""

import html
import re
from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.emoji import Emoji
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

_BOLD = re.compile(r"\*([^*]+)\*")


def slack_panel(payload: Mapping[str, Any]) -> Panel:
    """The message as a panel: its header as the title, bold words bold, fields as a table."""
    title = ""
    parts: list[RenderableType] = []
    for block in payload.get("blocks", ()):
        match block.get("type"):
            case "header":
                title = Emoji.replace(block["text"]["text"])
            case "section" if "fields" in block:
                grid = Table.grid(padding=(0, 2))
                for field in block["fields"]:
                    name, _, value = field["text"].partition("\n")
                    grid.add_row(Text(name.strip("*"), style="dim"), Text(html.unescape(value)))
                parts.append(grid)
            case "section":
                parts.append(_words(block["text"]["text"]))
            case "context":
                parts.append(Text(html.unescape(block["elements"][0]["text"]), style="dim"))
    return Panel(Group(*parts), title=Text(title), title_align="left", subtitle="Slack", subtitle_align="right")


def _words(text: str) -> Text:
    """Slack's marks as the terminal's: `*bold*`, and emoji by name."""
    words = Text()
    for position, part in enumerate(_BOLD.split(text)):
        words.append(html.unescape(Emoji.replace(part)), style="bold" if position % 2 else "")
    return words
