"""Wake-up queue → the alerts that wait in the outboxes → Slack and SNS, one function at a time in each by a lease."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.typing import LambdaContext

from holdfast.alerts.deliver import DeliverResult, Run, deliver_all
from holdfast.errors import InvalidDocument
from holdfast.ports import Wakeup
from holdfast.runtime import batch, clock, observability, wiring_slack
from holdfast.runtime.metric_names import MetricName
from holdfast.runtime.parallel import parallel
from holdfast.runtime.settings import NotifierSettings

logger = observability.logger(NotifierSettings.service)
metrics = observability.metrics(NotifierSettings.service)


@logger.inject_lambda_context(clear_state=True, correlation_id_path="Records[0].messageId")
@metrics.log_metrics
def lambda_handler(event: Mapping[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """Tells what one batch of wake-ups, and the outboxes, ask for."""
    needs = wiring_slack.notifier()
    wakeups: dict[str, Wakeup] = {}
    for record in batch.records(event):
        try:
            wakeups[record.message_id] = needs.parse_wakeup(batch.body(record))
        except InvalidDocument as error:
            # It names nothing, but it is a wake-up all the same: the outboxes know what waits.
            logger.error(str(error), message_id=record.message_id)
            wakeups[record.message_id] = Wakeup()
    left = timedelta(milliseconds=context.get_remaining_time_in_millis())
    run = Run(context.aws_request_id, clock.now, clock.now() + left, clock.pause)
    results = deliver_all(list(wakeups.values()), needs.destinations, run=run, pace=needs.pace, parallel=parallel)
    failed: dict[str, str] = {}
    told = waiting = undeliverable = 0
    for name, result in results.items():
        if not isinstance(result, DeliverResult):
            failed |= {key: str(result) for key, wakeup in wakeups.items() if wakeup.destination in {None, name}}
            logger.error(str(result), destination=name)
            continue
        told, waiting = told + len(result.told), waiting + result.waiting
        undeliverable |= result.undeliverable
        for identity in result.told:
            logger.info("told", alert=identity, destination=name)
        if result.problem is not None:
            (logger.error if result.undeliverable else logger.warning)(result.problem, destination=name)
        for wait in result.waits:
            metrics.record(MetricName.ALERT_LAG_SECONDS, wait.total_seconds())
    metrics.record(MetricName.ALERTS_TOLD, told)
    metrics.record(MetricName.ALERTS_WAITING, waiting)
    metrics.record(MetricName.ALERTS_UNDELIVERABLE, undeliverable)
    return batch.settle(event, failed, context, logger)
