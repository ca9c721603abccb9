"""`holdfast interruptions stats`: how well interruptions were handled over some time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from holdfast.interruption.slo import Objective, Owner, Result, Statistics, Tally, Unit, summarize
from holdfast.times import format_time
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.options import (
    ClusterOption,
    ConfigOption,
    ProfileOption,
    RegionOption,
    SinceOption,
    TableOption,
    UntilOption,
    bounds,
)
from holdfast_cli.output import OutputFormat, OutputOption, console, error_console, plain, print_json
from holdfast_cli.plots import bar, grouped, sparkline
from holdfast_cli.story import to_the_second

_LONGEST: Final = timedelta(days=3650)
"""No ledger keeps cases for longer."""

_SHOWN: Final = 10
"""Rows of a breakdown on the terminal; the JSON has all."""

_BAR: Final = 20
_SHORT_BAR: Final = 12
"""Beside a breakdown's figures, where names of zones have to fit into 80 columns too."""

_LINE: Final = 56

_RESULTS: Final = {Result.MET: "met", Result.NOT_MET: "NOT MET", Result.UNKNOWN: "unknown"}
_STYLES: Final = {Result.MET: "green", Result.NOT_MET: "bold red", Result.UNKNOWN: "yellow"}
_OWNERS: Final = {Owner.KARPENTER: "Karpenter", Owner.AUDIT: "The audit itself"}


@dataclass(frozen=True, slots=True)
class ClusterStatistics:
    """The statistics of one cluster; `cluster` None stands for the cases of an account and region with no known one."""

    cluster: str | None
    account: str
    region: str
    statistics: Statistics


