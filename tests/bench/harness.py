"""Measuring, comparing with a budget, and showing both."""

import json
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

RUNS = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One figure and the most it may be, in the same unit."""

    name: str
    value: float
    unit: str
    budget: float

    @property
    def within(self) -> bool:
        return self.value <= self.budget

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "budget": self.budget,
            "within": self.within,
        }


def cpu(action: Callable[[], object]) -> float:
    """Seconds of processor time that ``action`` takes."""
    start = time.process_time()
    action()
    return time.process_time() - start


def median_cpu(action: Callable[[], object], *, runs: int = RUNS) -> float:
    """Seconds of processor time that ``action`` takes, the median of several runs after one that warms up."""
    action()
    return statistics.median(cpu(action) for _ in range(runs))


def growth(name: str, cost_per_item: Callable[[int], float], *, budget: float = 1.5, runs: int = RUNS) -> list[Line]:
    """What an item costs at 4 and 16 times the size, relative to the cost at the size itself: 1 where growth is linear.

    ``cost_per_item`` measures once. The sizes take turns, so that a busy minute of the machine falls on all of them.
    The budget leaves room for caches that get too small; quadratic growth would show as 4 and 16.
    """
    rounds = [{n: cost_per_item(n) for n in (1, 4, 16)} for _ in range(runs + 1)][1:]
    return [
        Line(
            f"{name}: an item at {n}x to one at 1x",
            statistics.median(costs[n] / costs[1] for costs in rounds),
            "x",
            budget,
        )
        for n in (4, 16)
    ]


def show(lines: Iterable[Line], console: Console) -> None:
    table = Table(title="Speed budgets (medians of 5)")
    table.add_column("what")
    table.add_column("value", justify="right")
    table.add_column("budget", justify="right")
    table.add_column("within")
    for line in lines:
        verdict = "[green]yes[/]" if line.within else "[bold red]NO[/]"
        table.add_row(line.name, f"{line.value:.3g} {line.unit}", f"{line.budget:g} {line.unit}", verdict)
    console.print(table)


def write(lines: Sequence[Line], file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        json.dumps([line.as_json() for line in lines], indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )
