"""The metrics of cases. Their dimensions differ from case to case, so each is a record of its own in the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict

from aws_lambda_powertools.metrics import EphemeralMetrics

from holdfast.interruption.measure import VERDICT_WITHIN, Measures, Occurrence
from holdfast.runtime.metric_names import NAMESPACE, MetricName
from holdfast.runtime.settings import JudgeSettings


def write(decided: Iterable[Measures | None]) -> None:
    """Writes each decided case's count under its verdict, and what is known of how fast it was handled and judged."""
    for measures in decided:
        if measures is not None:
            _write_case(measures)


def count(begun: Iterable[Occurrence]) -> None:
    """Writes each interruption, to be summed by kind, NodePool, instance type or zone."""
    for occurrence in begun:
        known = asdict(occurrence)
        sets = [{name: known[name] for name in names if name in known} for names in MetricName.INTERRUPTIONS.dimensions]
        _write(sets, {MetricName.INTERRUPTIONS: 1})


def _write_case(measures: Measures) -> None:
    _write([{"cluster": measures.cluster, "verdict": measures.verdict.value}], {MetricName.VERDICTS: 1})
    by_cluster = {"cluster": measures.cluster}
    by_pool = [by_cluster | {"nodepool": measures.nodepool}] if measures.nodepool is not None else []
    _write(
        [by_cluster, *by_pool],
        {
            MetricName.HANDLED_IN_TIME: None if measures.handled is None else float(measures.handled),
            MetricName.REACTION_SECONDS: None if measures.reaction is None else measures.reaction.total_seconds(),
            MetricName.DRAIN_SECONDS: None if measures.drain is None else measures.drain.total_seconds(),
        },
    )
    first_look, decided = measures.first_look, measures.decided
    _write(
        [by_cluster],
        {
            MetricName.FIRST_LOOK_SECONDS: None if first_look is None else first_look.total_seconds(),
            MetricName.VERDICT_SECONDS: None if decided is None else decided.total_seconds(),
            MetricName.VERDICTS_IN_TIME: None if decided is None else float(decided <= VERDICT_WITHIN),
        },
    )


def _write(dimension_sets: list[dict[str, str]], values: dict[MetricName, float | None]) -> None:
    """One record of the values that are known; none when there are none."""
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return
    record = EphemeralMetrics(namespace=NAMESPACE, service=JudgeSettings.service)
    first, *further = [{"service": JudgeSettings.service} | dimensions for dimensions in dimension_sets]
    for dimension, value in first.items():
        record.add_dimension(dimension, value)
    for dimensions in further:
        record.add_dimensions(**dimensions)
    for name, number in known.items():
        record.add_metric(name, name.unit, number)
    record.flush_metrics()
