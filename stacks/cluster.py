"""What one cluster's Karpenter needs: its interruption queue and the rules that fill it."""

import json
from datetime import timedelta

from aws_cdk import CfnOutput, Environment, RemovalPolicy, Stack, aws_sns
from constructs import Construct

from holdfast.runtime import names
from holdfast.runtime.config import Cluster, Queue
from holdfast.runtime.event_patterns import KARPENTER
from stacks.constructs.alarms import KARPENTER_QUEUE_PAGE, KARPENTER_QUEUE_WARNING, Alarms, Runbook, Urgency
from stacks.constructs.arns import Arns
from stacks.constructs.event_queue import EventQueue, EventRule, QueueSettings
from stacks.statement import Statement

VISIBILITY_TIMEOUT = timedelta(seconds=30)
"""For a reader that names none; Karpenter names 20 s at each receive."""

MAX_EVENT_AGE = timedelta(seconds=300)
"""A Spot warning is about the next two minutes: delivered later than this, it is of no use."""

_DESCRIPTIONS = {
    names.RuleKind.SPOT: "Spot interruption warnings",
    names.RuleKind.REBALANCE: "rebalance recommendations",
    names.RuleKind.STATE: "instances that stop or terminate",
    names.RuleKind.CAPACITY: "interruption warnings of capacity reservations",
    names.RuleKind.HEALTH: "scheduled maintenance of EC2",
}


class ClusterStack(Stack):
    """Karpenter's queue, its dead-letter queues and its five rules.

    The queue stays when the stack is deleted: Karpenter does not start without it.
    """

    def __init__(
        self, scope: Construct, construct_id: str, *, prefix: str, cluster: Cluster, alarm_topic: aws_sns.ITopic
    ) -> None:
        """For a cluster whose queue Holdfast makes; one with an existing queue has no such stack."""
        super().__init__(
            scope,
            construct_id,
            env=Environment(account=cluster.account, region=cluster.region),
            termination_protection=True,
            description=f"Holdfast: Karpenter's interruption queue of cluster {cluster.name}",
        )
        assert cluster.queue is not None
        alarms = Alarms(alarm_topic)
        made = EventQueue(
            self,
            "Interruption",
            name=cluster.queue_name,
            settings=QueueSettings(
                retention=cluster.queue.retention,
                visibility_timeout=VISIBILITY_TIMEOUT,
                max_receive_count=cluster.queue.max_receive_count,
                dead_letter_retention=cluster.queue.dead_letter_retention,
                kms_key_arn=cluster.queue.kms_key_arn,
                removal_policy=RemovalPolicy.RETAIN,
            ),
            alarms=alarms,
            rules=[
                EventRule(
                    id=f"{kind.capitalize()}Rule",
                    name=names.rule_name(prefix, cluster.name, kind),
                    pattern=pattern,
                    description=f"To Karpenter of {cluster.name}: {_DESCRIPTIONS[kind]}",
                    max_event_age=MAX_EVENT_AGE,
                )
                for kind, pattern in KARPENTER.items()
            ],
            statements=[_only_karpenter_reads(cluster, Arns.of(self).queue(cluster.queue_name))],
        )
        for construct_name, limit, urgency in (
            ("AgeWarning", KARPENTER_QUEUE_WARNING, Urgency.WARNING),
            ("AgePage", KARPENTER_QUEUE_PAGE, Urgency.PAGE),
        ):
            alarms.queue_age(
                self,
                construct_name,
                made.queue,
                limit=limit,
                says=f"An interruption notice has waited for Karpenter for more than {limit.seconds} s.",
                runbook=Runbook.KARPENTER_QUEUE_AGE,
                urgency=urgency,
            )
        alarms.karpenter_not_polling(self, "NotPolling", made.queue)
        self._outputs(prefix, cluster, cluster.queue, made)

    def _outputs(self, prefix: str, cluster: Cluster, queue: Queue, made: EventQueue) -> None:
        arns = Arns.of(self)
        CfnOutput(
            self,
            "KarpenterInterruptionQueueName",
            value=made.queue.queue_name,
            description="For Karpenter's Helm chart: settings.interruptionQueue",
        )
        CfnOutput(self, "KarpenterInterruptionQueueArn", value=made.queue.queue_arn)
        CfnOutput(
            self,
            "KarpenterControllerStatements",
            value=_shown(controller_statements(made.arn, queue.kms_key_arn)),
            description="What the policy of Karpenter's controller role needs for this queue",
        )
        if queue.kms_key_arn is not None:
            rules = [arns.rule(names.rule_name(prefix, cluster.name, kind)) for kind in names.RuleKind]
            CfnOutput(
                self,
                "QueueKeyStatements",
                value=_shown(key_statements(rules, arns.account)),
                description="What the policy of the customer managed key needs, or EventBridge's deliveries fail unseen:"
                " the queue and both dead-letter queues use the key",
            )


def controller_statements(queue_arn: str, kms_key_arn: str | None) -> list[Statement]:
    """What Karpenter's controller role needs for its queue: its own InterruptionPolicy, and the key if there is one."""
    statements = [
        Statement(
            sid="AllowInterruptionQueueActions",
            reason="Karpenter reads its queue and deletes what it has handled.",
            actions=["sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"],
            resources=[queue_arn],
        )
    ]
    if kms_key_arn is not None:
        statements.append(
            Statement(
                sid="AllowInterruptionQueueKey",
                reason="What it reads is encrypted under this key.",
                actions=["kms:Decrypt"],
                resources=[kms_key_arn],
            )
        )
    return statements


def key_statements(rule_arns: list[str], account: str) -> list[Statement]:
    """What the policy of a customer managed key needs, so that EventBridge can put events into queues under it.

    For the queue and for the dead-letter queue of the rules' targets: an event that neither takes is lost unseen.
    """
    return [
        Statement(
            sid="AllowEventBridge",
            reason="EventBridge encrypts what it puts into the queue and into the queue for what it cannot deliver.",
            services=["events.amazonaws.com"],
            actions=["kms:Decrypt", "kms:GenerateDataKey"],
            resources=["*"],
            conditions={
                "ArnEquals": {"aws:SourceArn": rule_arns},
                "StringEquals": {"aws:SourceAccount": account},
            },
        )
    ]


def _only_karpenter_reads(cluster: Cluster, queue_arn: str) -> Statement:
    karpenter = cluster.karpenter
    return Statement(
        sid="DenyOtherReaders",
        reason="What one reader receives, Karpenter does not. Only its controller role, and the people in the break-glass"
        " roles, may take messages out or hide them, whatever an IAM policy allows.",
        deny=True,
        everyone=True,
        actions=["sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:PurgeQueue", "sqs:ReceiveMessage"],
        resources=[queue_arn],
        conditions={
            "ArnNotEquals": {
                "aws:PrincipalArn": [karpenter.controller_role_arn, *karpenter.break_glass_role_arns],
            }
        },
    )


def _shown(statements: list[Statement]) -> str:
    return json.dumps([statement.to_json() for statement in statements])
