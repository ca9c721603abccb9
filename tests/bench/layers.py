"""What the layers weigh, and what a cold start pays to import each handler from them."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from stacks import bundling
from tests.bench.harness import RUNS, Line

BUDGET = 0.6
BUDGETS = {"alert_notifier": 0.35}
"""Of the time that boto3 and kubernetes.client take without bytecode, which is what a plain layer would give."""

WITHOUT_KUBERNETES = ("alert_notifier",)

# What Lambda sets before it imports a handler, as far as a library looks at it while it is imported.
ENVIRONMENT = {
    "AWS_REGION": "eu-central-1",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "POWERTOOLS_SERVICE_NAME": "bench",
    "POWERTOOLS_METRICS_NAMESPACE": "Holdfast",
}

PROGRAM = """
import json, sys, time
sys.path[:0] = json.loads(sys.argv[1])
start = time.process_time()
for name in sys.argv[2:]:
    __import__(name)
print(json.dumps([time.process_time() - start, sum(name.split(".")[0] == "kubernetes" for name in sys.modules)]))
"""


@dataclass(frozen=True, slots=True)
class Import:
    """Seconds of processor time in a fresh process, and how many modules of the Kubernetes client it left loaded."""

    seconds: float
    kubernetes_modules: int


def run() -> Iterator[Line]:
    dependencies = {machine: bundling.built_dependencies(machine) for machine in bundling.Architecture}
    with tempfile.TemporaryDirectory() as folder:
        holdfast = Path(folder) / "holdfast"
        bundling.build_holdfast(holdfast)
        for machine, layer in dependencies.items():
            size = sum(map(bundling.unzipped_size, (layer, holdfast)))
            yield Line(f"layers, unzipped, {machine}", size / 1e6, "MB", bundling.UNZIPPED_LIMIT / 1e6)
        yield from _imports(Path(folder), dependencies[bundling.host_architecture()], holdfast)


def _imports(folder: Path, dependencies: Path, holdfast: Path) -> Iterator[Line]:
    plain = folder / "plain"
    shutil.copytree(dependencies / "python", plain, ignore=shutil.ignore_patterns("__pycache__"))
    functions = sorted(path.parent.name for path in bundling.FUNCTIONS.glob("*/handler.py"))
    for name in functions:
        bundling.build_function(name, folder / name)

    baseline: list[float] = []
    measured: dict[str, list[Import]] = {name: [] for name in functions}
    # In turns, so that a busy minute of the machine falls on all of them alike. The first round fills the page cache.
    for _ in range(RUNS + 1):
        baseline.append(_import([plain], "boto3", "kubernetes.client").seconds)
        for name in functions:
            path = [folder / name, dependencies / "python", holdfast / "python"]
            measured[name].append(_import(path, "handler"))

    reference = statistics.median(baseline[1:])
    for name, runs in measured.items():
        seconds = statistics.median(run.seconds for run in runs[1:])
        budget = BUDGETS.get(name, BUDGET)
        yield Line(f"cold import of {name} ({seconds * 1000:.0f} ms)", seconds / reference, "x plain", budget)
        if name in WITHOUT_KUBERNETES:
            modules = max(run.kubernetes_modules for run in runs)
            yield Line(f"Kubernetes modules that {name} imports", modules, "modules", 0)


def _import(path: list[Path], *names: str) -> Import:
    """Import in a fresh process that writes no bytecode, as in Lambda's read-only folders."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", PROGRAM, json.dumps([str(entry) for entry in path]), *names],
        env=ENVIRONMENT | {"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"importing {', '.join(names)} from the layers: {done.stderr.strip()}")
    return Import(*json.loads(done.stdout))
