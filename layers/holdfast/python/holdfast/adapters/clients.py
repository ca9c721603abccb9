"""The AWS clients of a function: made on first use, one of each per container."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

if TYPE_CHECKING:
    from types_boto3_dynamodb import DynamoDBClient
    from types_boto3_ec2 import EC2Client
    from types_boto3_eks import EKSClient
    from types_boto3_secretsmanager import SecretsManagerClient
    from types_boto3_sqs import SQSClient

    from holdfast.adapters.sns import SnsClient


@cache
def session(region: str) -> boto3.Session:
    """The session all clients of the region come from; it also holds the credentials that sign EKS tokens."""
    return boto3.Session(region_name=region)


@cache
def dynamodb(region: str) -> DynamoDBClient:
    """The DynamoDB client of the region."""
    return session(region).client("dynamodb", config=_config())


@cache
def sqs(region: str) -> SQSClient:
    """The SQS client of the region."""
    return session(region).client("sqs", config=_config())


@cache
def ec2(region: str) -> EC2Client:
    """The EC2 client of the region."""
    return session(region).client("ec2", config=_config())


@cache
def eks(region: str) -> EKSClient:
    """The EKS client of the region."""
    return session(region).client("eks", config=_config())


@cache
def events(region: str) -> Any:
    """The EventBridge client of the region."""
    return session(region).client("events", config=_config())


@cache
def secretsmanager(region: str) -> SecretsManagerClient:
    """The Secrets Manager client of the region."""
    return session(region).client("secretsmanager", config=_config())


@cache
def sns(region: str) -> SnsClient:
    """The SNS client of the region."""
    client: SnsClient = session(region).client("sns", config=_config())
    return client


def _config() -> Config:
    # botocore waits 60 s for a connection and for an answer by default: longer than a function may run.
    # A pool of 32 serves the threads that write a batch's facts side by side.
    return Config(
        connect_timeout=2,
        read_timeout=5,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=32,
        user_agent_extra="holdfast",
    )
