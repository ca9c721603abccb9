"""`holdfast doctor`: is everything that Holdfast needs there and at work, and if not, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich import box
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from holdfast.runtime.config import Cluster, HoldfastConfig
from holdfast.times import format_time
from holdfast_cli.doctor_checks import Check, State, account, counts, is_good, rbac, same_server
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.options import ClusterOption, ConfigOption, ProfileOption, RegionOption
from holdfast_cli.output import OutputFormat, OutputOption, console, error_console, plain, print_json

if TYPE_CHECKING:
    from holdfast_cli.doctor_kubernetes import Context
    from holdfast_cli.doctor_look import Environment, Probe

_STYLES: Final = {
    State.OK: "green",
    State.WARNING: "yellow",
    State.BROKEN: "bold red",
    State.UNKNOWN: "bold yellow",
}


def doctor(
    *,
    cluster: ClusterOption = None,
    kube_context: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Look also whether the RBAC is applied, by this context of your kubeconfig: one cluster.",
        ),
    ] = None,
    send_test: Annotated[bool, typer.Option("--send-test", help="Post a test message to Slack.")] = False,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: RegionOption = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Looks whether everything is there and at work: stacks, rules, queues, functions, ledger, Slack and EKS.

    Each line is one check: ok, warning, broken, or unknown where it could not be seen; then what was found, and the way
    out. What is unknown is never shown as ok. Nothing is changed, no message is received, and none is sent without
    --send-test.

    It needs leave to read: a line that says `not seen` names the IAM action that is missing.

    Exit code 1 means that something is broken or unknown. Warnings alone are exit code 0.

    For example:

        holdfast doctor

        holdfast doctor --cluster eksworkshop --kube-context eksworkshop

        holdfast doctor --output json
    """
    from holdfast_cli import doctor_look, ledgers  # noqa: PLC0415 - the AWS SDK is for the commands that ask AWS

    loaded = ledgers.configuration(ledgers.Access(config))
    if loaded is None:
        raise Mistake("There is no holdfast.yaml here, so it is not known what to look for: give --config FILE.")
    wanted = _wanted(loaded, cluster or (), region)
    context = _context(kube_context, wanted)
    clients = doctor_look.Clients(ledgers.session_of(profile, region))
    given, who = doctor_look.who(clients, wanted[0].region)
    now = datetime.now(UTC)
    checks: list[Check] = []
    probes: list[Probe] = []
    for home, place in dict.fromkeys((one.account, one.region) for one in wanted):
        env = doctor_look.Environment(clients, loaded, home, place, now)
        checks.append(Check(env.place, "credentials", *account(home, given, who)))
        if home != given:
            continue
        there = [one for one in wanted if (one.account, one.region) == (home, place)]
        probes += doctor_look.probes(env, clusters=there, send_test=send_test)
        if context is not None:
            probes += _by_context(env, there[0], context)
    checks += _looked(probes)
    _answer(checks, now, output, rbac_looked_at=context is not None)
    if not is_good(checks):
        raise typer.Exit(ExitCode.NOT_GOOD)


def _wanted(config: HoldfastConfig, names: Sequence[str], region: str | None) -> tuple[Cluster, ...]:
    known = [cluster.name for cluster in config.clusters]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Mistake(f"--cluster {unknown[0]}: is not configured. Configured are: {', '.join(known)}.")
    wanted = tuple(
        cluster
        for cluster in config.clusters
        if (not names or cluster.name in names) and region in {None, cluster.region}
    )
    if not wanted:
        raise Mistake(f"No such cluster is in region {region}: leave --region out or correct it.")
    return wanted


def _context(name: str | None, wanted: Sequence[Cluster]) -> Context | None:
    if name is None:
        return None
    if len(wanted) != 1:
        raise Mistake("--kube-context leads to one cluster: say which one by --cluster.")
    from holdfast_cli.doctor_kubernetes import Context  # noqa: PLC0415 - it takes a second to import

    return Context(name)


def _by_context(env: Environment, cluster: Cluster, context: Context) -> list[Probe]:
    from holdfast_cli.doctor_look import Probe  # noqa: PLC0415 - as above

    def server() -> tuple[State, str, str | None] | None:
        seen = env.cluster(cluster.name)
        return None if seen is None else same_server(context.server, seen.get("endpoint"))

    return [
        Probe(cluster.name, "kubeconfig", server),
        Probe(cluster.name, "RBAC", lambda: rbac(context.role(), context.binding())),
    ]


def _looked(probes: Sequence[Probe]) -> list[Check]:
    from holdfast_cli.doctor_look import run  # noqa: PLC0415 - as above

    columns = (TextColumn("Looking: {task.completed} of {task.total}"), TimeElapsedColumn())
    with Progress(*columns, console=error_console(), transient=True) as progress:
        task = progress.add_task("", total=len(probes))
        return run(probes, done=lambda: progress.advance(task))


def _answer(checks: Sequence[Check], now: datetime, output: OutputFormat, *, rbac_looked_at: bool) -> None:
    # By place, in the order of the configuration: that of the first check about it.
    places = list(dict.fromkeys(check.place for check in checks))
    ordered = sorted(checks, key=lambda check: places.index(check.place))
    not_looked_at = [] if rbac_looked_at else ["whether Holdfast's RBAC is applied in Kubernetes: give --kube-context"]
    if output is OutputFormat.JSON:
        print_json(
            {
                "at": format_time(now.replace(microsecond=0)),
                "good": is_good(ordered),
                "checks": [
                    {
                        "place": check.place,
                        "check": check.name,
                        "state": check.state.value,
                        "found": check.found,
                        "way_out": check.way_out if check.state is not State.OK else None,
                    }
                    for check in ordered
                ],
                "not_looked_at": not_looked_at,
            }
        )
        return
    out = console()
    for place, group in groupby(ordered, key=lambda check: check.place):
        out.print(plain(place, "bold"))
        out.print(_table(tuple(group)))
    said = ", ".join(f"{count} {state.value}" for state, count in counts(ordered) if count)
    out.print(plain(f"{said}."))
    for one in not_looked_at:
        out.print(plain(f"Not looked at: {one}.", "dim"))


def _table(checks: Sequence[Check]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold", max_width=30)
    table.add_column(overflow="fold")
    for check in checks:
        found = plain(check.found)
        if check.way_out is not None:
            found.append_text(plain(f"\n-> {check.way_out}", "bold"))
        table.add_row(plain(check.state.value, _STYLES[check.state]), plain(check.name), found)
    return table
