"""Facts, looks and cases with sensible defaults: a test names only what its rule is about.

Times are seconds from `W`, the moment of the warning. `OUR` is a Spot instance of cluster-a that Karpenter launched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.alerts.alert import Alert, Severity
from holdfast.interruption.case import Case, Cluster, Scope, fold
from holdfast.interruption.event import Fact, Home, Kind
from holdfast.interruption.ingest import Message
from holdfast.interruption.observation import (
    Answer,
    Blocker,
    BlockerReason,
    ClusterView,
    Condition,
    InstanceView,
    Observation,
    QueueView,
    WorkloadsView,
    WorkloadView,
)
from holdfast.interruption.schedule import next_look
from holdfast.interruption.verdict import Judgement, judge
from holdfast.karpenter.nodeclaim import NodeClaim, StatusCondition
from holdfast.karpenter.pods import Pod, PodDisruptionBudget
from holdfast.karpenter.workload import Replicas
from holdfast.ports import InstanceKey

W = datetime(2026, 9, 1, 4, 10, tzinfo=UTC)
ACCOUNT, REGION = "111122223333", "ap-southeast-1"
HOME = Home(ACCOUNT, REGION)
OUR = "i-0a11111111111111a"
KEY = InstanceKey(ACCOUNT, REGION, OUR)
CONTROLLER = f"arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole-cluster-a"
SOMEBODY = f"arn:aws:iam::{ACCOUNT}:role/admin"
SCOPE = Scope(
    HOME,
    {
        "cluster-a": Cluster("cluster-a", CONTROLLER),
        "cluster-b": Cluster("cluster-b", f"arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole-cluster-b"),
    },
)
LONG_AFTER = 24 * 3600
"""A day after the warning: every look has been made."""

USER = "Client.UserInitiatedShutdown"
SPOT = "Server.SpotInstanceTermination"


def at(seconds: float) -> datetime:
    """The moment `seconds` after the warning."""
    return W + timedelta(seconds=seconds)


def fact(kind: Kind, seconds: float = 0, **fields: Any) -> Fact:
    """A fact about our instance. Its event id follows from what it says, so equal facts are one event."""
    subject = fields.get("subject", OUR)
    named = f"{kind}/{subject}/{seconds:g}/{fields.get('state') or fields.get('status') or ''}"
    return Fact(
        **{
            "kind": kind,
            "account": ACCOUNT,
            "region": REGION,
            "subject": OUR,
            "at": at(seconds),
            "event_id": named,
            **fields,
        }
    )


def warning(seconds: float = 0, action: str = "terminate", **fields: Any) -> Fact:
    """A Spot interruption warning."""
    return fact(Kind.SPOT_WARNING, seconds, action=action, **fields)


def state(name: str, seconds: float, **fields: Any) -> Fact:
    """An EC2 state change."""
    return fact(Kind.STATE_CHANGE, seconds, state=name, **fields)


def ended(seconds: float, **fields: Any) -> tuple[Fact, Fact]:
    """The two state changes of an end that began at `seconds`."""
    return state("shutting-down", seconds, **fields), state("terminated", seconds + 35, **fields)


def rebalance(seconds: float, **fields: Any) -> Fact:
    """A rebalance recommendation."""
    return fact(Kind.REBALANCE, seconds, **fields)


def notice(seconds: float = 0, *, starts: float | None, status: str = "upcoming", **fields: Any) -> Fact:
    """An AWS Health notice of maintenance that begins at `starts`; None for a date nobody could read."""
    return fact(
        Kind.SCHEDULED_CHANGE,
        seconds,
        **{
            "announced": None if starts is None else at(starts),
            "status": status,
            "event_arn": "arn:aws:health:ap-southeast-1::event/EC2/AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED/fake0001",
            "event_code": "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED",
            **fields,
        },
    )


def terminate_call(seconds: float, actor: str | None = CONTROLLER, **fields: Any) -> Fact:
    """CloudTrail's record of a TerminateInstances call."""
    return fact(Kind.TERMINATE_CALL, seconds, actor=actor, **fields)


