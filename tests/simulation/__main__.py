"""`python -m tests.simulation --seeds N`: the table of truth against verdict; exit 1 on a verdict that is neither right
nor INCONCLUSIVE.
"""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console

from tests.simulation.confusion import confusion, show

SHOWN = 20


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=500, help="how many worlds to play (500)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    options = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    start = time.monotonic()
    found = confusion(range(options.first, options.first + options.seeds))
    show(found, console)
    for sentence in found.wrong[:SHOWN]:
        console.print(sentence, style="red", markup=False, highlight=False)
    console.print(
        f"{found.seeds} seeds, {found.nodes} instances, {time.monotonic() - start:.0f} s: {len(found.wrong)} wrong"
    )
    return 1 if found.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
