"""Cases on the terminal: verdict, reason, and what happened when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from holdfast.interruption.announce import alert_of, ghost_sentence
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restored
from holdfast.interruption.verdict import Verdict
from holdfast.times import format_time
from holdfast_cli.cases import Moment, offset_text, timeline
from holdfast_cli.judge import Judged
from holdfast_cli.output import plain

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

_SHOWN = {Restored.NO_REPLACEMENT: "bold red", Restored.RESTORED_LATE: "yellow"}
"""What a list tells of the workloads."""

_INSTANCE_ID = 19
"""Characters of an EC2 instance id."""


def print_cases(records: Sequence[CaseRecord], out: Console) -> None:
    """Prints one row for each case, in the order given."""
    table = Table(box=box.SIMPLE, pad_edge=False)
    # What is copied from here stays in one piece at 80 columns: times, verdicts and instance ids.
    table.add_column("Happened", no_wrap=True)
    table.add_column("Verdict and cause", overflow="fold", min_width=len(Verdict.RECLAIMED_BEFORE_DRAIN))
    table.add_column("Instance and NodePool", overflow="fold", min_width=_INSTANCE_ID)
    for record in records:
        case, judgement = record.case, record.judgement
        verdict = plain(judgement.verdict.value, _STYLES.get(judgement.verdict, ""))
        if judgement.cause is not None:
            verdict.append(f"\n{judgement.cause.value}")
        if not judgement.final:
            verdict.append("\nnot final", style="yellow")
        if case.restoration is not None and case.restoration.state in _SHOWN:
            verdict.append(f"\n{case.restoration.state.value}", style=_SHOWN[case.restoration.state])
        kind = " ".join(part for part in (case.instance_type, case.zone) if part) or "type unknown"
        table.add_row(
            plain(to_the_second(record.happened_at) if record.happened_at is not None else "unknown"),
            verdict,
            plain(f"{case.instance_id}\n{case.cluster or 'unknown'} {case.nodepool or 'unknown'}\n{kind}"),
        )
    out.print(table)


def print_judged(judged: Judged, out: Console, *, with_timeline: bool) -> None:
    """Prints every case and what else became of the input, with what was assumed."""
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
    if case.ghost:
        _line(out, ghost_sentence(case))
    if judgement.notes:
        _line(out, f"Notes: {', '.join(note.value.replace('_', ' ') for note in judgement.notes)}.")
    if record.degraded is not None:
        _line(out, f"Judged in degraded mode, in which most looks leave out the pods: {record.degraded}.", "yellow")
    if case.restoration is not None:
        cause = f" {case.restoration.cause.value}" if case.restoration.cause is not None else ""
        _line(out, f"Workloads: {case.restoration.state.value}{cause}. {case.restoration.reason}")
        if case.restoration.uncovered:
            _line(out, f"Not covered: {'; '.join(case.restoration.uncovered)}.")
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
            plain(offset_text(moment.offset), "bold"), plain(to_the_second(moment.at), "dim"), plain(moment.what)
        )
        for detail in moment.details:
            table.add_row("", "", plain(detail, "dim"))
    out.print(Padding(table, (0, 0, 0, 2), expand=False))


def to_the_second(moment: datetime) -> str:
    """The time as a person wants it."""
    return format_time(moment.replace(microsecond=0))
