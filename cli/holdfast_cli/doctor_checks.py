"""What `holdfast doctor` makes of what it sees: each function turns one thing that was read into checks.

Nothing here asks anybody anything. What could not be read never comes here; it is unknown before (`doctor_look`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from holdfast.render.rbac import AUDIT_GROUP, AUDIT_ROLE, AUDIT_RULES
from holdfast.runtime.config import AuthenticationMode, Cluster

KARPENTER_QUEUE_WARNING: Final = timedelta(seconds=30)
KARPENTER_QUEUE_PAGE: Final = timedelta(seconds=60)
AUDIT_QUEUE_LAG: Final = timedelta(seconds=120)
OUTBOX_AGE: Final = timedelta(seconds=600)
"""The limits of the alarms (a test holds them together; that module takes seconds to import)."""

POLLING: Final = timedelta(minutes=10)
"""Karpenter polls without pause; CloudWatch tells of a minute one or two minutes later."""

ERRORS: Final = timedelta(minutes=15)

_RUNBOOK: Final = "docs/runbook.md#"
_SEND: Final = "sqs:sendmessage"


class State(StrEnum):
    """How a check ended. What nobody could see is never ok."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One line: of which place (a cluster, or an account and region), what, how it is, and the way out."""

    place: str
    name: str
    state: State
    found: str
    way_out: str | None = None


type Told = tuple[State, str, str | None]


def _told(state: State, found: str, way_out: str | None = None) -> Told:
    return state, found, way_out


def deploy(stack: str) -> str:
    """The command that deploys a stack."""
    return f"node_modules/.bin/cdk deploy {stack}"


def drift(stack: str) -> str:
    """The way out for what somebody changed by hand: CloudFormation does not see it by itself."""
    return f"put back what stack {stack} had deployed: {_RUNBOOK}drift"


# ---- Credentials and stacks ----


def account(configured: str, given: str, who: str) -> Told:
    """Whether the credentials are for the account that is configured."""
    if configured == given:
        return _told(State.OK, who)
    return _told(
        State.UNKNOWN,
        f"not looked at: the credentials are for account {given} ({who})",
        f"use --profile with one for account {configured}",
    )


def stack(name: str, status: str | None) -> Told:
    """Whether a stack is there and was deployed to its end. `status` is CloudFormation's."""
    if status is None:
        return _told(State.BROKEN, "not deployed", deploy(name))
    if status in {"CREATE_COMPLETE", "UPDATE_COMPLETE", "IMPORT_COMPLETE"}:
        return _told(State.OK, status)
    if status in {"UPDATE_ROLLBACK_COMPLETE", "IMPORT_ROLLBACK_COMPLETE"}:
        return _told(
            State.WARNING, f"{status}: the last deployment failed, the one before is in force", _events_of(name)
        )
    if status.endswith("_IN_PROGRESS") and not status.startswith("DELETE"):
        return _told(State.WARNING, f"{status}: being deployed", "ask again when it is over")
    return _told(State.BROKEN, status, f"{_events_of(name)}; then {deploy(name)}")


def _events_of(stack_name: str) -> str:
    return f"see why: aws cloudformation describe-stack-events --stack-name {stack_name}"


# ---- Rules ----


@dataclass(frozen=True, slots=True)
class Target:
    """A target of a rule, and where EventBridge puts what it cannot deliver to it."""

    arn: str
    undelivered: str | None = None


@dataclass(frozen=True, slots=True)
class RuleSeen:
    """A rule as EventBridge describes it. `pattern` is None for a rule without one."""

    name: str
    enabled: bool
    pattern: Mapping[str, Any] | None
    targets: tuple[Target, ...]


