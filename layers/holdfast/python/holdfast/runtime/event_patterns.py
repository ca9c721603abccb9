"""Which events go where: the patterns of Karpenter's rules, of the audit's rules, and of the archive.

The detail-types are those of the EventBridge references of EC2, AWS Health, FIS and CloudTrail. What Karpenter acts on
is in its pkg/controllers/interruption/messages.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.interruption.event import CANARY_DETAIL_TYPE, CANARY_SOURCE
from holdfast.runtime.names import AuditRuleKind, RuleKind

Pattern = Mapping[str, Any]

_SCHEDULED_MAINTENANCE: Pattern = {
    "source": ["aws.health"],
    "detail-type": ["AWS Health Event"],
    # No filter on statusCode or backupEvent: a pattern on a field that is absent never matches, and a lost notice costs
    # more than a doubled one, which Karpenter and the audit both stand.
    "detail": {"service": ["EC2"], "eventTypeCategory": ["scheduledChange"]},
}

KARPENTER: Mapping[RuleKind, Pattern] = {
    RuleKind.SPOT: {"source": ["aws.ec2"], "detail-type": ["EC2 Spot Instance Interruption Warning"]},
    RuleKind.REBALANCE: {"source": ["aws.ec2"], "detail-type": ["EC2 Instance Rebalance Recommendation"]},
    RuleKind.STATE: {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Instance State-change Notification"],
        # Karpenter drops `pending` and `running`; sent to it they only distort its latency metric.
        "detail": {"state": ["stopping", "stopped", "shutting-down", "terminated"]},
    },
    RuleKind.CAPACITY: {
        "source": ["aws.ec2"],
        "detail-type": ["EC2 Capacity Reservation Instance Interruption Warning"],
    },
    RuleKind.HEALTH: _SCHEDULED_MAINTENANCE,
}
"""One pattern for each kind of message Karpenter acts on: those of its getting-started template, less what it drops."""


def audit(prefix: str, *, include_terminate_calls: bool) -> Mapping[AuditRuleKind, Pattern]:
    """One pattern for each rule of the audit: all that Karpenter gets, what explains it, and the canary of the deployment
    that `prefix` names. No event matches two.
    """
    cloudtrail = {"detail-type": ["AWS Service Event via CloudTrail"], "eventName": ["BidEvictedEvent"]}
    if include_terminate_calls:
        cloudtrail = {
            "detail-type": ["AWS Service Event via CloudTrail", "AWS API Call via CloudTrail"],
            "eventName": ["BidEvictedEvent", "TerminateInstances"],
        }
    return {
        # A warning that EC2 invents next year is a fact the day it comes, though Karpenter's rules don't know it yet.
        AuditRuleKind.WARNING: {
            "source": ["aws.ec2"],
            "detail-type": [{"wildcard": "EC2*Interruption Warning"}],
        },
        AuditRuleKind.REBALANCE: {
            "source": ["aws.ec2"],
            "detail-type": ["EC2 Instance Rebalance Recommendation", "EC2 Spot Instance Rebalance Recommended"],
        },
        # Every state: `running` begins a run, and nothing else in Holdfast reads state events.
        AuditRuleKind.STATE: {"source": ["aws.ec2"], "detail-type": ["EC2 Instance State-change Notification"]},
        AuditRuleKind.CAPACITY: {
            "source": ["aws.ec2"],
            "detail-type": [
                "Capacity Block Delivered",
                "Capacity Block Reservation Delivered",
                "Capacity Block Expiration Warning",
                "Capacity Block Reservation Expiration Warning",
                "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed",
            ],
        },
        AuditRuleKind.HEALTH: _SCHEDULED_MAINTENANCE,
        AuditRuleKind.EXPERIMENT: {"source": ["aws.fis"], "detail-type": ["FIS Experiment State Change"]},
        AuditRuleKind.CLOUDTRAIL: {
            "source": ["aws.ec2"],
            "detail-type": cloudtrail["detail-type"],
            "detail": {"eventName": cloudtrail["eventName"]},
        },
        AuditRuleKind.CANARY: canary(prefix),
    }


def canary(prefix: str) -> Pattern:
    """The canary of the deployment that `prefix` names: another one in the account has its own."""
    return {
        "source": [CANARY_SOURCE],
        "detail-type": [CANARY_DETAIL_TYPE],
        "detail": {"deployment": [prefix]},
    }


def archive(patterns: Mapping[AuditRuleKind, Pattern]) -> Pattern:
    """What the archive keeps: exactly what the audit's rules match, since a replay goes to them; a canary is about now."""
    return {"$or": [dict(pattern) for kind, pattern in patterns.items() if kind is not AuditRuleKind.CANARY]}
