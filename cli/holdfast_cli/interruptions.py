"""`holdfast interruptions`: what became of each interruption, from the ledger or from files."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from holdfast.adapters.documents import dump
from holdfast.errors import NotFound
from holdfast.interruption.case import Case, Scope, fold
from holdfast.interruption.event import Disposition, Home
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import Verdict
from holdfast.ports import History, InstanceKey
from holdfast.times import format_time, parse_time
from holdfast_cli.anonymize import anonymous
from holdfast_cli.cases import case_document, timeline
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.evidence import Evidence, read_evidence
from holdfast_cli.export import Export, lines
from holdfast_cli.judge import Configured, Environment, Judged, environment_of, judge_evidence
from holdfast_cli.options import (
    ClusterOption,
    ConfigOption,
    ProfileOption,
    RegionOption,
    SinceOption,
    TableOption,
    UntilOption,
    bounds,
    moment,
)
from holdfast_cli.output import OutputFormat, OutputOption, console, error_console, plain, print_json
from holdfast_cli.rejections import print_rejections, rejection_document
from holdfast_cli.stats import stats
from holdfast_cli.story import print_case, print_cases, print_judged, print_timeline, to_the_second
from stacks.config import load

if TYPE_CHECKING:
    from holdfast_cli.ledgers import Access, Found, LedgerOf

app = typer.Typer(no_args_is_help=True, help="What became of each interruption, and why.")

_ALL = 1_000_000
"""More cases than a ledger of 400 days holds."""


@app.command("list")
def list_command(
    *,
    cluster: ClusterOption = None,
    verdict: Annotated[
        list[Verdict] | None,
        typer.Option(case_sensitive=False, metavar="VERDICT", help="Only this verdict. May be repeated."),
    ] = None,
    since: SinceOption = "7d",
    until: UntilOption = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="At most so many cases.")] = 50,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    table: TableOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Lists the interruptions of the configured clusters, the newest first.

    Cases of which no cluster is known are listed too. The ledgers are found by the stacks that the configuration names,
    in the account of the credentials; clusters in other accounts are named on standard error.

    For example:

        holdfast interruptions list --since 24h

        holdfast interruptions list --cluster eksworkshop --verdict missed --verdict reclaimed_before_drain

        holdfast interruptions list --since 2026-09-01 --until 2026-09-08 --output json
    """
    from holdfast_cli import ledgers  # noqa: PLC0415 - the AWS SDK is for the commands that ask AWS

    now = datetime.now(UTC)
    begin, end = bounds(since, until, now)
    found = ledgers.all_ledgers(ledgers.Access(config, profile, region, table), clusters=cluster or ())
    wanted = frozenset(verdict or Verdict)
    records, more = _records(found, cluster or (), wanted, begin, end, limit)
    _say_left_out(found)
    if output is OutputFormat.JSON:
        print_json(
            {
                "since": format_time(begin),
                "until": format_time(end),
                "cases": [case_document(record) for record in records],
                "complete": not more,
                "not_read": list(found.left_out),
            }
        )
        return
    out = console()
    if records:
        print_cases(records, out)
    said = f"{len(records)} case{'' if len(records) == 1 else 's'}" if records else "No case"
    out.print(plain(f"{said} from {to_the_second(begin)} to {to_the_second(end)}.", "dim"))
    if more:
        out.print(plain("There are older ones: raise --limit, or narrow the time.", "yellow"))


def _say_left_out(found: Found) -> None:
    for place in found.left_out:
        error_console().print(plain(f"Not read: {place}.", "yellow"))


def _records(
    found: Found, clusters: Sequence[str], verdicts: frozenset[Verdict], begin: datetime, end: datetime, limit: int
) -> tuple[list[CaseRecord], bool]:
    """The newest cases of all ledgers, and whether there are older ones."""
    everything = verdicts == frozenset(Verdict)
    records: dict[str, CaseRecord] = {}
    for ledger in found.ledgers:
        reports = ledger.reports()
        # Without a cluster given, those belong in the list of which none is known.
        for name in (*ledger.clusters, *(() if clusters else (None,))):
            # A verdict is no key of the ledger: the cases of the time are read and the others dropped.
            most = limit + 1 if everything else _ALL
            for record in reports.records(name, since=begin, until=end, limit=most):
                if record.judgement.verdict in verdicts:
                    records[record.case.key] = record
    ordered = sorted(records.values(), key=lambda record: (record.happened_at or begin, record.case.key), reverse=True)
    return ordered[:limit], len(ordered) > limit