def rule(name: str, pattern: Mapping[str, Any], target: Target, seen: RuleSeen | None, stack_name: str) -> Told:
    """Whether a rule is there, enabled, and sends what it should to where it should."""
    if seen is None:
        return _told(State.BROKEN, "there is no such rule: its events go nowhere", drift(stack_name))
    if not seen.enabled:
        return _told(
            State.BROKEN,
            "disabled: its events go nowhere",
            f"aws events enable-rule --region {_region(target.arn)} --name {name}",
        )
    if seen.pattern != _plain(pattern):
        return _told(
            State.BROKEN, f"its pattern is not the deployed one: {json.dumps(seen.pattern)}", drift(stack_name)
        )
    wanted = next((one for one in seen.targets if one.arn == target.arn), None)
    if wanted is None:
        found = ", ".join(one.arn for one in seen.targets) or "none"
        return _told(State.BROKEN, f"{_name(target.arn)} is not its target; its targets: {found}", drift(stack_name))
    if wanted.undelivered != target.undelivered:
        return _told(
            State.WARNING,
            f"what it cannot deliver goes to {_name(wanted.undelivered) if wanted.undelivered else 'nowhere'}",
            drift(stack_name),
        )
    others = [_name(one.arn) for one in seen.targets if one is not wanted]
    if others:
        return _told(
            State.WARNING,
            f"as deployed, but with further targets: {', '.join(others)}",
            "remove them if nobody knows them",
        )
    return _told(State.OK, f"enabled, to {_name(target.arn)}")


def foreign_rules(queue_arn: str, patterns: Mapping[str, Mapping[str, Any]], seen: Sequence[RuleSeen]) -> Told:
    """Whether some rule of somebody else sends each kind of event to a queue that Holdfast does not deploy."""
    feeding = [one for one in seen if one.enabled and any(target.arn == queue_arn for target in one.targets)]
    covered = {kind for kind, pattern in patterns.items() if any(one.pattern == _plain(pattern) for one in feeding)}
    if not feeding:
        return _told(
            State.BROKEN, "no enabled rule sends to it: Karpenter hears of no interruption", "deploy Karpenter's rules"
        )
    missing = [kind for kind in patterns if kind not in covered]
    if missing:
        return _told(
            State.WARNING,
            f"{len(feeding)} rules send to it, none with exactly Karpenter's pattern for: {', '.join(missing)}",
            "compare their patterns with those of Karpenter's getting-started template",
        )
    return _told(State.OK, f"{', '.join(one.name for one in feeding)}")


def parsed_pattern(text: str) -> Mapping[str, Any] | None:
    """A rule's pattern as EventBridge keeps it; None when it is no JSON object, which no rule of ours has."""
    try:
        pattern = json.loads(text)
    except ValueError:
        return None
    return pattern if isinstance(pattern, dict) else None


def _plain(pattern: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(pattern))


def _region(arn: str) -> str:
    return arn.split(":")[3]


def _name(arn: str) -> str:
    return arn.rsplit(":", 1)[-1]


# ---- Queues ----


@dataclass(frozen=True, slots=True)
class QueueWanted:
    """A queue as it is deployed. `kms_key_arn` None: keys that SQS manages."""

    retention: timedelta
    dead_letters_arn: str
    max_receive_count: int
    kms_key_arn: str | None
    stack: str


def queue_settings(wanted: QueueWanted, attributes: Mapping[str, str]) -> Told:
    """Whether Karpenter's queue is as it was deployed. `attributes` are SQS's."""
    encryption = queue_encryption(attributes)
    if encryption is not None:
        return encryption
    different: list[str] = []
    retention = int(wanted.retention.total_seconds())
    if attributes.get("MessageRetentionPeriod") != str(retention):
        different.append(f"retention is {attributes.get('MessageRetentionPeriod')} s, not {retention} s")
    redrive = json.loads(attributes.get("RedrivePolicy", "{}"))
    if redrive.get("deadLetterTargetArn") != wanted.dead_letters_arn:
        found = redrive.get("deadLetterTargetArn")
        different.append(f"its dead letters go to {_name(found) if found else 'nowhere'}")
    elif int(redrive.get("maxReceiveCount", 0)) != wanted.max_receive_count:
        different.append(f"maxReceiveCount is {redrive.get('maxReceiveCount')}, not {wanted.max_receive_count}")
    key = attributes.get("KmsMasterKeyId")
    if key != wanted.kms_key_arn:
        return _told(
            State.BROKEN,
            f"encrypted under {key or 'keys that SQS manages'}, not under {wanted.kms_key_arn or 'those of SQS'}: "
            "EventBridge may not be able to use it",
            drift(wanted.stack),
        )
    if different:
        return _told(State.WARNING, "; ".join(different), drift(wanted.stack))
    return _told(State.OK, f"retention {retention} s, {wanted.max_receive_count} receives, encryption as configured")


