"""The metrics of decided cases. Their dimensions differ from case to case, so each is a record of its own in the log."""

from __future__ import annotations

from aws_lambda_powertools.metrics import EphemeralMetrics

from holdfast.interruption.measure import Measures
from holdfast.runtime.metric_names import NAMESPACE, MetricName
from holdfast.runtime.settings import JudgeSettings


def write(measures: Measures | None) -> None:
    """Writes one case's count under its verdict, and what is known of its handling under its cluster and NodePool."""
    if measures is None:
        return
    _write([{"cluster": measures.cluster, "verdict": measures.verdict.value}], {MetricName.VERDICTS: 1})
    handling = {
        MetricName.HANDLED_IN_TIME: None if measures.handled is None else float(measures.handled),
        MetricName.REACTION_SECONDS: None if measures.reaction is None else measures.reaction.total_seconds(),
        MetricName.DRAIN_SECONDS: None if measures.drain is None else measures.drain.total_seconds(),
    }
    known = {name: value for name, value in handling.items() if value is not None}
    by_cluster = {"cluster": measures.cluster}
    by_pool = [by_cluster | {"nodepool": measures.nodepool}] if measures.nodepool is not None else []
    if known:
        _write([by_cluster, *by_pool], known)


def _write(dimension_sets: list[dict[str, str]], values: dict[MetricName, float]) -> None:
    record = EphemeralMetrics(namespace=NAMESPACE, service=JudgeSettings.service)
    first, *further = [{"service": JudgeSettings.service} | dimensions for dimensions in dimension_sets]
    for dimension, value in first.items():
        record.add_dimension(dimension, value)
    for dimensions in further:
        record.add_dimensions(**dimensions)
    for name, number in values.items():
        record.add_metric(name, name.unit, number)
    record.flush_metrics()
