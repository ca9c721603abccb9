"""A burst through ingest's handler, as Lambda calls it with batches of ten, and from there to verdicts and alerts.

A third of a fleet goes at once: five events for each instance within five minutes, a share of them delivered twice, in any
order. What comes of it has to be what comes of the same events in order and once. Ledger, queues, EC2 and clusters are in
memory; the handler, its batch answers, its log and its threads are the real ones.

`python -m tests.burst --events N` plays both and compares them; exit 1 when they differ.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from holdfast.alerts.deliver import WINDOW
from holdfast.interruption.event import Fact
from holdfast.interruption.observation import InstanceView
from holdfast.karpenter.nodeclaim import NodeClaim
from holdfast.ports import History, InstanceKey, Look
from tests.builders import REGION, SPOT, USER, at, body, ec2, nodeclaim, state_body, warning_body
from tests.fakes import FakeLedger, FakeLooks, outside
from tests.handlers import loaded
from tests.unit.interruption.plant import Plant

EVENTS_OF_ONE = 5
SPREAD = 300
"""Seconds over which the warnings come."""
HANDLED_AT = SPREAD + 160
"""When the burst is worked on: every instance has ended, none ten minutes ago."""
CLAIMS_GONE = HANDLED_AT + 120
BATCH = 10
DUPLICATES = 0.2


@dataclass(frozen=True, slots=True)
class Burst:
    """What came of a burst. `seconds` is the processor time of the handler alone, logging and threads included."""

    events: int
    failed: int
    outcome: Mapping[str, Any]
    observed: int
    messages: int
    seconds: float


class BurstLedger(FakeLedger):
    """A ledger that finds an instance's facts without reading all others, and that threads may write to at once."""

    def __init__(self, clock: Callable[[], datetime], faults: Any = None) -> None:
        super().__init__(clock, faults)
        self._lock = threading.Lock()
        self._own: dict[InstanceKey, list[Fact]] = {}

    def put_fact(self, fact: Fact) -> bool:
        # DynamoDB's condition and its write are one step.
        with self._lock:
            new = super().put_fact(fact)
            if new:
                self._own.setdefault(InstanceKey(fact.account, fact.region, fact.subject), []).append(fact)
            return new

    def open_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        with self._lock:
            return super().open_watch(key, due_at)

    def touch_watch(self, key: InstanceKey, due_at: datetime) -> bool:
        with self._lock:
            return super().touch_watch(key, due_at)

    @outside
    def history(self, key: InstanceKey) -> History:
        return History(
            key,
            tuple(self._own.get(key, ())),
            tuple(self.observations.get(key, ())),
            self.watches.get(key),
            tuple(self.records.get(key, {}).values()),
        )


class BurstLooks(FakeLooks):
    """A queue that gives the oldest messages first without going through all of them for each."""

    def receive(self, now: datetime, limit: int = BATCH) -> list[Look]:
        self._queue.sort(key=lambda item: (item[0], item[1].due_at, item[1].key))
        arrived = [look for moment, look in self._queue[:limit] if moment <= now]
        del self._queue[: len(arrived)]
        return arrived


def instance(number: int) -> str:
    return f"i-{number:017x}"


def events(instances: int) -> tuple[str, ...]:
    """The bodies of five events of each instance, in the order in which they happened."""
    told: list[tuple[float, str]] = []
    for number in range(instances):
        name, warned, ended = instance(number), _warned(number, instances), _ended(number, instances)
        told += [
            (warned - 3600, state_body("running", name, warned - 3600)),
            (warned - 60, body("EC2 Instance Rebalance Recommendation", {"instance-id": name}, warned - 60)),
            (warned, warning_body(name, warned)),
            (ended, state_body("shutting-down", name, ended)),
            (ended + 30, state_body("terminated", name, ended + 30)),
        ]
    return tuple(text for _, text in sorted(told))


def disturbed(bodies: Sequence[str], *, duplicates: float = DUPLICATES, seed: int = 1) -> tuple[str, ...]:
    """The bodies with so large a share of all being seen before, in an order that is none but the same each time."""
    chance = random.Random(seed)
    again = round(len(bodies) * duplicates / (1 - duplicates))
    mixed = [*bodies, *chance.choices(bodies, k=again)]
    chance.shuffle(mixed)
    return tuple(mixed)


def feed(bodies: Sequence[str], plant: Plant) -> tuple[int, float]:
    """Gives the bodies to the handler in batches of ten: how many it gave back, and its seconds of processor time."""
    failed = 0
    gc.collect()
    with handler(plant) as handle:
        start = time.process_time()
        for first in range(0, len(bodies), BATCH):
            failed += len(handle(bodies[first : first + BATCH], first)["batchItemFailures"])
        seconds = time.process_time() - start
    return failed, seconds


def play(bodies: Sequence[str], instances: int) -> Burst:
    """Feeds the bodies and lets everything run until nothing is left to do."""
    plant = fleet(instances)
    failed, seconds = feed(bodies, plant)
    plant.run(24 * 3600)
    return Burst(
        events=len(bodies),
        failed=failed,
        outcome=plant.outcome(),
        observed=sum(map(len, plant.ledger.observations.values())),
        messages=len(plant.messenger.posted),
        seconds=seconds,
    )