def queue_encryption(attributes: Mapping[str, str]) -> Told | None:
    """Broken where the queue is under the key that AWS manages; None where it is not."""
    if not attributes.get("KmsMasterKeyId", "").endswith("alias/aws/sqs"):
        return None
    return _told(
        State.BROKEN,
        "encrypted under the AWS managed key aws/sqs: EventBridge cannot use it and loses every event unseen",
        "use SSE-SQS, or a customer managed key with a grant for EventBridge",
    )


def foreign_queue_settings(attributes: Mapping[str, str]) -> Told:
    """What can be said of a queue that Holdfast does not deploy."""
    encryption = queue_encryption(attributes)
    if encryption is not None:
        return encryption
    key = attributes.get("KmsMasterKeyId")
    if key is not None:
        return _told(
            State.UNKNOWN,
            f"encrypted under {key}: whether EventBridge may use it was not looked at",
            "see that the key's policy lets events.amazonaws.com use kms:GenerateDataKey and kms:Decrypt",
        )
    if "RedrivePolicy" not in attributes:
        return _told(State.WARNING, "it has no dead-letter queue: what Karpenter cannot handle just expires", "add one")
    return _told(State.OK, f"retention {attributes.get('MessageRetentionPeriod')} s, with a dead-letter queue")


def queue_policy(attributes: Mapping[str, str], queue_arn: str, rules: Sequence[str], home: str, repair: str) -> Told:
    """Whether the queue's policy lets EventBridge send for each of the rules; `home` is the account."""
    try:
        statements = _statements(attributes.get("Policy"))
    except ValueError as error:
        return _told(State.UNKNOWN, f"its policy cannot be read: {error}", repair)
    refusals = [
        str(one.get("Sid", "without Sid")) for one in statements if one.get("Effect") == "Deny" and _may_refuse(one)
    ]
    answers = {arn: _sends(statements, arn, queue_arn, home) for arn in rules}
    refused = [_rule_name(arn) for arn, may in answers.items() if may is False]
    unclear = [_rule_name(arn) for arn, may in answers.items() if may is None]
    if refused:
        return _told(
            State.BROKEN,
            f"its policy does not let EventBridge send for {', '.join(refused)}: their events are lost or put aside",
            repair,
        )
    if unclear:
        return _told(
            State.UNKNOWN,
            f"its policy lets EventBridge send for {', '.join(unclear)} on conditions that are not known here",
            "read the policy",
        )
    if refusals:
        return _told(State.UNKNOWN, f"its policy has Deny statements for sending: {', '.join(refusals)}", "read them")
    return _told(State.OK, f"EventBridge may send for {len(rules)} rule{'' if len(rules) == 1 else 's'}")


def only_reader(attributes: Mapping[str, str], cluster: Cluster, repair: str) -> Told:
    """Whether Karpenter's controller may read its queue, and nobody but it and the people named."""
    wanted = {cluster.karpenter.controller_role_arn, *cluster.karpenter.break_glass_role_arns}
    try:
        statements = _statements(attributes.get("Policy"))
    except ValueError as error:
        return _told(State.UNKNOWN, f"its policy cannot be read: {error}", repair)
    for one in statements:
        spared = _condition(one, "ArnNotEquals", "aws:PrincipalArn")
        if one.get("Effect") == "Deny" and _covers(one.get("Action"), "sqs:receivemessage") and spared:
            if cluster.karpenter.controller_role_arn not in spared:
                return _told(
                    State.BROKEN,
                    f"its policy refuses Karpenter's controller role {cluster.karpenter.controller_role_arn}",
                    repair,
                )
            if set(spared) != wanted:
                return _told(State.WARNING, f"its policy lets others read than configured: {', '.join(spared)}", repair)
            return _told(State.OK, "Karpenter's controller role and the break-glass roles alone")
    return _told(
        State.WARNING, "its policy keeps nobody from reading: what another reads, Karpenter does not get", repair
    )


