"""The first part of the demonstration: single interruptions with known truth, and what Holdfast made of each of them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.interruption.record import CaseRecord
from holdfast.ports import InstanceKey
from holdfast.runtime.names import state_stack_id
from holdfast_cli.sandbox import aws, up
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.player import WARNED_BEFORE, Played, Player
from holdfast_cli.sandbox.slack_panel import slack_panel
from holdfast_cli.sandbox.state import SandboxState

PATIENCE = timedelta(seconds=120)
"""How long the functions may take to tell everything; a cold start on a busy machine is a matter of seconds."""

_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """A scene, the case that the ledger holds of it, its Slack message, and what is wrong with them (empty: nothing)."""

    played: Played
    record: CaseRecord | None
    message: dict[str, Any] | None
    wrong: tuple[str, ...]


def play(sandbox: SandboxState, *, progress: up.Progress = print) -> tuple[Outcome, ...]:
    """Plays the scenes and waits until each has its verdict and its message, or patience runs out.

    Raises:
        SandboxError: a part of the sandbox did not answer.
    """
    player = Player(sandbox)
    warned_at = long_ago()
    scenes: tuple[Callable[[int, datetime], Played], ...] = (
        player.handled_in_time,
        player.blocked_by_pdb,
        player.missed,
        player.poison,
    )
    played: list[Played] = []
    for number, scene in enumerate(scenes, start=1):
        played.append(scene(number, warned_at + timedelta(seconds=10 * number)))
        progress(f"Played: {played[-1].story}")
    progress("Waiting for the verdicts and the Slack messages")
    outcomes = wait_for(sandbox, played)
    player.nodeclaims_go()
    return outcomes


def long_ago() -> datetime:
    """When the warnings came that are played now (why then, `WARNED_BEFORE` tells)."""
    return datetime.now(UTC).replace(microsecond=0) - WARNED_BEFORE


def wait_for(sandbox: SandboxState, played: Sequence[Played], *, patience: timedelta = PATIENCE) -> tuple[Outcome, ...]:
    """The outcomes as soon as all are as they should be, or as they are when patience runs out."""
    ledger = ledger_of(sandbox)
    receiver = up.slack(sandbox)
    deadline = time.monotonic() + patience.total_seconds()
    while True:
        messages = [dict(message.payload) for message in receiver.messages()]
        outcomes = tuple(_outcome(item, sandbox, ledger, messages) for item in played)
        if not any(outcome.wrong for outcome in outcomes) or time.monotonic() >= deadline:
            return outcomes
        time.sleep(_POLL_SECONDS)


def ledger_of(sandbox: SandboxState) -> DynamoLedger:
    """The ledger that the sandbox's stacks made.

    Raises:
        SandboxError: Holdfast is not deployed.
    """
    return DynamoLedger(aws.client(sandbox, "dynamodb"), table_of(sandbox))


def table_of(sandbox: SandboxState) -> str:
    """The name of the ledger's table, from the state stack."""
    stack = state_stack_id("holdfast", sandbox.account, sandbox.region)
    resources = aws.client(sandbox, "cloudformation").describe_stack_resources(StackName=stack)["StackResources"]
    for resource in resources:
        if resource["ResourceType"] == "AWS::DynamoDB::Table":
            return str(resource["PhysicalResourceId"])
    raise SandboxError(f"stack {stack} has no table: Holdfast is not deployed there. `holdfast sandbox up` does that")


def show(outcomes: Sequence[Outcome], console: Console) -> None:
    """Prints each Slack message, then the scenes against the truth."""
    for outcome in outcomes:
        if outcome.message is not None:
            console.print(slack_panel(outcome.message))
    table = Table(title="What was played, and what Holdfast found out", show_lines=True)
    for heading in ("Scene", "Truth", "Verdict in the ledger", "Slack", ""):
        table.add_column(heading, overflow="fold")
    for outcome in outcomes:
        truth, found = _expected(outcome.played), _found(outcome)
        mark = (
            Text("as it should be", style="green") if not outcome.wrong else Text("; ".join(outcome.wrong), style="red")
        )
        told = "1 message" if outcome.message is not None else "no message"
        table.add_row(outcome.played.name, truth, found, told, mark)
    console.print(table)


def _outcome(
    played: Played, sandbox: SandboxState, ledger: DynamoLedger, messages: Sequence[dict[str, Any]]
) -> Outcome:
    wrong: list[str] = []
    record: CaseRecord | None = None
    if played.instance_id is not None:
        records = ledger.history(InstanceKey(sandbox.account, sandbox.region, played.instance_id)).records
        record = records[0] if records else None
        if record is None:
            wrong.append("no case in the ledger")
        elif not record.judgement.final or (record.judgement.verdict, record.judgement.cause) != (
            played.verdict,
            played.cause,
        ):
            wrong.append(f"the ledger says {_verdict(record)}: {record.judgement.reason}")
    about = [message for message in messages if _is_about(message, played)]
    if len(about) != 1:
        wrong.append(f"{len(about)} Slack messages instead of one")
    return Outcome(played, record, about[0] if about else None, tuple(wrong))


def _is_about(message: dict[str, Any], played: Played) -> bool:
    text = str(message)
    return played.says in text and (played.instance_id is None or played.instance_id in text)


def _expected(played: Played) -> str:
    if played.verdict is None:
        return "a row that says what it was"
    return f"{played.verdict}" + (f"\n{played.cause}" if played.cause else "")


def _found(outcome: Outcome) -> str:
    if outcome.record is not None:
        return _verdict(outcome.record)
    return "-" if outcome.played.instance_id is None else "none"


def _verdict(record: CaseRecord) -> str:
    judgement = record.judgement
    cause = f"\n{judgement.cause}" if judgement.cause else ""
    return f"{judgement.verdict}{cause}" if judgement.final else f"{judgement.verdict} (not final)"
