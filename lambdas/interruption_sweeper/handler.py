"""Every minute: ask again for looks that were lost, wake the notifier for alerts that wait, and check on Holdfast itself."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.interruption.selfcheck import self_check
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
    check = self_check(
        now=clock.now(),
        deployment=needs.deployment,
        ledger=needs.ledger,
        states=needs.states,
        rules=needs.rules,
        bus=needs.bus,
        wakeups=needs.wakeups,
    )
    problems = [*result.problems, *check.problems]
    for problem in problems:
        logger.error(problem)
    oldest = result.oldest_overdue.total_seconds() if result.oldest_overdue is not None else 0.0
    age = result.outbox_age.total_seconds() if result.outbox_age is not None else 0.0
    metrics.record(MetricName.SWEEPER_HEARTBEAT, 1)
    metrics.record(MetricName.OVERDUE_LOOKS, result.overdue)
    metrics.record(MetricName.OLDEST_OVERDUE_SECONDS, oldest)
    metrics.record(MetricName.OUTBOX_AGE_SECONDS, age)
    metrics.record(MetricName.SWEEP_FAILURES, len(problems))
    if check.canary is not None:
        metrics.record(MetricName.CANARY_SECONDS, check.canary.total_seconds())
    if check.drift is not None:
        metrics.record(MetricName.RULE_DRIFT, check.drift)
    if check.degraded is not None:
        metrics.record(MetricName.DEGRADED_MODE, int(bool(check.degraded)))
    logger.info(
        "swept",
        overdue=result.overdue,
        oldest_overdue_seconds=oldest,
        outbox_age_seconds=age,
        canary_seconds=None if check.canary is None else check.canary.total_seconds(),
        rule_drift=check.drift,
        degraded=check.degraded,
    )
    return {"overdue": result.overdue, "problems": problems}