app.command("stats")(stats)


@app.command()
def show(
    case: Annotated[
        str,
        typer.Argument(metavar="CASE", help="A case's key, ACCOUNT/REGION/INSTANCE/CYCLE, or an instance id."),
    ],
    *,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    table: TableOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Shows one case whole: the verdict with its reason, every event, every look, and what is missing.

    With --output json it is a file for a bug report: `holdfast interruptions judge` reads it and comes to the same verdict.

    For example:

        holdfast interruptions show i-0a11111111111111a

        holdfast interruptions show 111122223333/ap-southeast-1/i-0a11111111111111a/0 --output json > case.json
    """
    from holdfast_cli import ledgers  # noqa: PLC0415 - as above

    wanted = _wanted(case)
    history = _history(wanted, ledgers.Access(config, profile, region, table))
    record, others = _pick(history, wanted)
    if output is OutputFormat.JSON:
        print_json(
            {
                "case": case_document(record) if record is not None else None,
                "other_cases": [other.case.key for other in others],
                "next_look": _time_text(history.watch.due_at if history.watch is not None else None),
                "facts": [json.loads(dump(fact)) for fact in history.facts],
                "observations": [json.loads(dump(look)) for look in history.observations],
            }
        )
        return
    out = console()
    if record is None:
        out.print(
            plain(f"{history.key.instance_id}: no verdict. These are the events about it; none of them opened a case.")
        )
    else:
        print_case(record, out)
        out.print()
    told = record.case if record is not None else _unjudged(history)
    print_timeline(timeline(told, history.facts, history.observations), out)
    if record is not None and record.judgement.missing:
        out.print(plain(f"Not known: {'; '.join(record.judgement.missing)}.", "yellow"))
    if history.watch is not None and history.watch.due_at is not None:
        out.print(plain(f"The next look is planned for {format_time(history.watch.due_at)}.", "dim"))
    if others:
        out.print(plain(f"Other runs of this instance: {', '.join(other.case.key for other in others)}.", "dim"))


@app.command()
def export(
    case: Annotated[
        str,
        typer.Argument(metavar="CASE", help="A case's key, ACCOUNT/REGION/INSTANCE/CYCLE, or an instance id."),
    ],
    *,
    output_file: Annotated[
        Path | None, typer.Option("--output-file", help="Write to this file instead of standard output.")
    ] = None,
    anonymize: Annotated[
        bool,
        typer.Option(
            "--anonymize",
            help="Replace accounts, instances and names, the same ones in the same way; leave out free text.",
        ),
    ] = False,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    table: TableOption = None,
) -> None:
    """Writes all that is known of a case as JSON lines, for a bug report; `interruptions judge` reads them back.

    All cases of the instance are in it: the clusters that count as yours, the stored verdicts, every event and every look.
    `holdfast interruptions judge` comes to the same verdict and says so where it does not. Region, zone, instance type and
    times stay in an anonymized export.

    For example:

        holdfast interruptions export i-0a11111111111111a --output-file case.jsonl

        holdfast interruptions export i-0a11111111111111a --anonymize | holdfast interruptions judge -
    """
    from holdfast_cli import ledgers  # noqa: PLC0415 - as above

    wanted = _wanted(case)
    access = ledgers.Access(config, profile, region, table)
    history = _history(wanted, access)
    chosen, others = _pick(history, wanted)
    records = (*(() if chosen is None else (chosen,)), *others)
    told = Export(ledgers.scope(access, history.key), records, history.facts, history.observations)
    written = "".join(f"{line}\n" for line in lines(anonymous(told) if anonymize else told))
    for remark in _read_back(written):
        error_console().print(plain(remark, "yellow"))
    if output_file is None:
        sys.stdout.write(written)
        return
    try:
        output_file.write_text(written, encoding="utf-8")
    except OSError as error:
        raise Mistake(f"{output_file} cannot be written: {error.strerror or type(error).__name__}.") from error


def _read_back(written: str) -> Sequence[str]:
    """What a reader of the export will be told, such as that the evidence no longer gives the stored verdict."""
    evidence = Evidence()
    read_evidence("export", written.encode(), evidence)
    return judge_evidence(evidence, environment_of(evidence, {})).remarks


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What CASE names: an instance, and as far as it was given where it is and which of its runs."""

    instance_id: str
    account: str | None = None
    region: str | None = None
    cycle: str | None = None


def _wanted(case: str) -> _Wanted:
    parts = case.split("/")
    if len(parts) == 1 and case.startswith("i-"):
        return _Wanted(case)
    if len(parts) in {3, 4} and all(parts) and parts[2].startswith("i-"):
        return _Wanted(parts[2], parts[0], parts[1], parts[3] if len(parts) == 4 else None)
    raise Mistake(
        f"{case}: is no case. Give an instance id, as in i-0a11111111111111a, or a key that `holdfast interruptions list "
        "--output json` prints, as in 111122223333/ap-southeast-1/i-0a11111111111111a/0."
    )


def _history(wanted: _Wanted, access: Access) -> History:
    from holdfast_cli import ledgers  # noqa: PLC0415 - as above

    if wanted.account is not None and wanted.region is not None:
        places: Sequence[LedgerOf] = (ledgers.one_ledger(access, wanted.account, wanted.region),)
    else:
        places = ledgers.all_ledgers(access).ledgers
    for place in places:
        history = place.ledger().history(InstanceKey(place.account, place.region, wanted.instance_id))
        if history.facts:
            return history
    looked = "; ".join(place.where for place in places)
    raise NotFound(f"{wanted.instance_id}: no event about it is in the ledger. Looked in: {looked}.")


def _pick(history: History, wanted: _Wanted) -> tuple[CaseRecord | None, tuple[CaseRecord, ...]]:
    """The case that was asked for, by default the instance's latest, and the other ones of the instance."""
    records = sorted(history.records, key=lambda record: record.case.cycle)
    if wanted.cycle is not None:
        chosen = next((record for record in records if record.case.cycle == wanted.cycle), None)
        if chosen is None:
            known = ", ".join(record.case.cycle for record in records) or "none"
            raise NotFound(f"{wanted.instance_id} has no case {wanted.cycle}. It has: {known}.")
    else:
        chosen = records[-1] if records else None
    return chosen, tuple(record for record in records if record is not chosen)


def _time_text(moment: datetime | None) -> str | None:
    return format_time(moment) if moment is not None else None


def _unjudged(history: History) -> Case:
    """The case that the events amount to, for its story alone: nobody judged it."""
    key = history.key
    return fold(history.facts, history.observations, Scope(Home(key.account, key.region), {}))[-1]


@app.command()
def rejected(
    *,
    since: SinceOption = "24h",
    ignored: Annotated[
        bool, typer.Option("--ignored", help="Also those that are known to say nothing about an interruption.")
    ] = False,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    table: TableOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Lists the message bodies that became no fact, with what they were and why, the newest first.

    For example:

        holdfast interruptions rejected --since 7d

        holdfast interruptions rejected --ignored --output json
    """
    from holdfast_cli import ledgers  # noqa: PLC0415 - as above

    now = datetime.now(UTC)
    begin = moment("--since", since, now)
    found = ledgers.all_ledgers(ledgers.Access(config, profile, region, table))
    stored = [
        item
        for ledger in found.ledgers
        for days in range((now.date() - begin.date()).days + 1)
        for item in ledger.reports().rejections(now - timedelta(days=days))
        if item.last_at >= begin and (ignored or item.rejection.disposition is Disposition.POISON)
    ]
    stored.sort(key=lambda item: item.last_at, reverse=True)
    _say_left_out(found)
    if output is OutputFormat.JSON:
        print_json({"rejected": [rejection_document(item) for item in stored], "not_read": list(found.left_out)})
        return
    out = console()
    print_rejections(stored, out)
    noun = "body" if len(stored) == 1 else "bodies"
    out.print(plain(f"{len(stored) or 'No'} {noun} since {to_the_second(begin)}.", "dim"))


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
        print_judged(judged, console(), with_timeline=with_timeline)
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
    return environment_of(evidence, roles)


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
