"""The interruption audit of one account and region: events in, verdicts out, and nothing lost in between."""

import json
from collections.abc import Sequence
from datetime import timedelta

from aws_cdk import CfnOutput, Duration, aws_dynamodb, aws_eks, aws_events, aws_lambda, aws_sqs
from constructs import Construct

from holdfast.adapters import table
from holdfast.runtime import event_patterns, names
from holdfast.runtime.config import (
    AUDIT_MAX_RECEIVE_COUNT,
    DEAD_LETTER_RETENTION,
    AuthenticationMode,
    Cluster,
    HoldfastConfig,
)
from holdfast.runtime.deployed_rules import deployed_rules
from holdfast.runtime.settings import IngestSettings, JudgeSettings, SweeperSettings
from stacks import nag
from stacks.constructs.alarms import AUDIT_QUEUE_LAG, Alarms, Runbook, Urgency
from stacks.constructs.arns import Arns
from stacks.constructs.event_queue import EventQueue, EventRule, QueueSettings, allow_rules, queue_policy
from stacks.constructs.python_function import PythonFunction, consume
from stacks.constructs.python_layers import PythonLayers
from stacks.features.alerts import AlertDelivery
from stacks.statement import Statement, deny_http

KUBERNETES_GROUP = "holdfast:audit"
"""What `holdfast render rbac` binds the audit's ClusterRole to."""

MAX_EVENT_AGE = timedelta(hours=24)
"""The longest EventBridge tries: a late fact is a fact all the same."""

SWEEP_EVERY = "rate(1 minute)"
SWEEP_TIMEOUT = timedelta(seconds=50)
"""Over before the next sweep begins."""

SWEEP_RETRIES = 2
SWEEP_MAX_AGE = timedelta(minutes=5)
"""Of a sweep that failed: one that is older has been overtaken by others."""

_DESCRIPTIONS = {
    names.AuditRuleKind.WARNING: "interruption warnings of every kind",
    names.AuditRuleKind.REBALANCE: "rebalance recommendations",
    names.AuditRuleKind.STATE: "instances that change their state",
    names.AuditRuleKind.CAPACITY: "notices about capacity blocks and reservations",
    names.AuditRuleKind.HEALTH: "scheduled maintenance of EC2",
    names.AuditRuleKind.EXPERIMENT: "FIS experiments that change their state",
    names.AuditRuleKind.CLOUDTRAIL: "proof of who ended an instance",
    names.AuditRuleKind.CANARY: "the event by which Holdfast sees that events arrive",
}


