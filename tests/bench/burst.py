"""A burst: what ingest's handler costs a message, judging thousands of cases, and the memory of the largest batch."""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.interruption.event import WARNINGS, parse
from holdfast.ports import InstanceKey, Look
from tests import burst
from tests.bench.harness import Line, cpu
from tests.builders import HOME
from tests.unit.interruption.plant import Plant

MESSAGES = 30_000
CASES = 5000
BATCH = 10

MEMORY = """
import resource, sys
from tests import burst
from tests.bench.burst import health_event

class Nothing:
    def __getattr__(self, name):
        return lambda *arguments, **more: name == "put_fact"

def peak():
    # ru_maxrss of a child begins at what its parent had; the kernel's mark of this program's own memory does not.
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024

plant = burst.fleet(1)
plant.ledger = plant.looks = Nothing()
plant.instances.describe = lambda instance_ids: {}
with burst.handler(plant) as handle:
    handle(burst.events(2), 0)
    before = peak()
    answer = handle([health_event(number, 256 * 1024) for number in range(10)], 0)
    after = peak()
assert answer == {"batchItemFailures": []}, answer
sys.stdout.write(str(after - before))
"""


def run() -> Iterator[Line]:
    bodies = burst.disturbed(burst.events(MESSAGES * 4 // 5 // burst.EVENTS_OF_ONE))
    plant = burst.fleet(1)
    failed, seconds = burst.feed(bodies, plant)
    facts = len(plant.ledger.facts)
    if failed or facts != len(set(bodies)):
        raise RuntimeError(f"of {len(set(bodies))} events {facts} are facts, {failed} messages were given back")
    # 200 messages a second in one process is 5 ms for each; functions run side by side.
    yield Line("ingest's handler, one of 30,000 messages, 20 % twice", seconds / len(bodies) * 1000, "ms", 5)
    yield Line("judging 5,000 cases in one process", statistics.median(_judging() for _ in range(3)), "s", 10)
    yield Line("memory of 10 Health events of 256 KB, peak RSS of a fresh process", _memory(), "MB over", 128)


def _judging() -> float:
    """Seconds of processor time to look at, judge and store every case of a burst, in batches as the queue gives them."""
    plant: Plant = burst.fleet(CASES)
    looks: list[Look] = []
    for body in burst.events(CASES):
        for fact in parse(body, HOME).facts:
            plant.ledger.put_fact(fact)
            key = InstanceKey(fact.account, fact.region, fact.subject)
            if fact.kind in WARNINGS and plant.ledger.open_watch(key, fact.at):
                looks.append(Look(key, fact.at))

    def judged() -> None:
        for first in range(0, len(looks), BATCH):
            plant.audit(*looks[first : first + BATCH])

    seconds = cpu(judged)
    final = sum(record.judgement.final for records in plant.ledger.records.values() for record in records.values())
    if final != CASES:
        raise RuntimeError(f"of {CASES} cases {final} were decided")
    return seconds


def health_event(number: int, size: int) -> str:
    """A notice of maintenance for as many instances as fit into so many bytes."""
    code = "AWS_EC2_INSTANCE_RETIREMENT_SCHEDULED"
    event = {
        "version": "0",
        "id": f"00000000-0000-4000-8000-{number:012x}",
        "detail-type": "AWS Health Event",
        "source": "aws.health",
        "account": "111122223333",
        "time": "2026-09-01T04:10:00Z",
        "region": "ap-southeast-1",
        "resources": [],
        "detail": {
            "eventArn": f"arn:aws:health:ap-southeast-1::event/EC2/{code}/{code}_{number}",
            "service": "EC2",
            "eventTypeCode": code,
            "eventTypeCategory": "scheduledChange",
            "startTime": "Tue, 15 Sep 2026 07:00:00 GMT",
            "statusCode": "upcoming",
            "eventRegion": "ap-southeast-1",
            "affectedEntities": [],
        },
    }
    entity = {"entityValue": "i-00000000000000000", "status": "PENDING"}
    room = (size - len(json.dumps(event))) // (len(json.dumps(entity)) + 2)
    entities = [{**entity, "entityValue": f"i-{number:05x}{one:012x}"} for one in range(room)]
    return json.dumps({**event, "detail": {**event["detail"], "affectedEntities": entities}})  # type: ignore[dict-item]


def _memory() -> float:
    root = Path(__file__).resolve().parents[2]
    path = os.pathsep.join([str(root), str(root / "layers" / "holdfast" / "python"), str(root / "cli")])
    done = subprocess.run(
        [sys.executable, "-c", MEMORY],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"measuring the memory of a batch: {done.stderr.strip()}")
    return float(done.stdout)
