"""ARNs of what has a physical name, written out from the stack's own account and region."""

from dataclasses import dataclass
from typing import Self

from aws_cdk import Stack
from constructs import IConstruct

from holdfast.runtime.config_types import partition_of


@dataclass(frozen=True, slots=True)
class Arns:
    """The ARNs of one partition, account and region.

    The configuration names account and region, so these are plain text, not references: a policy can name a queue of
    another stack, or one that somebody else deploys, and no stack depends on another for it.
    """

    partition: str
    account: str
    region: str

    @classmethod
    def of(cls, construct: IConstruct) -> Self:
        """Those of the stack that `construct` is in."""
        stack = Stack.of(construct)
        return cls(str(partition_of(stack.region)), stack.account, stack.region)

    def queue(self, name: str) -> str:
        """An SQS queue."""
        return self._regional("sqs", name)

    def rule(self, name: str) -> str:
        """A rule on the default event bus."""
        return self._regional("events", f"rule/{name}")

    def default_bus(self) -> str:
        """The default event bus."""
        return self._regional("events", "event-bus/default")

    def cluster(self, name: str) -> str:
        """An EKS cluster."""
        return self._regional("eks", f"cluster/{name}")

    def secret(self, name: str) -> str:
        """A secret by name: Secrets Manager appends six characters of its own to it."""
        return self._regional("secretsmanager", f"secret:{name}-??????")

    def every_function(self) -> str:
        """All Lambda functions."""
        return self._regional("lambda", "function:*")

    def policy(self, name: str) -> str:
        """A customer managed IAM policy."""
        return f"arn:{self.partition}:iam::{self.account}:policy/{name}"

    def root(self) -> str:
        """The account itself, as a principal."""
        return f"arn:{self.partition}:iam::{self.account}:root"

    def _regional(self, service: str, rest: str) -> str:
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{rest}"