def ec2(state: str = "running", reason: str | None = None, **fields: Any) -> InstanceView:
    """EC2's answer about our instance."""
    return InstanceView(
        **{
            "answer": Answer.OK,
            "state": state,
            "state_reason": reason,
            "launched_at": at(-36_000),
            "instance_type": "c6i.2xlarge",
            "zone": "ap-southeast-1a",
            "capacity_type": "spot",
            "cluster": "cluster-a",
            "nodepool": "orders-spot",
            "nodeclaim": "orders-spot-4x7kq",
            **fields,
        }
    )


def kube(
    *,
    deleted: float | None = None,
    drained: float | str | None = None,
    ends_by: float | None = None,
    **fields: Any,
) -> ClusterView:
    """The cluster's answer: a NodeClaim, deleted at `deleted`.

    `drained` is the second its condition Drained became True, or another status of that condition; `ends_by` the second
    in its termination-timestamp annotation.
    """
    conditions: tuple[Condition, ...] = ()
    if isinstance(drained, str):
        conditions = (Condition("Drained", drained, "Draining", at(1)),)
    elif drained is not None:
        conditions = (Condition("Drained", "True", "Drained", at(drained)),)
    return ClusterView(
        **{
            "answer": Answer.OK,
            "cluster": "cluster-a",
            "nodeclaim": "orders-spot-4x7kq",
            "nodepool": "orders-spot",
            "node": "ip-10-0-11-7",
            "instance_type": "c6i.2xlarge",
            "zone": "ap-southeast-1a",
            "capacity_type": "spot",
            "created_at": at(-36_100),
            "deleted_at": None if deleted is None else at(deleted),
            "termination_at": None if ends_by is None else at(ends_by),
            "conditions": conditions,
            **fields,
        }
    )


def gone(**fields: Any) -> ClusterView:
    """The cluster's answer when no NodeClaim has this instance."""
    return ClusterView(**{"answer": Answer.NOT_FOUND, "reason": "no NodeClaim", "cluster": "cluster-a", **fields})


def queue(
    visible: int = 0,
    undelivered: int | None = 0,
    dead_letters: int | None = 0,
    *,
    in_flight: int = 0,
    retention: int | None = None,
) -> QueueView:
    """The state of Karpenter's queue."""
    return QueueView(Answer.OK, "", visible, in_flight, dead_letters, undelivered, retention)


def observation(
    seconds: float,
    instance: InstanceView | None = None,
    cluster: ClusterView | None = None,
    waiting: QueueView | None = None,
    **fields: Any,
) -> Observation:
    """A look at our instance; what is not given was not asked."""
    return Observation(
        **{
            "instance_id": OUR,
            "at": at(seconds),
            "account": ACCOUNT,
            "region": REGION,
            "ec2": instance,
            "kubernetes": cluster,
            "queue": waiting,
            **fields,
        }
    )


API = ("Deployment", "shop", "api")
"""The workload of the ordinary pod."""


def workloads(
    ready: int | None = 3,
    desired: int | None = 3,
    *,
    here: int | None = None,
    found: bool = False,
    leaving: int = 0,
    read: float | None = None,
    **fields: Any,
) -> WorkloadsView:
    """What a look saw of the workload `api`; `read` is the second its replicas were read, if not that of the look."""
    return WorkloadsView(
        **{
            "answer": Answer.OK,
            "at": None if read is None else at(read),
            "found": found,
            "here": here,
            "workloads": (WorkloadView(*API, desired=desired, ready=ready, leaving=leaving),),
            **fields,
        }
    )


def blocker(reason: BlockerReason, detail: str = "detail", pod: str = "api-0", **fields: Any) -> Blocker:
    """A pod that does not leave."""
    return Blocker(**{"namespace": "shop", "pod": pod, "reason": reason, "detail": detail, **fields})


def case_of(*rows: Fact | Observation, scope: Scope = SCOPE) -> Case:
    """The last case that the rows make."""
    facts = [row for row in rows if isinstance(row, Fact)]
    looks = [row for row in rows if isinstance(row, Observation)]
    return fold(facts, looks, scope)[-1]


