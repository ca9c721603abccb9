"""The second question about an interruption: do the workloads stand again, and since when?

Karpenter does not link a replacement to what it replaces, and pods may fit on other nodes. So the ready replicas of the
pods' owners are compared with what they were when a look first saw the pods on the node. Between two looks nobody looks:
only what a look saw bounds the time, and where the limit of three minutes lies between two of them the answer is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from holdfast.interruption.observation import (
    Answer,
    Observation,
    Replacement,
    ShortageView,
    WorkloadsView,
    WorkloadView,
)

RESTORED_WITHIN: Final = timedelta(seconds=180)
"""After the warning: a launch takes about a minute to initialize, and the pods have to start."""

GIVEN_UP_AFTER: Final = timedelta(seconds=600)
"""After the warning: what is not back then was not replaced."""

ASK_WHY_AFTER: Final = timedelta(seconds=300)
"""From then on the looks ask what keeps the pods waiting."""

STALE_WITHIN: Final = timedelta(minutes=2)
"""How long replicas on a machine that is gone may still count as ready: its node turns NotReady after 50 s (kube-controller-
manager, node-monitor-grace-period), and the pods of a deleted node go within a minute (pod garbage collection)."""


class Restored(StrEnum):
    """Whether the workloads stand again."""

    NOTHING_TO_RESTORE = "NOTHING_TO_RESTORE"
    PENDING = "PENDING"
    RESTORED_IN_TIME = "RESTORED_IN_TIME"
    RESTORED_LATE = "RESTORED_LATE"
    NO_REPLACEMENT = "NO_REPLACEMENT"
    UNKNOWN = "UNKNOWN"


class Shortage(StrEnum):
    """Why the workloads are not back."""

    LIMITS_REACHED = "LIMITS_REACHED"
    NO_CAPACITY = "NO_CAPACITY"
    UNSCHEDULABLE = "UNSCHEDULABLE"
    NOT_READY = "NOT_READY"
    UNKNOWN = "UNKNOWN"


@dataclass(frozen=True, slots=True)
class Standing:
    """One followed workload: its ready replicas before, and desired and ready when last seen (null: no longer there)."""

    kind: str
    namespace: str
    name: str
    before: int
    desired: int | None
    ready: int | None

    @property
    def text(self) -> str:
        """The workload with its replicas, in words."""
        if self.desired is None or self.ready is None:
            return f"{self.kind} {self.namespace}/{self.name} is gone"
        return (
            f"{self.kind} {self.namespace}/{self.name} has {self.ready} of {self.desired} ready (before: {self.before})"
        )


@dataclass(frozen=True, slots=True)
class Restoration:
    """What became of the workloads that had pods on the node.

    `reason` is the sentence that carries the state; `cause` is why they are not back. `first_at` is when their replicas
    were first read, `missing_at` the last time they were seen not to be back, `back_at` the first time they were.
    `uncovered` says which pods the state does not speak of. `replacements` are NodeClaims that probably replace the node.
    """

    state: Restored
    reason: str
    cause: Shortage | None = None
    first_at: datetime | None = None
    missing_at: datetime | None = None
    back_at: datetime | None = None
    workloads: tuple[Standing, ...] = ()
    uncovered: tuple[str, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    replacements_unnamed: int = 0


class _Seen(StrEnum):
    BACK = "back"
    MISSING = "missing"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class _Look:
    """A look that read replicas: `at` is when it read the pods, `view.at` when the replicas."""

    at: datetime
    read_at: datetime
    view: WorkloadsView


@dataclass(frozen=True, slots=True)
class _Before:
    """The replicas that were ready before: `low` at least, `high` at most."""

    view: WorkloadView
    low: int
    high: int


def restoration_of(
    looks: Sequence[Observation],
    *,
    warned_at: datetime,
    began_at: datetime | None,
    emptied_at: datetime | None,
    nodepool: str | None,
    stayed: bool,
) -> Restoration:
    """What the looks tell, which come by time and each once.

    `began_at` is when the drain began, `emptied_at` a time by which the pods were off the node; None when not known.
    `stayed` says that nothing was taken: neither Karpenter nor EC2 touched the instance.
    """
    asked = [(look.at, look.workloads) for look in looks if look.workloads is not None]
    read = [_Look(at, view.at or at, view) for at, view in asked if view.answer is Answer.OK]
    first = next((look for look in read if look.view.found), None)
    if stayed:
        return Restoration(Restored.NOTHING_TO_RESTORE, "The instance was not taken, and its pods stayed on it.")
    if first is None:
        return _never_read(asked, emptied_at)
    return _Fold(read, first, warned_at, began_at, emptied_at, nodepool).restoration()


def given_up(restoration: Restoration) -> Restoration:
    """What is still pending when there will be no further look: nobody will ever know."""
    if restoration.state is not Restored.PENDING:
        return restoration
    return replace(
        restoration,
        state=Restored.UNKNOWN,
        reason=f"No further look is planned, and the last word was: {restoration.reason}",
    )


def _never_read(asked: Sequence[tuple[datetime, WorkloadsView]], emptied_at: datetime | None) -> Restoration:
    if emptied_at is None:
        return Restoration(Restored.PENDING, "No look has read the pods of the node and their owners yet.")
    refused = [view for _, view in asked if view.answer is not Answer.OK]
    if refused:
        why = f"The owners of the pods could not be read ({refused[-1].answer}: {refused[-1].reason})."
    else:
        why = "No look read the pods of the node before they had left."
    return Restoration(Restored.UNKNOWN, why)


@dataclass(frozen=True, slots=True)
class _Fold:
    read: Sequence[_Look]
    first: _Look
    warned_at: datetime
    began_at: datetime | None
    emptied_at: datetime | None
    nodepool: str | None

    def restoration(self) -> Restoration:
        """The state with all that carries it."""
        before = self._before()
        later = [look for look in self.read if look.at >= self.first.at]
        followed = any(item.high for item in before)
        found = self._followed(before, later) if followed else self._nothing(before)
        latest = self.read[-1].view
        return replace(
            found,
            first_at=self.first.read_at,
            uncovered=self._uncovered(),
            replacements=latest.replacements,
            replacements_unnamed=latest.replacements_unnamed,
        )

    @property
    def _complete(self) -> bool:
        """Whether the pods were first read before any of them can have left."""
        return self.began_at is None or self.first.at <= self.began_at

    def _before(self) -> list[_Before]:
        found = []
        for view in self.first.view.workloads:
            desired, ready = view.desired or 0, view.ready or 0
            # Pods that are being evicted from this node were ready a moment ago.
            low = min(max(desired, ready), ready + view.leaving)
            found.append(_Before(view, low, low if self._complete else max(low, desired)))
        return found

    def _nothing(self, before: Sequence[_Before]) -> Restoration:
        if not self._complete:
            return Restoration(
                Restored.UNKNOWN,
                "The pods were first read after the drain had begun; which workloads had pods on the node is not known.",
            )
        if before:
            return Restoration(
                Restored.NOTHING_TO_RESTORE, "None of the replicas of the workloads on the node was ready before."
            )
        if self.first.view.unread:
            return Restoration(
                Restored.UNKNOWN,
                f"{self.first.view.unread} pods belong to owners of which Holdfast reads no replicas.",
            )
        return Restoration(
            Restored.NOTHING_TO_RESTORE,
            "No pod on the node belonged to a workload with replicas: nothing starts again.",
        )

    def _followed(self, before: Sequence[_Before], later: Sequence[_Look]) -> Restoration:
        left_at = min(
            [look.at for look in later if look.view.here == 0] + ([] if self.emptied_at is None else [self.emptied_at]),
            default=None,
        )
        seen = [(look, _compare(before, look.view)) for look in later]
        back_at = min(
            (
                look.read_at
                for look, what in seen
                if what is _Seen.BACK and left_at is not None and look.read_at >= left_at
            ),
            default=None,
        )
        missing = [look.read_at for look, what in seen if what is _Seen.MISSING]
        # While pods are still on the node, the workload does not yet stand without it.
        missing += [look.at for look, _ in seen if look.view.here]
        missing_at = max((at for at in missing if back_at is None or at < back_at), default=None)
        standings = _standings(before, seen, back_at)
        common = Restoration(Restored.PENDING, "", missing_at=missing_at, back_at=back_at, workloads=standings)
        if back_at is not None:
            return self._back(common, back_at, missing_at)
        overdue = [
            look
            for look, what in seen
            if what is _Seen.MISSING
            and look.read_at >= self.warned_at + GIVEN_UP_AFTER
            and left_at is not None
            and left_at <= look.read_at
        ]
        if overdue:
            return self._not_replaced(common, later)
        return replace(common, reason=self._pending(common, left_at))

    def _back(self, common: Restoration, back_at: datetime, missing_at: datetime | None) -> Restoration:
        limit = self.warned_at + RESTORED_WITHIN
        by = f"All replicas were seen ready again {_offset(back_at - self.warned_at)} after the warning"
        before = "" if missing_at is None else f"; last seen missing {_offset(missing_at - self.warned_at)} after it"
        if back_at <= limit:
            return replace(common, state=Restored.RESTORED_IN_TIME, reason=f"{by}{before}.")
        if missing_at is not None and missing_at >= limit:
            return replace(common, state=Restored.RESTORED_LATE, reason=f"{by}{before}.")
        seconds = f"{RESTORED_WITHIN.total_seconds():.0f} s"
        return replace(
            common,
            state=Restored.UNKNOWN,
            reason=f"{by}{before}: whether that was within {seconds}, no look saw.",
        )

    def _not_replaced(self, common: Restoration, later: Sequence[_Look]) -> Restoration:
        cause, why = self._cause([look.view.shortage for look in later if look.view.shortage is not None])
        missing = [item.text for item in common.workloads if _is_missing(item)]
        named = "; ".join(missing[:3]) + (f"; and {len(missing) - 3} more" if len(missing) > 3 else "")
        minutes = f"{GIVEN_UP_AFTER.total_seconds() / 60:.0f} minutes"
        return replace(
            common,
            state=Restored.NO_REPLACEMENT,
            cause=cause,
            reason=f"Not back {minutes} after the warning: {named}. {why}",
        )

    def _cause(self, shortages: Sequence[ShortageView]) -> tuple[Shortage, str]:
        """The cause by what the last look saw that got an answer."""
        answered = [item for item in shortages if item.answer is Answer.OK and item.waiting is not None]
        if not answered:
            failed = f" ({shortages[-1].answer}: {shortages[-1].reason})" if shortages else ""
            return Shortage.UNKNOWN, f"What keeps the pods away was not seen{failed}."
        last = answered[-1]
        if not last.message:
            if last.waiting:
                return Shortage.NOT_READY, f"{last.waiting} of their pods are Pending, though none lacks a node."
            return Shortage.NOT_READY, "None of their pods waits for a node: what was started is not ready."
        waiting = f"{last.waiting} of their pods wait for a node"
        if last.limits:
            return (
                Shortage.LIMITS_REACHED,
                f"{waiting}, and NodePool {self.nodepool} is at its limit ({'; '.join(last.limits)}).",
            )
        if last.refused:
            return (
                Shortage.NO_CAPACITY,
                f"{waiting}, and EC2 had no capacity for NodeClaim {', '.join(last.refused)}.",
            )
        return Shortage.UNSCHEDULABLE, f"{waiting}; the scheduler says: {last.message.rstrip('.')}."

    def _pending(self, common: Restoration, left_at: datetime | None) -> str:
        if left_at is None:
            return "No look has seen the pods leave the node."
        missing = [item.text for item in common.workloads if _is_missing(item)]
        if missing:
            return f"Not back: {'; '.join(missing[:3])}{f'; and {len(missing) - 3} more' if len(missing) > 3 else ''}."
        return "No look since the pods left has told whether all replicas are ready again."

    def _uncovered(self) -> tuple[str, ...]:
        view = self.first.view
        said = []
        if not self._complete and self.began_at is not None and view.workloads:
            late = _offset(self.first.at - self.began_at)
            said.append(f"pods that left within {late} of the drain's beginning, before the first look")
        if view.workloads_unnamed:
            said.append(f"{view.workloads_unnamed} more workloads with pods on the node")
        if view.unread and view.workloads:
            said.append(f"{view.unread} pods of owners of which Holdfast reads no replicas")
        return tuple(said)


def _compare(before: Sequence[_Before], view: WorkloadsView) -> _Seen:
    """Whether all workloads have as many ready replicas as before, or as many as are wanted now."""
    rows = {(row.kind, row.namespace, row.name): row for row in view.workloads}
    unclear = False
    for item in before:
        row = rows.get((item.view.kind, item.view.namespace, item.view.name))
        if row is None:
            unclear = True
            continue
        if row.desired is None or row.ready is None:
            continue
        if row.ready < min(item.low, row.desired):
            return _Seen.MISSING
        unclear |= row.ready < min(item.high, row.desired)
    return _Seen.UNCLEAR if unclear else _Seen.BACK


def _standings(
    before: Sequence[_Before], seen: Sequence[tuple[_Look, _Seen]], back_at: datetime | None
) -> tuple[Standing, ...]:
    """Each workload as it was when it was back, or when it was last seen."""
    shown = [look for look, _ in seen if back_at is None or look.read_at <= back_at]
    shown.sort(key=lambda look: look.read_at)
    rows = {(row.kind, row.namespace, row.name): row for look in shown for row in look.view.workloads}
    found = []
    for item in before:
        view = item.view
        row = rows.get((view.kind, view.namespace, view.name), view)
        found.append(Standing(view.kind, view.namespace, view.name, item.low, row.desired, row.ready))
    return tuple(found)


def _is_missing(item: Standing) -> bool:
    return item.desired is not None and item.ready is not None and item.ready < min(item.before, item.desired)


def _offset(delta: timedelta) -> str:
    return f"{delta.total_seconds():.0f} s"
