"""One cluster of the configuration: where it is, its Karpenter, and the queue between EventBridge and it."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, StrictInt, ValidationInfo, field_validator

from holdfast.runtime import names
from holdfast.runtime.config_types import (
    SQS_MANAGED,
    AccountId,
    Between,
    ClusterName,
    Duration,
    Encryption,
    NamespaceName,
    Partition,
    Problems,
    QueueName,
    Region,
    RoleArn,
    Section,
    SecurityGroupId,
    ServiceAccountName,
    SubnetId,
    VpcId,
    arn_part,
    format_duration,
    partition_of,
    problem,
)

KARPENTER_VISIBILITY = timedelta(seconds=20)
"""How long Karpenter hides what it receives (its pkg/providers/sqs), whatever the queue's own setting is."""

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class AuthenticationMode(StrEnum):
    """Where an EKS cluster looks up who may call its API (EKS, accessConfig.authenticationMode)."""

    API = "API"
    API_AND_CONFIG_MAP = "API_AND_CONFIG_MAP"
    CONFIG_MAP = "CONFIG_MAP"


def _distinct[T](values: tuple[T, ...]) -> tuple[T, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise problem(f"must not name the same one twice: {value}")
    return values


T = TypeVar("T")
Distinct = Annotated[tuple[T, ...], AfterValidator(_distinct), Field(json_schema_extra={"uniqueItems": True})]


class Network(Section):
    """Where the functions that talk to a cluster are placed, for a private endpoint."""

    vpc_id: VpcId = Field(description="The VPC the functions get their network interfaces in.")
    subnet_ids: Distinct[SubnetId] = Field(
        min_length=1,
        max_length=16,
        description="Subnets of that VPC with a way to the cluster's endpoint and to AWS: two or more, in"
        " different zones.",
    )
    security_group_ids: Distinct[SecurityGroupId] = Field(
        min_length=1,
        max_length=5,
        description="Security groups of the functions. The cluster's own must let them in on port 443.",
    )

    @property
    def id(self) -> str:
        """A short id that is the same for the same network, in any order of its members."""
        return names.network_id(self.vpc_id, self.subnet_ids, self.security_group_ids)


class Karpenter(Section):
    """The Karpenter that runs in the cluster."""

    namespace: NamespaceName = Field(default="kube-system", description="The namespace Karpenter is installed in.")
    service_account: ServiceAccountName = Field(
        default="karpenter", description="The service account its controller runs as."
    )
    controller_role_arn: RoleArn = Field(
        description="The IAM role of its controller: the only role that may read the cluster's queue."
    )
    break_glass_role_arns: Distinct[RoleArn] = Field(
        default=(),
        max_length=10,
        description="Roles of people that may read and purge Karpenter's queue in an emergency.",
    )


class Queue(Section):
    """The queue Holdfast makes for the cluster's Karpenter, with its dead-letter queue."""

    name: QueueName | None = Field(
        default=None,
        description="The name to give Karpenter as interruptionQueue. Left out: the cluster's name.",
    )
    max_receive_count: StrictInt = Field(
        default=10,
        ge=1,
        le=1000,
        description="How often Karpenter may receive a message before it goes to the dead-letter queue.",
    )
    retention: Annotated[Duration, Between(_MINUTE, 4 * _HOUR, "after that no interruption notice is of use")] = Field(
        default=timedelta(seconds=300),
        description="How long a message waits for Karpenter. Longer than maxReceiveCount x 20s. Where AWS"
        " Health notices matter 15m to 1h is better: what comes while Karpenter is down is lost after it.",
    )
    dead_letter_retention: Annotated[Duration, Between(_MINUTE, 14 * _DAY, "the limits of SQS")] = Field(
        default=timedelta(days=14),
        description="How long the dead-letter queues keep a message. Longer than retention.",
    )
    encryption: Encryption = Field(
        default=SQS_MANAGED,
        description="SQS_MANAGED, or the ARN of a customer managed KMS key in the cluster's region. Never the"
        " AWS managed key aws/sqs: EventBridge cannot use it.",
    )

    @property
    def kms_key_arn(self) -> str | None:
        """The customer managed key, or None for keys that SQS manages."""
        return None if self.encryption == SQS_MANAGED else self.encryption

    @field_validator("retention")
    @classmethod
    def _redrive_comes_before_expiry(cls, retention: timedelta, info: ValidationInfo) -> timedelta:
        count = info.data.get("max_receive_count")
        if count is None or count * KARPENTER_VISIBILITY < retention:
            return retention
        needed = count * KARPENTER_VISIBILITY
        raise problem(
            f"must be longer than maxReceiveCount x {format_duration(KARPENTER_VISIBILITY)}, here"
            f" {count} x {format_duration(KARPENTER_VISIBILITY)} = {format_duration(needed)}: Karpenter"
            " hides a message that long at each receive, so it would expire before it reaches the dead-letter queue",
            f"{format_duration(needed + _MINUTE)}, or a smaller maxReceiveCount"
            if needed + _MINUTE <= 4 * _HOUR
            else "a smaller maxReceiveCount",
        )

    @field_validator("dead_letter_retention")
    @classmethod
    def _dead_letters_live_longer(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        retention = info.data.get("retention")
        if retention is None or retention < value:
            return value
        raise problem(
            f"must be longer than retention ({format_duration(retention)}): a moved message keeps the time it"
            " was first sent, so it would be gone on arrival",
            "14d",
        )


class ExistingQueue(Section):
    """A queue that somebody else deploys. Holdfast deploys no queue, policy or rule then, it only checks."""

    name: QueueName = Field(description="The name of the queue, as in Karpenter's setting interruptionQueue.")
    dead_letter_queue_name: QueueName | None = Field(default=None, description="The name of its dead-letter queue.")


class Cluster(Section):
    """One EKS cluster with a self-managed Karpenter."""

    name: ClusterName = Field(description="The cluster's name in EKS.")
    region: Region = Field(description="The cluster's region.")
    account: AccountId = Field(description="The cluster's account, in quotes: without them YAML reads a number.")
    partition: Partition = Field(
        default_factory=lambda data: partition_of(data["region"]),
        description="Follows from the region; if given it must agree with it.",
    )
    authentication_mode: AuthenticationMode = Field(
        default=AuthenticationMode.API,
        description="The cluster's access mode. For CONFIG_MAP the rows of aws-auth are only printed.",
    )
    network: Network | None = Field(
        default=None, description="Left out or null: the functions use the cluster's public endpoint."
    )
    karpenter: Karpenter = Field(description="The Karpenter that runs in the cluster.")
    existing_queue: ExistingQueue | None = Field(
        default=None,
        description="A queue that is there already, in place of queue. It is checked, never changed.",
    )
    queue: Queue | None = Field(
        default_factory=lambda data: None if data["existing_queue"] else Queue(),
        description="The queue Holdfast makes for Karpenter.",
    )

    @property
    def queue_name(self) -> str:
        """The name to give Karpenter as its interruptionQueue."""
        if self.existing_queue:
            return self.existing_queue.name
        return names.karpenter_queue_name(self.name, self.queue.name if self.queue else None)

    @property
    def dead_letter_queue_name(self) -> str | None:
        """The queue of what was received too often; None for an existing queue where none is named."""
        if self.existing_queue:
            return self.existing_queue.dead_letter_queue_name
        return names.dlq_name(self.queue_name)

    @property
    def network_id(self) -> str:
        """A short id of the network its functions run in; `public` outside a VPC."""
        return self.network.id if self.network else names.PUBLIC_NETWORK

    @field_validator("partition")
    @classmethod
    def _partition_agrees(cls, value: Partition, info: ValidationInfo) -> Partition:
        region = info.data.get("region")
        if region and value != partition_of(region):
            raise problem(f"must be the partition of {region}", str(partition_of(region)))
        return value

    @field_validator("karpenter")
    @classmethod
    def _roles_agree(cls, value: Karpenter, info: ValidationInfo) -> Karpenter:
        account, region = info.data.get("account"), info.data.get("region")
        found = Problems()
        if account and arn_part(value.controller_role_arn, "account") != account:
            found.add(
                ("controllerRoleArn",),
                f"must be a role of the cluster's account {account}: Karpenter's pod gets its role there",
            )
        roles: list[tuple[tuple[str | int, ...], str]] = [(("controllerRoleArn",), value.controller_role_arn)]
        roles += [(("breakGlassRoleArns", n), arn) for n, arn in enumerate(value.break_glass_role_arns)]
        for place, arn in roles:
            _check_partition(found, place, arn, region)
        found.raise_any()
        return value

    @field_validator("queue", mode="before")
    @classmethod
    def _one_queue(cls, value: object, info: ValidationInfo) -> object:
        existing = info.data.get("existing_queue")
        if existing and value is not None:
            raise problem("must not stand beside existingQueue: nothing is deployed there, so it would have no effect")
        if value is None and not existing and "existing_queue" in info.data:
            raise problem("must have settings below it: remove the key for a queue with the defaults")
        return value

    @field_validator("queue")
    @classmethod
    def _key_agrees(cls, value: Queue | None, info: ValidationInfo) -> Queue | None:
        region = info.data.get("region")
        if value is None or value.kms_key_arn is None or region is None:
            return value
        found = Problems()
        _check_partition(found, ("encryption",), value.kms_key_arn, region)
        if not found and arn_part(value.kms_key_arn, "region") != region:
            found.add(
                ("encryption",),
                f"must be a key in the queue's region {region}: SQS uses no key of another one",
            )
        found.raise_any()
        return value


def _check_partition(found: Problems, place: tuple[str | int, ...], arn: str, region: str | None) -> None:
    if region and arn_part(arn, "partition") != partition_of(region):
        found.add(place, f"must be in {region}'s partition: arn:{partition_of(region)}:…")
