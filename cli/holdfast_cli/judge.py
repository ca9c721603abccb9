"""Judging from files alone: the same parser, fold and decision table as in AWS, with nothing else to ask."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol

from holdfast.interruption.case import Case, Cluster, Scope, fold
from holdfast.interruption.event import Disposition, Fact, Home, Rejection, parse
from holdfast.interruption.observation import Observation
from holdfast.interruption.record import CaseRecord, record_of
from holdfast.interruption.restoration import Restored
from holdfast.interruption.schedule import next_look
from holdfast.ports import InstanceKey
from holdfast.runtime.config import HoldfastConfig
from holdfast.times import format_time
from holdfast_cli.evidence import Body, Evidence

UNKNOWN = "unknown"
"""Stands for the account or region of an event that names none, where no other event does either."""

AFTERWARDS = timedelta(hours=1)
"""How long after the last evidence a finished case is judged: longer than any warning may still be under way."""


class Environment(Protocol):
    """What the judge takes as its own: where events are at home, and which clusters are ours there."""

    def home(self, account: str | None, region: str | None) -> Home:
        """The account and region of the audit that would have read an event from there."""

    def clusters(self, home: Home) -> Mapping[str, Cluster]:
        """The clusters of that audit."""

    def sentences(self) -> Sequence[str]:
        """What was assumed, for a person to check."""


@dataclass(frozen=True, slots=True)
class Configured:
    """As `holdfast.yaml` says: what comes from elsewhere is FOREIGN."""

    config: HoldfastConfig
    source: str

    def home(self, account: str | None, region: str | None) -> Home:
        """The configured environment the event is from, or the first one, for which it is then foreign."""
        known = self.config.environments
        return Home(*next((place for place in known if place == (account, region)), known[0]))

    def clusters(self, home: Home) -> Mapping[str, Cluster]:
        """The configured clusters of that account and region."""
        return {
            cluster.name: Cluster(cluster.name, cluster.karpenter.controller_role_arn)
            for cluster in self.config.clusters_in(home.account, home.region)
        }

    def sentences(self) -> Sequence[str]:
        """Names the file."""
        return (f"Accounts, regions and clusters are those of {self.source}.",)


@dataclass(frozen=True, slots=True)
class Inferred:
    """From the input itself: every event is at home where it says it comes from, and every cluster named is ours."""

    fallback: Home
    named: tuple[str, ...]
    roles: Mapping[str, str] = field(default_factory=dict)

    def home(self, account: str | None, region: str | None) -> Home:
        """Where the event says it is from."""
        return Home(account or self.fallback.account, region or self.fallback.region)

    def clusters(self, home: Home) -> Mapping[str, Cluster]:  # noqa: ARG002 - one set for every home
        """The clusters given, or all that the input names."""
        return {name: Cluster(name, self.roles.get(name)) for name in (self.roles or self.named)}

    def sentences(self) -> Sequence[str]:
        """Says what was taken from the input."""
        said = ["Every event counts as sent to the account and region it names."]
        if UNKNOWN in {self.fallback.account, self.fallback.region}:
            said.append("No event names an account and a region: they are shown as unknown.")
        if self.roles:
            said.append(f"Ours are the clusters given: {', '.join(sorted(self.roles))}.")
        elif self.named:
            said.append(
                f"Every cluster that an observation names counts as ours: {', '.join(self.named)} (controller role not "
                "known; --cluster NAME=ROLE_ARN gives it)."
            )
        else:
            said.append("No observation names a cluster.")
        return tuple(said)


@dataclass(frozen=True, slots=True)
class Recorded:
    """As the exported cases themselves say; what is from elsewhere is taken as the input tells it."""

    scopes: Mapping[Home, Mapping[str, Cluster]]
    otherwise: Inferred

    def home(self, account: str | None, region: str | None) -> Home:
        """Where the event says it is from."""
        return self.otherwise.home(account, region)

    def clusters(self, home: Home) -> Mapping[str, Cluster]:
        """The clusters of the audit that the case was exported from."""
        return self.scopes[home] if home in self.scopes else self.otherwise.clusters(home)

    def sentences(self) -> Sequence[str]:
        """Names the places that the files told of."""
        said = [
            f"Account {home.account}, {home.region}: ours are the clusters that the export names: "
            f"{', '.join(clusters) or 'none'}."
            for home, clusters in self.scopes.items()
        ]
        return ("Every event counts as sent to the account and region it names.", *said)


def environment_of(evidence: Evidence, roles: Mapping[str, str]) -> Environment:
    """What the evidence says of accounts, regions and clusters; clusters that were given (`roles`) come first."""
    otherwise = inferred(evidence, roles)
    if roles or not evidence.scopes:
        return otherwise
    scopes: dict[Home, dict[str, Cluster]] = defaultdict(dict)
    for scope in evidence.scopes:
        clusters = {cluster.name: Cluster(cluster.name, cluster.controller_role_arn) for cluster in scope.clusters}
        scopes[Home(scope.account, scope.region)].update(clusters)
    return Recorded(scopes, otherwise)


def inferred(evidence: Evidence, roles: Mapping[str, str]) -> Inferred:
    """The environment that the evidence itself describes; `roles` are clusters given with their controller roles."""
    homes: Counter[tuple[str, str]] = Counter(
        (account, region)
        for account, region in (_origin(body.text) for body in evidence.bodies)
        if account is not None and region is not None
    )
    homes.update((fact.account, fact.region) for fact in evidence.facts)
    commonest = min(homes, key=lambda home: (-homes[home], home), default=(UNKNOWN, UNKNOWN))
    named = {
        view.cluster
        for _, look in evidence.observations
        for view in (look.ec2, look.kubernetes)
        if view is not None and view.cluster is not None
    }
    return Inferred(Home(*commonest), tuple(sorted(named)), roles)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A part of the input that became neither a fact nor an observation. `ignored` parts are known to be harmless."""

    place: str
    code: str
    reason: str
    ignored: bool


