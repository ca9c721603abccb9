"""What commands print: tables for people, JSON for programs, and nothing that a terminal would obey."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text


class OutputFormat(StrEnum):
    """The forms an answer can have."""

    TABLE = "table"
    JSON = "json"


OutputOption = Annotated[
    OutputFormat,
    typer.Option("--output", "-o", help="`table` for people, `json` for programs (its keys are in docs/cli.md)."),
]


def console() -> Console:
    """Standard output: as wide as the terminal, 80 columns where there is none."""
    return Console(highlight=False)


def error_console() -> Console:
    """Standard error, for messages that are no part of the answer."""
    return Console(stderr=True, highlight=False)


def print_json(document: Any) -> None:
    """Writes one JSON document, its keys in the order given."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def printable(text: str) -> str:
    """`text` without the control characters by which a foreign text could steer the terminal."""
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)


def plain(text: object, style: str = "") -> Text:
    """Text that is shown as it is: no markup, no control characters."""
    return Text(printable(str(text)), style=style)
