"""`holdfast redrive`: back to where they belong with the messages that were put aside, as far as that does no harm."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from holdfast.errors import HoldfastError, NotFound
from holdfast.runtime.config import HoldfastConfig
from holdfast.times import format_time
from holdfast_cli.errors import ExitCode, Mistake
from holdfast_cli.options import ConfigOption, ProfileOption
from holdfast_cli.output import OutputFormat, OutputOption, console, error_console, plain, print_json
from holdfast_cli.redrive_rules import DeadLetters, Decision, Letter, Way, dead_letters_in, decide, find

if TYPE_CHECKING:
    from holdfast_cli.redrive_queue import Held, Move, Queues

_SHOWN: Final = 50
"""Messages in the table; the JSON has all."""

_LOOK_AGAIN: Final = 2.0
"""Seconds between two questions how far SQS is."""


@dataclass(frozen=True, slots=True)
class Handled:
    """What became of a message, or would become of it. `failure` says why it was to be sent and was not."""

    letter: Letter
    decision: Decision
    sent: bool = False
    failure: str | None = None


@dataclass(slots=True)
class Report:
    """The answer of one run. `move_unknown` says why SQS did not tell of its moves."""

    queue: DeadLetters
    applied: bool
    waiting: int
    in_flight: int
    messages: list[Handled] = field(default_factory=list)
    move: Move | None = None
    move_unknown: str | None = None

    @property
    def is_good(self) -> bool:
        """Nothing that should have been done failed."""
        if any(one.failure is not None for one in self.messages):
            return False
        return self.move is None or not self.applied or self.move.status.value == "COMPLETED"


def redrive(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The name of a dead-letter queue.")],
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Do it. Without this, only say what would be done.")] = False,
    rate: Annotated[
        int | None, typer.Option(min=1, max=500, help="Where SQS moves: at most so many messages a second.")
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, max=100_000, help="Where messages go one by one: at most so many in one run.")
    ] = 1000,
    config: ConfigOption = None,
    profile: ProfileOption = None,
    region: Annotated[
        str | None, typer.Option("--region", help="The queue's AWS region, if there are several.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Puts back what lies in a dead-letter queue. Mend the cause first.

    Without --apply nothing is sent, moved or deleted.

    The audit's own queues `...-dlq` are emptied by SQS's redrive, whose progress is followed; run the command again to
    follow a move that is under way. What EventBridge could not deliver (`...-undelivered`), and everything that is for
    Karpenter, is looked at one by one: it is sent, and deleted only after it was taken. The run may be stopped anywhere
    and repeated; a message is then doubled at worst, and neither the audit nor Karpenter minds.

    Karpenter drains the node that a message names. So it gets back only warnings whose deadline is still to come, such
    as scheduled maintenance. What is left alone is listed with the reason. Looking counts as a receive, and hides the
    messages from others for two minutes at most.

    Exit code 1 means that something that should have been put back was not.

    For example:

        holdfast redrive holdfast-audit-dlq

        holdfast redrive holdfast-audit-dlq --apply --rate 50

        holdfast redrive eksworkshop-undelivered --apply
    """
    from holdfast_cli import ledgers  # noqa: PLC0415 - the AWS SDK is for the commands that ask AWS
    from holdfast_cli.redrive_queue import Queues  # noqa: PLC0415 - as above

    loaded = ledgers.configuration(ledgers.Access(config))
    if loaded is None:
        raise Mistake("There is no holdfast.yaml here, so it is not known which queues there are: give --config FILE.")
    wanted = _wanted(queue, loaded, region)
    if wanted.way is Way.NEVER:
        raise Mistake(
            f"{queue} holds sweeps that failed, and later ones did their work: there is nothing to put back. "
            f"Once the cause is mended: {_purge(wanted)}"
        )
    session = ledgers.session_of(profile, wanted.home.region)
    account = ledgers.account_of(session, wanted.home.region)
    if account != wanted.home.account:
        raise Mistake(f"{queue} is in account {wanted.home.account}, the credentials are for {account}: use --profile.")
    client = session.client("sqs", region_name=wanted.home.region, config=ledgers.client_config())
    report = _run(Queues(client, wanted), wanted, apply=apply, rate=rate, limit=limit)
    if output is OutputFormat.JSON:
        print_json(document(report))
    else:
        _print(report)
    if not report.is_good:
        raise typer.Exit(ExitCode.NOT_GOOD)


