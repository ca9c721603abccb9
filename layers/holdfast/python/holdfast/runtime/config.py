"""The configuration as typed values: one model for the CDK app, the command line and the functions.

The app and the command line read `holdfast.yaml` (`stacks.config`). The app writes the resolved configuration
as JSON beside the functions, which read it with `load_resolved`. Every rule lives here, so that no side runs
on a configuration that the other would have refused. Imports only pydantic, for the functions' cold start.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
)
from pydantic.alias_generators import to_camel

from holdfast.errors import SettingsError
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
    PolicyName,
    Prefix,
    Problems,
    QueueName,
    Region,
    RoleArn,
    SecretName,
    SecurityGroupId,
    ServiceAccountName,
    SubnetId,
    TagKey,
    TagValue,
    VpcId,
    arn_part,
    format_duration,
    partition_of,
    problem,
)

KARPENTER_VISIBILITY = timedelta(seconds=20)
"""How long Karpenter hides what it receives (its pkg/providers/sqs), whatever the queue's own setting is."""

AUDIT_MAX_RECEIVE_COUNT = 5
"""How often a message of the audit's queues is tried before it goes to the dead-letter queue."""

DEAD_LETTER_RETENTION = timedelta(days=14)
"""How long the audit's own dead-letter queues keep a message: the longest SQS allows."""

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_VISIBILITY_FACTOR = 6


class AuthenticationMode(StrEnum):
    """Where an EKS cluster looks up who may call its API (EKS, accessConfig.authenticationMode)."""

    API = "API"
    API_AND_CONFIG_MAP = "API_AND_CONFIG_MAP"
    CONFIG_MAP = "CONFIG_MAP"


class Architecture(StrEnum):
    """The processors the functions run on (Lambda, Architectures)."""

    ARM64 = "arm64"
    X86_64 = "x86_64"


def _distinct[T](values: tuple[T, ...]) -> tuple[T, ...]:
    for index, value in enumerate(values):
        if value in values[:index]:
            raise problem(f"must not name the same one twice: {value}")
    return values


T = TypeVar("T")
Distinct = Annotated[tuple[T, ...], AfterValidator(_distinct), Field(json_schema_extra={"uniqueItems": True})]


