"""Which dead-letter queues there are, and which of their messages may go back. Nothing here asks AWS."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from holdfast.interruption.case import deadline_of
from holdfast.interruption.event import WARNINGS, Fact, Home, Kind, parse
from holdfast.runtime import names
from holdfast.runtime.config import Cluster, HoldfastConfig
from holdfast.times import format_time
from holdfast_cli.errors import Mistake

_UNREAD_BY_KARPENTER: Final = frozenset(
    {
        "double_encoded",
        "sns_envelope",
        "underscore_detail_type",
        "unknown_version",
        "version_missing",
        "resources_not_a_list",
    }
)
"""Shapes that the audit reads and Karpenter's parser does not: it deletes such a message without acting on it."""


class Way(StrEnum):
    """How messages get back."""

    MOVE = "move"
    """By SQS's own redrive, all of them."""

    SEND = "send"
    """One by one: each is looked at, sent, and deleted once it was taken."""

    NEVER = "never"
    """There is nothing that could do anything with them."""


@dataclass(frozen=True, slots=True)
class DeadLetters:
    """A queue of what was put aside, in one account and region. `target` is where its messages belong.

    `rules` are the names of the rules that feed an undelivered queue; None for a queue that SQS itself fills.
    """

    name: str
    home: Home
    partition: str
    target: str
    way: Way
    for_karpenter: bool = False
    rules: tuple[str, ...] | None = None

    def arn(self, queue: str) -> str:
        """The ARN of a queue beside this one."""
        return f"arn:{self.partition}:sqs:{self.home.region}:{self.home.account}:{queue}"

    def rule_arn(self, rule: str) -> str:
        """The ARN of a rule on the default bus beside this queue."""
        return f"arn:{self.partition}:events:{self.home.region}:{self.home.account}:rule/{rule}"


def dead_letters_in(config: HoldfastConfig, account: str, region: str) -> tuple[DeadLetters, ...]:
    """Every dead-letter queue that the configuration knows in one account and region."""
    clusters = config.clusters_in(account, region)
    if not clusters:
        return ()
    home, partition = Home(account, region), str(clusters[0].partition)
    found = [queue for cluster in clusters for queue in _of_cluster(config.name, cluster, home)]
    audit = names.audit_queue_name(config.name)
    audit_rules = tuple(names.audit_rule_name(config.name, kind) for kind in names.AuditRuleKind)
    found.append(DeadLetters(names.dlq_name(audit), home, partition, audit, Way.MOVE))
    found.append(DeadLetters(names.target_dlq_name(audit), home, partition, audit, Way.SEND, rules=audit_rules))
    looks = [names.look_queue_name(config.name, network) for network in dict.fromkeys(c.network_id for c in clusters)]
    moved = (*looks, names.alert_queue_name(config.name))
    found += [DeadLetters(names.dlq_name(queue), home, partition, queue, Way.MOVE) for queue in moved]
    found.append(DeadLetters(names.sweep_failure_queue_name(config.name), home, partition, "", Way.NEVER))
    return tuple(found)


def _of_cluster(prefix: str, cluster: Cluster, home: Home) -> Iterator[DeadLetters]:
    target, partition = cluster.queue_name, str(cluster.partition)
    # SQS's redrive moves everything, and with it warnings about machines that are gone. So these go one by one too.
    if cluster.dead_letter_queue_name is not None:
        yield DeadLetters(cluster.dead_letter_queue_name, home, partition, target, Way.SEND, for_karpenter=True)
    if cluster.queue is not None:
        rules = tuple(names.rule_name(prefix, cluster.name, kind) for kind in names.RuleKind)
        undelivered = names.target_dlq_name(target)
        yield DeadLetters(undelivered, home, partition, target, Way.SEND, for_karpenter=True, rules=rules)


def find(name: str, queues: Sequence[DeadLetters]) -> DeadLetters:
    """The queue of that name.

    Raises:
        Mistake: there is none, or one in several regions; the message names those that are meant perhaps.
    """
    found = [queue for queue in queues if queue.name == name]
    if len(found) > 1:
        places = ", ".join(sorted(queue.home.region for queue in found))
        raise Mistake(f"{name}: there is a queue of this name in {places}. Give --region.")
    if found:
        return found[0]
    known = sorted({queue.name for queue in queues})
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if near:
        raise Mistake(f"{name}: is no dead-letter queue of the configuration. Did you mean {' or '.join(near)}?")
    raise Mistake(f"{name}: is no dead-letter queue of the configuration. Those are: {', '.join(known)}.")


@dataclass(frozen=True, slots=True)
class Letter:
    """A message that was put aside. The rule, the target and the error are EventBridge's attributes."""

    message_id: str
    body: str
    sent_at: datetime | None = None
    rule_arn: str | None = None
    target_arn: str | None = None
    error_code: str | None = None
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a message may go back, why, and what it is about. `kind` and `subjects` are empty when nobody can say."""

    send: bool
    reason: str
    kind: str = ""
    subjects: tuple[str, ...] = ()
    at: datetime | None = None


def decide(letter: Letter, queue: DeadLetters, now: datetime) -> Decision:
    """Whether `letter` may go back to where it belongs at `now`.

    Karpenter drains whatever node a message names, so it gets none about what is over: of warnings only those whose
    deadline is still to come, and nothing else. For the audit facts are facts, however old.
    """
    parsed = parse(letter.body, queue.home, sent_at=letter.sent_at)
    refused = _wrong_address(letter, queue)
    if not parsed.facts:
        assert parsed.rejection is not None
        return Decision(False, refused or f"nobody can use it: {parsed.rejection.reason}")
    first = parsed.facts[0]
    subjects = tuple(dict.fromkeys(fact.subject for fact in parsed.facts))
    if refused is None and queue.for_karpenter:
        refused = next((why for why in (_not_for_karpenter(fact, now) for fact in parsed.facts) if why), None)
    if refused is not None:
        return Decision(False, refused, first.kind, subjects, first.at)
    reason = "its deadline is still to come" if queue.for_karpenter else "a fact for the audit"
    return Decision(True, reason, first.kind, subjects, first.at)


def _wrong_address(letter: Letter, queue: DeadLetters) -> str | None:
    if queue.rules is None:
        return None
    if letter.rule_arn is None or letter.target_arn is None:
        return "it has no RULE_ARN and TARGET_ARN, so EventBridge did not put it here"
    if letter.rule_arn not in {queue.rule_arn(rule) for rule in queue.rules}:
        return f"{letter.rule_arn} is no rule of Holdfast for this queue"
    if letter.target_arn != queue.arn(queue.target):
        return f"its target was {letter.target_arn}, not {queue.target}"
    return None


def _not_for_karpenter(fact: Fact, now: datetime) -> str | None:
    dropped = _UNREAD_BY_KARPENTER.intersection(fact.notes)
    if dropped:
        return f"Karpenter does not read a message of this shape ({', '.join(sorted(dropped))})"
    if fact.replay is not None:
        return "it comes from a replay of an archive, not from EC2"
    if fact.kind not in WARNINGS or fact.kind is Kind.UNKNOWN_WARNING:
        return "it announces nothing that Karpenter could still do something about"
    if fact.status == "closed":
        return "AWS has closed this notice"
    deadline = deadline_of(fact)
    if deadline is None:
        return "it does not say when the maintenance begins, so it may be over"
    if deadline <= now:
        return f"stale: its deadline was {format_time(deadline)}"
    return None
