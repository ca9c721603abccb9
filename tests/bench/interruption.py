"""What an event costs on its way from a message to a case."""

import json
import random
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from holdfast.adapters.documents import dump, load
from holdfast.alerts.alert import Alert
from holdfast.interruption.case import Case, Scope, fold
from holdfast.interruption.event import Fact, Home, Rejection, parse
from holdfast.interruption.ingest import IngestResult, Message, ingest
from holdfast.interruption.observation import Answer, ClusterView, Condition, InstanceView, Observation
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.slo import Statistics, summarize
from holdfast.interruption.verdict import judge
from holdfast.ports import InstanceKey, Look
from tests.bench.harness import RUNS, Line, cpu, growth, median_cpu

HOME = Home("111122223333", "eu-central-1")
SCOPE = Scope(HOME, {})
NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
LEDGER = 30_000
DUPLICATES = 0.2
BATCH = 10
STATS_DAYS = 400
CASES_A_DAY = 50


def run() -> Iterator[Line]:
    bodies = shuffled(LEDGER)
    if cases(bodies) != cases(dict.fromkeys(bodies)) or cases(bodies) != cases(sorted(bodies)):
        raise RuntimeError("a shuffled ledger with duplicates gives other cases than an ordered one without")
    seconds = median_cpu(lambda: cases(bodies))
    yield Line("parse and fold, one event", seconds / LEDGER * 1e6, "µs", 100)
    yield Line("ledger of 30,000 events, 20 % duplicates, shuffled", seconds, "s", 3)
    yield from growth("parse and fold", _ledger_cost)

    seconds = statistics.median(_ingest_cost(1) * BATCH for _ in range(RUNS))
    yield Line("ingest of a batch of 10 events, without I/O", seconds * 1000, "ms", 5)
    yield from growth("ingest", _ingest_cost)

    rows = stored_cases(STATS_DAYS * CASES_A_DAY)
    yield Line("stats over 400 days of 50 cases, rows in memory", median_cpu(lambda: statistics_of(rows)), "s", 3)
    yield from growth("stats", _stats_cost)


