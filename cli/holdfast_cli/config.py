"""`holdfast config`: is the configuration file right, and what may stand in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from holdfast.alerts.alert import Severity
from holdfast.runtime.config import Alerts, HoldfastConfig
from holdfast_cli.errors import ExitCode
from holdfast_cli.output import OutputFormat, OutputOption, console, error_console, plain, print_json
from stacks.config import ConfigError, json_schema, load, to_resolved_json

DEFAULT_FILE = Path("holdfast.yaml")

app = typer.Typer(no_args_is_help=True, help="Is the configuration right, and what may stand in it.")


@app.command()
def check(
    file: Annotated[Path, typer.Argument(help="The configuration file.", show_default=True)] = DEFAULT_FILE,
    *,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Reads the configuration file and says everything that is wrong with it at once.

    Each problem comes with its line, the key, what stands there, what is right and why. `cdk synth` makes the same check.
    Nothing is asked of AWS: whether the accounts and roles exist shows at the deployment.

    Exit code 1 means that the file has problems.

    For example:

        holdfast config check

        holdfast config check production.yaml --output json
    """
    try:
        config = load(file)
    except ConfigError as error:
        if output is OutputFormat.JSON:
            print_json(_problems_document(error))
        else:
            error_console().print(plain(str(error)), soft_wrap=True)
        raise typer.Exit(ExitCode.NOT_GOOD) from error
    if output is OutputFormat.JSON:
        print_json({"file": str(file), "valid": True, "problems": [], "config": json.loads(to_resolved_json(config))})
    else:
        _print_summary(config, file)


@app.command()
def schema() -> None:
    """Prints the JSON schema of the configuration file, for editors and other checks.

    For example:

        holdfast config schema > holdfast.schema.json
    """
    print_json(json_schema())


def _problems_document(error: ConfigError) -> dict[str, object]:
    return {
        "file": error.source,
        "valid": False,
        "problems": [
            {
                "key": problem.path,
                "line": problem.line,
                "value": problem.value,
                "message": problem.message,
                "suggestion": problem.suggestion,
            }
            for problem in error.problems
        ],
        "config": None,
    }


def _print_summary(config: HoldfastConfig, file: Path) -> None:
    out = console()
    out.print(plain(f"{file} is right.", "bold"))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("Cluster", "Account and region", "Karpenter's queue", "Network"):
        table.add_column(title, overflow="fold")
    for cluster in config.clusters:
        queue = cluster.queue_name + ("" if cluster.existing_queue is None else " (existing)")
        network = "public endpoint" if cluster.network is None else cluster.network.vpc_id
        table.add_row(plain(cluster.name), plain(f"{cluster.account} {cluster.region}"), plain(queue), plain(network))
    out.print(table)
    out.print(plain(f"Alerts go to: {'; '.join(_destinations(config.alerts)) or 'nowhere'}."))


def _destinations(alerts: Alerts) -> Iterator[str]:
    slack, sns = alerts.slack, alerts.sns
    for channel in () if slack is None else slack.channels:
        clusters = "" if channel.clusters is None else f" of {', '.join(channel.clusters)}"
        yield f"Slack, by the webhook in the secret {channel.webhook_secret_name} ({_named(channel.severities)}{clusters})"
    if slack is not None:
        others = " (all others)" if slack.channels else ""
        yield f"Slack, by the webhook in the secret {slack.webhook_secret_name}{others}"
    if sns is not None:
        yield f"the topic {sns.topic_arn or 'of the alarms'} ({_named(sns.severities)})"


def _named(severities: Sequence[Severity]) -> str:
    return ", ".join(severities)
