"""What is kept: the ledger of one account and region, and the topic that alarms notify."""

from aws_cdk import Environment, RemovalPolicy, Stack, aws_dynamodb
from constructs import Construct

from holdfast.adapters import table
from stacks.features.observability import AlarmTopic


class StateStack(Stack):
    """The stack that outlives the others: nothing in it is lost by a deployment, nor by deleting the stack.

    The topic is here for its subscriptions, which people made by hand.
    """

    def __init__(self, scope: Construct, construct_id: str, *, account: str, region: str) -> None:
        """In `account` and `region`; its id is its CloudFormation name too."""
        super().__init__(
            scope,
            construct_id,
            env=Environment(account=account, region=region),
            termination_protection=True,
            description="Holdfast: the ledger of interruptions and the alarm topic",
        )
        self.ledger = _ledger(self)
        self.alarms = AlarmTopic(self, "Alarms")
        self.alarm_topic = self.alarms.topic


def _ledger(scope: Construct) -> aws_dynamodb.Table:
    ledger = aws_dynamodb.Table(
        scope,
        "Ledger",
        partition_key=_text(table.PARTITION_KEY),
        sort_key=_text(table.SORT_KEY),
        time_to_live_attribute=table.TTL_ATTRIBUTE,
        billing_mode=aws_dynamodb.BillingMode.PAY_PER_REQUEST,
        encryption=aws_dynamodb.TableEncryption.AWS_MANAGED,
        point_in_time_recovery_specification=aws_dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        deletion_protection=True,
        removal_policy=RemovalPolicy.RETAIN,
    )
    for index in table.INDEXES:
        projected = index.projection
        ledger.add_global_secondary_index(
            index_name=index.name,
            partition_key=_text(index.partition_key),
            sort_key=_text(index.sort_key),
            projection_type=(
                aws_dynamodb.ProjectionType.ALL if projected is None else aws_dynamodb.ProjectionType.INCLUDE
            ),
            non_key_attributes=None if projected is None else list(projected),
        )
    return ledger


def _text(name: str) -> aws_dynamodb.Attribute:
    return aws_dynamodb.Attribute(name=name, type=aws_dynamodb.AttributeType.STRING)
