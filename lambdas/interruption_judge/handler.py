"""Recheck queue → a look at EC2 and the cluster → case, verdict and alert in the ledger. One function per network."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.errors import InvalidDocument
from holdfast.interruption.audit import audit
from holdfast.interruption.measure import measure, occurrence
from holdfast.ports import Look
from holdfast.runtime import batch, case_metrics, clock, observability, wiring_kubernetes
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.settings import JudgeSettings

logger = observability.logger(JudgeSettings.service)
metrics = observability.metrics(JudgeSettings.service)


@logger.inject_lambda_context(clear_state=True, correlation_id_path="Records[0].messageId")
@metrics.log_metrics
def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Judges the instances that one batch of the recheck queue names."""
    needs = wiring_kubernetes.judge()
    asked: dict[str, Look] = {}
    for record in batch.records(event):
        try:
            asked[record.message_id] = needs.parse_look(batch.body(record))
        except InvalidDocument as error:
            # It will never be readable; the watch behind it, if any, is found by the sweeper.
            logger.error(str(error), message_id=record.message_id)
    result = audit(
        list(asked.values()),
        now=clock.now(),
        scope=needs.scope,
        ledger=needs.ledger,
        instances=needs.instances,
        clusters=needs.clusters,
        queues=needs.queues,
        looks=needs.looks,
        wakeups=needs.wakeups,
        degraded=needs.mode.degraded(clock.now()),
    )
    for row in result.judged:
        judgement = row.judgement
        logger.info(
            judgement.reason, case=row.case.key, verdict=judgement.verdict, cause=judgement.cause, final=judgement.final
        )
    for problem in (*result.problems, *result.blind):
        logger.error(problem)
    metrics.record(MetricName.LOOKS, result.looked)
    metrics.record(MetricName.CASES_JUDGED, len(result.judged))
    metrics.record(MetricName.CASES_FINAL, len(result.decided))
    metrics.record(MetricName.JUDGE_FAILURES, len(result.failed) + len(result.problems))
    metrics.record(MetricName.BLIND_LOOKS, len(result.blind))
    case_metrics.write(map(measure, result.decided))
    case_metrics.count(map(occurrence, result.begun))
    failed = {identity: result.failed[look.key] for identity, look in asked.items() if look.key in result.failed}
    return batch.settle(event, failed, context, logger)
