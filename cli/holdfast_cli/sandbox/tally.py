"""What became of a wave: in the ledger, in the outbox and in Slack, against its truth."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from holdfast.adapters import table
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.interruption.verdict import Cause
from holdfast.ports import InstanceKey
from holdfast.runtime.metric_names import MetricName
from holdfast_cli.sandbox import aws, function_logs, up
from holdfast_cli.sandbox.slack_receiver import Answer
from holdfast_cli.sandbox.state import SandboxState
from holdfast_cli.sandbox.wave import Truth, Wave

MOST_MESSAGES = 10
"""Slack messages that a wave may cost, however many nodes it takes."""

_DIGEST = re.compile(r"(\d+) alerts\b")


@dataclass(frozen=True, slots=True)
class Mark:
    """Where the record of Slack, and the time, stood before the wave."""

    at: datetime
    messages: int
    answers: int


@dataclass(frozen=True, slots=True)
class Alerted:
    """An alert of the outbox: its id, and when it was told, if it was."""

    id: str
    told_at: datetime | None


@dataclass(frozen=True, slots=True)
class Found:
    """What was read, all of it since the mark.

    `facts` are those of the wave's instances; `duplicates` what ingest counted, by its log, of which the embedded AWS was
    seen to lose a line: that nothing is stored twice is told by the facts. `verdicts` are the final ones by instance;
    `unsettled` the instances without exactly one final case, with what is said of them; `spared` those whose pods were
    not looked at, since the audit was in degraded mode; `alerts` all of the outbox; `messages` and `answers` what Slack
    shows and how it answered; `put_aside` the messages in each dead-letter queue.
    """

    facts: int
    duplicates: int
    verdicts: Mapping[str, Truth]
    unsettled: Mapping[str, str]
    spared: frozenset[str]
    alerts: tuple[Alerted, ...]
    messages: tuple[Mapping[str, Any], ...]
    answers: tuple[Answer, ...]
    put_aside: Mapping[str, int]

    def is_true(self, instance_id: str, truth: Truth) -> bool:
        """Whether the verdict is the truth. Where the pods were spared, the cause may be unknown instead."""
        verdict = self.verdicts[instance_id]
        unknown = instance_id in self.spared and verdict == Truth(truth.verdict, Cause.UNKNOWN)
        return verdict == truth or unknown

    def of_wave(self, wave: Wave) -> list[Alerted]:
        """The alerts on the wave's instances."""
        return [alert for alert in self.alerts if any(part in wave.truths for part in alert.id.split("/"))]

    @property
    def told(self) -> int:
        """Alerts told, on whatever."""
        return sum(alert.told_at is not None for alert in self.alerts)

    @property
    def shown(self) -> int:
        """Alerts that Slack shows: each message says how many it tells of."""
        return sum(alerts_in(message) for message in self.messages)

    @property
    def refused(self) -> tuple[Answer, ...]:
        """The requests that Slack did not take."""
        return tuple(answer for answer in self.answers if answer.status != 200)


def mark(sandbox: SandboxState) -> Mark:
    """Now."""
    slack = up.slack(sandbox)
    return Mark(datetime.now(UTC), len(slack.messages()), len(slack.answers()))


def look(sandbox: SandboxState, ledger: DynamoLedger, table_name: str, wave: Wave, since: Mark) -> Found:
    """Reads what became of the wave so far.

    Raises:
        SandboxError: a part of the sandbox did not answer.
    """
    facts = 0
    verdicts: dict[str, Truth] = {}
    unsettled: dict[str, str] = {}
    spared: set[str] = set()
    for instance_id in wave.truths:
        history = ledger.history(InstanceKey(sandbox.account, sandbox.region, instance_id))
        facts += len(history.facts)
        if any(look.degraded for look in history.observations):
            spared.add(instance_id)
        final = [record.judgement for record in history.records if record.judgement.final]
        if len(history.records) == len(final) == 1:
            verdicts[instance_id] = Truth(final[0].verdict, final[0].cause)
        else:
            unsettled[instance_id] = f"{len(history.records)} cases, {len(final)} of them final"
    slack = up.slack(sandbox)
    return Found(
        facts=facts,
        duplicates=int(function_logs.total(sandbox, MetricName.DUPLICATE_FACTS, since=since.at)),
        verdicts=verdicts,
        unsettled=unsettled,
        spared=frozenset(spared),
        alerts=alerts(sandbox, table_name, since.at),
        messages=tuple(message.payload for message in slack.messages()[since.messages :]),
        answers=tuple(slack.answers()[since.answers :]),
        put_aside=put_aside(sandbox),
    )


