"""A function with all that each of ours has: role, log group, layers, checked environment, alarm."""

import re
from collections.abc import Sequence
from datetime import timedelta

from aws_cdk import CfnResource, Duration, RemovalPolicy, aws_iam, aws_lambda, aws_logs, aws_sqs
from constructs import Construct

from holdfast.runtime.config import HoldfastConfig, Network
from holdfast.runtime.settings import Settings
from stacks import bundling, nag
from stacks.constructs.alarms import Alarms
from stacks.constructs.arns import Arns
from stacks.constructs.python_layers import PythonLayers
from stacks.statement import Statement, policy_document, record_reasons

RUNTIME = aws_lambda.Runtime.PYTHON_3_13
HANDLER = "handler.lambda_handler"
MEMORY_MIB = 512
BATCH_SIZE = 10

ENVIRONMENT_LIMIT = 3_000
"""Bytes of environment variables a function may have. Lambda's own limit is 4 KB, for all of them together."""

_RESOLVED_LATER = re.compile(r"\$\{Token\[[^\]]*\]\}")
_LONGEST_VALUE = 200  # a queue URL, or a table name, that CloudFormation fills in

_ASSUME_ROLE_SID = "AllowLambda"
_ASSUME_ROLE_REASON = "The role is for Lambda alone: nobody else can take it."


class EnvironmentTooLarge(Exception):
    """A function's environment is larger than Lambda takes. The message says whose and what makes it so."""


class PythonFunction(Construct):
    """`lambdas/<source>` as a function with a role of its own that may do what `statements` say, and write its log."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        source: str,
        description: str,
        settings: Settings,
        statements: Sequence[Statement],
        timeout: timedelta,
        config: HoldfastConfig,
        layers: PythonLayers,
        alarms: Alarms,
        network: Network | None = None,
    ) -> None:
        """In `network`, if it is given; else outside a VPC.

        Raises:
            EnvironmentTooLarge: `settings` do not fit into the function's environment.
        """
        super().__init__(scope, construct_id)
        environment = settings.to_env()
        _check_size(source, environment)
        log_group = aws_logs.LogGroup(self, "Logs", removal_policy=RemovalPolicy.DESTROY)
        # The configuration has the days as CloudWatch takes them, the CDK's class has words for some of them.
        _cfn(log_group).add_property_override("RetentionInDays", config.log_retention_days)
        granted = [*statements, _write_log(log_group), *_reach_network(self, network)]
        self.role = _role(self, description, granted)
        self.function = aws_lambda.Function(
            self,
            "Function",
            description=description,
            code=bundling.function_code(source),
            handler=HANDLER,
            runtime=RUNTIME,
            architecture=layers.architecture,
            layers=layers.layers,
            memory_size=MEMORY_MIB,
            timeout=Duration.seconds(int(timeout.total_seconds())),
            environment=environment,
            role=self.role,
            log_group=log_group,
            logging_format=aws_lambda.LoggingFormat.JSON,
            application_log_level_v2=aws_lambda.ApplicationLogLevel.INFO,
            system_log_level_v2=aws_lambda.SystemLogLevel.WARN,
        )
        if network is not None:
            # By ids of the configuration: the CDK's own way asks for the VPC's zones, which nothing here needs.
            _cfn(self.function).add_property_override(
                "VpcConfig",
                {
                    "SubnetIds": list(network.subnet_ids),
                    "SecurityGroupIds": list(network.security_group_ids),
                },
            )
        nag.acknowledge(self.function, nag.RUNTIME)
        alarms.function_errors(self, "ErrorsAlarm", self.function)

    def read_from(self, queue: aws_sqs.IQueue, *, max_concurrency: int) -> None:
        """Runs the function for batches of the queue, of which it may send back single messages.

        The concurrency is held by the mapping, not reserved: with a reservation below it, messages that Lambda has
        already taken are throttled and come back until they are in the dead-letter queue.
        """
        aws_lambda.EventSourceMapping(
            self,
            "Messages",
            target=self.function,
            event_source_arn=queue.queue_arn,
            batch_size=BATCH_SIZE,
            max_batching_window=Duration.seconds(0),
            report_batch_item_failures=True,
            max_concurrency=max_concurrency,
        )


def consume(sid: str, queue: aws_sqs.IQueue, reason: str) -> Statement:
    """What a function needs that reads a queue by an event source mapping (Lambda guide, using Lambda with SQS)."""
    return Statement(
        sid=sid,
        reason=reason,
        actions=["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
        resources=[queue.queue_arn],
    )


def _role(scope: Construct, description: str, statements: Sequence[Statement]) -> aws_iam.Role:
    role = aws_iam.Role(
        scope,
        "Role",
        description=f"Holdfast: {description}",
        assumed_by=aws_iam.ServicePrincipal("lambda.amazonaws.com"),
        inline_policies={"Permissions": policy_document(statements)},
    )
    resource = _cfn(role)
    resource.add_property_override("AssumeRolePolicyDocument.Statement.0.Sid", _ASSUME_ROLE_SID)
    trust = Statement(sid=_ASSUME_ROLE_SID, reason=_ASSUME_ROLE_REASON, actions=["sts:AssumeRole"])
    record_reasons(resource, [trust, *statements])
    nag.acknowledge_wildcards(role, statements)
    return role


def _write_log(log_group: aws_logs.ILogGroup) -> Statement:
    return Statement(
        sid="WriteOwnLog",
        reason="Lines go to the function's own log group, which the stack makes, so it may not make one.",
        actions=["logs:CreateLogStream", "logs:PutLogEvents"],
        resources=[log_group.log_group_arn],
    )


def _reach_network(scope: Construct, network: Network | None) -> list[Statement]:
    if network is None:
        return []
    actions = [
        "ec2:AssignPrivateIpAddresses",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSubnets",
        "ec2:UnassignPrivateIpAddresses",
    ]
    return [
        Statement(
            sid="LambdaNetworkInterfaces",
            reason="Lambda itself puts the function's network interfaces into the subnets; most of these actions take no"
            " resource (Lambda guide, giving functions access to a VPC).",
            actions=actions,
            resources=["*"],
        ),
        Statement(
            sid="DenyOwnNetworkInterfaces",
            reason="Only Lambda may use the statement before, not the function's own code.",
            deny=True,
            actions=actions,
            resources=["*"],
            conditions={"ArnLike": {"lambda:SourceFunctionArn": Arns.of(scope).every_function()}},
        ),
    ]


def _check_size(source: str, environment: dict[str, str]) -> None:
    sizes = {
        name: len(name) + len(_RESOLVED_LATER.sub("x" * _LONGEST_VALUE, value).encode())
        for name, value in environment.items()
    }
    total = sum(sizes.values())
    if total > ENVIRONMENT_LIMIT:
        largest = max(sizes, key=lambda name: sizes[name])
        raise EnvironmentTooLarge(
            f"lambdas/{source} would get {total} bytes of environment, the limit is {ENVIRONMENT_LIMIT} (Lambda's is"
            f" 4 KB). The largest is {largest} with {sizes[largest]}: it holds one entry for each network, so give the"
            " clusters fewer networks or deploy some of them from a configuration of their own"
        )


def _cfn(construct: Construct) -> CfnResource:
    resource = construct.node.default_child
    assert isinstance(resource, CfnResource)
    return resource