def _wanted(name: str, config: HoldfastConfig, region: str | None) -> DeadLetters:
    known = [
        queue
        for account, place in config.environments
        if region in {None, place}
        for queue in dead_letters_in(config, account, place)
    ]
    if not known:
        raise Mistake(f"No configured cluster is in region {region}: leave --region out or correct it.")
    return find(name, known)


def _run(queues: Queues, wanted: DeadLetters, *, apply: bool, rate: int | None, limit: int) -> Report:
    try:
        waiting, in_flight = queues.counts()
    except NotFound as error:
        raise NotFound(f"{error} in {wanted.home.region}. Has it been deployed? `holdfast doctor` tells.") from error
    report = Report(wanted, apply, waiting, in_flight)
    if wanted.way is Way.MOVE:
        if apply:
            report.move = _move(queues, rate)
        else:
            _last_move(queues, report)
    else:
        report.messages = _one_by_one(queues, wanted, apply=apply, limit=limit)
    return report


def _last_move(queues: Queues, report: Report) -> None:
    # The counts are worth telling also to somebody who may not list moves.
    try:
        report.move = queues.last_move()
    except HoldfastError as error:
        report.move_unknown = str(error)


def _one_by_one(queues: Queues, wanted: DeadLetters, *, apply: bool, limit: int) -> list[Handled]:
    handled: list[Handled] = []
    kept: list[Held] = []
    with _shown_again(queues, kept), error_console().status("Looking at the messages") as status:
        for held in queues.receive(limit):
            # The clock is read for each: what was in time when the run began may be late by now.
            decision = decide(held.letter, wanted, datetime.now(UTC))
            if not (apply and decision.send):
                handled.append(Handled(held.letter, decision))
                kept.append(held)
            else:
                handled.append(_send(queues, held, decision, kept))
            status.update(f"Looked at {len(handled)}, sent {sum(one.sent for one in handled)}")
    return handled


@contextlib.contextmanager
def _shown_again(queues: Queues, kept: Sequence[Held]) -> Iterator[None]:
    try:
        yield
    finally:
        queues.release(kept)


def _send(queues: Queues, held: Held, decision: Decision, kept: list[Held]) -> Handled:
    try:
        queues.send(held.letter)
    except HoldfastError as error:
        kept.append(held)
        return Handled(held.letter, decision, failure=str(error))
    try:
        queues.delete(held)
    except HoldfastError as error:
        return Handled(held.letter, decision, sent=True, failure=f"sent, but still here: {error}")
    return Handled(held.letter, decision, sent=True)


def _move(queues: Queues, rate: int | None) -> Move | None:
    move = queues.last_move()
    if move is None or move.status.is_over:
        if sum(queues.counts()) == 0:
            return None
        queues.start_move(rate)
        move = queues.last_move()
    with error_console().status("SQS moves the messages") as status:
        try:
            while move is not None and not move.status.is_over:
                status.update(f"SQS moves the messages: {move.moved} of {_or_unknown(move.to_move)}")
                time.sleep(_LOOK_AGAIN)
                move = queues.last_move()
        except KeyboardInterrupt:
            handle = move.handle if move is not None else None
            error_console().print(
                plain(
                    "SQS goes on moving. Run the command again to follow it, or stop it:\n"
                    f"aws sqs cancel-message-move-task --task-handle {handle}"
                ),
                soft_wrap=True,
            )
            raise
    return move


def document(report: Report) -> dict[str, object]:
    """The answer for programs."""
    queue, move = report.queue, report.move
    return {
        "queue": queue.name,
        "account": queue.home.account,
        "region": queue.home.region,
        "target": queue.target,
        "way": queue.way.value,
        "applied": report.applied,
        "waiting": report.waiting,
        "in_flight": report.in_flight,
        "messages": [_message_document(one, applied=report.applied) for one in report.messages],
        "move": None
        if move is None
        else {"status": move.status.value, "moved": move.moved, "to_move": move.to_move, "reason": move.reason},
        "move_unknown": report.move_unknown,
    }