@dataclass(frozen=True, slots=True)
class History:
    """All that the input tells of one instance."""

    facts: tuple[Fact, ...]
    observations: tuple[Observation, ...]


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdicts on all cases in the input, oldest first, and what else became of the input."""

    cases: tuple[CaseRecord, ...]
    histories: Mapping[InstanceKey, History]
    refusals: tuple[Refusal, ...]
    remarks: tuple[str, ...]
    assumed: tuple[str, ...]
    facts: int
    duplicates: int
    observations: int

    @property
    def all_understood(self) -> bool:
        """Whether every part of the input was an event, an observation, or known to be harmless."""
        return all(refusal.ignored for refusal in self.refusals)

    def history(self, case: Case) -> History:
        """All that the input tells of the case's instance."""
        return self.histories[InstanceKey(case.account, case.region, case.instance_id)]


def judge_evidence(evidence: Evidence, environment: Environment, *, now: datetime | None = None) -> Judged:
    """The verdict on every case in the evidence.

    Without `now` the cases are over and each verdict is final. With it they are judged as Holdfast would have judged
    them at that time: later evidence is left out, and a verdict is final only if no further look was planned.
    """
    remarks = list(evidence.remarks)
    facts, refusals = _facts(evidence, environment)
    refusals += [Refusal(item.place, "invalid", item.reason, ignored=False) for item in evidence.invalid]
    looks = list(evidence.observations)
    if now is not None:
        later = sum(fact.at > now for fact in facts) + sum(look.at > now for _, look in looks)
        facts = [fact for fact in facts if fact.at <= now]
        looks = [(place, look) for place, look in looks if look.at <= now]
        if later:
            remarks.append(f"{later} facts and observations are later than {format_time(now)} and were left out.")
    others = {fact.subject for fact in facts if not fact.is_instance}
    if others:
        remarks.append(f"Not about an instance, so in no case: {', '.join(sorted(others))}.")
    histories = _histories(facts, looks, refusals, remarks)
    cases = [record for key, history in histories.items() for record in _records(key, history, environment, now)]
    remarks += _differences(evidence, cases)
    distinct = {(fact.kind, fact.event_id, fact.account, fact.region, fact.subject) for fact in facts}
    return Judged(
        cases=tuple(sorted(cases, key=lambda record: (record.happened_at or record.judged_at, record.case.key))),
        histories=histories,
        refusals=tuple(refusals),
        remarks=tuple(remarks),
        assumed=tuple(environment.sentences()),
        facts=len(distinct),
        duplicates=len(facts) - len(distinct),
        observations=len(looks),
    )


