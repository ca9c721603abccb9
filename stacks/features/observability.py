"""The topic that all alarms notify: a person's way to hear of trouble that needs neither Slack nor a function of ours.

Alerts may be published to it as well; the function that does so has the permission in its own role.
"""

from aws_cdk import CfnOutput, CfnResource, Duration, RemovalPolicy, aws_kms, aws_sns
from constructs import Construct

from stacks.constructs.arns import Arns
from stacks.statement import Statement, deny_http, policy_document, policy_json, record_reasons


class AlarmTopic(Construct):
    """An encrypted topic that CloudWatch's alarms of this account may publish to, over TLS."""

    def __init__(self, scope: Construct, construct_id: str) -> None:
        """Who is told subscribes to the topic by hand: an address is not Holdfast's to keep."""
        super().__init__(scope, construct_id)
        arns = Arns.of(self)
        alarms_here = {"StringEquals": {"aws:SourceAccount": arns.account}}
        key_statements = [
            Statement(
                sid="AllowAccount",
                reason="The account's IAM policies decide who manages the key; without this statement nobody could.",
                account=arns.root(),
                actions=["kms:*"],
                resources=["*"],
            ),
            Statement(
                sid="AllowAlarms",
                reason="CloudWatch encrypts an alarm's message before it publishes it; a key of AWS's own (alias/aws/sns)"
                " cannot be given to it.",
                services=["cloudwatch.amazonaws.com"],
                actions=["kms:Decrypt", "kms:GenerateDataKey"],
                resources=["*"],
                conditions=alarms_here,
            ),
        ]
        self.key = aws_kms.Key(
            self,
            "Key",
            description="Holdfast: messages of the alarm topic",
            enable_key_rotation=True,
            policy=policy_document(key_statements),
            # Nothing is kept under this key: a message lives in the topic for as long as its delivery takes.
            removal_policy=RemovalPolicy.DESTROY,
            pending_window=Duration.days(7),
        )
        resource = self.key.node.default_child
        assert isinstance(resource, CfnResource)
        record_reasons(resource, key_statements)
        self.topic = aws_sns.Topic(self, "Topic", master_key=self.key, display_name="Holdfast alarms")
        topic_statements = [
            Statement(
                sid="AllowAlarms",
                reason="Alarms of this account publish here; of other services nobody does, and a role of the account only if"
                " its own policy says so.",
                services=["cloudwatch.amazonaws.com"],
                actions=["sns:Publish"],
                resources=[self.topic.topic_arn],
                conditions=alarms_here,
            ),
            deny_http("sns:Publish", self.topic.topic_arn),
        ]
        policy = aws_sns.CfnTopicPolicy(
            self, "Policy", topics=[self.topic.topic_arn], policy_document=policy_json(topic_statements)
        )
        record_reasons(policy, topic_statements)
        CfnOutput(
            self,
            "AlarmTopicArn",
            value=self.topic.topic_arn,
            description="Subscribe whoever must hear of alarms: aws sns subscribe --topic-arn <this> --protocol email ...",
        ).override_logical_id("AlarmTopicArn")
