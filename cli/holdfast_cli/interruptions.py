"""`holdfast interruptions`: what became of each interruption, from the ledger or from files."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from holdfast.interruption.announce import alert_of
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import Verdict
from holdfast.times import format_time, parse_time
from holdfast_cli.cases import Moment, case_document, offset_text, timeline
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.evidence import Evidence, read_evidence
from holdfast_cli.judge import Configured, Environment, Judged, inferred, judge_evidence
from holdfast_cli.output import OutputFormat, OutputOption, console, plain, print_json

app = typer.Typer(no_args_is_help=True, help="What became of each interruption, and why.")

_STYLES = {
    Verdict.HANDLED_IN_TIME: "green",
    Verdict.RECLAIMED_BEFORE_DRAIN: "bold red",
    Verdict.MISSED: "bold red",
    Verdict.HANDLED_FORCED: "yellow",
    Verdict.HANDLED_LATE: "yellow",
    Verdict.UNWARNED: "yellow",
    Verdict.GHOST: "yellow",
    Verdict.INCONCLUSIVE: "yellow",
}


@app.command("judge")
def judge_command(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Files of event bodies and observations; `-` is standard input."),
    ],
    *,
    cluster: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=ROLE_ARN",
            help="A cluster that is ours, with its Karpenter controller role. May be repeated.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Take accounts, regions and clusters from this configuration.")
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Judge as Holdfast would have at this time (RFC 3339, UTC)."),
    ] = None,
    with_timeline: Annotated[bool, typer.Option("--timeline", help="Show what happened when in each case.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Judges interruptions from files alone: no AWS, no cluster, no configuration needed.

    A file holds event bodies and observations as JSON, JSON arrays or JSON lines, in any order and mixed over files and
    instances; what `interruptions show --output json` printed is read too, and so are SQS batches and messages.
    docs/observations.md describes the format.

    Without --now the cases count as over. Without --config and --cluster, accounts, regions and clusters are taken from
    the input itself; the answer says so.

    Exit code 1 means that a part of the input could not be understood; the verdicts then rest on the rest.

    For example:

        holdfast interruptions judge case.jsonl

        holdfast interruptions judge --timeline events/*.json looks.jsonl

        aws sqs receive-message --queue-url URL --output json | holdfast interruptions judge -
    """
    evidence = _evidence(files)
    judged = judge_evidence(evidence, _environment(evidence, cluster or [], config), now=_time("--now", now))
    if output is OutputFormat.JSON:
        print_json(_judged_document(judged))
    else:
        _print_judged(judged, console(), with_timeline=with_timeline)
    if not judged.all_understood:
        raise typer.Exit(ExitCode.NOT_GOOD)


def _evidence(files: Sequence[str]) -> Evidence:
    evidence = Evidence()
    for name in files:
        if name == "-":
            read_evidence("stdin", sys.stdin.buffer.read(), evidence)
            continue
        try:
            raw = Path(name).read_bytes()
        except OSError as error:
            raise Mistake(f"{name} cannot be read: {error.strerror or type(error).__name__}.") from error
        read_evidence(name, raw, evidence)
    return evidence


def _environment(evidence: Evidence, given: Sequence[str], config: Path | None) -> Environment:
    if config is not None:
        if given:
            raise Mistake("--config and --cluster say the same thing in two ways: give one of them.")
        from stacks.config import load  # noqa: PLC0415 - YAML and the model cost a third of a second, here only

        return Configured(load(config), str(config))
    roles: dict[str, str] = {}
    for text in given:
        name, mark, role = text.partition("=")
        if not mark or not name or not role.startswith("arn:"):
            raise Mistake(
                f"--cluster {text}: must be NAME=ROLE_ARN, as in "
                "--cluster eksworkshop=arn:aws:iam::111122223333:role/KarpenterControllerRole-eksworkshop."
            )
        roles[name] = role
    return inferred(evidence, roles)


def _time(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError as error:
        raise Mistake(f"{option} {text}: is not a time; write it as in 2026-09-01T04:10:00Z.") from error


def _judged_document(judged: Judged) -> dict[str, object]:
    return {
        "cases": [case_document(record) for record in judged.cases],
        "refused": [
            {"where": item.place, "code": item.code, "reason": item.reason, "harmless": item.ignored}
            for item in judged.refusals
        ],
        "remarks": list(judged.remarks),
        "assumed": list(judged.assumed),
        "evidence": {
            "facts": judged.facts,
            "duplicates": judged.duplicates,
            "observations": judged.observations,
        },
    }


def _print_judged(judged: Judged, out: Console, *, with_timeline: bool) -> None:
    for record in judged.cases:
        print_case(record, out)
        if with_timeline:
            history = judged.history(record.case)
            print_timeline(timeline(record.case, history.facts, history.observations), out)
        out.print()
    if not judged.cases:
        out.print("No case: no event in the input is about an instance.")
        out.print()
    if judged.refusals:
        out.print("Not understood, or known to say nothing about an interruption:", style="bold")
        for item in judged.refusals:
            mark = "ignored" if item.ignored else item.code
            _line(out, f"{item.place}: {mark}: {item.reason}")
        out.print()
    for sentence in (*judged.remarks, *judged.assumed):
        out.print(plain(sentence, "dim"))
    counts = (
        (judged.facts, "fact"),
        (judged.duplicates, "duplicate"),
        (judged.observations, "observation"),
        (len(judged.cases), "case"),
    )
    said = ", ".join(f"{count} {noun}{'' if count == 1 else 's'}" for count, noun in counts)
    out.print(plain(f"Read: {said}.", "dim"))


def print_case(record: CaseRecord, out: Console) -> None:
    """Prints the verdict with its reason, and what else a person needs to know the case by."""
    case, judgement = record.case, record.judgement
    headline = plain(judgement.verdict.value, _STYLES.get(judgement.verdict, "bold"))
    if judgement.cause is not None:
        headline.append_text(plain(f" {judgement.cause.value}", "bold"))
    if not judgement.final:
        headline.append_text(plain(" (not final: another look is planned)", "yellow"))
    out.print(headline)
    _line(out, case.key)
    what = [part for part in (case.instance_type, case.zone, case.capacity_type) if part]
    owners = (("cluster", case.cluster), ("NodePool", case.nodepool), ("NodeClaim", case.nodeclaim))
    where = [f"{name} {value or 'unknown'}" for name, value in owners] + what
    _line(out, ", ".join(where), "dim")
    _line(out, judgement.reason)
    if judgement.notes:
        _line(out, f"Notes: {', '.join(note.value.replace('_', ' ') for note in judgement.notes)}.")
    alert = alert_of(record, corrects=False)
    _line(out, f"Alert: {f'{alert.severity}, {alert.title}' if alert is not None else 'none'}.", "dim")


def _line(out: Console, text: str, style: str = "") -> None:
    out.print(Padding(plain(text, style), (0, 0, 0, 2), expand=False))


def print_timeline(moments: Sequence[Moment], out: Console) -> None:
    """Prints what happened when, with offsets from the warning."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for moment in moments:
        table.add_row(
            plain(offset_text(moment.offset), "bold"), plain(format_time(moment.at), "dim"), plain(moment.what)
        )
        for detail in moment.details:
            table.add_row("", "", plain(detail, "dim"))
    out.print(Padding(table, (0, 0, 0, 2), expand=False))
