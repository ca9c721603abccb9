"""The configuration as typed values: one model for the CDK app, the command line and the functions.

The app and the command line read `holdfast.yaml` (`stacks.config`). The app writes the resolved configuration
as JSON beside the functions, which read it with `load_resolved`. Every rule lives here, so that no side runs
on a configuration that the other would have refused. Imports only pydantic, for the functions' cold start.
"""

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
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

from holdfast.alerts.alert import Severity
from holdfast.errors import SettingsError
from holdfast.runtime.config_clashes import find_clashes, labels
from holdfast.runtime.config_cluster import (
    KARPENTER_VISIBILITY,
    AuthenticationMode,
    Cluster,
    ExistingQueue,
    Karpenter,
    Network,
    Queue,
)
from holdfast.runtime.config_types import (
    Between,
    ClusterName,
    Duration,
    HttpsUrl,
    KeyArn,
    PolicyName,
    Prefix,
    Problems,
    SecretName,
    Section,
    TagKey,
    TagValue,
    TimeOfDay,
    TimeZone,
    TopicArn,
    arn_part,
    format_duration,
    partition_of,
    problem,
)

__all__ = [
    "AUDIT_MAX_RECEIVE_COUNT",
    "DEAD_LETTER_RETENTION",
    "KARPENTER_VISIBILITY",
    "Alerts",
    "Architecture",
    "Audit",
    "AuthenticationMode",
    "Cluster",
    "ExistingQueue",
    "HoldfastConfig",
    "Karpenter",
    "Network",
    "Queue",
    "QuietHours",
    "Slack",
    "SlackChannel",
    "Sns",
    "load_resolved",
]

AUDIT_MAX_RECEIVE_COUNT = 5
"""How often a message of the audit's queues is tried before it goes to the dead-letter queue."""

DEAD_LETTER_RETENTION = timedelta(days=14)
"""How long the audit's own dead-letter queues keep a message: the longest SQS allows."""

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_VISIBILITY_FACTOR = 6


class Architecture(StrEnum):
    """The processors the functions run on (Lambda, Architectures)."""

    ARM64 = "arm64"
    X86_64 = "x86_64"


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
    interruption_rate: StrictInt = Field(
        default=30,
        ge=1,
        le=10_000,
        description="How many Spot interruptions of one cluster within ten minutes raise an alarm.",
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


def _each_once[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if len(set(values)) == len(values):
        return values
    raise problem("must name each one once")


Severities = Annotated[tuple[Severity, ...], Field(min_length=1), AfterValidator(_each_once)]
"""How urgent an alert is: `page`, `warning` or `info`; at least one of them."""

_CHANNELS = 6
"""With the default channel and the topic these are eight destinations, as many as are told side by side."""


class SlackChannel(Section):
    """A Slack channel for some of the alerts."""

    webhook_secret_name: SecretName = Field(
        description="The name of the secret that holds the URL of the channel's incoming webhook."
    )
    severities: Severities = Field(
        description="The alerts that go here: of these severities (`page`, `warning`, `info`),"
    )
    clusters: Annotated[tuple[ClusterName, ...], Field(min_length=1), AfterValidator(_each_once)] | None = Field(
        default=None,
        description="and of these clusters. Left out: of all, and alerts that are about no cluster.",
    )


class Slack(Section):
    """The Slack channels that alerts go to, each alert to one."""

    webhook_secret_name: SecretName = Field(
        description="The name of a secret in AWS Secrets Manager, in each account and region, that holds the"
        " URL of an incoming webhook. Never the URL itself. Alerts go there that no entry of `channels` takes."
    )
    channels: tuple[SlackChannel, ...] = Field(
        default=(),
        max_length=_CHANNELS,
        description="Further channels. An alert goes to the first that takes it, and to no other.",
    )


class Sns(Section):
    """An SNS topic that alerts are published to, whatever becomes of them in Slack."""

    severities: Severities = Field(
        default=(Severity.PAGE, Severity.WARNING),
        description="Which alerts are published, by severity: `page`, `warning`, `info`. Left out: `page` and `warning`.",
    )
    topic_arn: TopicArn | None = Field(
        default=None, description="A standard topic of yours. Left out: the topic that Holdfast's alarms notify."
    )
    key_arn: KeyArn | None = Field(
        default=None,
        description="The customer managed KMS key of your topic, if it has one. Its key policy has to leave access to"
        " IAM policies of the account.",
    )

    @field_validator("key_arn")
    @classmethod
    def _key_of_a_topic(cls, value: str | None, info: ValidationInfo) -> str | None:
        topic = info.data.get("topic_arn")
        if value is not None and "topic_arn" in info.data:
            if topic is None:
                raise problem("goes with topicArn: Holdfast's own topic has its own key")
            if arn_part(value, "region") != arn_part(topic, "region"):
                raise problem(f"must be a key of the topic's region, {arn_part(topic, 'region')}")
        return value


class QuietHours(Section):
    """Hours of every day in which alerts of severity `info` wait; pages and warnings never do."""

    start: TimeOfDay = Field(alias="from", description="When they begin, by the clock of the time zone.")
    end: TimeOfDay = Field(alias="to", description="When they end; over midnight when it is earlier than `from`.")
    timezone: TimeZone = Field(default="UTC", description="A name of the IANA time zone database.")

    @field_validator("end")
    @classmethod
    def _not_the_whole_day(cls, value: str, info: ValidationInfo) -> str:
        if value == info.data.get("start"):
            raise problem("must be another time than from: hours without an end would tell nothing")
        return value


class Alerts(Section):
    """Where alerts go, and when."""

    slack: Slack | None = Field(
        default=None, description="Left out or null, and no `sns` either: verdicts are kept, nobody is told."
    )
    sns: Sns | None = Field(
        default=None, description="Also publish alerts to a topic, for e-mail or a pager. Needs no Slack."
    )
    quiet_hours: QuietHours | None = Field(
        default=None, description="When alerts of severity `info` wait for the morning. Left out: never."
    )
    runbook_url: HttpsUrl | None = Field(
        default=None,
        description="Where your team reads docs/runbook.md: alerts link to their section of it.",
    )
    digest_window: Annotated[Duration, Between(timedelta(seconds=1), 15 * _MINUTE, "what SQS can delay")] = Field(
        default=timedelta(seconds=60),
        description="After a message, how long alerts are gathered: more than three of a cluster become one digest.",
    )


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
            find_clashes(dict(labels(value)), prefix, found)
        else:
            find_clashes(dict(enumerate(clusters)), prefix, found)
        found.raise_any()
        return clusters

    @field_validator("alerts")
    @classmethod
    def _alerts_of_our_clusters(cls, value: Alerts, info: ValidationInfo) -> Alerts:
        found, clusters = Problems(), info.data.get("clusters")
        if clusters is None:  # they have problems of their own
            return value
        known = {cluster.name for cluster in clusters}
        for index, channel in enumerate(() if value.slack is None else value.slack.channels):
            for number, name in enumerate(channel.clusters or ()):
                if name not in known:
                    place = ("slack", "channels", index, "clusters", number)
                    found.add(place, f"must be a cluster of this file. Here are: {', '.join(sorted(known))}")
        topic = None if value.sns is None else value.sns.topic_arn
        partitions = {str(partition_of(cluster.region)) for cluster in clusters}
        if topic is not None and partitions != {arn_part(topic, "partition")}:
            found.add(("sns", "topicArn"), f"must be a topic of the clusters' partition, {' and '.join(partitions)}")
        found.raise_any()
        return value

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
