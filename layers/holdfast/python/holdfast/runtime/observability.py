"""The logger and the metrics of a function: JSON lines without secrets, and CloudWatch metrics in Embedded Metric Format."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics

from holdfast.runtime.metric_names import NAMESPACE, MetricName

_SECRETS = (
    # A Slack webhook is a password: whoever has the URL may post.
    re.compile(r"https?://[^\s\"'\\]*/services/[A-Za-z0-9/_-]+"),
    re.compile(r"k8s-aws-v1\.[A-Za-z0-9_=-]+"),
    re.compile(r"X-Amz-(?:Signature|Security-Token|Credential)=[^&\s\"'\\]+"),
)
_REDACTED = "[redacted]"


def redact(text: str) -> str:
    """`text` without webhook URLs, EKS bearer tokens and parts of presigned URLs."""
    for pattern in _SECRETS:
        text = pattern.sub(_REDACTED, text)
    return text


@cache
def logger(service: str) -> Logger:
    """The function's logger. Every line carries the service, the correlation id and the request id."""
    return Logger(service=service, json_serializer=_serialize, use_rfc3339=True, utc=True, log_uncaught_exceptions=True)


class FunctionMetrics(Metrics):
    """The metrics of one run of a function, all with the one dimension `service`. Written when the handler returns."""

    def record(self, name: MetricName, value: float) -> None:
        """One value of a metric, in the metric's own unit."""
        self.add_metric(name=name, unit=name.unit, value=value)


@cache
def metrics(service: str) -> FunctionMetrics:
    """The function's metrics."""
    return FunctionMetrics(namespace=NAMESPACE, service=service)


def _serialize(line: dict[str, Any]) -> str:
    return redact(json.dumps(line, default=str, separators=(",", ":")))