def events(instances: int) -> Iterator[str]:
    """The bodies of five events in the life of each instance, as EventBridge sends them."""
    for number in range(instances):
        instance = f"i-{number:017x}"
        warned = datetime(2026, 9, 1, tzinfo=UTC) + timedelta(seconds=number)
        for step, (detail_type, seconds, detail) in enumerate(
            (
                ("EC2 Instance State-change Notification", -3600, {"state": "running"}),
                ("EC2 Instance Rebalance Recommendation", -60, {}),
                ("EC2 Spot Instance Interruption Warning", 0, {"instance-action": "terminate"}),
                ("EC2 Instance State-change Notification", 120, {"state": "shutting-down"}),
                ("EC2 Instance State-change Notification", 150, {"state": "terminated"}),
            )
        ):
            yield json.dumps(
                {
                    "version": "0",
                    "id": f"00000000-0000-4000-{step:04x}-{number:012x}",
                    "detail-type": detail_type,
                    "source": "aws.ec2",
                    "account": HOME.account,
                    "time": (warned + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "region": HOME.region,
                    "resources": [f"arn:aws:ec2:{HOME.region}:{HOME.account}:instance/{instance}"],
                    "detail": {"instance-id": instance} | detail,
                }
            )


@cache
def shuffled(count: int) -> tuple[str, ...]:
    """``count`` bodies, a fifth of them seen before, in an order that is no order but the same each time."""
    chance = random.Random(1)
    distinct = list(events(round(count * (1 - DUPLICATES)) // 5))
    bodies = distinct + chance.choices(distinct, k=count - len(distinct))
    chance.shuffle(bodies)
    return tuple(bodies)


def cases(bodies: Sequence[str] | Mapping[str, None]) -> dict[str, tuple[Case, ...]]:
    by_instance: dict[str, list[Fact]] = defaultdict(list)
    for body in bodies:
        for fact in parse(body, HOME).facts:
            by_instance[fact.subject].append(fact)
    return {instance: fold(facts, (), SCOPE) for instance, facts in by_instance.items()}


@cache
def stored_cases(count: int) -> tuple[str, ...]:
    """``count`` judged Spot terminations as the ledger keeps them, 50 a day up to now, newest first."""
    life = [fact for body in events(1) for fact in parse(body, HOME).facts]
    rows: list[str] = []
    for number in range(CASES_A_DAY):
        warned = NOW - number * timedelta(days=1) / CASES_A_DAY
        later = warned - datetime(2026, 9, 1, tzinfo=UTC)
        facts = [replace(fact, at=fact.at + later, subject=f"i-{number:017x}") for fact in life]
        (case,) = fold(facts, (_look(facts[0].subject, warned),), SCOPE)
        judged = warned + timedelta(minutes=3)
        rows.append(dump(CaseRecord(case, judge(case, judged, exhausted=True), judged)))
    # Every day like the last one: only its date differs, by as many days, in all times of the row.
    days = [NOW.date() - timedelta(days=days) for days in range(-(-count // CASES_A_DAY) + 1)]
    last, before = (day.isoformat() for day in days[:2])
    return tuple(
        row.replace(before, days[day + 1].isoformat()).replace(last, days[day].isoformat())
        for day in range(-(-count // CASES_A_DAY))
        for row in rows
    )[:count]


def _look(instance: str, warned: datetime) -> Observation:
    drained = Condition("Drained", "True", "Drained", warned + timedelta(seconds=60))
    pool, zone = f"pool-{instance[-1]}", f"{HOME.region}{'abc'[int(instance[-2], 16) % 3]}"
    return Observation(
        instance,
        warned + timedelta(seconds=110),
        ec2=InstanceView(Answer.OK, state="running", cluster="shop", nodepool=pool, instance_type="m7g.large"),
        kubernetes=ClusterView(
            Answer.OK,
            cluster="shop",
            nodepool=pool,
            nodeclaim=f"{pool}-{instance[-5:]}",
            zone=zone,
            deleted_at=warned + timedelta(seconds=3),
            conditions=(drained,),
        ),
    )


def statistics_of(rows: Sequence[str]) -> Statistics:
    records = (load(CaseRecord, row, "a row") for row in rows)
    return summarize(records, since=NOW - timedelta(days=STATS_DAYS), until=NOW, now=NOW)


def _stats_cost(size: int) -> float:
    """Seconds for one case of a report of ``size`` sixteenths; the small ones as often as makes the same work."""
    rows = stored_cases(STATS_DAYS * CASES_A_DAY)[: STATS_DAYS * CASES_A_DAY * size // 16]
    repeats = 16 // size

    def reports() -> None:
        for _ in range(repeats):
            if statistics_of(rows).cases != len(rows):
                raise RuntimeError("the statistics leave out cases of the time they are about")

    return cpu(reports) / repeats / len(rows)


def _ledger_cost(size: int) -> float:
    """Seconds for one event of a ledger of ``size`` sixteenths; the small ones as often as makes the same work."""
    bodies = shuffled(LEDGER * size // 16)
    repeats = 16 // size

    def ledgers() -> None:
        for _ in range(repeats):
            cases(bodies)

    return cpu(ledgers) / repeats / len(bodies)


def _ingest_cost(size: int) -> float:
    """Seconds for one event of ``size`` batches taken as one, into a ledger that costs nothing."""
    messages = [Message(f"m-{n}", body, NOW) for n, body in enumerate(shuffled(BATCH * 16)[: BATCH * size])]
    repeats = 160 // size

    def batches() -> None:
        for _ in range(repeats):
            result = _ingest(messages)
            if result.failed or len(result.stored) != len(messages):
                raise RuntimeError(f"ingest kept {len(result.stored)} of {len(messages)} events: {result.failed}")

    return cpu(batches) / repeats / len(messages)


def _ingest(messages: Sequence[Message]) -> IngestResult:
    world: Any = World()
    return ingest(
        messages,
        home=HOME,
        now=NOW,
        ledger=world,
        instances=world,
        looks=world,
        wakeups=world,
        parallel=in_turn,
    )


def in_turn(actions: Sequence[Callable[[], None]]) -> Sequence[Exception | None]:
    for action in actions:
        action()
    return [None] * len(actions)


class World:
    """What ingest writes to and asks, as sets in memory. Only what ingest uses of its ports."""

    def __init__(self) -> None:
        self.facts: set[tuple[str, str, str]] = set()
        self.watches: set[InstanceKey] = set()

    def put_fact(self, fact: Fact) -> bool:
        key = (fact.kind, fact.event_id, fact.subject)
        new = key not in self.facts
        self.facts.add(key)
        return new

    def put_rejection(self, rejection: Rejection, *, day: datetime, message_id: str, alert: Alert | None) -> bool:
        raise RuntimeError(f"every event of the benchmark can be read, but not this: {rejection}")

    def open_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        new = key not in self.watches
        self.watches.add(key)
        return new

    def touch_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        return key in self.watches

    def describe(self, instance_ids: Sequence[str]) -> Mapping[str, InstanceView]:
        return {}

    def send(self, looks: Sequence[Look], *, now: datetime) -> None:
        """Takes the looks."""

    def wake(self, alert_ids: Sequence[str], *, delay: timedelta = timedelta(0)) -> None:
        """Takes the wake-up."""
