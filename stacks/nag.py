"""The findings of cdk-nag that Holdfast lives with, each with its reason, at the construct it is about."""

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

from stacks.statement import Statement


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule of AwsSolutions and why its finding is right to stay."""

    rule: str
    reason: str


LAST_QUEUE = Finding(
    "AwsSolutions-SQS3",
    "This queue is a dead-letter queue, of EventBridge and Lambda, which cdk-nag cannot tell. Another one behind it would"
    " only move what a person has to look at.",
)
RUNTIME = Finding(
    "AwsSolutions-L1",
    "Python 3.13 is the runtime that the layers are compiled and tested for; Lambda maintains it until 2029.",
)


def acknowledge(construct: IConstruct, finding: Finding) -> None:
    """Keeps the finding quiet at this construct alone."""
    Validations.of(construct).acknowledge(Acknowledgment(id=finding.rule, reason=finding.reason))


def acknowledge_wildcards(role: IConstruct, statements: Sequence[Statement]) -> None:
    """Keeps the finding about the resource `*` quiet for a role; the reasons are those of the statements that have it."""
    reasons = [f"{item.sid}: {item.reason}" for item in statements if "*" in item.resources and not item.deny]
    if reasons:
        acknowledge(role, Finding("AwsSolutions-IAM5[Resource::*]", " ".join(reasons)))
