"""Every minute: ask again for looks that were lost, wake the notifier for alerts that wait, and count both."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.interruption.sweep import sweep
from holdfast.runtime import clock, observability, wiring
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.settings import SweeperSettings

logger = observability.logger(SweeperSettings.service)
metrics = observability.metrics(SweeperSettings.service)


@logger.inject_lambda_context(clear_state=True, correlation_id_path="id")
@metrics.log_metrics
def lambda_handler(_event: Mapping[str, Any], _context: LambdaContext) -> dict[str, Any]:
    """Sweeps once. An outage raises: the asynchronous retry and the dead-letter queue are for that."""
    needs = wiring.sweeper()
    result = sweep(now=clock.now(), ledger=needs.ledger, outbox=needs.outbox, looks=needs.looks, wakeups=needs.wakeups)
    for problem in result.problems:
        logger.error(problem)
    oldest = result.oldest_overdue.total_seconds() if result.oldest_overdue is not None else 0.0
    age = result.outbox_age.total_seconds() if result.outbox_age is not None else 0.0
    metrics.record(MetricName.SWEEPER_HEARTBEAT, 1)
    metrics.record(MetricName.OVERDUE_LOOKS, result.overdue)
    metrics.record(MetricName.OLDEST_OVERDUE_SECONDS, oldest)
    metrics.record(MetricName.OUTBOX_AGE_SECONDS, age)
    metrics.record(MetricName.SWEEP_FAILURES, len(result.problems))
    logger.info("swept", overdue=result.overdue, oldest_overdue_seconds=oldest, outbox_age_seconds=age)
    return {"overdue": result.overdue, "problems": list(result.problems)}
