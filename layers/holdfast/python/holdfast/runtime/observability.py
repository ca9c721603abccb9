"""The logger and the metrics of a function: JSON lines without secrets, and CloudWatch metrics in Embedded Metric Format."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from aws_lambda_powertools import Logger, Metrics

NAMESPACE = "Holdfast"

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


@cache
def metrics(service: str) -> Metrics:
    """The function's metrics, all with the one dimension `service`: an instance or a pool is never a dimension."""
    return Metrics(namespace=NAMESPACE, service=service)


def _serialize(line: dict[str, Any]) -> str:
    return redact(json.dumps(line, default=str, separators=(",", ":")))
