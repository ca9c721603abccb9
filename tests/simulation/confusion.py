"""Truth against verdict, over the nodes of many worlds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from holdfast.interruption.verdict import Cause, Verdict
from tests.simulation.world import Node, World, world

NO_CASE = "no case"
"""What is said of an instance about which nothing had to be judged."""

_BLOCKED = {"annotation": Cause.BLOCKED_BY_DO_NOT_DISRUPT, "budget": Cause.BLOCKED_BY_PDB}


@dataclass
class Confusion:
    """How often each truth came to each verdict. `wrong` describes every node that came to none of those that are right.

    `unsure` counts what was INCONCLUSIVE in calm worlds (True) and in others, `of` all their nodes.
    """

    seeds: int = 0
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    agreed: Counter[tuple[str, str]] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    unsure: Counter[bool] = field(default_factory=Counter)
    of: Counter[bool] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def nodes(self) -> int:
        return sum(self.counts.values())

    def add(self, played: World) -> None:
        """Counts the nodes of a world that has been played to its end."""
        self.seeds += 1
        outcome = played.plant.outcome()
        if outcome["open"] or outcome["waiting"]:
            self.wrong.append(f"seed {played.seed}: still open {outcome['open']}, not told {outcome['waiting']}")
        if outcome["poison"]:
            self.wrong.append(f"seed {played.seed}: {len(outcome['poison'])} bodies were refused")
        for node in played.nodes:
            self._add(played, node)
            self.of[played.calm] += 1
            self.unsure[played.calm] += any(
                record.judgement.verdict is Verdict.INCONCLUSIVE for record in played.records(node)
            )

    def _add(self, played: World, node: Node) -> None:
        truth, records = node.truth.verdict, played.records(node)
        said = f"seed {played.seed}, {node}"
        if len(records) > 1:
            self.wrong.append(f"{said}: one run of one instance became {len(records)} cases")
            return
        if not records:
            self.counts[truth, NO_CASE] += 1
            if truth is not Verdict.NOT_APPLICABLE and node.instance in played.heard_of:
                self.wrong.append(f"{said}: no case, though it is {truth}")
            return
        judgement = records[0].judgement
        verdict = judgement.verdict
        self.counts[truth, verdict] += 1
        told = f"{said}: {verdict} ({judgement.cause}), though it is {truth}: {judgement.reason}"
        if not judgement.final:
            self.wrong.append(f"{told} It is not final.")
        elif verdict is Verdict.INCONCLUSIVE:
            self.missing.update(_kinds(judgement.missing))
            if not judgement.missing:
                self.missing["nothing: what was seen contradicts itself or is explained by the sentence"] += 1
        elif verdict is not truth:
            if verdict in node.truth.agreed:
                self.agreed[truth, verdict] += 1
            else:
                self.wrong.append(told)
        if judgement.cause in _BLOCKED.values() and judgement.cause is not _BLOCKED.get(node.blocker or ""):
            self.wrong.append(f"{told} Nothing of the kind held its pods.")


def _kinds(missing: Iterable[str]) -> set[str]:
    """What is missing, without the reason in brackets."""
    return {text.partition(" (")[0] for text in missing}


def confusion(seeds: Iterable[int]) -> Confusion:
    """Plays the worlds of the seeds one after the other."""
    found = Confusion()
    for seed in seeds:
        played = world(seed)
        played.play()
        found.add(played)
    return found


def show(found: Confusion, console: Console) -> None:
    """The table of truth against verdict, and what was missing where there was no verdict."""
    verdicts = [*Verdict, NO_CASE]
    columns = [name for name in verdicts if any(verdict == name for _, verdict in found.counts)]
    table = Table(title=f"Truth against verdict: {found.seeds} seeds, {found.nodes} instances")
    table.add_column("truth", no_wrap=True)
    for name in columns:
        table.add_column(name.replace("_", "\n"), justify="right")
    for truth in Verdict:
        if not any(held == truth for held, _ in found.counts):
            continue
        cells = []
        for name in columns:
            count, agreed = found.counts[truth, name], found.agreed[truth, name]
            text = f"{count:,}" if count else ""
            right = name in {truth, Verdict.INCONCLUSIVE, NO_CASE}
            cells.append(f"[green]{text}[/]" if name == truth else text if right else f"[yellow]{text}[/]")
            if agreed:
                cells[-1] += " *"
        table.add_row(truth, *cells)
    console.print(table)
    if found.agreed:
        console.print("* by agreement: who was first, or who ended the instance, is not in the evidence (Truth.agreed)")
    unsure = found.unsure.total()
    lacking = Table(title=f"INCONCLUSIVE: {unsure} of {found.nodes}, {unsure / max(found.nodes, 1):.1%}")
    lacking.add_column("what was missing")
    lacking.add_column("cases", justify="right")
    lacking.add_column("of all", justify="right")
    for what, count in found.missing.most_common():
        lacking.add_row(what, f"{count:,}", f"{count / found.nodes:.1%}")
    console.print(lacking)
    for calm, name in ((True, "where no call failed"), (False, "where calls failed")):
        share = found.unsure[calm] / max(found.of[calm], 1)
        console.print(f"{name}: {found.unsure[calm]} of {found.of[calm]} INCONCLUSIVE, {share:.1%}")
