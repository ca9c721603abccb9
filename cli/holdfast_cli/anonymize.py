"""Taking names out of an export, the same name in the same way, so that it can be attached to a public bug report.

What identifies is replaced or left out: accounts, instances, clusters, NodePools, NodeClaims, nodes, pods and their
owners, budgets, roles, events, and every free text. What a verdict rests on stays: times, states, counts, reasons and
codes of AWS, Karpenter and Kubernetes, region, zone and instance type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from holdfast.interruption.case import Case, Cluster, Scope
from holdfast.interruption.event import Fact, Home
from holdfast.interruption.observation import (
    Blocker,
    BlockerReason,
    ClusterView,
    InstanceView,
    Observation,
    QueueView,
    Replacement,
    ShortageView,
    WorkloadsView,
    WorkloadView,
)
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.restoration import Restoration, Standing
from holdfast_cli.export import Export

LEFT_OUT = "left out"
"""Stands for a text that may name anything."""

_DO_NOT_DISRUPT = re.compile(r"karpenter\.sh/do-not-disrupt=(true|[0-9hms]+)")
_GRACE = re.compile(r"terminationGracePeriodSeconds [0-9]+")
_SERVICE = re.compile(r"[a-z0-9-]+(\.[a-z0-9-]+)*\.amazonaws\.com(\.cn)?")


def anonymous(export: Export) -> Export:
    """The same export without names. Equal names are replaced equally within it."""
    names = _Names()
    # By their order: of events of the same time, the fold takes the one with the smaller id first.
    for event_id in sorted({fact.event_id for fact in export.facts}):
        names.of("event", event_id)
    return Export(
        None if export.scope is None else names.scope(export.scope),
        tuple(names.record(record) for record in export.records),
        tuple(names.fact(fact) for fact in export.facts),
        tuple(names.observation(look) for look in export.observations),
    )


@dataclass(slots=True)
class _Names:
    known: dict[str, dict[str, int]] = field(default_factory=dict)

    def number(self, kind: str, name: str) -> int:
        of_kind = self.known.setdefault(kind, {})
        return of_kind.setdefault(name, len(of_kind) + 1)

    def of(self, kind: str, name: str) -> str:
        return f"{kind}-{self.number(kind, name):04d}"

    def maybe(self, kind: str, name: str | None) -> str | None:
        return None if name is None else self.of(kind, name)

    def account(self, account: str) -> str:
        return f"{self.number('account', account):012d}"

    def instance(self, instance_id: str) -> str:
        return f"i-{self.number('instance', instance_id):017x}"

    def caller(self, name: str | None) -> str | None:
        """Who called: a role's ARN keeps its form and its account, a service of AWS its name."""
        if name is None or _SERVICE.fullmatch(name):
            return name
        parts = name.split(":", 5)
        if len(parts) < 6 or parts[0] != "arn":
            return self.of("caller", name)
        return f"arn:{parts[1]}:iam::{self.account(parts[4])}:role/{self.of('role', name)}"

    def scope(self, scope: Scope) -> Scope:
        clusters = [
            Cluster(self.of("cluster", cluster.name), self.caller(cluster.controller_role_arn))
            for cluster in scope.clusters.values()
        ]
        home = Home(self.account(scope.home.account), scope.home.region)
        return Scope(home, {cluster.name: cluster for cluster in clusters})

    def fact(self, fact: Fact) -> Fact:
        return replace(
            fact,
            account=self.account(fact.account),
            subject=self.instance(fact.subject),
            event_id=self.of("event", fact.event_id),
            event_arn=self.maybe("notice", fact.event_arn),
            actor=self.caller(fact.actor),
            replay=self.maybe("replay", fact.replay),
        )

    def observation(self, look: Observation) -> Observation:
        return replace(
            look,
            instance_id=self.instance(look.instance_id),
            account=None if look.account is None else self.account(look.account),
            ec2=None if look.ec2 is None else self.instance_view(look.ec2),
            kubernetes=None if look.kubernetes is None else self.cluster_view(look.kubernetes),
            queue=None if look.queue is None else self.queue_view(look.queue),
            workloads=None if look.workloads is None else self.workloads_view(look.workloads),
            degraded=_maybe_free(look.degraded),
        )

    def instance_view(self, view: InstanceView) -> InstanceView:
        return replace(
            view,
            reason=_free(view.reason),
            cluster=self.maybe("cluster", view.cluster),
            nodepool=self.maybe("nodepool", view.nodepool),
            nodeclaim=self.maybe("nodeclaim", view.nodeclaim),
        )

    def cluster_view(self, view: ClusterView) -> ClusterView:
        return replace(
            view,
            reason=_free(view.reason),
            cluster=self.maybe("cluster", view.cluster),
            nodeclaim=self.maybe("nodeclaim", view.nodeclaim),
            nodepool=self.maybe("nodepool", view.nodepool),
            node=self.maybe("node", view.node),
            pods_reason=_free(view.pods_reason),
            blockers=self.blockers(view.blockers),
        )

    def queue_view(self, view: QueueView) -> QueueView:
        return replace(view, reason=_free(view.reason))

    def workloads_view(self, view: WorkloadsView) -> WorkloadsView:
        return replace(
            view,
            reason=_free(view.reason),
            workloads=tuple(
                replace(
                    row, kind=_kind(row.kind), namespace=self.of("namespace", row.namespace), name=self.workload(row)
                )
                for row in view.workloads
            ),
            replacements=self.replacements(view.replacements),
            shortage=None if view.shortage is None else self.shortage(view.shortage),
        )

    def workload(self, row: WorkloadView | Standing) -> str:
        return self.of("workload", f"{row.kind}/{row.name}")

    def replacements(self, replacements: Iterable[Replacement]) -> tuple[Replacement, ...]:
        return tuple(
            replace(item, nodeclaim=self.of("nodeclaim", item.nodeclaim), reason=_free(item.reason))
            for item in replacements
        )

    def shortage(self, view: ShortageView) -> ShortageView:
        return replace(
            view,
            reason=_free(view.reason),
            message=_free(view.message),
            limits=None if view.limits is None else tuple(LEFT_OUT for _ in view.limits),
            refused=None if view.refused is None else tuple(self.of("nodeclaim", name) for name in view.refused),
        )

    def restoration(self, restoration: Restoration) -> Restoration:
        return replace(
            restoration,
            reason=LEFT_OUT,
            workloads=tuple(
                replace(
                    row, kind=_kind(row.kind), namespace=self.of("namespace", row.namespace), name=self.workload(row)
                )
                for row in restoration.workloads
            ),
            uncovered=tuple(LEFT_OUT for _ in restoration.uncovered),
            replacements=self.replacements(restoration.replacements),
        )

    def blockers(self, blockers: Iterable[Blocker]) -> tuple[Blocker, ...]:
        return tuple(
            replace(
                blocker,
                namespace=self.of("namespace", blocker.namespace),
                pod=self.of("pod", blocker.pod),
                detail=self.detail(blocker),
                owner=self.owner(blocker.owner),
            )
            for blocker in blockers
        )

    def detail(self, blocker: Blocker) -> str:
        if blocker.reason is BlockerReason.PDB:
            return self.of("budget", f"{blocker.namespace}/{blocker.detail}")
        known = _DO_NOT_DISRUPT if blocker.reason is BlockerReason.DO_NOT_DISRUPT else _GRACE
        return blocker.detail if known.fullmatch(blocker.detail) else LEFT_OUT

    def owner(self, owner: str | None) -> str | None:
        if owner is None:
            return None
        return f"{owner.partition('/')[0] if owner.startswith(_OWNERS) else 'Owner'}/{self.of('owner', owner)}"

    def record(self, record: CaseRecord) -> CaseRecord:
        judgement = replace(
            record.judgement, reason=LEFT_OUT, missing=tuple(LEFT_OUT for _ in record.judgement.missing)
        )
        return CaseRecord(self.case(record.case), judgement, record.judged_at, _maybe_free(record.degraded))

    def case(self, case: Case) -> Case:
        return replace(
            case,
            account=self.account(case.account),
            instance_id=self.instance(case.instance_id),
            cluster=self.maybe("cluster", case.cluster),
            nodepool=self.maybe("nodepool", case.nodepool),
            nodeclaim=self.maybe("nodeclaim", case.nodeclaim),
            node=self.maybe("node", case.node),
            blockers=self.blockers(case.blockers),
            foreign=None if case.foreign is None else LEFT_OUT,
            missing=tuple(LEFT_OUT for _ in case.missing),
            restoration=None if case.restoration is None else self.restoration(case.restoration),
        )


_OWNERS = ("ReplicaSet/", "StatefulSet/", "Job/", "DaemonSet/", "ReplicationController/", "Node/")
"""Kinds of Kubernetes itself; the kind of somebody's own resource may name its maker."""


_KINDS = frozenset({"Deployment", "ReplicaSet", "StatefulSet"})


def _kind(kind: str) -> str:
    return kind if kind in _KINDS else "Owner"


def _free(text: str) -> str:
    return LEFT_OUT if text else ""


def _maybe_free(text: str | None) -> str | None:
    return None if text is None else _free(text)