def _statements(policy: str | None) -> list[dict[str, Any]]:
    if policy is None:
        return []
    document = json.loads(policy)
    found = document.get("Statement", []) if isinstance(document, dict) else None
    statements = [found] if isinstance(found, dict) else found
    if not isinstance(statements, list) or not all(isinstance(one, dict) for one in statements):
        raise ValueError("it has no statements")
    return statements


def _sends(statements: Iterable[Mapping[str, Any]], rule_arn: str, queue_arn: str, home: str) -> bool | None:
    """Whether EventBridge may send for a rule; None when that hangs on a condition that is not known here."""
    answer: bool | None = False
    for one in statements:
        if (
            one.get("Effect") != "Allow"
            or not _covers(one.get("Action"), _SEND)
            or not _covers(one.get("Resource"), queue_arn)
            or not _is_eventbridge(one.get("Principal"))
        ):
            continue
        holds = _conditions_hold(one.get("Condition", {}), {"aws:sourcearn": rule_arn, "aws:sourceaccount": home})
        if holds:
            return True
        if holds is None:
            answer = None
    return answer


def _conditions_hold(conditions: Mapping[str, Any], context: Mapping[str, str]) -> bool | None:
    known = {"ArnEquals": _any_like, "ArnLike": _any_like, "StringLike": _any_like, "StringEquals": _any_equal}
    unclear = False
    for operator, keys in conditions.items():
        compare: Callable[[str, list[str]], bool] | None = known.get(operator)
        for key, values in keys.items():
            value = context.get(key.lower())
            if compare is None or value is None:
                unclear = True
            elif not compare(value, _list(values)):
                return False
    return None if unclear else True


def _any_like(value: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(value, pattern) for pattern in patterns)


def _any_equal(value: str, values: list[str]) -> bool:
    return value in values


def _may_refuse(statement: Mapping[str, Any]) -> bool:
    """Whether a Deny could meet EventBridge, which always comes over TLS."""
    if not _covers(statement.get("Action"), _SEND):
        return False
    over_http = _list(statement.get("Condition", {}).get("Bool", {}).get("aws:SecureTransport"))
    return [str(value).lower() for value in over_http] != ["false"]


def _condition(statement: Mapping[str, Any], operator: str, key: str) -> list[str]:
    return _list(statement.get("Condition", {}).get(operator, {}).get(key))


def _is_eventbridge(principal: Any) -> bool:
    if principal == "*":
        return True
    if not isinstance(principal, dict):
        return False
    return "events.amazonaws.com" in _list(principal.get("Service")) or "*" in _list(principal.get("AWS"))


def _covers(patterns: Any, name: str) -> bool:
    return any(fnmatchcase(name.lower(), str(pattern).lower()) for pattern in _list(patterns))


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]


def _rule_name(arn: str) -> str:
    return arn.rpartition("/")[2]


def no_queue(name: str, repair: str) -> Told:
    """A queue that is not there."""
    return _told(State.BROKEN, f"there is no queue {name}", repair)


def waiting(
    attributes: Mapping[str, str], oldest: float | None, *, warning: timedelta, broken: timedelta | None
) -> Told:
    """Whether messages wait too long. `oldest` is the greatest age in seconds that CloudWatch knows, None without data."""
    count = attributes["ApproximateNumberOfMessages"]
    if oldest is None:
        return _told(
            State.UNKNOWN,
            f"{count} waiting, their age is not known: CloudWatch has no data of the last {_minutes(POLLING)}",
            "SQS tells nothing of a queue that nobody used for six hours",
        )
    found = f"{count} waiting, the oldest of the last {_minutes(POLLING)} was {oldest:.0f} s old"
    if broken is not None and oldest > broken.total_seconds():
        return _told(State.BROKEN, found, f"{_RUNBOOK}karpenter-queue-age")
    if oldest > warning.total_seconds():
        anchor = "audit-queue-age" if broken is None else "karpenter-queue-age"
        return _told(State.WARNING, found, f"{_RUNBOOK}{anchor}")
    return _told(State.OK, found)