class InterruptionAudit(Construct):
    """Rules, archive and audit queue; ingest; for each network looks and a judge; the sweeper."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: HoldfastConfig,
        clusters: Sequence[Cluster],
        layers: PythonLayers,
        alarms: Alarms,
        ledger: aws_dynamodb.ITable,
        alerts: AlertDelivery,
    ) -> None:
        """`clusters` are those of this account and region, one at least."""
        super().__init__(scope, construct_id)
        self._config = config
        self._clusters = clusters
        self._layers = layers
        self._alarms = alarms
        self._ledger = ledger
        self._alerts = alerts
        self._arns = Arns.of(self)
        audit_queue = self._audit_queue()
        # In the order of the configuration: an instance of no known cluster is looked at from the first network.
        networks = list(dict.fromkeys(cluster.network_id for cluster in clusters))
        self._looks = {network: self._look_queue(network) for network in networks}
        self._ingest(audit_queue)
        for network in networks:
            self._judge(network)
        self._sweeper()

    # -- events in --

    def _audit_queue(self) -> aws_sqs.Queue:
        audit = self._config.audit
        patterns = event_patterns.audit(self._config.name, include_terminate_calls=audit.include_terminate_calls)
        made = EventQueue(
            self,
            "Events",
            name=names.audit_queue_name(self._config.name),
            settings=self._queue_settings(),
            alarms=self._alarms,
            rules=[
                EventRule(
                    id=f"{kind.capitalize()}Rule",
                    name=names.audit_rule_name(self._config.name, kind),
                    pattern=pattern,
                    description=f"To Holdfast's audit: {_DESCRIPTIONS[kind]}",
                    max_event_age=MAX_EVENT_AGE,
                    # That the canary does not arrive has an alarm of its own.
                    watched=kind is not names.AuditRuleKind.CANARY,
                )
                for kind, pattern in patterns.items()
            ],
        )
        self._alarms.queue_age(
            self,
            "EventsAge",
            made.queue,
            limit=AUDIT_QUEUE_LAG,
            says=f"An event has waited for the audit for more than {AUDIT_QUEUE_LAG.seconds} s: its first look is late.",
            runbook=Runbook.AUDIT_QUEUE_AGE,
            urgency=Urgency.WARNING,
        )
        archive = aws_events.CfnArchive(
            self,
            "Archive",
            source_arn=self._arns.default_bus(),
            description="Holdfast: what the audit's rules match, for a replay to these rules alone",
            event_pattern=event_patterns.archive(patterns),
            retention_days=audit.archive_retention_days,
        )
        CfnOutput(
            self,
            "ArchiveName",
            value=archive.ref,
            description=f"To replay: aws events start-replay with the rules {self._config.name}.audit.* as its filter",
        ).override_logical_id("AuditArchiveName")
        return made.queue

    def _ingest(self, audit_queue: aws_sqs.IQueue) -> None:
        audit = self._config.audit
        function = PythonFunction(
            self,
            "Ingest",
            source="interruption_ingest",
            description="Writes what an event says into the ledger",
            settings=IngestSettings(
                **self._look_settings(),
            ),
            statements=[
                consume("ReadEvents", audit_queue, "Lambda reads the audit queue and deletes what is in the ledger."),
                Statement(
                    sid="AppendFacts",
                    reason="Writes facts, rejected messages and their alerts, and begins or touches the watch on an"
                    " instance. It reads and deletes nothing.",
                    actions=["dynamodb:PutItem", "dynamodb:UpdateItem"],
                    resources=[self._ledger.table_arn],
                ),
                _describe_instances("Tells instances that EC2 took from those that somebody ended."),
                self._send_looks(),
                self._alerts.wake(),
            ],
            timeout=audit.function_timeout,
            config=self._config,
            layers=self._layers,
            alarms=self._alarms,
        )
        function.read_from(audit_queue, max_concurrency=audit.max_concurrency)

    # -- looks and verdicts --

    def _look_queue(self, network: str) -> aws_sqs.Queue:
        return EventQueue(
            self,
            f"Looks-{network}",
            name=names.look_queue_name(self._config.name, network),
            settings=self._queue_settings(),
            alarms=self._alarms,
        ).queue

    def _judge(self, network: str) -> None:
        audit = self._config.audit
        clusters = [cluster for cluster in self._clusters if cluster.network_id == network]
        looks = self._looks[network]
        function = PythonFunction(
            self,
            f"Judge-{network}",
            source="interruption_judge",
            description=f"Looks at interrupted instances and judges them, from network {network}",
            settings=JudgeSettings(
                **self._look_settings(),
                network=network,
            ),
            statements=[
                consume("ReadLooks", looks, "Lambda reads the looks that are due and deletes those that were made."),
                Statement(
                    sid="KeepCases",
                    reason="Reads an instance's rows and stores looks, verdicts and alerts; a verdict on a run that turned"
                    " out to be another's is deleted.",
                    actions=["dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:Query", "dynamodb:UpdateItem"],
                    resources=[self._ledger.table_arn],
                ),
                self._read_mode(),
                _describe_instances("Asks EC2 how an instance, and its Spot request, ended."),
                Statement(
                    sid="FindClusters",
                    reason="The endpoint and the certificate authority of the clusters of this network. What the function"
                    " may do in Kubernetes, the group of its access entry says.",
                    actions=["eks:DescribeCluster"],
                    resources=[self._arns.cluster(cluster.name) for cluster in clusters],
                ),
                Statement(
                    sid="MeasureKarpenterQueues",
                    reason="How many messages wait for Karpenter, by attributes alone: it may not receive, delete, purge or"
                    " hide a message there.",
                    actions=["sqs:GetQueueAttributes", "sqs:GetQueueUrl"],
                    resources=[
                        self._arns.queue(name) for cluster in clusters for name in karpenter_queue_names(cluster)
                    ],
                ),
                self._send_looks(),
                self._alerts.wake(),
            ],
            timeout=audit.function_timeout,
            config=self._config,
            layers=self._layers,
            alarms=self._alarms,
            network=clusters[0].network,
        )
        function.read_from(looks, max_concurrency=audit.max_concurrency)
        for cluster in clusters:
            self._let_in(function, cluster)

    def _let_in(self, judge: PythonFunction, cluster: Cluster) -> None:
        """The way into Kubernetes: an access entry, or what has to be done by hand."""
        if cluster.authentication_mode is AuthenticationMode.CONFIG_MAP:
            CfnOutput(
                judge,
                f"AwsAuthRow-{cluster.name}",
                value=f"- rolearn: {judge.role.role_arn}\n  username: {KUBERNETES_GROUP}\n  groups:\n  - {KUBERNETES_GROUP}\n",
                description=f"For mapRoles of ConfigMap kube-system/aws-auth in cluster {cluster.name}",
            )
        else:
            aws_eks.CfnAccessEntry(
                judge,
                f"AccessEntry-{cluster.name}",
                cluster_name=cluster.name,
                principal_arn=judge.role.role_arn,
                kubernetes_groups=[KUBERNETES_GROUP],
                type="STANDARD",
            )
        if cluster.network is not None:
            groups = " ".join(cluster.network.security_group_ids)
            CfnOutput(
                judge,
                f"LetIn-{cluster.name}",
                value="aws ec2 authorize-security-group-ingress --protocol tcp --port 443"
                f" --source-group {groups.split()[0]} --region {cluster.region} --group-id $(aws eks describe-cluster"
                f" --name {cluster.name} --region {cluster.region} --output text"
                " --query cluster.resourcesVpcConfig.clusterSecurityGroupId)",
                description=f"The endpoint of cluster {cluster.name} must let the function in; run this once unless it does",
            )

    # -- the safety net --

    def _sweeper(self) -> None:
        failed_name = names.sweep_failure_queue_name(self._config.name)
        failed = aws_sqs.Queue(
            self,
            "FailedSweeps",
            queue_name=failed_name,
            retention_period=Duration.days(DEAD_LETTER_RETENTION.days),
            encryption=aws_sqs.QueueEncryption.SQS_MANAGED,
            redrive_allow_policy=aws_sqs.RedriveAllowPolicy(redrive_permission=aws_sqs.RedrivePermission.DENY_ALL),
        )
        nag.acknowledge(failed, nag.LAST_QUEUE)
        sweeper = PythonFunction(
            self,
            "Sweeper",
            source="interruption_sweeper",
            description="Asks again for looks that were lost, wakes the notifier for alerts that wait, and checks on"
            " Holdfast itself",
            settings=SweeperSettings(
                **self._look_settings(),
            ),
            statements=[
                Statement(
                    sid="FindOpen",
                    reason="Finds the looks that are overdue and the oldest alert that waits, and counts open cases.",
                    actions=["dynamodb:Query"],
                    resources=[f"{self._ledger.table_arn}/index/{table.OPEN.name}"],
                ),
                Statement(
                    sid="RememberItself",
                    reason="Keeps what Holdfast knows of itself (canary, rules, mode), looks for the canary, and puts"
                    " alerts about these into the outbox. It reads and writes no row about an instance.",
                    actions=["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"],
                    resources=[self._ledger.table_arn],
                    conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["S#*", "K#*", "X#*"]}},
                ),
                Statement(
                    sid="SendCanary",
                    reason="Once an hour an event of Holdfast's own, to see that it arrives in the ledger.",
                    actions=["events:PutEvents"],
                    resources=[self._arns.default_bus()],
                    conditions={
                        "ForAllValues:StringEquals": {
                            "events:source": event_patterns.canary(self._config.name)["source"]
                        }
                    },
                ),
                Statement(
                    sid="CompareRules",
                    reason="Once an hour: whether the rules that feed Karpenter and the audit are as deployed.",
                    actions=["events:DescribeRule", "events:ListTargetsByRule"],
                    resources=[
                        self._arns.rule(rule.name)
                        for rule in deployed_rules(self._config, self._arns.account, self._arns.region)
                    ],
                ),
                self._send_looks(),
                self._alerts.wake(),
                Statement(
                    sid="PutFailedSweepsAside",
                    reason="Lambda keeps a sweep that failed to the end in the queue for it.",
                    actions=["sqs:SendMessage"],
                    resources=[failed.queue_arn],
                ),
            ],
            timeout=SWEEP_TIMEOUT,
            config=self._config,
            layers=self._layers,
            alarms=self._alarms,
        )
        aws_lambda.CfnEventInvokeConfig(
            sweeper,
            "Retries",
            function_name=sweeper.function.function_name,
            qualifier="$LATEST",
            maximum_retry_attempts=SWEEP_RETRIES,
            maximum_event_age_in_seconds=int(SWEEP_MAX_AGE.total_seconds()),
            destination_config=aws_lambda.CfnEventInvokeConfig.DestinationConfigProperty(
                on_failure=aws_lambda.CfnEventInvokeConfig.OnFailureProperty(destination=failed.queue_arn)
            ),
        )
        rule = aws_events.CfnRule(
            sweeper,
            "Schedule",
            description="Holdfast: one sweep a minute",
            schedule_expression=SWEEP_EVERY,
            state="ENABLED",
            targets=[
                aws_events.CfnRule.TargetProperty(
                    id="Sweeper",
                    arn=sweeper.function.function_arn,
                    dead_letter_config=aws_events.CfnRule.DeadLetterConfigProperty(arn=failed.queue_arn),
                    retry_policy=aws_events.CfnRule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=int(SWEEP_MAX_AGE.total_seconds()),
                        maximum_retry_attempts=SWEEP_RETRIES,
                    ),
                )
            ],
        )
        aws_lambda.CfnPermission(
            sweeper,
            "AllowSchedule",
            action="lambda:InvokeFunction",
            function_name=sweeper.function.function_arn,
            principal="events.amazonaws.com",
            source_arn=rule.attr_arn,
            source_account=self._arns.account,
        )
        queue_policy(
            self,
            "FailedSweepsPolicy",
            failed,
            [
                allow_rules(failed.queue_arn, [rule.attr_arn], self._arns.account),
                deny_http("sqs:*", failed.queue_arn),
            ],
        )
        self._alarms.dead_letters(self, "FailedSweepsAlarm", failed)
        self._alarms.sweeper(sweeper)
        self._alarms.self_check(sweeper)

    # -- what they share --

    def _queue_settings(self) -> QueueSettings:
        audit = self._config.audit
        return QueueSettings(
            retention=audit.queue_retention,
            visibility_timeout=audit.queue_visibility_timeout,
            max_receive_count=AUDIT_MAX_RECEIVE_COUNT,
            dead_letter_retention=DEAD_LETTER_RETENTION,
        )

    def _look_settings(self) -> dict[str, str]:
        """The settings that all functions have which ask for looks."""
        return {
            "account": self._arns.account,
            "region": self._arns.region,
            "table": self._ledger.table_name,
            "look_queues": self._look_queue_urls(),
            "wakeup_queue": self._alerts.wakeups.queue_url,
        }

    def _look_queue_urls(self) -> str:
        # Names and URLs have nothing that JSON would escape, so the CDK finds its tokens in the text again.
        return json.dumps({network: queue.queue_url for network, queue in self._looks.items()}, separators=(",", ":"))

    def _read_mode(self) -> Statement:
        return Statement(
            sid="ReadMode",
            reason="Whether the audit is in degraded mode, in which looks leave out most pods.",
            actions=["dynamodb:GetItem"],
            resources=[self._ledger.table_arn],
            conditions={"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["S#*"]}},
        )

    def _send_looks(self) -> Statement:
        return Statement(
            sid="SendLooks",
            reason="Asks for the next look at an instance, in the network of its cluster.",
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn for queue in self._looks.values()],
        )


def karpenter_queue_names(cluster: Cluster) -> list[str]:
    """Karpenter's queue and its dead-letter queues, as far as they are known."""
    undelivered = names.target_dlq_name(cluster.queue_name) if cluster.queue is not None else None
    return [name for name in (cluster.queue_name, cluster.dead_letter_queue_name, undelivered) if name is not None]


def _describe_instances(reason: str) -> Statement:
    return Statement(
        sid="DescribeInstances",
        reason=f"{reason} EC2 has no resource for these actions.",
        actions=["ec2:DescribeInstances", "ec2:DescribeSpotInstanceRequests"],
        resources=["*"],
    )
