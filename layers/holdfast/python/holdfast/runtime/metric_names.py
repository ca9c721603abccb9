"""Every metric the functions write, in one place: handlers write by these names, alarms, dashboard and docs read by them.

A dimension costs money for each of its values and makes percentiles coarser, so there are only few values of each:
functions, configured clusters, their NodePools, instance types and zones, and the verdicts. An instance is never one.
"""

from enum import StrEnum
from typing import Self

NAMESPACE = "Holdfast"
"""Of all these metrics."""

type Dimensions = tuple[tuple[str, ...], ...]

PER_FUNCTION: Dimensions = (("service",),)
PER_VERDICT: Dimensions = (("service", "cluster", "verdict"),)
PER_CLUSTER: Dimensions = (("service", "cluster"),)
PER_POOL: Dimensions = (("service", "cluster"), ("service", "cluster", "nodepool"))
PER_KIND_TYPE_AND_ZONE: Dimensions = (
    ("service", "cluster", "kind"),
    ("service", "cluster", "nodepool", "kind"),
    ("service", "cluster", "instance_type"),
    ("service", "cluster", "zone"),
)
"""Each by itself is a metric of its own to CloudWatch."""

_COUNT, _SECONDS = "Count", "Seconds"


class MetricName(StrEnum):
    """The metrics by name. Each knows its CloudWatch `unit`, the function (`service`), `dimensions`, and `meaning`."""

    unit: str
    service: str
    dimensions: Dimensions
    meaning: str

    def __new__(cls, name: str, unit: str, service: str, meaning: str, dimensions: Dimensions = PER_FUNCTION) -> Self:
        """`name` is the member's value."""
        member = str.__new__(cls, name)
        member._value_ = name
        member.unit = unit
        member.service = service
        member.dimensions = dimensions
        member.meaning = meaning
        return member

    FACTS_STORED = "FactsStored", _COUNT, "interruption_ingest", "facts that were new to the ledger"
    DUPLICATE_FACTS = (
        "DuplicateFacts",
        _COUNT,
        "interruption_ingest",
        "facts the ledger had already: EventBridge and SQS deliver at least once",
    )
    POISON_MESSAGES = (
        "PoisonMessages",
        _COUNT,
        "interruption_ingest",
        "bodies nobody can read; each kind of defect is told once an hour",
    )
    IGNORED_MESSAGES = (
        "IgnoredMessages",
        _COUNT,
        "interruption_ingest",
        "readable events that are of no concern to the audit",
    )
    INGEST_FAILURES = (
        "IngestFailures",
        _COUNT,
        "interruption_ingest",
        "messages that come back, and sends that are left to the sweeper",
    )
    FACT_LAG_SECONDS = (
        "FactLagSeconds",
        _SECONDS,
        "interruption_ingest",
        "from an event of EC2 to its fact in the ledger, one value a fact; no replays, no duplicates",
    )
    FACTS_IN_TIME = (
        "FactsInTime",
        _COUNT,
        "interruption_ingest",
        "1 for each of these facts that was there within 60 s, 0 for one that was not: the average is the share",
    )

    LOOKS = "Looks", _COUNT, "interruption_judge", "looks at EC2 and the cluster that were made"
    CASES_JUDGED = "CasesJudged", _COUNT, "interruption_judge", "case rows stored, final or not"
    CASES_FINAL = "CasesFinal", _COUNT, "interruption_judge", "cases that became final"
    JUDGE_FAILURES = (
        "JudgeFailures",
        _COUNT,
        "interruption_judge",
        "instances whose look comes back, and sends that are left to the sweeper",
    )
    BLIND_LOOKS = (
        "BlindLooks",
        _COUNT,
        "interruption_judge",
        "questions that EC2, a cluster or Karpenter's queue would not answer",
    )
    VERDICTS = (
        "Verdicts",
        _COUNT,
        "interruption_judge",
        "cases that became final, each counted once, under its first final verdict",
        PER_VERDICT,
    )
    HANDLED_IN_TIME = (
        "HandledInTime",
        _COUNT,
        "interruption_judge",
        "1 for a Spot termination handled in time, 0 for one handled otherwise or not at all: the average is the share",
        PER_POOL,
    )
    REACTION_SECONDS = (
        "ReactionSeconds",
        _SECONDS,
        "interruption_judge",
        "from a Spot termination's warning to the deletion of the NodeClaim, where it was seen",
        PER_POOL,
    )
    DRAIN_SECONDS = (
        "DrainSeconds",
        _SECONDS,
        "interruption_judge",
        "from a Spot termination's warning to the NodeClaim's condition Drained, where it was seen",
        PER_POOL,
    )
    FIRST_LOOK_SECONDS = (
        "FirstLookSeconds",
        _SECONDS,
        "interruption_judge",
        "from a Spot termination's warning to the first look at it",
        PER_CLUSTER,
    )
    VERDICT_SECONDS = (
        "VerdictSeconds",
        _SECONDS,
        "interruption_judge",
        "from a Spot termination's warning to its final verdict, but for those that wait for the last look by rule",
        PER_CLUSTER,
    )
    VERDICTS_IN_TIME = (
        "VerdictsInTime",
        _COUNT,
        "interruption_judge",
        "1 for each of these verdicts that came within 600 s, 0 for one that did not: the average is the share",
        PER_CLUSTER,
    )
    INTERRUPTIONS = (
        "Interruptions",
        _COUNT,
        "interruption_judge",
        "interruptions of our own instances, each counted once, as soon as its cluster is known",
        PER_KIND_TYPE_AND_ZONE,
    )

    SWEEPER_HEARTBEAT = "SweeperHeartbeat", _COUNT, "interruption_sweeper", "1 for each finished sweep"
    OVERDUE_LOOKS = "OverdueLooks", _COUNT, "interruption_sweeper", "looks that are late and were asked for again"
    OLDEST_OVERDUE_SECONDS = (
        "OldestOverdueSeconds",
        _SECONDS,
        "interruption_sweeper",
        "how late the latest of them is; 0 when none is late",
    )
    OUTBOX_AGE_SECONDS = (
        "OutboxAgeSeconds",
        _SECONDS,
        "interruption_sweeper",
        "how long the oldest alert has waited that might be told; 0 when none waits, or only for quiet hours to end",
    )
    SWEEP_FAILURES = (
        "SweepFailures",
        _COUNT,
        "interruption_sweeper",
        "what a sweep could not do or find out, and left to the next one",
    )
    CANARY_SECONDS = (
        "CanarySeconds",
        _SECONDS,
        "interruption_sweeper",
        "what the hourly canary took from the bus to the ledger, or has taken so far; absent when not known",
    )
    RULE_DRIFT = (
        "RuleDrift",
        _COUNT,
        "interruption_sweeper",
        "rules that are not as deployed, or of which EventBridge would not tell; absent when not known",
    )
    DEGRADED_MODE = (
        "DegradedMode",
        _COUNT,
        "interruption_sweeper",
        "1 while the audit is in degraded mode, else 0; absent when not known",
    )

    ALERTS_TOLD = (
        "AlertsTold",
        _COUNT,
        "alert_notifier",
        "alerts that Slack or SNS took, each counted at every destination it went to",
    )
    ALERT_LAG_SECONDS = (
        "AlertLagSeconds",
        _SECONDS,
        "alert_notifier",
        "from deciding an alert to telling it, one value for each that is more than information",
    )
    ALERTS_WAITING = "AlertsWaiting", _COUNT, "alert_notifier", "alerts a run left in the outbox"
    ALERTS_UNDELIVERABLE = (
        "AlertsUndeliverable",
        _COUNT,
        "alert_notifier",
        "1 for each run that a destination refused for good: revoked webhook, archived channel, closed topic",
    )