def stats(
    *,
    cluster: ClusterOption = None,
    since: SinceOption = "28d",
    until: UntilOption = None,
    fail: Annotated[bool, typer.Option("--fail", help="Exit code 1 when an objective is not met.")] = False,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    table: TableOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Tells how well interruptions were handled: objectives with their error budgets, causes, pools, types, zones, days.

    Each cluster is told by itself; cases of which no cluster is known are told last. An objective of which nothing was
    measured is unknown. Percentiles are by nearest rank, so each is the time of one case. What happened later than the
    deadline or never counts as beyond the target; what nobody saw is not counted and shown as unseen.
    docs/interruptions.md says what each objective measures.

    The exit code is 0 whatever the figures say; with --fail it is 1 when an objective of a cluster is not met. An unknown
    one does not fail.

    For example:

        holdfast interruptions stats

        holdfast interruptions stats --cluster eksworkshop --since 7d

        holdfast interruptions stats --since 2026-08-01 --until 2026-09-01 --fail --output json
    """
    from holdfast_cli import ledgers  # noqa: PLC0415 - the AWS SDK is for the commands that ask AWS

    now = datetime.now(UTC)
    begin, end = bounds(since, until, now)
    if end - begin > _LONGEST:
        raise Mistake(
            f"--since {since}: is more than {_LONGEST.days} days before the end; no ledger keeps cases so long."
        )
    found = ledgers.all_ledgers(ledgers.Access(config, profile, region, table), clusters=cluster or ())
    told = [
        ClusterStatistics(
            name,
            ledger.account,
            ledger.region,
            summarize(ledger.reports().each_record(name, since=begin, until=end), since=begin, until=end, now=now),
        )
        for ledger in found.ledgers
        # Without a cluster given, those belong to the answer of which none is known.
        for name in (*ledger.clusters, *(() if cluster else (None,)))
    ]
    for place in found.left_out:
        error_console().print(plain(f"Not read: {place}.", "yellow"))
    if output is OutputFormat.JSON:
        print_json(
            {
                "since": format_time(begin),
                "until": format_time(end),
                "clusters": [statistics_document(item) for item in told],
                "not_read": list(found.left_out),
            }
        )
    else:
        out = console()
        for item in told:
            if item.cluster is not None or item.statistics.cases:
                print_statistics(item, out)
    if fail and any(item.statistics.missed_objectives for item in told):
        raise typer.Exit(ExitCode.NOT_GOOD)


def statistics_document(item: ClusterStatistics) -> dict[str, Any]:
    """One cluster's statistics under the keys that docs/cli.md lists."""
    statistics = item.statistics
    return {
        "cluster": item.cluster,
        "account": item.account,
        "region": item.region,
        "cases": statistics.cases,
        "open": statistics.open,
        "interruptions": statistics.interruptions,
        "objectives": [_objective_document(objective) for objective in statistics.objectives],
        "verdicts": [
            {
                "verdict": count.verdict.value,
                "cause": count.cause.value if count.cause is not None else None,
                "cases": count.cases,
            }
            for count in statistics.verdicts
        ],
        "nodepools": _breakdown_document(statistics, statistics.nodepools),
        "instance_types": _breakdown_document(statistics, statistics.instance_types),
        "zones": _breakdown_document(statistics, statistics.zones),
        "days": [{"day": day.isoformat(), **_tally_document(tally)} for day, tally in statistics.days],
    }


def _objective_document(objective: Objective) -> dict[str, Any]:
    target = objective.target
    return {
        "name": target.name,
        "owner": target.owner.value,
        "what": target.what,
        "unit": target.unit.value,
        "target": target.value,
        "at_least": target.at_least,
        "measured": objective.measured,
        "result": objective.result.value,
        "sample": objective.sample,
        "unseen": objective.unseen,
        "beyond": objective.beyond,
        "allowed": objective.allowed,
        "budget_left": objective.budget_left,
    }


def _breakdown_document(statistics: Statistics, rows: Sequence[tuple[str | None, Tally]]) -> list[dict[str, Any]]:
    return [{"name": name, **_tally_document(tally), "per_week": statistics.per_week(tally)} for name, tally in rows]


def _tally_document(tally: Tally) -> dict[str, Any]:
    return {
        "interruptions": tally.interruptions,
        "counted": tally.counted,
        "handled_in_time": tally.handled_in_time,
        "handled_share": tally.handled_share,
        "missed": tally.missed,
        "inconclusive": tally.inconclusive,
    }


def print_statistics(item: ClusterStatistics, out: Console) -> None:
    """Prints one cluster's statistics: objectives, verdicts, breakdowns, days."""
    statistics = item.statistics
    out.print(plain(f"{item.cluster or 'No known cluster'} (account {item.account}, {item.region})", "bold"))
    _line(out, f"{to_the_second(statistics.since)} to {to_the_second(statistics.until)}", "dim")
    if not statistics.cases:
        _line(out, "No case was recorded in this time: every objective is unknown.", "yellow")
        out.print()
        return
    noun = "interruption" if statistics.interruptions == 1 else "interruptions"
    still = f", {statistics.open} of them not decided yet" if statistics.open else ""
    _line(out, f"{statistics.interruptions} {noun} in {_cases(statistics.cases)}{still}")
    _print_objectives(statistics, out)
    _print_verdicts(statistics, out)
    for title, rows in (
        ("NodePool", statistics.nodepools),
        ("Instance type", statistics.instance_types),
        ("Zone", statistics.zones),
    ):
        _print_breakdown(title, rows, statistics, out)
    _print_days(statistics.days, out)
    out.print()


def _cases(count: int) -> str:
    return f"{count} case{'' if count == 1 else 's'}"


def _print_objectives(statistics: Statistics, out: Console) -> None:
    by_owner: Mapping[Owner, list[Objective]] = defaultdict(list)
    for objective in statistics.objectives:
        by_owner[objective.target.owner].append(objective)
    for owner, objectives in by_owner.items():
        table = Table(box=box.SIMPLE, pad_edge=False)
        table.add_column(_OWNERS[owner], overflow="fold", min_width=24)
        for heading in ("Target", "Measured", "Cases", "Budget left"):
            table.add_column(heading, justify="right", no_wrap=heading != "Budget left")
        table.add_column("Result", no_wrap=True)
        for objective in objectives:
            unseen = f" ({objective.unseen} unseen)" if objective.unseen else ""
            table.add_row(
                plain(f"{objective.target.what}{unseen}"),
                plain(target_text(objective)),
                plain(measured_text(objective)),
                plain(objective.sample),
                plain(budget_text(objective)),
                plain(_RESULTS[objective.result], _STYLES[objective.result]),
            )
        out.print(table)


def target_text(objective: Objective) -> str:
    """The target as a person reads it: `≤ 15 s`, `≥ 99 %`."""
    target = objective.target
    if target.unit is Unit.CASES:
        return f"≤ {objective.allowed if objective.allowed is not None else target.value:g}"
    return f"{'≥' if target.at_least else '≤'} {target.value:g} {target.unit.value}"


def measured_text(objective: Objective) -> str:
    """What was measured, rounded to the side that does not flatter: 98.96 % is not shown as 99 %."""
    if objective.result is Result.UNKNOWN:
        return "unknown"
    if objective.measured is None:
        return "never"
    if objective.target.unit is Unit.CASES:
        return f"{objective.measured:g}"
    # The product of a float and ten may be off by the last bit; that is no reason to round up.
    tenths = round(objective.measured * 10, 6)
    rounded = (math.floor(tenths) if objective.target.at_least else math.ceil(tenths)) / 10
    return f"{rounded:g} {objective.target.unit.value}"


def budget_text(objective: Objective) -> str:
    """What is left of the error budget, or how many times it was used when nothing is left."""
    if objective.budget_left is None or objective.allowed is None:
        return "unknown"
    if objective.budget_left >= 0:
        return f"{math.floor(round(objective.budget_left * 100, 6))} %"
    return f"used {math.ceil(round(objective.beyond / objective.allowed * 10, 6)) / 10:g}x"


def _print_verdicts(statistics: Statistics, out: Console) -> None:
    if not statistics.verdicts:
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("Verdict and cause", overflow="fold")
    table.add_column("Cases", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max(count.cases for count in statistics.verdicts)
    for count in statistics.verdicts:
        cause = f" {count.cause.value}" if count.cause is not None else ""
        table.add_row(plain(f"{count.verdict.value}{cause}"), plain(count.cases), plain(_bar(count.cases, most, out)))
    out.print(table)


def _print_breakdown(
    title: str, rows: Sequence[tuple[str | None, Tally]], statistics: Statistics, out: Console
) -> None:
    if not rows:
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column(title, overflow="fold")
    for heading in ("Interruptions", "A week", "In time", "Missed"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = max(tally.interruptions for _, tally in rows)
    for name, tally in rows[:_SHOWN]:
        table.add_row(
            plain(name or "unknown"),
            plain(tally.interruptions),
            plain(_rate_text(statistics.per_week(tally))),
            plain(_share_text(tally)),
            plain(tally.missed),
            plain(_bar(tally.interruptions, most, out, _SHORT_BAR)),
        )
    out.print(table)
    if len(rows) > _SHOWN:
        _line(out, f"{len(rows) - _SHOWN} more with fewer interruptions; --output json has all.", "dim")


def _rate_text(per_week: float | None) -> str:
    """Rounded up, so that a rate that is there is not shown as nothing."""
    return "unknown" if per_week is None else f"{math.ceil(round(per_week * 10, 6)) / 10:g}"


def _share_text(tally: Tally) -> str:
    return "unknown" if tally.handled_share is None else f"{math.floor(round(tally.handled_share * 100, 6))} %"


def _bar(value: float, most: float, out: Console, width: int = _BAR) -> str:
    return bar(value, most, width, ascii_only=out.options.ascii_only)


def _print_days(days: Sequence[tuple[date, Tally]], out: Console) -> None:
    groups = grouped(days, _LINE)
    counts = [sum(tally.interruptions for _, tally in group) for group in groups]
    if not any(counts):
        return
    size = len(groups[0])
    ascii_only = out.options.ascii_only
    heading = "Interruptions per day" if size == 1 else f"Interruptions per {size} days"
    _line(out, f"{heading} (UTC); the highest stands for {max(counts)}. Below: `!` not all handled in time")
    _line(out, f"|{sparkline(counts, ascii_only=ascii_only)}|")
    _line(out, f"|{''.join(_trouble([tally for _, tally in group]) for group in groups)}|")
    _line(out, f"{days[0][0].isoformat()} to {days[-1][0].isoformat()}", "dim")


def _trouble(tallies: Sequence[Tally]) -> str:
    return "!" if any(tally.handled_in_time < tally.counted for tally in tallies) else " "


def _line(out: Console, text: str, style: str = "") -> None:
    out.print(Padding(plain(text, style), (0, 0, 0, 2), expand=False))
