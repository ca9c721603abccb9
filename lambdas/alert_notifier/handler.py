"""Wake-up queue → the alerts that wait in the outbox → Slack, one function at a time by a lease."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.alerts.deliver import DeliverResult, deliver
from holdfast.errors import HoldfastError, InvalidDocument
from holdfast.runtime import batch, clock, observability, wiring_slack
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.settings import NotifierSettings

logger = observability.logger(NotifierSettings.service)
metrics = observability.metrics(NotifierSettings.service)


@logger.inject_lambda_context(clear_state=True, correlation_id_path="Records[0].messageId")
@metrics.log_metrics
def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Tells what one batch of wake-ups, and the outbox, ask for."""
    needs = wiring_slack.notifier()
    records = batch.records(event)
    wanted: dict[str, None] = {}
    for record in records:
        try:
            wanted |= dict.fromkeys(needs.parse_wakeup(batch.body(record)))
        except InvalidDocument as error:
            # It names nothing, but it is a wake-up all the same: the outbox knows what waits.
            logger.error(str(error), message_id=record.message_id)
    began = clock.now()
    failed: dict[str, str] = {}
    result = DeliverResult((), 0)
    try:
        result = deliver(
            list(wanted),
            owner=context.aws_request_id,
            clock=clock.now,
            until=began + timedelta(milliseconds=context.get_remaining_time_in_millis()),
            outbox=needs.outbox,
            messenger=needs.messenger,
            wakeups=needs.wakeups,
            pause=clock.pause,
            window=needs.window,
        )
    except HoldfastError as error:
        failed = {record.message_id: str(error) for record in records}
        logger.error(str(error))
    for identity in result.told:
        logger.info("told", alert=identity)
    if result.problem is not None:
        (logger.error if result.undeliverable else logger.warning)(result.problem)
    metrics.record(MetricName.ALERTS_TOLD, len(result.told))
    metrics.record(MetricName.ALERTS_WAITING, result.waiting)
    metrics.record(MetricName.ALERTS_UNDELIVERABLE, int(result.undeliverable))
    for wait in result.waits:
        metrics.record(MetricName.ALERT_LAG_SECONDS, wait.total_seconds())
    return batch.settle(event, failed, context, logger)
