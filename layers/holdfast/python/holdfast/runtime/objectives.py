"""What the stacks make alarms and graphs of: the objectives, and the words that stand in the metrics' dimensions."""

from holdfast.interruption.event import Kind
from holdfast.interruption.slo import (
    ALERT_P95,
    FACT_P95,
    FACT_P99,
    FIRST_LOOK_P95,
    HANDLED,
    MISSED,
    VERDICT_P95,
    VERDICT_P99,
    Target,
)
from holdfast.interruption.verdict import Verdict

__all__ = [
    "ALERT_P95",
    "FACT_P95",
    "FACT_P99",
    "FIRST_LOOK_P95",
    "HANDLED",
    "MISSED",
    "VERDICT_P95",
    "VERDICT_P99",
    "Kind",
    "Target",
    "Verdict",
]
