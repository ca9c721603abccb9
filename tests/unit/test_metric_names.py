"""The registry of metrics: what the functions write is in it, what is in it they write, with bounded dimensions."""

import ast
import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast.interruption.measure import Measures, Occurrence
from holdfast.interruption.verdict import Verdict
from holdfast.runtime import case_metrics, observability
from holdfast.runtime.metric_names import PER_FUNCTION, MetricName

ROOT = Path(__file__).parents[2]
HANDLERS = {path.parent.name: path for path in (ROOT / "lambdas").glob("*/handler.py")}
CASE_METRICS = Path(case_metrics.__file__)


def named(path: Path) -> set[MetricName]:
    """The members of the registry that a module names."""
    return {
        MetricName[node.attr]
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "MetricName"
    }


def calls(path: Path, method: str) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
            yield node


def written(capsys: pytest.CaptureFixture[str]) -> list[dict]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("service", sorted(HANDLERS))
def test_a_function_writes_exactly_the_metrics_the_registry_says_are_its_own(service: str) -> None:
    found = named(HANDLERS[service])
    if service == "interruption_judge":
        found |= named(CASE_METRICS)

    assert found == {metric for metric in MetricName if metric.service == service}


def test_every_metric_belongs_to_a_function_that_there_is() -> None:
    assert {metric.service for metric in MetricName} == set(HANDLERS)


@pytest.mark.parametrize("service", sorted(HANDLERS))
def test_a_handler_writes_by_the_registry_alone(service: str) -> None:
    recorded = list(calls(HANDLERS[service], "record"))

    assert recorded
    for call in recorded:
        assert isinstance(call.args[0], ast.Attribute)
        assert ast.unparse(call.args[0]).startswith("MetricName.")
    assert not list(calls(HANDLERS[service], "add_metric"))
    assert not list(calls(HANDLERS[service], "add_dimension"))


@pytest.mark.parametrize("metric", MetricName)
def test_a_metric_has_a_pascal_case_name_a_unit_of_cloudwatch_and_a_meaning(metric: MetricName) -> None:
    assert metric.value == "".join(word.capitalize() for word in metric.name.split("_"))
    assert metric.unit == ("Seconds" if metric.endswith("Seconds") else "Count")
    assert metric.meaning
    assert not metric.meaning.endswith(".")


def test_no_dimension_has_a_value_for_each_instance() -> None:
    """CloudWatch bills each combination of values: functions, clusters, NodePools, types, zones and verdicts are few."""
    names = {name for metric in MetricName for dimensions in metric.dimensions for name in dimensions}

    assert names == {"service", "cluster", "nodepool", "verdict", "kind", "instance_type", "zone"}


def test_a_function_records_in_the_metrics_own_unit(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = observability.metrics("interruption_sweeper")
    metrics.record(MetricName.OUTBOX_AGE_SECONDS, 12.5)
    metrics.flush_metrics()

    (record,) = written(capsys)
    (directive,) = record["_aws"]["CloudWatchMetrics"]
    assert directive == {
        "Namespace": "Holdfast",
        "Dimensions": [["service"]],
        "Metrics": [{"Name": "OutboxAgeSeconds", "Unit": "Seconds"}],
    }
    assert (record["service"], record["OutboxAgeSeconds"]) == ("interruption_sweeper", [12.5])


def sets(record: dict) -> list[list[str]]:
    """The dimension sets of a written record, each of which CloudWatch makes a metric of its own of."""
    found: list[list[str]] = record["_aws"]["CloudWatchMetrics"][0]["Dimensions"]
    return found


def test_a_case_is_counted_by_verdict_and_measured_by_cluster_and_pool(capsys: pytest.CaptureFixture[str]) -> None:
    case_metrics.write(
        [Measures("cluster-a", "spot", Verdict.HANDLED_IN_TIME, True, timedelta(seconds=5), timedelta(seconds=50))]
    )

    count, handling = written(capsys)
    assert sets(count) == [["service", "cluster", "verdict"]]
    assert (count["service"], count["cluster"], count["verdict"], count["Verdicts"]) == (
        "interruption_judge",
        "cluster-a",
        "HANDLED_IN_TIME",
        [1],
    )
    assert sets(handling) == [["service", "cluster"], ["service", "cluster", "nodepool"]]
    assert (handling["cluster"], handling["nodepool"]) == ("cluster-a", "spot")
    assert (handling["HandledInTime"], handling["ReactionSeconds"], handling["DrainSeconds"]) == ([1], [5], [50])


@pytest.mark.parametrize(("seconds", "in_time"), [(600, 1), (600.1, 0)])
def test_how_fast_the_audit_was_is_written_by_cluster(
    capsys: pytest.CaptureFixture[str], seconds: float, in_time: float
) -> None:
    decided = timedelta(seconds=seconds)
    case_metrics.write([Measures("c", "p", Verdict.SUPERSEDED, first_look=timedelta(seconds=2), decided=decided)])

    _, own = written(capsys)
    assert sets(own) == [["service", "cluster"]]
    assert (own["FirstLookSeconds"], own["VerdictSeconds"]) == ([2], [seconds])
    assert own["VerdictsInTime"] == [in_time]


def test_an_interruption_is_counted_by_kind_pool_type_and_zone_and_never_by_instance(
    capsys: pytest.CaptureFixture[str],
) -> None:
    case_metrics.count([Occurrence("cluster-a", "spot", "spot_interrupted", "c6i.2xlarge", "ap-southeast-1a")])

    (record,) = written(capsys)
    assert sets(record) == [
        ["service", "cluster", "kind"],
        ["service", "cluster", "nodepool", "kind"],
        ["service", "cluster", "instance_type"],
        ["service", "cluster", "zone"],
    ]
    assert record["Interruptions"] == [1]
    assert {record[name] for name in ("cluster", "nodepool", "kind", "instance_type", "zone")} == {
        "cluster-a",
        "spot",
        "spot_interrupted",
        "c6i.2xlarge",
        "ap-southeast-1a",
    }


def test_what_is_unknown_of_a_case_is_not_written_as_zero(capsys: pytest.CaptureFixture[str]) -> None:
    case_metrics.write([Measures("cluster-a", None, Verdict.MISSED, False), None])
    case_metrics.write([Measures("unknown", None, Verdict.INCONCLUSIVE)])

    missed, handling, unsure = written(capsys)
    assert (missed["verdict"], unsure["verdict"]) == ("MISSED", "INCONCLUSIVE")
    assert [item["Name"] for item in handling["_aws"]["CloudWatchMetrics"][0]["Metrics"]] == ["HandledInTime"]
    assert sets(handling) == [["service", "cluster"]]
    assert handling["HandledInTime"] == [0]


def test_the_written_dimensions_are_those_of_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    second = timedelta(seconds=1)
    case_metrics.write([Measures("c", "p", Verdict.HANDLED_LATE, False, second, 130 * second, second, 140 * second)])
    case_metrics.count([Occurrence("c", "p", "k", "t", "z")])

    for record in written(capsys):
        (directive,) = record["_aws"]["CloudWatchMetrics"]
        for item in directive["Metrics"]:
            metric = MetricName(item["Name"])
            assert metric.dimensions != PER_FUNCTION
            assert tuple(map(tuple, directive["Dimensions"])) == metric.dimensions
            assert item["Unit"] == metric.unit