def wrong(found: Found, wave: Wave) -> tuple[str, ...]:
    """What is not as it should be after a wave: lost, doubled, misjudged or told too often; empty when nothing is."""
    said: list[str] = []
    if found.facts != wave.distinct:
        said.append(f"the ledger has {found.facts} facts of {wave.distinct} different events")
    if found.unsettled:
        instance_id, state = next(iter(found.unsettled.items()))
        said.append(f"{len(found.unsettled)} instances have not one final case, first {instance_id}: {state}")
    misjudged = {one: verdict for one, verdict in found.verdicts.items() if not found.is_true(one, wave.truths[one])}
    if misjudged:
        instance_id, verdict = next(iter(misjudged.items()))
        said.append(f"{len(misjudged)} verdicts are not the truth, first {instance_id}: {named(verdict)}")
    ours = found.of_wave(wave)
    if len(ours) != len(wave.truths):
        said.append(f"{len(ours)} alerts are on {len(wave.truths)} instances")
    waiting = sum(alert.told_at is None for alert in ours)
    if waiting:
        said.append(f"{waiting} alerts wait to be told")
    if found.shown != found.told:
        said.append(f"Slack shows {found.shown} alerts, {found.told} were told")
    if len(found.messages) > MOST_MESSAGES:
        said.append(f"{len(found.messages)} Slack messages, more than {MOST_MESSAGES}")
    said += [f"{count} messages in dead-letter queue {queue}" for queue, count in found.put_aside.items() if count]
    return tuple(said)


def broken_silences(answers: Sequence[Answer], wait: timedelta) -> list[float]:
    """The seconds after which Slack was asked again though it had answered 429 and wanted to be left alone for `wait`."""
    gaps = [(later.time - earlier.time) for earlier, later in pairwise(answers) if earlier.status == 429]
    return [gap.total_seconds() for gap in gaps if gap < wait]


def named(truth: Truth) -> str:
    """The verdict with its cause."""
    return f"{truth.verdict} ({truth.cause})" if truth.cause else str(truth.verdict)


def by_verdict(truths: Mapping[str, Truth]) -> Counter[str]:
    """How many instances have each verdict."""
    return Counter(map(named, truths.values()))


def alerts_in(payload: Mapping[str, Any]) -> int:
    """How many alerts a Slack message tells of: a digest says so in its first words, any other tells of one."""
    digest = _DIGEST.match(payload["text"])
    return int(digest[1]) if digest else 1


def alerts(sandbox: SandboxState, table_name: str, since: datetime) -> tuple[Alerted, ...]:
    """The outbox, whatever its destinations: the alerts that were put there since then."""
    pages = aws.client(sandbox, "dynamodb").get_paginator("scan")
    found = []
    for page in pages.paginate(
        TableName=table_name,
        FilterExpression="begins_with(pk, :outbox) AND put_at >= :since",
        ExpressionAttributeValues={
            ":outbox": {"S": table.outbox_key("")},
            ":since": {"S": table.exact_time(since)},
        },
    ):
        for row in page["Items"]:
            told_at = row.get("told_at")
            found.append(Alerted(row["sk"]["S"], datetime.fromisoformat(told_at["S"]) if told_at else None))
    return tuple(found)


def put_aside(sandbox: SandboxState) -> Mapping[str, int]:
    """How many messages each dead-letter queue holds."""
    sqs = aws.client(sandbox, "sqs")
    counts: dict[str, int] = {}
    for url in sqs.list_queues().get("QueueUrls", []):
        name = url.rsplit("/", 1)[-1]
        if name.endswith(("-dlq", "-undelivered", "-failed-sweeps")):
            attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            counts[name] = int(attributes["ApproximateNumberOfMessages"]) + int(
                attributes["ApproximateNumberOfMessagesNotVisible"]
            )
    return counts