def poller(empty: float | None, received: float | None) -> Told:
    """Whether somebody asks Karpenter's queue for messages: a busy poller makes no empty receives, an idle one only such."""
    if empty is None and received is None:
        return _told(
            State.UNKNOWN,
            f"CloudWatch has no receives of the last {_minutes(POLLING)}: the queue is new, or nobody polls it",
            f"{_RUNBOOK}karpenter-not-polling",
        )
    receives = (empty or 0) + (received or 0)
    if receives == 0:
        return _told(
            State.BROKEN,
            f"nobody asked for messages in the last {_minutes(POLLING)}: no interruption is handled",
            f"{_RUNBOOK}karpenter-not-polling",
        )
    return _told(State.OK, f"{receives:.0f} empty receives and messages received in the last {_minutes(POLLING)}")


def dead_letters(name: str, attributes: Mapping[str, str], *, can_redrive: bool) -> Told:
    """Whether a dead-letter queue is empty."""
    count = sum(
        int(attributes[key]) for key in ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible")
    )
    if count == 0:
        return _told(State.OK, "empty")
    anchor = f"{_RUNBOOK}{'undelivered-events' if name.endswith('-undelivered') else 'dead-letters'}"
    way = f"mend the cause ({anchor}), then holdfast redrive {name}" if can_redrive else anchor
    return _told(State.BROKEN, f"{count} message{'' if count == 1 else 's'} put aside", way)


# ---- Functions ----


def function(name: str | None, seen: Mapping[str, Any] | None, stack_name: str) -> Told:
    """Whether a function is there and can run. `seen` is Lambda's configuration of it."""
    if name is None or seen is None:
        return _told(State.BROKEN, "there is no such function", deploy(stack_name))
    state, update = seen.get("State", "Active"), seen.get("LastUpdateStatus", "Successful")
    if state not in {"Active", "Inactive"} or update == "Failed":
        reason = seen.get("StateReason") or seen.get("LastUpdateStatusReason") or "no reason given"
        return _told(State.BROKEN, f"{name}: {state}, last update {update}: {reason}", deploy(stack_name))
    return _told(State.OK, name)


def function_errors(errors: float | None, *, metrics_come: bool) -> Told:
    """How many runs failed. Lambda tells an error count, 0 too, for each minute with a run.

    So None means no run, if `metrics_come` at all: the sweeper runs each minute, and CloudWatch knows of its runs.
    """
    if errors is None and not metrics_come:
        return _told(
            State.UNKNOWN,
            f"CloudWatch has no run of the last {_minutes(ERRORS)}, not even of the sweeper, which runs each minute",
            f"{_RUNBOOK}sweeper-silent",
        )
    if errors is None:
        return _told(State.OK, f"no run in the last {_minutes(ERRORS)}, so none failed")
    if errors > 0:
        return _told(
            State.WARNING,
            f"{errors:.0f} runs failed in the last {_minutes(ERRORS)}; their messages are tried again",
            f"{_RUNBOOK}function-errors",
        )
    return _told(State.OK, f"no run failed in the last {_minutes(ERRORS)}")