class Section(BaseModel):
    """A part of the configuration: frozen, unknown keys refused, values kept out of pydantic's messages."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        frozen=True,
        # Rules between two keys also hold where one of them is left to its default.
        validate_default=True,
        # A webhook URL in the wrong place must not get into a log.
        hide_input_in_errors=True,
    )


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


class Audit(Section):
    """The interruption audit of one account and region, shared by all its clusters."""

    function_timeout: Annotated[Duration, Between(timedelta(seconds=1), 15 * _MINUTE, "the limits of Lambda")] = Field(
        default=timedelta(seconds=30),
        description="How long one run of the ingest or judge function may take.",
    )
    queue_visibility_timeout: Annotated[Duration, Between(timedelta(0), 12 * _HOUR, "the limits of SQS")] = Field(
        default=timedelta(seconds=180),
        description="How long a message is hidden while it is worked on. At least 6 x functionTimeout.",
    )
    queue_retention: Annotated[Duration, Between(_MINUTE, 14 * _DAY, "the limits of SQS")] = Field(
        default=timedelta(days=4), description="How long an event waits for the audit. Shorter than 14d."
    )
    archive_retention_days: StrictInt = Field(
        default=30,
        ge=1,
        le=3650,
        description="How long EventBridge archives the events for a replay, in days.",
    )
    max_concurrency: StrictInt = Field(
        default=10, ge=2, le=1000, description="How many runs of a function one queue may start at a time."
    )
    fact_retention_days: StrictInt = Field(
        default=400, ge=1, le=3650, description="How long facts, cases and verdicts are kept, in days."
    )
    poison_retention_days: StrictInt = Field(
        default=30, ge=1, le=3650, description="How long messages that could not be read are kept, in days."
    )
    include_terminate_calls: StrictBool = Field(
        default=False,
        description="Take TerminateInstances calls from CloudTrail as proof of who ended an instance. Needs a"
        " trail that records management events in the region.",
    )

    @field_validator("queue_visibility_timeout")
    @classmethod
    def _hidden_long_enough(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        timeout = info.data.get("function_timeout")
        if timeout is None or value >= _VISIBILITY_FACTOR * timeout:
            return value
        needed = format_duration(_VISIBILITY_FACTOR * timeout)
        raise problem(
            f"must be at least {_VISIBILITY_FACTOR} x functionTimeout, here"
            f" {_VISIBILITY_FACTOR} x {format_duration(timeout)} = {needed}: a message that comes back while"
            " a run works on it, or while Lambda retries a throttled batch, is worked on twice and reaches the"
            " dead-letter queue too early (AWS Lambda guide, using Lambda with SQS)",
            needed,
        )

    @field_validator("queue_retention")
    @classmethod
    def _retries_fit(cls, value: timedelta, info: ValidationInfo) -> timedelta:
        visibility = info.data.get("queue_visibility_timeout")
        if value >= DEAD_LETTER_RETENTION:
            raise problem(
                f"must be shorter than the dead-letter queue's {format_duration(DEAD_LETTER_RETENTION)}: a"
                " moved message keeps the time it was first sent",
                "4d",
            )
        if visibility is not None and AUDIT_MAX_RECEIVE_COUNT * visibility >= value:
            needed = format_duration(AUDIT_MAX_RECEIVE_COUNT * visibility)
            raise problem(
                f"must be longer than {AUDIT_MAX_RECEIVE_COUNT} x queueVisibilityTimeout = {needed}: a"
                " failing message would expire before it reaches the dead-letter queue",
                "4d",
            )
        return value


class Slack(Section):
    """The Slack channel that alerts go to."""

    webhook_secret_name: SecretName = Field(
        description="The name of a secret in AWS Secrets Manager, in each account and region, that holds the"
        " URL of an incoming webhook. Never the URL itself."
    )


class Alerts(Section):
    """Where alerts go."""

    slack: Slack | None = Field(default=None, description="Left out or null: verdicts are kept, nobody is told.")


LogRetentionDays = Literal[
    1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653
]
"""What CloudWatch Logs takes (PutRetentionPolicy, retentionInDays)."""

_TAG_LIMIT = 40


def _few_tags(tags: dict[str, str]) -> dict[str, str]:
    if len(tags) <= _TAG_LIMIT:
        return tags
    raise problem(f"must be {_TAG_LIMIT} tags at most, here {len(tags)}: AWS allows 50, CloudFormation needs some")


class HoldfastConfig(Section):
    """The whole configuration of Holdfast."""

    model_config = ConfigDict(title="Holdfast configuration")

    schema_: StrictStr | None = Field(
        default=None, alias="$schema", exclude=True, description="The JSON schema of this file, for editors."
    )
    name: Prefix = Field(
        default="holdfast",
        description="Prefix of the names of stacks and rules. Changing it later replaces them.",
    )
    clusters: tuple[Cluster, ...] = Field(min_length=1, description="The clusters to look after.")
    audit: Audit = Field(default=Audit(), description="The interruption audit.")
    alerts: Alerts = Field(default=Alerts(), description="Where alerts go.")
    tags: Annotated[dict[TagKey, TagValue], AfterValidator(_few_tags)] = Field(
        default={},
        description="Tags for every resource, 40 at most.",
        json_schema_extra={"maxProperties": _TAG_LIMIT, "examples": [{"team": "platform"}]},
    )
    permissions_boundary: PolicyName | None = Field(
        default=None,
        description="The name of an IAM policy, in each account, that bounds every role Holdfast makes.",
    )
    architecture: Architecture = Field(default=Architecture.ARM64, description="The functions' processors.")
    log_retention_days: LogRetentionDays = Field(
        default=30, description="How long CloudWatch keeps the functions' logs, in days."
    )

    def clusters_in(self, account: str, region: str) -> tuple[Cluster, ...]:
        """The clusters of one account and region, in the order of the file."""
        return tuple(cluster for cluster in self.clusters if (cluster.account, cluster.region) == (account, region))

    @property
    def environments(self) -> tuple[tuple[str, str], ...]:
        """The distinct (account, region) pairs, in the order they first appear."""
        return tuple(dict.fromkeys((cluster.account, cluster.region) for cluster in self.clusters))

    @field_validator("clusters", mode="wrap")
    @classmethod
    def _clusters_are_apart(
        cls, value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo
    ) -> tuple[Cluster, ...]:
        found, prefix = Problems(), info.data.get("name", "holdfast")
        try:
            clusters: tuple[Cluster, ...] = handler(value)
        except ValidationError as error:
            # A bad setting of a cluster must not hide that it shares its queue: everything is reported at once.
            found.extend(error)
            _find_clashes(dict(_labels(value)), prefix, found)
        else:
            _find_clashes(dict(enumerate(clusters)), prefix, found)
        found.raise_any()
        return clusters

    @classmethod
    def read(cls, text: str | bytes) -> Self:
        """The configuration in a JSON text.

        Raises:
            pydantic.ValidationError: with every problem; its text holds no value of the document.
        """
        return cls.model_validate_json(text)


def load_resolved(path: Path) -> HoldfastConfig:
    """The configuration of a deployed function, from the file that was written at synth.

    Raises:
        SettingsError: the file is not there, or not what this version of Holdfast writes.
    """
    try:
        return HoldfastConfig.read(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"the configuration {path} cannot be read: {error.strerror}. Deploy again") from error
    except ValidationError as error:
        raise SettingsError(
            f"the configuration {path} was not written by this version of Holdfast. Deploy again.\n{error}"
        ) from error


def _check_partition(found: Problems, place: tuple[str | int, ...], arn: str, region: str | None) -> None:
    if region and arn_part(arn, "partition") != partition_of(region):
        found.add(place, f"must be in {region}'s partition: arn:{partition_of(region)}:…")


class _QueueLabel(Section, extra="ignore"):
    name: QueueName | None = None


class _ClusterLabel(Section, extra="ignore"):
    """What of a cluster says which names it takes, so that clashes are found beside other problems."""

    name: ClusterName
    region: Region
    account: AccountId
    queue: _QueueLabel | None = None
    existing_queue: ExistingQueue | None = None


def _labels(value: object) -> Iterator[tuple[int, _ClusterLabel]]:
    for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
        try:
            yield index, _ClusterLabel.model_validate(item)
        except ValidationError:
            continue  # already reported by the list's own validation


@dataclass(frozen=True, slots=True)
class _Claim:
    """A name that a cluster takes in its account and region, and where the configuration says so."""

    kind: str
    name: str
    place: tuple[str | int, ...]
    index: int
    cluster: str
    shareable: bool = False


def _claims(index: int, cluster: Cluster | _ClusterLabel, prefix: str) -> Iterator[_Claim]:
    def claim(kind: str, name: str, *place: str, shareable: bool = False) -> _Claim:
        return _Claim(kind, name, (index, *place), index, cluster.name, shareable)

    existing = cluster.existing_queue
    if existing:
        yield claim("queue", existing.name, "existingQueue", "name")
        if existing.dead_letter_queue_name:
            place = ("existingQueue", "deadLetterQueueName")
            yield claim("queue", existing.dead_letter_queue_name, *place, shareable=True)
    else:
        configured = cluster.queue.name if cluster.queue else None
        queue = names.karpenter_queue_name(cluster.name, configured)
        named = ("queue", "name") if configured else ("name",)
        yield claim("queue", queue, *named)
        yield claim("queue", names.dlq_name(queue), *named)
        yield claim("queue", names.target_dlq_name(queue), *named)
        for kind in names.RuleKind:
            yield claim("rule", names.rule_name(prefix, cluster.name, kind), "name")
    yield claim("stack", names.cluster_stack_id(prefix, cluster.account, cluster.region, cluster.name), "name")


def _find_clashes(clusters: Mapping[int, Cluster | _ClusterLabel], prefix: str, found: Problems) -> None:
    """Adds a problem for each cluster that is there twice or takes a name that another one has."""
    first: dict[tuple[str, str, str], int] = {}
    taken: dict[tuple[str, str, str, str], _Claim] = {}
    for index, cluster in clusters.items():
        where = (cluster.account, cluster.region)
        other = first.setdefault((*where, cluster.name), index)
        if other != index:
            found.add(
                (index, "name"),
                f"is there already, as clusters[{other}] in {cluster.account}, {cluster.region}",
            )
            continue
        for claim in _claims(index, cluster, prefix):
            if claim.kind == "queue" and names.is_own_queue(prefix, claim.name):
                found.add(
                    claim.place, f"must be another queue than {claim.name}, which Holdfast has for its own messages"
                )
                break
            # Names that differ only in case are two to SQS, but one role to IAM and one file in cdk.out.
            holder = taken.setdefault((*where, claim.kind, claim.name.casefold()), claim)
            if holder is not claim and not (holder.shareable and claim.shareable):
                found.add(claim.place, _clash(claim, holder))
                break  # the cluster's other names follow from this one


def _clash(claim: _Claim, holder: _Claim) -> str:
    if claim.index == holder.index:
        return f"must be another queue than the cluster's own, {holder.name}"
    owner = f"clusters[{holder.index}] ({holder.cluster})"
    if claim.name != holder.name:
        return f"makes the {claim.kind} {claim.name}, which differs only in case from {holder.name} of {owner}"
    if claim.kind == "queue":
        return (
            f"must be a queue of its own: {claim.name} is also a queue of {owner}, and what one Karpenter"
            " receives it deletes, so each would lose the other's interruption notices"
        )
    return f"makes the {claim.kind} {claim.name}, which {owner} makes too"
