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

_MARKED = re.compile(r"(\*[^*]+\*|<[^|>]+\|[^>]+>)")
_LINK = re.compile(r"<([^|>]+)\|([^>]+)>")


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
                parts.append(_words(block["elements"][0]["text"], "dim"))
    return Panel(Group(*parts), title=Text(title), title_align="left", subtitle="Slack", subtitle_align="right")


def _words(text: str, style: str = "") -> Text:
    """Slack's marks as the terminal's: `*bold*`, `<https://…|links>`, and emoji by name."""
    words = Text(style=style)
    for part in _MARKED.split(text):
        link = _LINK.fullmatch(part)
        if link is not None:
            words.append(html.unescape(link[2]), style=f"link {html.unescape(link[1])}")
        elif len(part) > 1 and part.startswith("*") and part.endswith("*"):
            words.append(html.unescape(part[1:-1]), style="bold")
        else:
            words.append(html.unescape(Emoji.replace(part)))
    return words