def mapping(queue_arn: str, seen: Sequence[tuple[str, str, str | None]], stack_name: str) -> Told:
    """Whether Lambda reads the queue for the function. `seen`: source ARN, state and UUID of each mapping."""
    for source, state, uuid in seen:
        if source != queue_arn:
            continue
        if state == "Enabled":
            return _told(State.OK, f"reads {_name(queue_arn)}")
        if state in {"Creating", "Enabling", "Updating"}:
            return _told(State.WARNING, f"reading {_name(queue_arn)} is {state}", "ask again in a minute")
        return _told(
            State.BROKEN,
            f"reading {_name(queue_arn)} is {state}: its messages wait",
            f"aws lambda update-event-source-mapping --region {_region(queue_arn)} --enabled --uuid {uuid}",
        )
    return _told(State.BROKEN, f"nothing reads {_name(queue_arn)} for it", drift(stack_name))


def heartbeat(sweeps: float | None) -> Told:
    """Whether the sweeper, which runs each minute, finishes its sweeps."""
    if sweeps is None:
        return _told(
            State.UNKNOWN,
            f"CloudWatch has no sweep of the last {_minutes(POLLING)}: it is new, or silent",
            f"{_RUNBOOK}sweeper-silent",
        )
    if sweeps == 0:
        return _told(State.BROKEN, f"no sweep in the last {_minutes(POLLING)}", f"{_RUNBOOK}sweeper-silent")
    return _told(State.OK, f"{sweeps:.0f} sweeps in the last {_minutes(POLLING)}")


# ---- Ledger, outbox, Slack ----


def ledger(name: str | None, seen: Mapping[str, Any] | None, indexes: Sequence[str], stack_name: str) -> Told:
    """Whether the table and its indexes can be used. `seen` is DynamoDB's description of it."""
    if name is None or seen is None:
        return _told(State.BROKEN, f"there is no table {name or ''}".rstrip(), deploy(stack_name))
    if seen["TableStatus"] != "ACTIVE":
        state = State.WARNING if seen["TableStatus"] == "UPDATING" else State.BROKEN
        return _told(state, f"{name} is {seen['TableStatus']}", "look at it in the DynamoDB console")
    statuses = {one["IndexName"]: one.get("IndexStatus") for one in seen.get("GlobalSecondaryIndexes", ())}
    missing = [index for index in indexes if index not in statuses or statuses[index] not in {"ACTIVE", None}]
    if missing:
        return _told(State.BROKEN, f"{name} has no usable index {', '.join(missing)}", drift(stack_name))
    silent = [index for index in indexes if statuses[index] is None]
    if silent:
        return _told(
            State.UNKNOWN, f"{name} is ACTIVE; the status of index {', '.join(silent)} was not told", "try again"
        )
    if not seen.get("DeletionProtectionEnabled", False):
        return _told(State.WARNING, f"{name} is not protected against deletion", drift(stack_name))
    return _told(State.OK, f"{name} is ACTIVE")


def outbox(oldest: datetime | None, now: datetime) -> Told:
    """Whether alerts wait to be told."""
    if oldest is None:
        return _told(State.OK, "no alert waits")
    age = now - oldest
    found = f"the oldest alert has waited for {age.total_seconds():.0f} s"
    if age > OUTBOX_AGE:
        return _told(State.BROKEN, found, f"{_RUNBOOK}alerts-waiting")
    return _told(State.OK, found)


def nobody_is_told() -> Told:
    """Neither Slack nor SNS is configured."""
    return _told(
        State.WARNING, "not configured: verdicts are kept, nobody is told", "set alerts.slack.webhookSecretName"
    )


# ---- Kubernetes ----


def cluster(wanted: AuthenticationMode, seen: Mapping[str, Any] | None) -> Told:
    """Whether EKS has the cluster, running, with the access mode that is configured."""
    if seen is None:
        return _told(State.BROKEN, "EKS knows no such cluster", "correct its name, region or account")
    status, mode = seen.get("status"), (seen.get("accessConfig") or {}).get("authenticationMode")
    if status not in {"ACTIVE", "UPDATING"}:
        return _told(State.BROKEN, f"it is {status}", "look at it in the EKS console")
    if mode is None:
        return _told(State.UNKNOWN, f"{status}; EKS does not say its access mode", "see the cluster's accessConfig")
    if mode != wanted:
        state = State.BROKEN if AuthenticationMode.CONFIG_MAP in {mode, wanted} else State.WARNING
        return _told(state, f"{status}, but its access mode is {mode}, not {wanted}", "correct authenticationMode")
    return _told(State.OK, f"{status}, version {seen.get('version', 'unknown')}, access mode {mode}")


