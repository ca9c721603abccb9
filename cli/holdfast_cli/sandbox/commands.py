"""`holdfast sandbox`: Holdfast whole on this machine, without an AWS account or a cluster."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from holdfast_cli.sandbox import aws, demo, demo_wave, state, up
from holdfast_cli.sandbox.errors import SandboxError

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Run Holdfast on this machine: an embedded AWS into which the real `cdk deploy` goes, a Kubernetes API and a "
        "Slack that listens. Everything it writes is in one folder, everything it opens is on the loopback interface."
    ),
)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", help="Where the sandbox keeps its state. [default: .sandbox in the project]", show_default=False
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Show what the CDK prints.")]


@app.command("up")
def up_command(folder: Folder = None, verbose: Verbose = False) -> None:
    """Start the sandbox, deploy Holdfast into it and leave it running.

    Then, for example:

        eval "$(holdfast sandbox env)"

        holdfast interruptions list

        aws sqs list-queues
    """
    console = Console()
    sandbox = up.up(folder, progress=_progress(console), on_cdk_line=_lines(console, verbose))
    _print_status(sandbox.folder, console)
    console.print(
        "It runs. `holdfast sandbox env` prints the environment for its clients, `holdfast sandbox down` ends it."
    )


@app.command("demo")
def demo_command(
    folder: Folder = None,
    verbose: Verbose = False,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the sandbox running afterwards.")] = False,
) -> None:
    """Start the sandbox, play interruptions with known truth, and show what Holdfast finds out and tells in Slack.

    First four scenes one by one: handled, held by a PodDisruptionBudget, missed, unreadable. Then a Spot wave over a
    whole pool, every event delivered twice and in no order, while Slack refuses messages with 429.

    Exit code 1 when a verdict or a message is not as it should be, or anything is lost or told twice.
    """
    console = Console()
    began = time.monotonic()
    progress = _progress(console)
    sandbox = up.up(folder, progress=progress, on_cdk_line=_lines(console, verbose))
    try:
        outcomes = demo.play(sandbox, progress=progress)
        demo.show(outcomes, console)
        prepared = demo_wave.prepare(sandbox, demo.long_ago(), progress=progress)
        whole_wave = demo_wave.play(sandbox, prepared, progress=progress)
        demo_wave.show(whole_wave, console)
    finally:
        if not keep:
            console.print("Stopping the sandbox")
            aws.stop(sandbox.folder)
    parts = [*(outcome.wrong for outcome in outcomes), whole_wave.wrong]
    wrong = [part for part in parts if part]
    seconds = time.monotonic() - began
    if wrong:
        console.print(f"{len(wrong)} of {len(parts)} scenes are not as they should be ({seconds:.0f} s).", style="red")
        console.print(f"The functions' logs are in {sandbox.logs}.")
        raise typer.Exit(1)
    console.print(f"All {len(parts)} scenes are as they should be ({seconds:.0f} s).", style="green")


@app.command("down")
def down_command(folder: Folder = None) -> None:
    """Stop everything the sandbox started and remove its temporary files."""
    console = Console()
    console.print("The sandbox is down." if aws.stop(folder) else "No sandbox was running.")


@app.command("status")
def status_command(folder: Folder = None) -> None:
    """Show the sandbox's programs. Exit code 1 when none runs or one has died."""
    console = Console()
    services = aws.status(folder)
    if not services:
        console.print("No sandbox is running. `holdfast sandbox up` starts one.")
        raise typer.Exit(1)
    _print_status(folder, console)
    if not all(service.alive for service in services):
        console.print("A program has died: its log says why. `holdfast sandbox down` cleans up.", style="red")
        raise typer.Exit(1)


@app.command("reset")
def reset_command(folder: Folder = None, verbose: Verbose = False) -> None:
    """Empty the sandbox and deploy Holdfast anew: ledger, queues, cluster and Slack as after `up`."""
    console = Console()
    sandbox = _running(folder)
    where = sandbox.folder
    aws.stop(where)
    up.up(where, progress=_progress(console), on_cdk_line=_lines(console, verbose))
    console.print("The sandbox is as new.")


@app.command("env")
def env_command(folder: Folder = None) -> None:
    """Print the environment for clients of the sandbox, to be evaluated by a shell."""
    sandbox = _running(folder)
    for name, value in sorted(aws.environment(sandbox).items()):
        if name.startswith(("AWS_", "NODE_EXTRA_CA_CERTS", "CDK_")):
            typer.echo(f"export {name}={value}")


def _running(folder: Path | None) -> state.SandboxState:
    sandbox = state.load((folder or state.default_folder()).resolve())
    if sandbox is None:
        raise SandboxError("no sandbox is running: `holdfast sandbox up` starts one")
    return sandbox


def _progress(console: Console) -> up.Progress:
    began = time.monotonic()
    return lambda text: console.print(f"[dim]{time.monotonic() - began:5.1f} s[/dim]  {text}", highlight=False)


def _lines(console: Console, verbose: bool) -> up.Progress | None:
    return (lambda line: console.print(line, style="dim", highlight=False, markup=False)) if verbose else None


def _print_status(folder: Path | None, console: Console) -> None:
    table = Table("Program", "Address", "Process", "State")
    for service in aws.status(folder):
        table.add_row(service.name, service.url, str(service.pid), "running" if service.alive else "[red]dead[/red]")
    console.print(table)
