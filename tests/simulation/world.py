"""A day of a few nodes, made from a seed: what EC2, Karpenter and the pods do, what is told of it, and what fails.

Everything goes the whole way: event bodies into the audit queue, from there through ingest, looks, judge and sweeper, with
EC2, the clusters and the ledger on fakes that answer as the world stands at that second, or do not answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime

from holdfast.errors import Denied, HoldfastError, Throttled, Unavailable
from holdfast.interruption.case import End
from holdfast.interruption.observation import InstanceView
from holdfast.interruption.record import CaseRecord
from holdfast.karpenter.nodeclaim import NodeClaim, StatusCondition
from holdfast.karpenter.pods import Pod, PodDisruptionBudget
from holdfast.ports import InstanceKey
from tests.builders import (
    ACCOUNT,
    CONTROLLER,
    REGION,
    SOMEBODY,
    SPOT,
    USER,
    at,
    body,
    budget,
    ec2,
    message,
    nodeclaim,
    pod,
    state_body,
    warning_body,
)
from tests.fakes import Faults
from tests.simulation.truth import FOLLOWED, NOTICE, Truth
from tests.unit.interruption.plant import Plant

EDGE = 4
"""Nothing of the model happens this near to a deadline, in seconds: there clocks decide, and two verdicts are right."""

KNOWN_TO_EC2 = 3600
"""EC2 forgets an instance about an hour after its end."""

OVER = 9 * 24 * 3600
"""By then the last look for a NodeClaim that outlived its instance has been made, and every late message has come."""

ASKED = ("describe", "nodeclaims", "pods", "disruption_budgets", "depths")
STORED = ("put_fact", "open_watch", "touch_watch", "history", "put_observation", "save", "send", "wake", "overdue")
ERRORS: tuple[Callable[[str], HoldfastError], ...] = (Unavailable, Throttled, Denied)


@dataclass(frozen=True, slots=True)
class Outage:
    """For a while every call of one name fails."""

    name: str
    since: datetime
    until: datetime
    error: HoldfastError = Unavailable("the connection timed out")  # noqa: RUF009 - an error is a value here

    def holds(self, name: str, now: datetime) -> bool:
        return name == self.name and self.since <= now < self.until


@dataclass
class Weather(Faults):
    """Faults as they come: calls fail at random, and for some minutes EC2 or a cluster answers nothing at all."""

    chance: random.Random = field(default_factory=random.Random)
    clock: Callable[[], datetime] | None = None
    rates: dict[str, float] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)

    def run[T](self, name: str, action: Callable[[], T]) -> T:
        for outage in self.outages if self.clock is not None else ():
            if outage.holds(name, self.clock()):
                raise outage.error
        if self.chance.random() < self.rates.get(name, 0.0):
            error = self.chance.choice(ERRORS)(f"{name} failed")
            if self.chance.random() < 0.3:
                # It took effect, and only the answer was lost.
                super().run(name, action)
            raise error
        return super().run(name, action)


@dataclass(frozen=True, slots=True)
class Node:
    """One instance: its truth, and what of it can be seen. Seconds are counted from its warning, `at_second` from W."""

    number: int
    at_second: int
    truth: Truth
    kind: str
    cluster: str
    blocker: str | None
    grace: int
    termination_grace: int | None
    tags_after: int
    claim_gone: int | None

    @property
    def instance(self) -> str:
        return f"i-{self.number:017x}"

    @property
    def key(self) -> InstanceKey:
        return InstanceKey(ACCOUNT, REGION, self.instance)

    @property
    def name(self) -> str:
        return f"node-{self.number}"

    def moment(self, seconds: float) -> datetime:
        return at(self.at_second + seconds)


@dataclass
class World:
    """The nodes of a seed in their plant. `play` lets the day pass; `heard_of` are the instances whose warning or end was told.

    In a `calm` world no call fails: what is missing there fell between two looks.
    """

    seed: int
    plant: Plant
    nodes: tuple[Node, ...]
    heard_of: frozenset[str]
    calm: bool

    def play(self) -> None:
        self.plant.run(OVER)

    def records(self, node: Node) -> tuple[CaseRecord, ...]:
        """The case rows of the node; none when nothing about it called for one."""
        return tuple(self.plant.ledger.records.get(node.key, {}).values())


def world(seed: int) -> World:
    """The world of that seed: always the same."""
    chance = random.Random(seed)
    weather = Weather(chance=random.Random(seed + 1))
    plant = Plant(faults=weather)
    weather.clock = plant.clock
    weather.rates = dict.fromkeys(ASKED, chance.choice((0.0, 0.02, 0.15))) | dict.fromkeys(
        STORED, chance.choice((0.0, 0.01, 0.05))
    )
    if chance.random() < 0.3:
        since = chance.randint(-60, 900)
        what = chance.choice((("describe",), ("nodeclaims", "pods"), ASKED))
        until = since + chance.randint(60, 3000)
        weather.outages = [Outage(name, at(since), at(until)) for name in what]
    nodes = tuple(_node(number, chance) for number in range(1, chance.randint(2, 7)))
    for cluster in ("cluster-a", "cluster-b"):
        own = [node for node in nodes if node.cluster == cluster and node.truth.ours]
        plant.clusters.claims[cluster] = _claims(own, plant)
        plant.clusters.budgets[cluster] = _budgets(own)
    heard_of: set[str] = set()
    for node in nodes:
        plant.instances.views[node.instance] = _seen_by_ec2(node, plant)
        plant.clusters.bound[node.cluster, node.name] = _pods(node, plant)
        if _tell(node, plant, chance):
            heard_of.add(node.instance)
    calm = not weather.outages and not any(weather.rates.values())
    return World(seed, plant, nodes, frozenset(heard_of), calm)


# What happens.


def _clear_of(second: int, *edges: int) -> int:
    while any(abs(second - edge) < EDGE for edge in edges):
        second += 1
    return second


def _node(number: int, chance: random.Random) -> Node:
    kind = chance.choices(("spot", "reservation", "maintenance"), (75, 10, 15))[0]
    deadline = {"spot": NOTICE, "reservation": chance.choice((120, 300, 600)), "maintenance": 3600}[kind]
    blocker = chance.choice(("budget", "annotation")) if chance.random() < 0.3 else None
    termination_grace = chance.choice((60, 90, 300)) if chance.random() < 0.35 else None
    grace = chance.choice((0, 30, 30, 90))
    fate = chance.random()
    if fate < 0.1:
        truth = Truth(None, None, chance.randint(0, 200), End.SERVER, warned=False)
    elif fate < 0.2:
        truth = Truth(None, None, chance.randint(0, 200), End.OTHER_CLIENT, warned=False)
    elif fate < 0.26:
        by = chance.choice((End.SERVER, End.OTHER_CLIENT))
        truth = Truth(None, None, _clear_of(chance.randint(30, 200), deadline), by, deadline=deadline, ours=False)
    else:
        truth = _interruption(deadline, blocker, grace, termination_grace, chance)
    claim_gone = None
    if truth.ended is not None:
        # Karpenter keeps the NodeClaim until EC2 says that the instance is terminated.
        claim_gone = truth.ended + (chance.randint(5, 90) if truth.deleted is not None else chance.randint(60, 260))
    return Node(
        number=number,
        at_second=chance.randint(0, 300),
        truth=truth,
        kind=kind,
        cluster=chance.choice(("cluster-a", "cluster-a", "cluster-b")),
        blocker=blocker,
        grace=grace,
        termination_grace=termination_grace,
        tags_after=chance.choice((-9999, -9999, 30, 600)),
        claim_gone=claim_gone,
    )


def _interruption(
    deadline: int, blocker: str | None, grace: int, termination_grace: int | None, chance: random.Random
) -> Truth:
    """Karpenter polls, begins and drains; then it, EC2 or somebody else ends the instance, whoever is first."""
    deleted = _begins(deadline, chance)
    drained: int | None = None
    forced_at: int | None = None
    if deleted is not None:
        begun = max(deleted, 0) if deleted >= 0 else deleted
        if blocker is None:
            drained = begun + 1 + min(int(chance.lognormvariate(3.2, 0.9)), deadline + FOLLOWED)
        if termination_grace is not None:
            cut_off = begun + max(termination_grace - grace, 0)
            if drained is None or drained > cut_off:
                drained = None
                forced_at = _clear_of(chance.randint(max(cut_off, begun + 1), begun + termination_grace), deadline)
                if chance.random() < 0.5:
                    drained = forced_at
    if drained is not None:
        drained = _clear_of(drained, deadline)
        if drained > deadline + FOLLOWED - 60:
            drained = forced_at = None
    ends: list[tuple[int, End]] = []
    if drained is not None:
        ends.append((_clear_of(drained + chance.randint(1, 5), deadline), End.CONTROLLER))
    elif forced_at is not None:
        ends.append((forced_at, End.CONTROLLER))
    if chance.random() < 0.85:
        ends.append((_clear_of(deadline + chance.randint(0, 30), deadline), End.SERVER))
    if chance.random() < 0.06:
        ends.append((_clear_of(chance.randint(5, deadline + 200), deadline), End.OTHER_CLIENT))
    ended, by = min(ends, key=lambda end: end[0], default=(None, End.RUNNING))
    if ended is not None:
        # What would have come after the end never came.
        drained = drained if drained is not None and drained < ended else None
        deleted = deleted if deleted is not None and deleted < ended else None
        forced_at = forced_at if forced_at is not None and forced_at <= ended else None
        if by is not End.CONTROLLER and drained is None:
            forced_at = None
    return Truth(deleted, drained, ended, by, forced_at, deadline)


def _begins(deadline: int, chance: random.Random) -> int | None:
    """When Karpenter deletes the NodeClaim: soon after the warning, late, before it for another reason, or never."""
    how = chance.random()
    if how < 0.12:
        return None
    if how < 0.18:
        return -chance.randint(EDGE, 600)
    if how < 0.28:
        return _clear_of(chance.randint(30, deadline + 250), deadline)
    return _clear_of(1 + min(int(chance.expovariate(1 / 4)), 25), deadline)


# What can be seen.


def _seen_by_ec2(node: Node, plant: Plant) -> Callable[[], InstanceView | None]:
    truth = node.truth

    def answer() -> InstanceView | None:
        now = plant.clock()
        tags: dict[str, object] = {"cluster": node.cluster}
        if not truth.ours:
            tags = {"cluster": None, "nodepool": None, "nodeclaim": None}
        elif now < node.moment(node.tags_after):
            tags |= {"nodeclaim": None}
        if truth.ended is None or now < node.moment(truth.ended):
            return ec2(**tags)
        if now > node.moment(truth.ended + KNOWN_TO_EC2):
            return None
        state = "shutting-down" if now < node.moment(truth.ended + 35) else "terminated"
        reason = SPOT if truth.by is End.SERVER else USER
        return ec2(state, reason, transitioned_at=node.moment(truth.ended), **tags)

    return answer


def _claims(nodes: list[Node], plant: Plant) -> Callable[[], list[NodeClaim]]:
    return lambda: [claim for node in nodes if (claim := _claim(node, plant.clock())) is not None]


def _claim(node: Node, now: datetime) -> NodeClaim | None:
    truth = node.truth
    if node.claim_gone is not None and now >= node.moment(node.claim_gone):
        return None
    deleted, drained = truth.deleted, truth.drained
    if truth.ended is not None:
        # Once the machine is gone, Karpenter deletes what it had not deleted, and finds no pods to wait for.
        deleted = truth.ended + 10 if deleted is None else deleted
        drained = truth.ended + 12 if drained is None else drained
    begun = deleted is not None and now >= node.moment(deleted)
    over = drained is not None and now >= node.moment(drained)
    conditions: tuple[StatusCondition, ...] = ()
    if begun and deleted is not None:
        conditions = (StatusCondition("Drained", "Unknown", "Draining", node.moment(deleted + 1)),)
    if over and drained is not None:
        conditions = (StatusCondition("Drained", "True", "Drained", node.moment(drained)),)
    claim = nodeclaim(instance_id=node.instance, name=f"claim-{node.number}", node=node.name, conditions=conditions)
    grace = None if node.termination_grace is None else node.moment(node.termination_grace) - node.moment(0)
    claim = replace(claim, grace_period=grace)
    if not begun or deleted is None:
        return claim
    ends_by = None if node.termination_grace is None else node.moment(deleted + node.termination_grace)
    return replace(claim, deleted_at=node.moment(deleted), termination_at=ends_by)


def _pods(node: Node, plant: Plant) -> Callable[[], list[Pod]]:
    held = pod(
        f"api-{node.number}",
        labels={"app": node.name},
        grace=node.grace,
        do_not_disrupt="true" if node.blocker == "annotation" else None,
    )

    def bound() -> list[Pod]:
        gone = [second for second in (node.truth.drained, node.truth.ended) if second is not None]
        return [] if gone and plant.clock() >= node.moment(min(gone)) else [held]

    return bound


def _budgets(nodes: list[Node]) -> list[PodDisruptionBudget]:
    return [
        budget(0, {"matchLabels": {"app": node.name}}, name=f"pdb-{node.number}")
        for node in nodes
        if node.blocker == "budget"
    ]


# What is told.


def _tell(node: Node, plant: Plant, chance: random.Random) -> bool:
    """Puts the node's events into the queue, late, twice, in any order, or not at all.

    Whether one got there that tells of more than a recommendation.
    """
    told = False
    for number, (second, text, lost) in enumerate(_events(node, chance)):
        if chance.random() < lost:
            continue
        told = told or "Rebalance" not in text
        for copy in range(1 + (chance.random() < 0.2)):
            late = chance.choices((1, chance.randint(1, 120), chance.randint(120, 3600)), (85, 12, 3))[0]
            arrives = node.at_second + second + late + copy
            plant.arrive(arrives, message(text, id=f"{node.number}-{number}-{copy}", sent=arrives))
    return told


def _events(node: Node, chance: random.Random) -> list[tuple[int, str, float]]:
    """Second, body, and how likely it is that the event bus never gets it."""
    truth, base = node.truth, node.at_second
    found: list[tuple[int, str, float]] = []
    if truth.warned:
        found.append((0, _warning(node), 0.0))
        if chance.random() < 0.1:
            found.append((20, warning_body(node.instance, base + 20) if node.kind == "spot" else _warning(node), 0.0))
    if chance.random() < 0.3:
        detail = {"instance-id": node.instance}
        found.append((-60, body("EC2 Instance Rebalance Recommendation", detail, base - 60), 0.05))
    if truth.ended is None:
        return found
    for state, second in (("shutting-down", truth.ended), ("terminated", truth.ended + 35)):
        found.append((second, state_body(state, node.instance, base + second), 0.08))
    if truth.by is End.SERVER and truth.ours and chance.random() < 0.3:
        detail = {"eventName": "BidEvictedEvent", "serviceEventDetails": {"instanceIdSet": [node.instance]}}
        found.append((truth.ended + 240, body("AWS Service Event via CloudTrail", detail, base + truth.ended), 0.1))
    if truth.by in {End.CONTROLLER, End.OTHER_CLIENT} and truth.ours and chance.random() < 0.5:
        found.append((truth.ended + 300, _terminate_call(node, truth.ended), 0.1))
    return found


def _warning(node: Node) -> str:
    base, deadline = node.at_second, node.truth.deadline
    match node.kind:
        case "reservation":
            ends = at(base + deadline).strftime("%Y-%m-%dT%H:%M:%SZ")
            detail = {"instance-id": node.instance, "instance-action": "terminate", "instance-termination-time": ends}
            return body("EC2 Capacity Reservation Instance Interruption Warning", detail, base)
        case "maintenance":
            code = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
            notice = {
                "eventArn": f"arn:aws:health:{REGION}::event/EC2/{code}/{code}_{node.number}",
                "service": "EC2",
                "eventTypeCode": code,
                "eventTypeCategory": "scheduledChange",
                "eventScopeCode": "ACCOUNT_SPECIFIC",
                "statusCode": "upcoming",
                "eventRegion": REGION,
                "startTime": at(base + deadline).strftime("%a, %d %b %Y %H:%M:%S GMT"),
                "affectedEntities": [{"entityValue": node.instance, "status": "PENDING"}],
            }
            return body("AWS Health Event", notice, base, source="aws.health")
        case _:
            return warning_body(node.instance, base)


def _terminate_call(node: Node, ended: int) -> str:
    role = CONTROLLER.replace("cluster-a", node.cluster) if node.truth.by is End.CONTROLLER else SOMEBODY
    detail = {
        "eventName": "TerminateInstances",
        "userIdentity": {"type": "AssumedRole", "sessionContext": {"sessionIssuer": {"arn": role}}},
        "requestParameters": {"instancesSet": {"items": [{"instanceId": node.instance}]}},
    }
    return body("AWS API Call via CloudTrail", detail, node.at_second + ended)
