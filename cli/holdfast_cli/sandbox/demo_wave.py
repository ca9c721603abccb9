"""The second part of the demonstration: a Spot wave with every event twice, while Slack refuses what it is sent."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from rich.console import Console
from rich.table import Table
from rich.text import Text

from holdfast_cli.sandbox import demo, tally, up, wave
from holdfast_cli.sandbox.player import Player
from holdfast_cli.sandbox.slack_panel import slack_panel
from holdfast_cli.sandbox.slack_receiver import SlackFault
from holdfast_cli.sandbox.state import SandboxState
from holdfast_cli.sandbox.wave import Wave

NODES = 40
HELD = 4
REFUSALS = 3
SILENCE = timedelta(seconds=6)
"""What Slack's Retry-After asks for, each time."""

PATIENCE = timedelta(seconds=180)
"""How long the functions may take for all of it; a machine at rest needs a fraction."""

_FIRST = 1000
_POLL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WaveOutcome:
    """The wave, what became of it, how long that took, and what is wrong with it (empty: nothing)."""

    wave: Wave
    found: tally.Found
    took: timedelta
    wrong: tuple[str, ...]


def prepare(sandbox: SandboxState, warned_at: datetime, *, progress: up.Progress = print) -> Wave:
    """The nodes of the wave, of which nobody hears before `play`.

    Raises:
        SandboxError: a part of the sandbox did not answer.
    """
    progress(
        f"{NODES} Spot nodes of pool {wave.POOL} run in {wave.ZONE}; a PodDisruptionBudget lets no pod of {HELD} go"
    )
    return wave.prepare(sandbox, first=_FIRST, nodes=NODES, held=HELD, again=1.0, warned_at=warned_at)


def play(sandbox: SandboxState, prepared: Wave, *, progress: up.Progress = print) -> WaveOutcome:
    """Makes Slack refuse, sends the wave, and waits until all is told and counted, or patience runs out.

    Raises:
        SandboxError: a part of the sandbox did not answer.
    """
    began = time.monotonic()
    mark = tally.mark(sandbox)
    up.slack(sandbox).inject(SlackFault(status=429, retry_after=int(SILENCE.total_seconds()), times=REFUSALS))
    progress(f"Slack will refuse {REFUSALS} requests: 429, Retry-After {SILENCE.total_seconds():.0f} s")
    progress(
        f"Playing: EC2 wants all {NODES} nodes back; {prepared.distinct} events, each delivered twice, in no order"
    )
    with _narrated(sandbox, mark, progress):
        wave.send(sandbox, prepared)
        read = Player(sandbox).karpenter_reads_its_queue()
        progress(f"Played: Karpenter has read {read} messages, drained what it could and ended the instances")
        found, wrong = _wait(sandbox, prepared, mark, began + PATIENCE.total_seconds())
    wave.over(sandbox, prepared, prepared.truths)
    return WaveOutcome(prepared, found, timedelta(seconds=time.monotonic() - began), wrong)


def show(outcome: WaveOutcome, console: Console) -> None:
    """Prints the digests, then what was sent against what became of it."""
    for message in outcome.found.messages:
        if tally.alerts_in(message) > 1:
            console.print(slack_panel(message))
    found, prepared = outcome.found, outcome.wave
    table = Table(title="The wave, and what became of it", show_lines=True)
    for heading in ("", "Sent, or true", "Found, or told"):
        table.add_column(heading, overflow="fold")
    deliveries = len(prepared.deliveries)
    table.add_row("Events", f"{deliveries} deliveries of {prepared.distinct} events", f"{found.facts} facts")
    table.add_row("Duplicates", str(prepared.duplicates), f"{found.duplicates} counted, none stored twice")
    true, judged = tally.by_verdict(prepared.truths), tally.by_verdict(found.verdicts)
    for verdict in sorted(true.keys() | judged.keys()):
        table.add_row(verdict, f"{true[verdict]} nodes", f"{judged[verdict]} final verdicts")
    if found.spared:
        table.add_row("Degraded mode", "where the audit falls behind", f"{len(found.spared)} nodes without their pods")
    table.add_row(
        "Slack says 429",
        f"{REFUSALS} times, Retry-After {SILENCE.total_seconds():.0f} s",
        f"{len(found.refused)} requests refused, "
        + ("the silence was kept each time" if not _impatience(found) else _impatience(found)),
    )
    table.add_row(
        "Alerts",
        f"{len(prepared.truths)} to tell",
        f"{found.told} told in {len(found.messages)} message{'' if len(found.messages) == 1 else 's'}",
    )
    table.add_row("Lost", "0", f"{sum(found.put_aside.values())} messages in dead-letter queues")
    console.print(table)
    for one in outcome.wrong:
        console.print(Text(one, style="red"))


def _wait(
    sandbox: SandboxState, prepared: Wave, mark: tally.Mark, deadline: float
) -> tuple[tally.Found, tuple[str, ...]]:
    ledger, table_name = demo.ledger_of(sandbox), demo.table_of(sandbox)
    while True:
        found = tally.look(sandbox, ledger, table_name, prepared, mark)
        wrong = (*tally.wrong(found, prepared), *_slack_wrong(found))
        if not wrong or time.monotonic() >= deadline:
            return found, wrong
        time.sleep(_POLL_SECONDS)


@contextmanager
def _narrated(sandbox: SandboxState, mark: tally.Mark, progress: up.Progress) -> Iterator[None]:
    """Tells of each answer of Slack's as it is given, whatever else is done meanwhile."""
    slack, over = up.slack(sandbox), threading.Event()

    def narrate() -> None:
        refusals, messages = 0, mark.messages
        while not over.wait(_POLL_SECONDS):
            refused = [answer for answer in slack.answers()[mark.answers :] if answer.status != 200]
            for answer in refused[refusals:]:
                progress(f"Slack answers {answer.status} {answer.body}: Holdfast keeps silent, and its outbox fills")
            shown = slack.messages()
            for message in shown[messages:]:
                count = tally.alerts_in(message.payload)
                progress(
                    f"Slack shows a {'digest of' if count > 1 else 'message about'} {count} alert{'s' * (count > 1)}"
                )
            refusals, messages = len(refused), len(shown)

    with ThreadPoolExecutor(max_workers=1) as pool:
        narrating = pool.submit(narrate)
        try:
            yield
        finally:
            over.set()
        narrating.result()


def _slack_wrong(found: tally.Found) -> tuple[str, ...]:
    wrong = []
    if [answer.status for answer in found.refused] != [429] * REFUSALS:
        wrong.append(f"Slack refused {len(found.refused)} requests instead of {REFUSALS}")
    if _impatience(found):
        wrong.append(f"Slack {_impatience(found)}")
    return tuple(wrong)


def _impatience(found: tally.Found) -> str:
    """In words, where Slack was asked again too soon; empty when it was not."""
    gaps = tally.broken_silences(found.answers, SILENCE)
    return f"was asked again after {', '.join(f'{gap:.1f}' for gap in gaps)} s" if gaps else ""