def _differences(evidence: Evidence, cases: Iterable[CaseRecord]) -> Iterable[str]:
    """Where an exported case had another verdict than it gets here. A verdict that was not final may well change."""
    here = {record.case.key: record for record in cases}
    for stored in evidence.verdicts:
        record = here.get(stored.key)
        judgement = None if record is None else record.judgement
        if record is not None and stored.restoration not in {None, Restored.PENDING}:
            restoration = record.case.restoration
            found = "no question" if restoration is None else restoration.state.value
            if found != stored.restoration:
                yield (
                    f"{stored.place}: the workloads of {stored.key} were {stored.restoration} when exported; "
                    f"here it is {found}."
                )
        if judgement is None:
            yield f"{stored.place}: {stored.key} was {_said(stored.verdict, stored.cause)} when exported; here it is no case."
        elif stored.final and (stored.verdict, stored.cause) != (judgement.verdict, judgement.cause):
            yield (
                f"{stored.place}: {stored.key} was {_said(stored.verdict, stored.cause)} when exported; "
                f"here it is {_said(judgement.verdict, judgement.cause)}."
            )


def _said(verdict: str, cause: str | None) -> str:
    return verdict if cause is None else f"{verdict} ({cause})"


def _facts(evidence: Evidence, environment: Environment) -> tuple[list[Fact], list[Refusal]]:
    facts = list(evidence.facts)
    refusals: list[Refusal] = []
    for body in evidence.bodies:
        parsed = parse(body.text, environment.home(*_origin(body.text)), sent_at=body.sent_at)
        facts.extend(parsed.facts)
        if parsed.rejection is not None:
            refusals.append(_refusal(body, parsed.rejection))
    return facts, refusals


def _refusal(body: Body, rejection: Rejection) -> Refusal:
    return Refusal(body.place, rejection.code, rejection.reason, rejection.disposition is Disposition.IGNORED)


def _histories(
    facts: Iterable[Fact],
    looks: Iterable[tuple[str, Observation]],
    refusals: list[Refusal],
    remarks: list[str],
) -> dict[InstanceKey, History]:
    """The facts and observations of each instance. An observation may leave out the account and region."""
    told: dict[InstanceKey, list[Fact]] = defaultdict(list)
    for fact in facts:
        if fact.is_instance:
            told[InstanceKey(fact.account, fact.region, fact.subject)].append(fact)
    seen: dict[InstanceKey, list[Observation]] = defaultdict(list)
    alone: Counter[str] = Counter()
    of_instance: dict[str, list[InstanceKey]] = defaultdict(list)
    for key in told:
        of_instance[key.instance_id].append(key)
    for place, look in looks:
        keys = [key for key in of_instance.get(look.instance_id, ()) if _is_about(look, key)]
        if len(keys) == 1:
            seen[keys[0]].append(look)
        elif keys:
            reason = f"{look.instance_id} is in {len(keys)} accounts or regions here: add `account` and `region`"
            refusals.append(Refusal(place, "ambiguous", reason, ignored=False))
        else:
            alone[look.instance_id] += 1
    for instance_id, count in sorted(alone.items()):
        noun = "observation" if count == 1 else "observations"
        remarks.append(f"{instance_id}: {count} {noun}, but no event about it, so no case.")
    return {key: History(tuple(told[key]), tuple(seen[key])) for key in sorted(told)}


def _is_about(look: Observation, key: InstanceKey) -> bool:
    return look.account in {None, key.account} and look.region in {None, key.region}


def _records(
    key: InstanceKey, history: History, environment: Environment, now: datetime | None
) -> Iterable[CaseRecord]:
    home = environment.home(key.account, key.region)
    cases = fold(history.facts, history.observations, Scope(home, environment.clusters(home)))
    for case in cases:
        if now is not None:
            # An earlier run of the instance gets no more looks, as in the live judge.
            exhausted = case is not cases[-1] or next_look(case) is None
            yield record_of(case, now, exhausted=exhausted)
        else:
            moments = [fact.at for fact in history.facts] + [look.at for look in history.observations]
            moments += [moment for moment in (case.deadline, case.ended_at) if moment is not None]
            afterwards = max(moments) + AFTERWARDS
            yield record_of(case, afterwards, exhausted=True)


def _origin(text: str) -> tuple[str | None, str | None]:
    """The account and region that the envelope of an event names, as far as it has any."""
    value: Any = text
    for _ in range(4):
        if isinstance(value, dict) and isinstance(value.get("Message"), str):
            value = value["Message"]
        elif isinstance(value, str):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                return None, None
        else:
            break
    if not isinstance(value, dict):
        return None, None
    account, region = value.get("account"), value.get("region")
    return (account if isinstance(account, str) else None, region if isinstance(region, str) else None)
