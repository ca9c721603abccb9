"""`holdfast replay`: the archived events of a gap once more, to the audit's rules and to nobody else's."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final

import typer
from botocore.exceptions import ClientError
from rich import box
from rich.table import Table

from holdfast.adapters.aws_errors import error_code, translated
from holdfast.errors import NotFound
from holdfast.runtime import names
from holdfast.runtime.config import HoldfastConfig
from holdfast.times import format_time
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.options import ConfigOption, ProfileOption, moment
from holdfast_cli.output import OutputFormat, OutputOption, console, error_console, plain, print_json

SETTLED_AFTER: Final = timedelta(minutes=10)
"""An event may reach the archive only minutes after its rules (EventBridge guide, archives)."""

ACTIVE: Final = frozenset({"STARTING", "RUNNING", "CANCELLING"})
MAX_ACTIVE: Final = 10
"""Replays that an account may have under way in a region (EventBridge quotas)."""

_LOOK_AGAIN: Final = 5.0
"""Seconds between two questions how far EventBridge is."""

_ARCHIVE_OUTPUT: Final = "AuditArchiveName"
_REPLAYED: Final = tuple(kind for kind in names.AuditRuleKind if kind is not names.AuditRuleKind.CANARY)

RegionOption = Annotated[str | None, typer.Option("--region", help="The archive's AWS region, if there are several.")]

app = typer.Typer(no_args_is_help=True, help="Bring back from the archive what the audit did not hear of.")


@dataclass(frozen=True, slots=True)
class Place:
    """The archive of one account and region, and the rules that a replay of it may go to."""

    account: str
    region: str
    prefix: str
    archive: str
    archive_arn: str
    bus_arn: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Archive:
    """What EventBridge says of the archive. Its counts lag behind by up to a day; None is not told."""

    state: str
    events: int | None
    size: int | None
    kept_since: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay as EventBridge has it. `reached` is the time of the last event that was replayed."""

    name: str
    state: str
    begin: datetime
    end: datetime
    reached: datetime | None = None
    reason: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is still to come."""
        return self.state not in ACTIVE


@app.command()
def start(
    begin: Annotated[str, typer.Argument(metavar="START", help="A time (RFC 3339), or so long ago: 90m, 24h, 7d.")],
    end: Annotated[str, typer.Argument(metavar="END", help="A later time, in the same forms.")],
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without this, only say what would be done.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the replay until it is over.")] = True,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Replays the archived events from START to END to the audit's rules. Mend the cause of the gap first.

    Without --yes nothing is started. A replay goes to the audit's rules alone: to Karpenter's it would drain nodes for
    warnings of long ago. What is in the ledger already changes nothing, however often it is replayed, and what comes by a
    replay tells nobody.

    Exit code 1 means that the replay failed or was cancelled.

    For example:

        holdfast replay start 2026-09-01T04:00:00Z 2026-09-01T05:30:00Z

        holdfast replay start 2026-09-01T04:00:00Z 2026-09-01T05:30:00Z --yes
    """
    now = datetime.now(UTC)
    window = moment("START", begin, now), moment("END", end, now)
    if window[0] >= window[1]:
        raise Mistake(f"START {format_time(window[0])} is not before END {format_time(window[1])}.")
    client, place = _place(config, profile, region)
    archive = archive_of(client, place)
    active = sum(not one.is_over for one in replays_of(client, place))
    warnings = warnings_of(window, archive, active, now)
    replay = None
    if yes:
        if active >= MAX_ACTIVE:
            raise Mistake(f"{active} replays are under way, and {MAX_ACTIVE} may be: wait for one, or cancel one.")
        replay = begin_replay(client, place, window, now)
        if wait:
            replay = _follow(client, replay)
    if output is OutputFormat.JSON:
        print_json(document(place, archive, window, warnings, replay))
    else:
        _print(place, archive, window, warnings, replay)
    if replay is not None and replay.is_over and replay.state != "COMPLETED":
        raise typer.Exit(ExitCode.NOT_GOOD)


