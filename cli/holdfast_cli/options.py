"""Options that several commands have in common, and what they mean."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from holdfast.errors import HoldfastError
from holdfast.times import format_time, parse_time
from holdfast_cli.config import DEFAULT_FILE
from holdfast_cli.errors import Mistake
from stacks.config import load


def configured_clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """The names of the configured clusters that begin with `incomplete`, for the shell's completion."""
    try:
        config = load(ctx.params.get("config") or DEFAULT_FILE)
    except HoldfastError:
        # A shell shows no errors while somebody types; the command itself says what is wrong with the file.
        return []
    return [cluster.name for cluster in config.clusters if cluster.name.startswith(incomplete)]


ClusterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster",
        metavar="NAME",
        autocompletion=configured_clusters,
        help="Only this cluster. May be repeated.",
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", help="The configuration; without it holdfast.yaml, if there is one.")
]
ProfileOption = Annotated[str | None, typer.Option("--profile", help="The profile of the AWS settings to use.")]
RegionOption = Annotated[str | None, typer.Option("--region", help="Only this AWS region.")]
TableOption = Annotated[
    str | None,
    typer.Option("--table", envvar="HOLDFAST_TABLE", help="The ledger's table, instead of the one the stack names."),
]
SinceOption = Annotated[
    str, typer.Option(metavar="WHEN", help="Not before this: a time (RFC 3339), or so long ago: 90m, 24h, 7d.")
]
UntilOption = Annotated[str | None, typer.Option(metavar="WHEN", help="Not after this; without it until now.")]

_AGO = re.compile(r"([0-9]{1,6})([smhd])")
_UNITS = {
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
}


def moment(option: str, text: str, now: datetime) -> datetime:
    """The time that an option means: itself, or so long before `now`.

    Raises:
        Mistake: `text` is neither.
    """
    ago = _AGO.fullmatch(text.strip())
    try:
        return now - int(ago[1]) * _UNITS[ago[2]] if ago is not None else parse_time(text)
    except (ValueError, OverflowError) as error:
        raise Mistake(
            f"{option} {text}: must be a time, as in 2026-09-01T04:10:00Z, or so long ago: 90m, 24h, 7d."
        ) from error


def bounds(since: str, until: str | None, now: datetime) -> tuple[datetime, datetime]:
    """The times that `--since` and `--until` mean.

    Raises:
        Mistake: one of them is no time, or nothing can lie between them.
    """
    begin = moment("--since", since, now)
    end = now if until is None else moment("--until", until, now)
    if begin > end:
        raise Mistake(f"--since {format_time(begin)} is after --until {format_time(end)}: no case can be in between.")
    return begin, end