def access_entry(role_arn: str, groups: Sequence[str] | None, stack_name: str) -> Told:
    """Whether the judge's role is let into the cluster. `groups` None: there is no entry."""
    if groups is None:
        return _told(
            State.BROKEN, f"{_rule_name(role_arn)} has no access entry: every look is blind", drift(stack_name)
        )
    if AUDIT_GROUP not in groups:
        return _told(
            State.BROKEN,
            f"{_rule_name(role_arn)} is not in group {AUDIT_GROUP}, only in: {', '.join(groups) or 'none'}",
            drift(stack_name),
        )
    return _told(State.OK, f"{_rule_name(role_arn)} is in group {AUDIT_GROUP}")


def by_config_map(role_arn: str) -> Told:
    """A cluster that has no access entries: what its ConfigMap says, EKS does not tell."""
    return _told(
        State.UNKNOWN,
        "mode CONFIG_MAP: only the ConfigMap aws-auth says whether the judge is let in",
        f"compare its mapRoles with: holdfast render rbac --role-arn {role_arn}",
    )


def same_server(server: str, endpoint: str | None) -> Told | None:
    """A warning where the context leads elsewhere than to the cluster's endpoint; None where it does not."""
    if endpoint is None or server.rstrip("/").lower() == endpoint.rstrip("/").lower():
        return None
    return _told(
        State.WARNING,
        f"the context's server is {server}, the cluster's endpoint {endpoint}",
        "see that both are the same cluster",
    )


def rbac(role: Mapping[str, Any] | None, binding: Mapping[str, Any] | None) -> Told:
    """Whether the ClusterRole lets the audit read what it asks for, and is bound to its group."""
    apply = "holdfast render rbac | kubectl apply -f -"
    if role is None or binding is None:
        absent = " and ".join(
            kind for kind, one in (("ClusterRole", role), ("ClusterRoleBinding", binding)) if one is None
        )
        return _told(State.BROKEN, f"there is no {absent} {AUDIT_ROLE}: every look is blind", apply)
    missing = [
        f"{verb} {wanted.resource}"
        for wanted in AUDIT_RULES
        for verb in wanted.verbs
        if not any(_grants(one, wanted.api_group, wanted.resource, verb) for one in role.get("rules") or ())
    ]
    if missing:
        return _told(State.BROKEN, f"ClusterRole {AUDIT_ROLE} does not allow: {', '.join(missing)}", apply)
    to_role = (binding.get("roleRef") or {}).get("name") == AUDIT_ROLE
    to_group = any(
        one.get("kind") == "Group" and one.get("name") == AUDIT_GROUP for one in binding.get("subjects") or ()
    )
    if not (to_role and to_group):
        return _told(State.BROKEN, f"ClusterRoleBinding {AUDIT_ROLE} does not bind it to {AUDIT_GROUP}", apply)
    return _told(State.OK, f"{AUDIT_ROLE} is bound to {AUDIT_GROUP}")


def _grants(granted: Mapping[str, Any], group: str, resource: str, verb: str) -> bool:
    wanted = (("apiGroups", group), ("resources", resource), ("verbs", verb))
    # A rule for single objects does not allow a list.
    return not granted.get("resourceNames") and all({value, "*"} & set(granted.get(key) or ()) for key, value in wanted)


def counts(checks: Sequence[Check]) -> Iterator[tuple[State, int]]:
    """How many checks ended in each state."""
    for state in State:
        yield state, sum(check.state is state for check in checks)


def is_good(checks: Sequence[Check]) -> bool:
    """Nothing is broken, and everything could be seen."""
    return not any(check.state in {State.BROKEN, State.UNKNOWN} for check in checks)


def _minutes(length: timedelta) -> str:
    return f"{length.total_seconds() / 60:.0f} minutes"
