"""`python -m tests.bench`: measure every budget, show a table, write build/bench.json; exit 1 if one is exceeded."""

import gc
import sys
from pathlib import Path

from rich.console import Console

from tests.bench import burst, harness, interruption, layers

RESULT = Path(__file__).resolve().parents[2] / "build" / "bench.json"


def main() -> int:
    # The modules of the AWS CDK, which only the layers need, would else be walked by every garbage collection.
    gc.freeze()
    console = Console()
    lines: list[harness.Line] = []
    for bench in (interruption, burst, layers):
        console.print(f"measuring {bench.__name__.removeprefix('tests.bench.')} ...")
        lines += bench.run()
    harness.show(lines, console)
    harness.write(lines, RESULT)
    console.print(f"written to {RESULT.relative_to(Path.cwd()) if RESULT.is_relative_to(Path.cwd()) else RESULT}")
    return 0 if all(line.within for line in lines) else 1


sys.exit(main())
