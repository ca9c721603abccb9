"""Drift: whether the rules that feed Karpenter and the audit still are what was deployed.

A rule that somebody disabled, deleted or edited loses events without an error anywhere. Once an hour each is compared
with what the deployment made of it. A difference counts when it was seen twice, five minutes apart: a deployment under
way also changes rules. What EventBridge would not tell is counted as unknown, never as fine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, ClassVar

from holdfast.alerts.alert import Alert, Severity
from holdfast.errors import HoldfastError, NotFound
from holdfast.interruption.event import Home
from holdfast.ports import Rules, RuleTarget, RuleView
from holdfast.times import format_time

EVERY = timedelta(hours=1)
AGAIN_AFTER = timedelta(minutes=5)
"""Until the next comparison, when one brought something that has to be confirmed, or left something open."""


class Defect(StrEnum):
    """What is wrong with a rule."""

    ABSENT = "absent"
    DISABLED = "disabled"
    PATTERN = "pattern"
    TARGET = "target"
    UNDELIVERED = "undelivered"


@dataclass(frozen=True, slots=True)
class ExpectedRule:
    """A rule as it was deployed; `cluster` is whose Karpenter it feeds, None for the audit's own. `stack` made it."""

    name: str
    pattern: Mapping[str, Any]
    target: RuleTarget
    stack: str
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """How a rule differs, in words, and since when; `confirmed` when it was seen at two comparisons."""

    rule: str
    defect: Defect
    what: str
    since: datetime
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Drift:
    """The last comparison: what differed, and of which rules nothing could be learned (name and reason)."""

    row: ClassVar[str] = "drift"

    checked_at: datetime
    differences: tuple[Difference, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()

    @property
    def confirmed(self) -> tuple[Difference, ...]:
        """The differences that were seen twice."""
        return tuple(difference for difference in self.differences if difference.confirmed)

    @property
    def rules(self) -> int:
        """Rules that differ for sure, or of which it is not known."""
        return len({*(difference.rule for difference in self.confirmed), *(name for name, _ in self.unknown)})

    def due(self, now: datetime) -> bool:
        """Whether it is time for the next comparison."""
        unsettled = bool(self.unknown) or len(self.confirmed) < len(self.differences)
        return now - self.checked_at >= (AGAIN_AFTER if unsettled else EVERY)


def compare(expected: Sequence[ExpectedRule], rules: Rules, previous: Drift | None, now: datetime) -> Drift:
    """Asks EventBridge for every rule. What cannot be learned of a rule now leaves what was known of it standing."""
    before = {} if previous is None else {(item.rule, item.defect): item for item in previous.differences}
    differences: list[Difference] = []
    unknown: list[tuple[str, str]] = []
    for rule in expected:
        try:
            found = _differences(rule, rules.describe(rule.name))
        except NotFound:
            found = {Defect.ABSENT: "there is no such rule: its events go nowhere"}
        except HoldfastError as error:
            unknown.append((rule.name, str(error)))
            differences += [item for (name, _), item in before.items() if name == rule.name]
            continue
        for defect, what in found.items():
            known = before.get((rule.name, defect))
            since = now if known is None else known.since
            differences.append(Difference(rule.name, defect, what, since, confirmed=known is not None))
    return Drift(now, tuple(differences), tuple(unknown))


def _differences(rule: ExpectedRule, seen: RuleView) -> dict[Defect, str]:
    found: dict[Defect, str] = {}
    if not seen.enabled:
        found[Defect.DISABLED] = "it is disabled: its events go nowhere"
    if _plain(seen.pattern) != _plain(rule.pattern):
        found[Defect.PATTERN] = "its pattern is not the deployed one: events that should match may not"
    target = next((one for one in seen.targets if one.arn == rule.target.arn), None)
    if target is None:
        found[Defect.TARGET] = f"{_name(rule.target.arn)} is not among its targets: its events do not arrive there"
    elif target.undelivered != rule.target.undelivered:
        found[Defect.UNDELIVERED] = "what it cannot deliver is lost: its dead-letter queue is not the deployed one"
    return found


def _plain(value: Any) -> Any:
    """The value as JSON has it, so that a tuple equals a list."""
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(member) for member in value]
    return value


def drift_alert(difference: Difference, rule: ExpectedRule, home: Home) -> Alert:
    """The alert on a difference: the same one as long as it lasts, another when it comes back."""
    feeds = "the audit" if rule.cluster is None else f"Karpenter of {rule.cluster}"
    enable = f"aws events enable-rule --region {home.region} --name {rule.name}"
    deploy = f"Find out who changed it, then deploy stack {rule.stack} again."
    return Alert(
        id=f"drift/{home.account}/{home.region}/{rule.name}/{difference.defect}/{format_time(difference.since)}",
        severity=Severity.WARNING if rule.cluster is None else Severity.PAGE,
        title=f"Rule {rule.name} is not as deployed",
        what=f"The rule that feeds {feeds} was changed: {difference.what}.",
        meaning=(
            "Holdfast does not hear of some interruptions: what it cannot see it cannot judge."
            if rule.cluster is None
            else "Karpenter may not hear of interruptions, and nodes are then reclaimed with pods on them."
        ),
        action=f"Enable it: {enable}" if difference.defect is Defect.DISABLED else deploy,
        at=difference.since,
        cluster=rule.cluster,
        fields=(("Rule", rule.name), ("Defect", difference.defect.value), ("Stack", rule.stack)),
        subject=rule.name,
        group=("rule is not as deployed", difference.defect.value),
        runbook="rule-drift",
        source=rule.name,
        command="holdfast doctor",
    )


def _name(arn: str) -> str:
    return arn.rpartition(":")[2]