@app.command("list")
def list_replays(
    *,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Lists the replays of the audit's archive; EventBridge forgets one after 90 days."""
    client, place = _place(config, profile, region)
    found = replays_of(client, place)
    if output is OutputFormat.JSON:
        print_json({"archive": place.archive, "replays": [_replay_document(one) for one in found]})
        return
    if not found:
        console().print("There are no replays.")
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("Replay", "State", "From", "To", "Reached"):
        table.add_column(title, overflow="fold")
    for one in found:
        times = (one.begin, one.end, one.reached)
        table.add_row(*map(plain, (one.name, one.state, *(format_time(at) if at else "-" for at in times))))
    console().print(table)


@app.command()
def cancel(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The replay, as `holdfast replay list` names it.")],
    *,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Stops a replay of the audit's archive. What was replayed by then stays in the ledger."""
    client, place = _place(config, profile, region)
    if name not in {one.name for one in replays_of(client, place)}:
        raise NotFound(f"There is no replay {name} of archive {place.archive}: `holdfast replay list` names them.")
    with translated(f"cancelling replay {name}", action="events:CancelReplay", on=f"replay/{name}"):
        client.cancel_replay(ReplayName=name)
    replay = describe(client, name)
    if output is OutputFormat.JSON:
        print_json(_replay_document(replay))
    else:
        console().print(plain(_sentence(replay)))


def replay_rules(prefix: str, partition: str, account: str, region: str) -> tuple[str, ...]:
    """The ARNs of the rules a replay goes to: the audit's, without the canary's, and never one of Karpenter's."""
    arn = f"arn:{partition}:events:{region}:{account}:rule"
    return tuple(f"{arn}/{names.audit_rule_name(prefix, kind)}" for kind in _REPLAYED)


def begin_replay(client: Any, place: Place, window: tuple[datetime, datetime], now: datetime) -> Replay:
    """Starts the replay.

    Raises:
        Mistake: a rule it would go to is none of the audit's; nothing was started.
    """
    begin, end = window
    if not place.rules or not all(
        rule.partition(":rule/")[2].startswith(f"{place.prefix}.audit.") for rule in place.rules
    ):
        raise Mistake(f"A replay goes to the audit's rules only, not to {', '.join(place.rules) or 'every rule'}.")
    name = f"{place.prefix}-{begin:%Y%m%dT%H%M%S}-{now:%Y%m%dT%H%M%S}"
    with translated(f"starting replay {name}", action="events:StartReplay", on=f"archive/{place.archive}"):
        client.start_replay(
            ReplayName=name,
            Description="Holdfast: to the audit's rules alone",
            EventSourceArn=place.archive_arn,
            EventStartTime=begin,
            EventEndTime=end,
            Destination={"Arn": place.bus_arn, "FilterArns": list(place.rules)},
        )
    return describe(client, name)


def describe(client: Any, name: str) -> Replay:
    """The replay as it is now."""
    with translated(f"reading replay {name}", action="events:DescribeReplay", on=f"replay/{name}"):
        return _replay(client.describe_replay(ReplayName=name))


def replays_of(client: Any, place: Place) -> tuple[Replay, ...]:
    """The replays of the archive, the latest window first."""
    found: list[Replay] = []
    asked: dict[str, Any] = {"EventSourceArn": place.archive_arn}
    while True:
        with translated("listing replays", action="events:ListReplays", on="*"):
            page = client.list_replays(**asked)
        found += map(_replay, page["Replays"])
        if not page.get("NextToken"):
            return tuple(sorted(found, key=lambda one: (one.begin, one.name), reverse=True))
        asked["NextToken"] = page["NextToken"]


def archive_of(client: Any, place: Place) -> Archive:
    """What EventBridge says of the archive."""
    on = f"archive/{place.archive}"
    with translated(f"reading archive {place.archive}", action="events:DescribeArchive", on=on):
        told = client.describe_archive(ArchiveName=place.archive)
    created_at = told["CreationTime"].astimezone(UTC)
    days = told.get("RetentionDays") or 0
    kept_since = max(created_at, datetime.now(UTC) - timedelta(days=days)) if days else created_at
    return Archive(told["State"], told.get("EventCount"), told.get("SizeBytes"), kept_since, created_at)


def warnings_of(window: tuple[datetime, datetime], archive: Archive, active: int, now: datetime) -> tuple[str, ...]:
    """What a person should know before it is started."""
    begin, end = window
    found: list[str] = []
    if now - end < SETTLED_AFTER:
        found.append(
            "END is less than ten minutes ago: events reach the archive with a delay, and some may be left out. "
            f"Wait until {format_time((end + SETTLED_AFTER).replace(microsecond=0))}."
        )
    if begin < archive.kept_since:
        found.append(f"The archive keeps nothing from before {format_time(archive.kept_since.replace(microsecond=0))}.")
    if archive.state != "ENABLED":
        found.append(f"The archive is {archive.state}, so it may lack events.")
    if active >= MAX_ACTIVE:
        found.append(f"{active} replays are under way, and {MAX_ACTIVE} may be.")
    return tuple(found)


def estimate(window: tuple[datetime, datetime], archive: Archive, now: datetime) -> int | None:
    """About how many events the window holds, if they came evenly; None when that cannot be said."""
    kept = now - archive.kept_since
    overlap = min(window[1], now) - max(window[0], archive.kept_since)
    if archive.events is None or kept <= timedelta(0):
        return None
    return round(archive.events * (max(overlap, timedelta(0)) / kept))


def document(
    place: Place,
    archive: Archive,
    window: tuple[datetime, datetime],
    warnings: Sequence[str],
    replay: Replay | None,
) -> dict[str, object]:
    """The answer for programs."""
    return {
        "archive": place.archive,
        "account": place.account,
        "region": place.region,
        "events_in_archive": archive.events,
        "bytes_in_archive": archive.size,
        "kept_since": format_time(archive.kept_since),
        "from": format_time(window[0]),
        "to": format_time(window[1]),
        "events_about": estimate(window, archive, datetime.now(UTC)),
        "rules": list(place.rules),
        "warnings": list(warnings),
        "started": replay is not None,
        "replay": None if replay is None else _replay_document(replay),
    }


def _replay_document(replay: Replay) -> dict[str, object]:
    return {
        "name": replay.name,
        "state": replay.state,
        "reason": replay.reason,
        "from": format_time(replay.begin),
        "to": format_time(replay.end),
        "reached": None if replay.reached is None else format_time(replay.reached),
    }


def _print(
    place: Place,
    archive: Archive,
    window: tuple[datetime, datetime],
    warnings: Sequence[str],
    replay: Replay | None,
) -> None:
    out = console()
    about = estimate(window, archive, datetime.now(UTC))
    events, size = ("an unknown number of" if count is None else count for count in (archive.events, archive.size))
    out.print(plain(f"Archive {place.archive} in {place.region}: {events} events, {size} bytes."))
    out.print(plain(f"From {format_time(window[0])} to {format_time(window[1])}, to these rules:"))
    for rule in place.rules:
        out.print(plain(f"  {rule.rpartition('/')[2]}"))
    said = "an unknown number of" if about is None else f"about {about}"
    out.print(plain(f"That is {said} events if they came evenly; each is billed like a custom event."))
    for warning in warnings:
        out.print(plain(warning, "yellow"))
    if replay is None:
        out.print(plain("This was a dry run: nothing was started. --yes does it."))
    else:
        out.print(plain(_sentence(replay), "" if replay.state in {*ACTIVE, "COMPLETED"} else "bold red"))


def _sentence(replay: Replay) -> str:
    reached = "" if replay.reached is None else f", it reached {format_time(replay.reached)}"
    return f"Replay {replay.name}: {replay.state}{reached}{f': {replay.reason}' if replay.reason else ''}."


def _follow(client: Any, replay: Replay) -> Replay:
    with error_console().status("EventBridge replays the events") as status:
        try:
            while not replay.is_over:
                reached = "" if replay.reached is None else f", it reached {format_time(replay.reached)}"
                status.update(f"EventBridge replays the events: {replay.state}{reached}")
                time.sleep(_LOOK_AGAIN)
                replay = describe(client, replay.name)
        except KeyboardInterrupt:
            error_console().print(
                plain(f"The replay goes on. To stop it: holdfast replay cancel {replay.name}"), soft_wrap=True
            )
            raise
    return replay


def _place(config: Any, profile: str | None, region: str | None) -> tuple[Any, Place]:
    from holdfast_cli import ledgers  # noqa: PLC0415 - the AWS SDK is for the commands that ask AWS

    loaded = ledgers.configuration(ledgers.Access(config))
    if loaded is None:
        raise Mistake("There is no holdfast.yaml here, so it is not known which archive there is: give --config FILE.")
    account, place = _home(loaded, region)
    session = ledgers.session_of(profile, place)
    caller = ledgers.account_of(session, place)
    if caller != account:
        raise Mistake(f"The archive is in account {account}, the credentials are for {caller}: use --profile.")
    stack = names.control_plane_stack_id(loaded.name, account, place)
    made: Any = session.client
    archive = _archive_name(made("cloudformation", region_name=place, config=ledgers.client_config()), stack)
    partition = str(loaded.clusters_in(account, place)[0].partition)
    arn = f"arn:{partition}:events:{place}:{account}"
    client = made("events", region_name=place, config=ledgers.client_config())
    rules = replay_rules(loaded.name, partition, account, place)
    return client, Place(
        account, place, loaded.name, archive, f"{arn}:archive/{archive}", f"{arn}:event-bus/default", rules
    )


def _archive_name(cloudformation: Any, stack: str) -> str:
    with translated(f"looking up stack {stack}", action="cloudformation:DescribeStacks", on=stack):
        try:
            (told,) = cloudformation.describe_stacks(StackName=stack)["Stacks"]
        except ClientError as error:
            if error_code(error) != "ValidationError":
                raise
            raise NotFound(
                f"There is no stack {stack}: Holdfast is not deployed there, or under another name. Give the "
                "configuration it was deployed with by --config."
            ) from error
    outputs = {output["OutputKey"]: str(output["OutputValue"]) for output in told.get("Outputs", ())}
    if _ARCHIVE_OUTPUT not in outputs:
        raise NotFound(f"Stack {stack} names no archive: its deployment is not complete.")
    return outputs[_ARCHIVE_OUTPUT]


def _home(config: HoldfastConfig, region: str | None) -> tuple[str, str]:
    found = [home for home in config.environments if region in {None, home[1]}]
    if not found:
        raise Mistake(f"No configured cluster is in region {region}: leave --region out or correct it.")
    if len(found) > 1:
        places = ", ".join(f"{account} {place}" for account, place in found)
        raise Mistake(f"There is an archive in each of {places}: give --region, or a configuration of one of them.")
    return found[0]


def _replay(told: Any) -> Replay:
    reached = told.get("EventLastReplayedTime")
    return Replay(
        told["ReplayName"],
        told["State"],
        told["EventStartTime"].astimezone(UTC),
        told["EventEndTime"].astimezone(UTC),
        None if reached is None else reached.astimezone(UTC),
        told.get("StateReason"),
    )
