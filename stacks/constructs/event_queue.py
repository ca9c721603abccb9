"""A queue with all that keeps a message from vanishing: dead-letter queues, their policies and alarms."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import Duration, RemovalPolicy, aws_events, aws_kms, aws_sqs
from constructs import Construct

from holdfast.runtime import names
from holdfast.runtime.event_patterns import Pattern
from stacks import nag
from stacks.constructs.alarms import Alarms
from stacks.constructs.arns import Arns
from stacks.statement import Statement, deny_http, policy_json, record_reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """What SQS is told about a queue and its dead-letter queue. `kms_key_arn` None: keys that SQS manages."""

    retention: timedelta
    visibility_timeout: timedelta
    max_receive_count: int
    dead_letter_retention: timedelta
    kms_key_arn: str | None = None
    removal_policy: RemovalPolicy = RemovalPolicy.DESTROY


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRule:
    """A rule on the default bus that feeds a queue. `max_event_age` is how long EventBridge tries to deliver; `watched`
    whether alarms read its metrics.
    """

    id: str
    name: str
    pattern: Pattern
    description: str
    max_event_age: timedelta
    watched: bool = True


class EventQueue(Construct):
    """A standard queue and its dead-letter queue; with rules also the rules and a dead-letter queue for their targets.

    All names are physical: a dead-letter queue names the queue it serves, and the queue names it, which no generated
    name can do; and the policy is there before the rules are, because EventBridge does not try again when it is refused.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        settings: QueueSettings,
        alarms: Alarms,
        rules: Sequence[EventRule] = (),
        statements: Sequence[Statement] = (),
    ) -> None:
        """`statements` are added to the queue's own policy."""
        super().__init__(scope, construct_id)
        arns = Arns.of(self)
        self._settings = settings
        self._key = (
            aws_kms.Key.from_key_arn(self, "Key", settings.kms_key_arn) if settings.kms_key_arn is not None else None
        )
        self.name = name
        self.arn = arns.queue(name)
        self.dead_letters = self._dead_letter_queue(
            "DeadLetters",
            names.dlq_name(name),
            aws_sqs.RedriveAllowPolicy(
                redrive_permission=aws_sqs.RedrivePermission.BY_QUEUE,
                source_queues=[aws_sqs.Queue.from_queue_arn(self, "Source", self.arn)],
            ),
        )
        self.queue = aws_sqs.Queue(
            self,
            "Queue",
            queue_name=name,
            retention_period=_seconds(settings.retention),
            visibility_timeout=_seconds(settings.visibility_timeout),
            dead_letter_queue=aws_sqs.DeadLetterQueue(
                queue=self.dead_letters, max_receive_count=settings.max_receive_count
            ),
            encryption=self._encryption,
            encryption_master_key=self._key,
            removal_policy=settings.removal_policy,
        )
        rule_arns = [arns.rule(rule.name) for rule in rules]
        fed = [allow_rules(self.arn, rule_arns, arns.account)] if rules else []
        policy = queue_policy(self, "Policy", self.queue, [*fed, *statements, deny_http("sqs:*", self.arn)])
        dead_letters_arn = arns.queue(names.dlq_name(name))
        queue_policy(self, "DeadLettersPolicy", self.dead_letters, [deny_http("sqs:*", dead_letters_arn)])
        alarms.dead_letters(self, "DeadLettersAlarm", self.dead_letters)
        self.rules: list[aws_events.CfnRule] = []
        if rules:
            self._feed(rules, rule_arns, policy, arns, alarms)

    def _feed(
        self,
        rules: Sequence[EventRule],
        rule_arns: Sequence[str],
        policy: aws_sqs.CfnQueuePolicy,
        arns: Arns,
        alarms: Alarms,
    ) -> None:
        undelivered_name = names.target_dlq_name(self.name)
        undelivered_arn = arns.queue(undelivered_name)
        undelivered = self._dead_letter_queue(
            "Undelivered",
            undelivered_name,
            # EventBridge is not bound by this: it keeps queues from taking it for their redrive.
            aws_sqs.RedriveAllowPolicy(redrive_permission=aws_sqs.RedrivePermission.DENY_ALL),
        )
        nag.acknowledge(undelivered, nag.LAST_QUEUE)
        undelivered_policy = queue_policy(
            self,
            "UndeliveredPolicy",
            undelivered,
            [allow_rules(undelivered_arn, rule_arns, arns.account), deny_http("sqs:*", undelivered_arn)],
        )
        for rule in rules:
            made = aws_events.CfnRule(
                self,
                rule.id,
                name=rule.name,
                description=rule.description,
                event_pattern=rule.pattern,
                state="ENABLED",
                targets=[
                    aws_events.CfnRule.TargetProperty(
                        id="Queue",
                        arn=self.queue.queue_arn,
                        dead_letter_config=aws_events.CfnRule.DeadLetterConfigProperty(arn=undelivered.queue_arn),
                        retry_policy=aws_events.CfnRule.RetryPolicyProperty(
                            maximum_event_age_in_seconds=int(rule.max_event_age.total_seconds())
                        ),
                    )
                ],
            )
            # EventBridge gives an event up at once when the queue refuses it, so the permission comes first.
            made.add_resource_dependency(policy)
            made.add_resource_dependency(undelivered_policy)
            self.rules.append(made)
        alarms.undelivered(self, "UndeliveredAlarm", undelivered)
        alarms.rules(self, [rule.name for rule in rules if rule.watched])

    @property
    def _encryption(self) -> aws_sqs.QueueEncryption:
        return aws_sqs.QueueEncryption.KMS if self._key is not None else aws_sqs.QueueEncryption.SQS_MANAGED

    def _dead_letter_queue(
        self, construct_id: str, name: str, redrive_allow_policy: aws_sqs.RedriveAllowPolicy
    ) -> aws_sqs.Queue:
        return aws_sqs.Queue(
            self,
            construct_id,
            queue_name=name,
            retention_period=_seconds(self._settings.dead_letter_retention),
            encryption=self._encryption,
            encryption_master_key=self._key,
            redrive_allow_policy=redrive_allow_policy,
            removal_policy=self._settings.removal_policy,
        )


def allow_rules(queue_arn: str, rule_arns: Sequence[str], account: str) -> Statement:
    """EventBridge may send for these rules of this account, for no other rule of anybody."""
    return Statement(
        sid="AllowRules",
        reason="EventBridge delivers for the rules listed here and for no others, so nobody else's rule can send.",
        services=["events.amazonaws.com"],
        actions=["sqs:SendMessage"],
        resources=[queue_arn],
        conditions={
            "ArnEquals": {"aws:SourceArn": list(rule_arns)},
            "StringEquals": {"aws:SourceAccount": account},
        },
    )


def queue_policy(
    scope: Construct, construct_id: str, queue: aws_sqs.IQueue, statements: Sequence[Statement]
) -> aws_sqs.CfnQueuePolicy:
    """The one policy of a queue; a second one would replace it."""
    policy = aws_sqs.CfnQueuePolicy(
        scope, construct_id, queues=[queue.queue_url], policy_document=policy_json(statements)
    )
    record_reasons(policy, statements)
    return policy


def _seconds(value: timedelta) -> Duration:
    return Duration.seconds(int(value.total_seconds()))