def _message_document(one: Handled, *, applied: bool) -> dict[str, object]:
    letter, decision = one.letter, one.decision
    return {
        "message_id": letter.message_id,
        "outcome": _outcome(one, applied=applied),
        "reason": one.failure or decision.reason,
        "kind": decision.kind or None,
        "subjects": list(decision.subjects),
        "at": format_time(decision.at) if decision.at is not None else None,
        "rule": letter.rule_arn,
        "target": letter.target_arn,
        "error_code": letter.error_code,
        "error_message": letter.error_message,
    }


def _outcome(one: Handled, *, applied: bool) -> str:
    if one.failure is not None:
        return "failed"
    if one.sent:
        return "sent"
    return "would be sent" if one.decision.send and not applied else "left alone"


def _print(report: Report) -> None:
    out, queue = console(), report.queue
    out.print(
        plain(f"{queue.name} in {queue.home.region}: about {report.waiting} waiting, {report.in_flight} received.")
    )
    if queue.way is Way.MOVE:
        _print_move(report)
        return
    if not report.messages:
        out.print("There is nothing to look at.")
        return
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("Event", "Rule and error", "What becomes of it"):
        table.add_column(title, overflow="fold")
    now = datetime.now(UTC)
    for one in report.messages[:_SHOWN]:
        table.add_row(*_row(one, now, applied=report.applied))
    out.print(table)
    if len(report.messages) > _SHOWN:
        out.print(plain(f"And {len(report.messages) - _SHOWN} more: --output json has all.", "dim"))
    counts = dict[str, int]()
    for one in report.messages:
        outcome = _outcome(one, applied=report.applied)
        counts[outcome] = counts.get(outcome, 0) + 1
    out.print(plain(f"To {queue.target}: {', '.join(f'{count} {outcome}' for outcome, count in counts.items())}."))
    if counts.get("would be sent"):
        out.print(plain("This was a dry run: nothing was sent or deleted. --apply does it."))
    if counts.get("left alone"):
        out.print(plain("What is left alone expires by itself. To throw all of it away now:", "dim"))
        out.print(plain(_purge(queue), "dim"), soft_wrap=True)


def _row(one: Handled, now: datetime, *, applied: bool) -> tuple[Text, ...]:
    letter, decision = one.letter, one.decision
    about = ", ".join(decision.subjects[:3]) + (" ..." if len(decision.subjects) > 3 else "")
    age = _age(now - decision.at) if decision.at is not None else "age unknown"
    rule = letter.rule_arn.rpartition("/")[2] if letter.rule_arn is not None else "no rule"
    outcome = _outcome(one, applied=applied)
    style = {"sent": "green", "would be sent": "green", "failed": "bold red"}.get(outcome, "yellow")
    said = plain(outcome, style)
    said.append_text(plain(f": {one.failure or decision.reason}"))
    return (
        plain("\n".join(part for part in (decision.kind or "unreadable", about, age) if part)),
        plain(f"{rule}\n{letter.error_code or 'no error code'}"),
        said,
    )


def _age(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit} old"
    return f"{seconds}s old"


def _print_move(report: Report) -> None:
    out, move, queue = console(), report.move, report.queue
    if move is not None:
        why = f": {move.reason}" if move.reason else ""
        out.print(plain(f"The last move: {move.status.value}, {move.moved} of {_or_unknown(move.to_move)} moved{why}."))
    if report.move_unknown is not None:
        out.print(plain(f"Whether SQS moves them already is not known: {report.move_unknown}", "yellow"))
    if report.applied:
        if move is None:
            out.print("There is nothing to move.")
    elif report.waiting + report.in_flight:
        out.print(plain(f"--apply has SQS move them back to {queue.target}. SQS cannot show them without a receive."))


def _or_unknown(count: int | None) -> str:
    return "an unknown number" if count is None else str(count)


def _purge(queue: DeadLetters) -> str:
    return (
        f"aws sqs purge-queue --region {queue.home.region} --queue-url "
        f'"$(aws sqs get-queue-url --region {queue.home.region} --queue-name {queue.name} --query QueueUrl --output text)"'
    )
