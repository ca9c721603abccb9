"""A benchmark compares with its budget and writes what it found."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench import harness
from tests.bench.harness import Line


def test_a_value_at_the_budget_is_within_it() -> None:
    assert Line("layers", 120, "MB", 120).within
    assert not Line("layers", 120.1, "MB", 120).within


def test_the_file_is_a_list_of_name_value_unit_budget_within(tmp_path: Path) -> None:
    harness.write([Line("ingest", 1.23456, "ms", 5)], tmp_path / "build" / "bench.json")

    assert json.loads((tmp_path / "build" / "bench.json").read_text()) == [
        {"name": "ingest", "value": 1.2346, "unit": "ms", "budget": 5, "within": True}
    ]


def test_the_table_marks_what_exceeds_its_budget() -> None:
    console = Console(record=True, width=120)

    harness.show([Line("ingest", 6, "ms", 5), Line("layers", 88, "MB", 120)], console)

    text = console.export_text()
    assert next(line for line in text.splitlines() if "ingest" in line).count("NO") == 1
    assert "88 MB" in text


@pytest.mark.parametrize(("power", "within"), [(0, True), (1, False)])
def test_growth_is_told_from_the_cost_of_one_item(power: int, within: bool) -> None:
    lines = harness.growth("fold", lambda n: float(n**power))

    assert [line.value for line in lines] == [4**power, 16**power]
    assert [line.within for line in lines] == [within, within]


def test_the_median_is_over_the_runs_after_one_that_warms_up() -> None:
    calls: list[None] = []

    assert harness.median_cpu(lambda: calls.append(None), runs=3) >= 0
    assert len(calls) == 4