def differences(burst: Burst, plain: Burst) -> list[str]:
    """What came of the burst and not of the same events in order and once; empty when nothing was lost or doubled."""
    found = [f"{name} differ" for name in plain.outcome if burst.outcome[name] != plain.outcome[name]]
    if burst.failed or plain.failed:
        found.append(f"{burst.failed + plain.failed} messages were given back")
    if len(plain.outcome["facts"]) != plain.events:
        found.append(f"of {plain.events} events {len(plain.outcome['facts'])} are facts")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.burst", description="Play a burst through ingest's handler.")
    parser.add_argument("--events", type=int, default=30_000, help="messages, a fifth of them twice (30000)")
    options = parser.parse_args()
    instances = round(options.events * (1 - DUPLICATES)) // EVENTS_OF_ONE
    bodies = events(instances)
    burst, plain = play(disturbed(bodies), instances), play(bodies, instances)
    verdicts = Counter(cases["0"][0] for cases in burst.outcome["cases"].values())
    print(
        f"{burst.events:,} messages of {plain.events:,} events about {instances:,} instances, shuffled, in batches of 10"
    )
    print(f"  ingest's handler: {burst.seconds:.1f} s of CPU, {burst.events / burst.seconds:,.0f} messages a second")
    print(f"  {len(burst.outcome['facts']):,} facts, {burst.observed:,} looks, {len(burst.outcome['told']):,} alerts")
    print(
        f"  in {burst.messages} Slack messages; " + ", ".join(f"{count:,} {name}" for name, count in verdicts.items())
    )
    found = differences(burst, plain)
    print(
        "  "
        + ("; ".join(found) or "the same ledger as from the events in order and once: nothing lost, nothing doubled")
    )
    return 1 if found else 0


def _warned(number: int, instances: int) -> float:
    return number * SPREAD // instances


def _taken(number: int) -> bool:
    """EC2 was first for one in five: one in ten was never drained, one in ten not even begun."""
    return number % 10 < 2


def _ended(number: int, instances: int) -> float:
    return _warned(number, instances) + (121 if _taken(number) else 55)


def _claim(number: int, instances: int) -> NodeClaim:
    warned = _warned(number, instances)
    deleted = None if number % 10 == 0 else warned + 5
    drained = None if _taken(number) else warned + 50
    return nodeclaim(
        instance_id=instance(number), name=f"claim-{number}", node=f"n{number}", deleted=deleted, drained=drained
    )


def _view(number: int, instances: int) -> InstanceView:
    reason = SPOT if _taken(number) else USER
    return ec2("terminated", reason, transitioned_at=at(_ended(number, instances)))


def fleet(instances: int) -> Plant:
    """The fleet after the burst: what EC2 and the cluster say of its instances, and nobody has been told yet."""
    plant = Plant(start=HANDLED_AT, window=WINDOW)
    plant.ledger = BurstLedger(plant.clock, plant.faults)
    plant.outbox._shelf = plant.ledger.shelf
    plant.looks = BurstLooks(plant.faults)
    plant.instances.views = {instance(number): _view(number, instances) for number in range(instances)}
    claims = [_claim(number, instances) for number in range(instances)]
    plant.clusters.claims["cluster-a"] = lambda: claims if plant.clock() < at(CLAIMS_GONE) else []
    return plant


@contextlib.contextmanager
def handler(plant: Plant) -> Iterator[Callable[[Sequence[str], int], Mapping[str, Any]]]:
    """ingest's handler on the plant's world; what it logs is written and thrown away."""
    needs = SimpleNamespace(
        scope=plant.scope,
        ledger=plant.ledger,
        instances=plant.instances,
        looks=plant.looks,
        wakeups=plant.wakeups,
        states=plant.states,
    )
    context = SimpleNamespace(
        function_name="ingest",
        memory_limit_in_mb=512,
        invoked_function_arn=f"arn:aws:lambda:{REGION}:111122223333:function:ingest",
        aws_request_id="request",
        get_remaining_time_in_millis=lambda: 30_000,
    )
    with (
        loaded("interruption_ingest") as module,
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        mock.patch.object(module.wiring, "ingest", return_value=needs),
        mock.patch.object(module.clock, "now", plant.clock),
    ):
        log: logging.StreamHandler[Any] = module.logger.registered_handler
        kept = log.stream
        log.setStream(nowhere)

        def handle(bodies: Sequence[str], first: int) -> Mapping[str, Any]:
            records = [_record(text, first + number) for number, text in enumerate(bodies)]
            answer: Mapping[str, Any] = module.lambda_handler({"Records": records}, context)
            return answer

        try:
            yield handle
        finally:
            log.setStream(kept)


def _record(text: str, number: int) -> dict[str, Any]:
    sent = int(at(HANDLED_AT).timestamp() * 1000) - 1000
    return {
        "messageId": f"m-{number}",
        "receiptHandle": "handle",
        "body": text,
        "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": str(sent)},
        "messageAttributes": {},
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:111122223333:holdfast-audit",
        "awsRegion": REGION,
    }


if __name__ == "__main__":
    sys.exit(main())