def judged(*rows: Fact | Observation, now: float | None = None, scope: Scope = SCOPE) -> Judgement:
    """The judgement on the last case that the rows make: at `now`, or when there will be no further look."""
    case = case_of(*rows, scope=scope)
    if now is None:
        return judge(case, at(LONG_AFTER), exhausted=True)
    return judge(case, at(now), exhausted=next_look(case) is None)


def body(detail_type: str, detail: Mapping[str, Any], seconds: float = 0, **envelope: Any) -> str:
    """An EventBridge event as the queue holds it."""
    moment = at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {
        "version": "0",
        "id": f"{detail_type}/{json.dumps(detail, sort_keys=True)}/{seconds:g}",
        "detail-type": detail_type,
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": moment,
        "region": REGION,
        "resources": [],
        "detail": detail,
        **envelope,
    }
    return json.dumps({key: value for key, value in event.items() if value is not None})


def warning_body(instance: str = OUR, seconds: float = 0, action: str = "terminate", **envelope: Any) -> str:
    """The body of a Spot interruption warning."""
    detail = {"instance-id": instance, "instance-action": action}
    return body("EC2 Spot Instance Interruption Warning", detail, seconds, **envelope)


def state_body(name: str, instance: str = OUR, seconds: float = 0, **envelope: Any) -> str:
    """The body of an EC2 state change."""
    detail = {"instance-id": instance, "state": name}
    return body("EC2 Instance State-change Notification", detail, seconds, **envelope)


def message(text: str, *, id: str = "m-1", sent: float | None = 1, receive_count: int = 1) -> Message:  # noqa: A002
    """A message of the audit queue."""
    return Message(id, text, None if sent is None else at(sent), receive_count)


def pod(name: str = "api-0", **fields: Any) -> Pod:
    """An ordinary pod of a Deployment, that a drain moves."""
    return Pod(
        **{
            "namespace": "shop",
            "name": name,
            "labels": {"app": "api"},
            "owner_kind": "ReplicaSet",
            "owner": "ReplicaSet/api-7d9",
            "grace": 30,
            "do_not_disrupt": None,
            "mirror": False,
            "finished": False,
            "tolerates_disruption": False,
            **fields,
        }
    )


def replicas(ready: int = 3, desired: int = 3, name: str = "api-7d9", **fields: Any) -> Replicas:
    """A ReplicaSet of the Deployment `api`: the one that owns the ordinary pod."""
    return Replicas(
        **{
            "kind": "ReplicaSet",
            "namespace": "shop",
            "name": name,
            "controller": "Deployment/api",
            "desired": desired,
            "ready": ready,
            **fields,
        }
    )


def budget(allowed: int | None = 0, selector: Mapping[str, Any] | None = None, **fields: Any) -> PodDisruptionBudget:
    """A PodDisruptionBudget of the namespace `shop`; by default it selects every pod and lets none go."""
    chosen = {} if selector is None else selector
    return PodDisruptionBudget(
        **{"namespace": "shop", "name": "api", "selector": chosen, "disruptions_allowed": allowed, **fields}
    )


def nodeclaim(*, deleted: float | None = None, drained: float | None = None, **fields: Any) -> NodeClaim:
    """The NodeClaim of our instance."""
    conditions = () if drained is None else (StatusCondition("Drained", "True", "Drained", at(drained)),)
    return NodeClaim(
        **{
            "name": "orders-spot-4x7kq",
            "instance_id": OUR,
            "nodepool": "orders-spot",
            "node": "ip-10-0-11-7",
            "instance_type": "c6i.2xlarge",
            "zone": "ap-southeast-1a",
            "capacity_type": "spot",
            "created_at": at(-36_100),
            "deleted_at": None if deleted is None else at(deleted),
            "termination_at": None,
            "grace_period": None,
            "conditions": conditions,
            **fields,
        }
    )


def alert(id: str = "alert-1", **fields: Any) -> Alert:  # noqa: A002
    """An alert."""
    return Alert(
        **{
            "id": id,
            "severity": Severity.WARNING,
            "title": f"title of {id}",
            "what": "What happened.",
            "meaning": "What it means.",
            "action": "What to do.",
            "at": W,
            **fields,
        }
    )
