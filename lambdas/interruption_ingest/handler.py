"""Audit queue → facts and rejections in the ledger, and looks for the instances that need judging."""

from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.interruption.ingest import Message, ingest
from holdfast.interruption.measure import FACT_WITHIN, fact_lags
from holdfast.runtime import batch, clock, observability, wiring
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.parallel import parallel
from holdfast.runtime.settings import IngestSettings

logger = observability.logger(IngestSettings.service)
metrics = observability.metrics(IngestSettings.service)


@logger.inject_lambda_context(clear_state=True, correlation_id_path="Records[0].messageId")
@metrics.log_metrics
def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Handles one batch of the audit queue."""
    needs = wiring.ingest()
    messages = [
        Message(record.message_id, batch.body(record), batch.sent_at(record), batch.receive_count(record))
        for record in batch.records(event)
    ]
    result = ingest(
        messages,
        home=needs.scope.home,
        now=clock.now(),
        ledger=needs.ledger,
        instances=needs.instances,
        looks=needs.looks,
        wakeups=needs.wakeups,
        parallel=parallel,
        states=needs.states,
    )
    for item in result.stored:
        fact = item.fact
        logger.info(
            "fact", kind=fact.kind, subject=fact.subject, event_id=fact.event_id, new=item.new, notes=fact.notes
        )
    for rejection in result.rejected:
        logger.warning(
            rejection.reason, disposition=rejection.disposition, code=rejection.code, digest=rejection.digest
        )
    for problem in result.problems:
        logger.error(problem)
    metrics.record(MetricName.FACTS_STORED, len(result.stored) - result.duplicates)
    metrics.record(MetricName.DUPLICATE_FACTS, result.duplicates)
    metrics.record(MetricName.POISON_MESSAGES, result.poison)
    metrics.record(MetricName.IGNORED_MESSAGES, len(result.rejected) - result.poison)
    metrics.record(MetricName.INGEST_FAILURES, len(result.failed) + len(result.problems))
    for lag in fact_lags(result.stored, stored_at=clock.now()):
        metrics.record(MetricName.FACT_LAG_SECONDS, lag.total_seconds())
        metrics.record(MetricName.FACTS_IN_TIME, float(lag <= FACT_WITHIN))
    return batch.settle(event, result.failed, context, logger)
