"""Which pods a drain has to move off a node, and what keeps them there.

Karpenter leaves alone: pods of DaemonSets, static (mirror) pods, finished pods, and pods that tolerate its
`karpenter.sh/disrupted` taint (kubernetes-sigs/karpenter#655). A pod with `karpenter.sh/do-not-disrupt` is never evicted
before `terminationGracePeriod` runs out, and a PodDisruptionBudget that allows no disruption answers each eviction with 429.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdfast.karpenter.nodeclaim import parse_duration, time_or_none

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
DISRUPTED_TAINT = "karpenter.sh/disrupted"
_MIRROR = "kubernetes.io/config.mirror"
_DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True)
class Pod:
    """The parts of a pod that a drain depends on; `grace` is terminationGracePeriodSeconds.

    `bound_at` is when it came to its node; `leaving` says that it was deleted or evicted and is still there; `waits_for`
    is why the scheduler finds no node for it.
    """

    namespace: str
    name: str
    labels: Mapping[str, str]
    owner_kind: str | None
    owner: str | None
    grace: int
    do_not_disrupt: str | None
    mirror: bool
    finished: bool
    tolerates_disruption: bool
    started_at: datetime | None = None
    bound_at: datetime | None = None
    leaving: bool = False
    ready: bool = False
    waits_for: str | None = None


@dataclass(frozen=True, slots=True)
class PodDisruptionBudget:
    """A budget, its selector as written, and how many of its pods may go now. `selector` None selects nothing."""

    namespace: str
    name: str
    selector: Mapping[str, Any] | None
    disruptions_allowed: int | None


def parse_pod(item: Mapping[str, Any]) -> Pod:
    """The pod in one item of a list."""
    metadata = item.get("metadata") or {}
    spec = item.get("spec") or {}
    annotations = metadata.get("annotations") or {}
    owners = metadata.get("ownerReferences") or []
    controller = next((owner for owner in owners if owner.get("controller")), owners[0] if owners else {})
    grace = spec.get("terminationGracePeriodSeconds")
    status = item.get("status") or {}
    conditions = {entry.get("type"): entry for entry in status.get("conditions") or () if isinstance(entry, dict)}
    scheduled, ready = conditions.get("PodScheduled") or {}, conditions.get("Ready") or {}
    started_at = time_or_none(status.get("startTime"))
    bound_at = time_or_none(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None
    return Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        labels=metadata.get("labels") or {},
        owner_kind=controller.get("kind"),
        owner=f"{controller['kind']}/{controller['name']}" if "kind" in controller and "name" in controller else None,
        grace=_DEFAULT_GRACE if grace is None else int(grace),
        do_not_disrupt=annotations.get(DO_NOT_DISRUPT),
        mirror=_MIRROR in annotations,
        finished=status.get("phase") in {"Succeeded", "Failed"},
        tolerates_disruption=any(_tolerates(entry) for entry in spec.get("tolerations") or ()),
        started_at=started_at,
        bound_at=bound_at or started_at,
        leaving=metadata.get("deletionTimestamp") is not None,
        ready=ready.get("status") == "True",
        waits_for=str(scheduled.get("message", "")) if scheduled.get("reason") == "Unschedulable" else None,
    )


def parse_budget(item: Mapping[str, Any]) -> PodDisruptionBudget:
    """The PodDisruptionBudget (policy/v1) in one item of a list."""
    metadata = item.get("metadata") or {}
    return PodDisruptionBudget(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        selector=(item.get("spec") or {}).get("selector"),
        disruptions_allowed=(item.get("status") or {}).get("disruptionsAllowed"),
    )


def left_on_node(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """The pods among those bound to a node that a drain still has to move."""
    return tuple(
        pod
        for pod in pods
        if pod.owner_kind not in {"DaemonSet", "Node"}
        and not pod.mirror
        and not pod.finished
        and not pod.tolerates_disruption
    )


def blocking_budget(pod: Pod, budgets: Sequence[PodDisruptionBudget]) -> PodDisruptionBudget | None:
    """The first budget that selects the pod and allows no disruption now; None when nothing of the kind holds it."""
    return next(
        (
            budget
            for budget in budgets
            if budget.namespace == pod.namespace
            and budget.disruptions_allowed == 0
            and selects(budget.selector, pod.labels)
        ),
        None,
    )


def refuses_disruption(pod: Pod, now: datetime) -> bool:
    """Whether `karpenter.sh/do-not-disrupt` keeps the pod now: `true`, or a duration since its start that is not over.

    Karpenter takes no notice of any other value (karpenter.sh, Well-Known Annotations).
    """
    if pod.do_not_disrupt == "true":
        return True
    protected = parse_duration(pod.do_not_disrupt)
    if protected is None:
        return False
    return pod.started_at is None or (now - pod.started_at) < protected


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector (policy/v1: an empty one selects every pod of the namespace) matches these labels."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_matches(expression, labels) for expression in selector.get("matchExpressions") or ())


def _matches(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False


def _tolerates(toleration: Mapping[str, Any]) -> bool:
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    effect = toleration.get("effect")
    if effect not in {None, "", "NoSchedule"}:
        return False
    if operator == "Exists":
        return key in {None, "", DISRUPTED_TAINT}
    return operator in {None, "", "Equal"} and key == DISRUPTED_TAINT and toleration.get("value") in {None, ""}
