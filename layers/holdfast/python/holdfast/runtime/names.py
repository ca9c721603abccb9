"""Physical names that somebody outside the stacks has to know, derived from the configuration alone.

Pure functions of plain strings, so that the CDK app, the functions and the command line cannot disagree. A
name that would be over AWS's limit is cut and ends in a hash of the whole, so that two long cluster names
never become one. What needs no fixed name (tables, functions, roles of ours) has none here.
"""

import hashlib
import re
from collections.abc import Iterable
from enum import StrEnum

RULE_NAME_LIMIT = 64  # EventBridge PutRule, Name
QUEUE_NAME_LIMIT = 80  # SQS CreateQueue, QueueName
ROLE_NAME_LIMIT = 64  # IAM CreateRole, RoleName
STACK_NAME_LIMIT = 128  # CloudFormation CreateStack, StackName

PUBLIC_NETWORK = "public"
"""The network id of clusters that are reached through their public endpoint."""

_HASH_LENGTH = 8


class RuleKind(StrEnum):
    """The five rules that feed Karpenter's queue, one for each kind of event its controller acts on."""

    SPOT = "spot"
    REBALANCE = "rebalance"
    STATE = "state"
    CAPACITY = "capacity"
    HEALTH = "health"


class AuditRuleKind(StrEnum):
    """The rules that feed the audit queue: seven for what happens, and one for the canary that shows that they work."""

    WARNING = "warning"
    REBALANCE = "rebalance"
    STATE = "state"
    CAPACITY = "capacity"
    HEALTH = "health"
    EXPERIMENT = "experiment"
    CLOUDTRAIL = "cloudtrail"
    CANARY = "canary"


def karpenter_queue_name(cluster: str, configured: str | None = None) -> str:
    """The queue Holdfast makes for a cluster: by default it has the cluster's name, as in Karpenter's guide."""
    return configured or _fit(cluster, QUEUE_NAME_LIMIT)


def dlq_name(queue: str) -> str:
    """The queue that takes what Karpenter received too often (the redrive target)."""
    return _fit(f"{queue}-dlq", QUEUE_NAME_LIMIT)


def target_dlq_name(queue: str) -> str:
    """The queue that takes what EventBridge could not deliver to `queue`."""
    return _fit(f"{queue}-undelivered", QUEUE_NAME_LIMIT)


def rule_name(prefix: str, cluster: str, kind: RuleKind) -> str:
    """The EventBridge rule that sends one kind of event to a cluster's queue."""
    return _fit(f"{prefix}-{cluster}-{kind}", RULE_NAME_LIMIT)


def audit_rule_name(prefix: str, kind: AuditRuleKind) -> str:
    """The EventBridge rule that sends one kind of event to the audit: the one to name in a replay of the archive.

    No cluster's name has a dot, so it is never the rule of a cluster called `audit`.
    """
    return f"{prefix}.audit.{kind}"


def audit_queue_name(prefix: str) -> str:
    """The queue of an account and region's audit."""
    return f"{prefix}-audit"


def look_queue_name(prefix: str, network: str) -> str:
    """The queue of the looks that the functions in one network make."""
    return f"{prefix}-looks-{network}"


def alert_queue_name(prefix: str) -> str:
    """The queue of the wake-ups for the function that tells alerts."""
    return f"{prefix}-alerts"


def sweep_failure_queue_name(prefix: str) -> str:
    """The queue that takes the sweeps that failed or were never started."""
    return f"{prefix}-failed-sweeps"


def dashboard_name(prefix: str, region: str) -> str:
    """The dashboard of one region. Its name has to be the account's only one, not just the region's."""
    return f"{prefix}-{region}"


_CONSOLES = {
    "aws": "https://console.aws.amazon.com",
    "aws-cn": "https://console.amazonaws.cn",
    "aws-us-gov": "https://console.amazonaws-us-gov.com",
}


def dashboard_url(partition: str, region: str, dashboard: str) -> str:
    """Where AWS's console shows a CloudWatch dashboard (CloudWatch guide, sharing a link; each partition's console)."""
    return f"{_CONSOLES[partition]}/cloudwatch/home?region={region}#dashboards/dashboard/{dashboard}"


def is_own_queue(prefix: str, queue: str) -> bool:
    """Whether a queue of this name is one of Holdfast's own, or of their dead-letter queues, in any case."""
    name = queue.casefold().removesuffix("-dlq").removesuffix("-undelivered")
    own = {audit_queue_name(prefix), alert_queue_name(prefix), sweep_failure_queue_name(prefix)}
    return name in own or name.startswith(look_queue_name(prefix, ""))


def state_stack_id(prefix: str, account: str, region: str) -> str:
    """Construct id and CloudFormation name of the stack of one account and region's data."""
    return _stack(f"{prefix}-state-{account}-{region}")


def control_plane_stack_id(prefix: str, account: str, region: str) -> str:
    """Construct id and CloudFormation name of the stack of one account and region's functions."""
    return _stack(f"{prefix}-control-plane-{account}-{region}")


def cluster_stack_id(prefix: str, account: str, region: str, cluster: str) -> str:
    """Construct id and CloudFormation name of the stack of one cluster's queue and rules."""
    return _stack(f"{prefix}-cluster-{account}-{region}-{cluster}")


def network_id(vpc_id: str, subnet_ids: Iterable[str], security_group_ids: Iterable[str]) -> str:
    """A short id of a network, the same for the same members in any order; fit for a logical id."""
    members = "|".join([vpc_id, *sorted(subnet_ids), *sorted(security_group_ids)])
    return f"net{_hash(members)}"


def _stack(name: str) -> str:
    # CloudFormation takes no underscore, EKS does. The hash keeps a_b and a-b apart.
    plain = re.sub(r"[^A-Za-z0-9-]", "-", name)
    return _fit(plain if plain == name else f"{plain}-{_hash(name)}", STACK_NAME_LIMIT)


def _fit(name: str, limit: int) -> str:
    if len(name) <= limit:
        return name
    return f"{name[: limit - _HASH_LENGTH - 1]}-{_hash(name)}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
