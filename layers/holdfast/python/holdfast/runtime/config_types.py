"""The value types of the configuration: what may be written for an account, a region, an ARN, a duration.

Each type says in its error what is right and, where it can tell what was meant, offers that. The errors are
pydantic's own kind with the offer in their context, so one reader shows them all (`stacks.config`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    StrictStr,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema


class Partition(StrEnum):
    """The AWS partitions Holdfast can be deployed to."""

    AWS = "aws"
    AWS_CN = "aws-cn"
    AWS_US_GOV = "aws-us-gov"


@dataclass(frozen=True, slots=True)
class Hint:
    """Why a value is wrong, and what was probably meant (None where nobody can know)."""

    message: str
    suggestion: str | None = None


def problem(message: str, suggestion: str | None = None) -> PydanticCustomError:
    """A validation error with a message for a person and, where there is one, the value to write instead."""
    return PydanticCustomError("holdfast", "{message}", {"message": message, "suggestion": suggestion})


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


class Problems:
    """Collects the problems of one validator, so that it reports all of them and not only the first."""

    def __init__(self) -> None:
        self._details: list[InitErrorDetails] = []

    def __bool__(self) -> bool:
        return bool(self._details)

    def add(self, place: tuple[str | int, ...], message: str) -> None:
        """Adds a problem at `place`, which counts from the value under validation."""
        self._details.append(InitErrorDetails(type=problem(message), loc=place, input=None))

    def extend(self, error: ValidationError) -> None:
        """Adds the problems of a validation inside this one."""
        for found in error.errors(include_url=False):
            context = found.get("ctx", {})
            kind = problem(context["message"], context["suggestion"]) if found["type"] == "holdfast" else found["type"]
            self._details.append(InitErrorDetails(type=kind, loc=found["loc"], input=found["input"], ctx=context))

    def raise_any(self) -> None:
        """Raises what was added, as one error; pydantic puts the place of the validated value before each."""
        if self._details:
            raise ValidationError.from_exception_data("configuration", self._details)


def _text(pattern: str, what: str, hint: Callable[[str], Hint | None] | None = None) -> Callable[[str], str]:
    """A validator of a string: `pattern` is right, `what` names it, `hint` knows the usual mistakes."""
    right = re.compile(pattern)

    def check(value: str) -> str:
        known = hint(value) if hint else None
        if known:
            raise problem(known.message, known.suggestion)
        if not right.fullmatch(value):
            raise problem(f"must be {what}")
        return value

    return check


def _schema(pattern: str, *examples: str, **more: Any) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{pattern}$", "examples": list(examples), **more})


# -- durations -----------------------------------------------------------------------------------------------

_UNITS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_DURATION = r"(?:[0-9]{1,8}d)?(?:[0-9]{1,8}h)?(?:[0-9]{1,8}m)?(?:[0-9]{1,8}s)?"
_DURATION_SCHEMA = rf"^(?=[0-9]){_DURATION}$"


def parse_duration(text: str) -> timedelta:
    """The time that a text such as `300s`, `15m`, `1h30m` or `14d` says.

    Raises:
        ValueError: the text is not of that form.
    """
    if not text or not re.fullmatch(_DURATION, text):
        raise ValueError(f"not a duration: {text}")
    parts = re.findall(r"([0-9]+)([dhms])", text)
    return timedelta(seconds=sum(int(number) * _UNITS[unit] for number, unit in parts))


def format_duration(value: timedelta) -> str:
    """The text that `parse_duration` turns back into `value`, in whole seconds: `5m`, `1h30m`."""
    left = int(value.total_seconds())
    parts = []
    for unit, seconds in _UNITS.items():
        number, left = divmod(left, seconds)
        if number:
            parts.append(f"{number}{unit}")
    return "".join(parts) or "0s"


def _duration(value: object) -> timedelta:
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise problem("must have a unit: d, h, m or s", f"{value}s")
    if not isinstance(value, str):
        raise problem("must be a duration such as 300s, 15m, 4h or 14d")
    try:
        return parse_duration(value)
    except ValueError:
        compact = re.sub(r"\s", "", value).lower()
        usable = bool(compact) and re.fullmatch(_DURATION, compact)
        raise problem("must be a duration such as 300s, 15m, 4h or 14d", compact if usable else None) from None


Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema({"type": "string", "pattern": _DURATION_SCHEMA, "examples": ["300s", "15m", "4h", "14d"]}),
]
"""A length of time in whole seconds, written as `300s`, `15m`, `1h30m` or `14d`."""


@dataclass(frozen=True, slots=True)
class Between:
    """Bounds of a duration, both allowed; `source` says whose they are. For `Annotated[Duration, Between(...)]`."""

    shortest: timedelta
    longest: timedelta
    source: str

    def __get_pydantic_core_schema__(self, kind: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The duration's validation, then this one."""
        return core_schema.no_info_after_validator_function(self._check, handler(kind))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The bounds under keys of our own: JSON schema has none for a duration."""
        return {
            **handler(schema),
            "x-shortest": format_duration(self.shortest),
            "x-longest": format_duration(self.longest),
        }

    def _check(self, value: timedelta) -> timedelta:
        if self.shortest <= value <= self.longest:
            return value
        bounds = f"from {format_duration(self.shortest)} to {format_duration(self.longest)}"
        raise problem(f"must be {bounds} ({self.source})")


# -- accounts, regions, partitions ---------------------------------------------------------------------------

_ACCOUNT = r"[0-9]{12}"
_REGION = r"[a-z]{2}(?:-gov)?-(?:central|(?:north|south)(?:east|west)?|east|west)-[0-9]{1,2}"
_ARN = re.compile(r"arn:(?P<partition>[^:]*):(?P<service>[^:]*):(?P<region>[^:]*):(?P<account>[^:]*):(?P<rest>.*)")

_KNOWN_REGIONS = tuple(
    """
    af-south-1 ap-east-1 ap-east-2 ap-northeast-1 ap-northeast-2 ap-northeast-3 ap-south-1 ap-south-2
    ap-southeast-1 ap-southeast-2 ap-southeast-3 ap-southeast-4 ap-southeast-5 ap-southeast-6 ap-southeast-7
    ca-central-1 ca-west-1 cn-north-1 cn-northwest-1 eu-central-1 eu-central-2 eu-north-1 eu-south-1
    eu-south-2 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-central-1 me-south-1 mx-central-1 sa-east-1
    us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-west-1 us-west-2
    """.split()  # noqa: SIM905
)
"""Only to offer a near miss: a region that is not here is accepted if it has the form of one."""


def _region_hint(value: str) -> Hint | None:
    if re.fullmatch(_REGION, value):
        return None
    if re.fullmatch(_REGION + "[a-z]", value):
        return Hint("must be a region, not an Availability Zone", value[:-1])
    if "-iso" in value or value.startswith("eusc-"):
        return Hint("must be an AWS region of the partition aws, aws-cn or aws-us-gov: Holdfast knows no other")
    # difflib costs an import that a function with a right configuration never needs.
    from difflib import get_close_matches  # noqa: PLC0415

    near = get_close_matches(value.lower(), _KNOWN_REGIONS, n=1, cutoff=0.75)
    return Hint("must be an AWS region such as ap-southeast-1", near[0] if near else None)


def partition_of(region: str) -> Partition:
    """The partition a region belongs to."""
    if region.startswith("cn-"):
        return Partition.AWS_CN
    if region.startswith("us-gov-"):
        return Partition.AWS_US_GOV
    return Partition.AWS


AccountId = Annotated[
    StrictStr,
    AfterValidator(_text(_ACCOUNT, "an AWS account id: 12 digits in quotes")),
    _schema(_ACCOUNT, "111122223333"),
]
Region = Annotated[
    StrictStr,
    AfterValidator(_text(_REGION, "an AWS region", _region_hint)),
    _schema(_REGION, "ap-southeast-1"),
]

# -- names ---------------------------------------------------------------------------------------------------

_PREFIX = r"[a-z][a-z0-9-]{0,19}[a-z0-9]"
_CLUSTER = r"[0-9A-Za-z][A-Za-z0-9_-]{0,99}"
_QUEUE = r"[A-Za-z0-9_-]{1,80}"
_LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_SUBDOMAIN = rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*"
_SECRET = r"[A-Za-z0-9/_+=.@-]{1,512}"  # noqa: S105 - the form of a secret's name
_POLICY = r"[A-Za-z0-9_+=,.@-]{1,128}"


_TAG_TEXT = r"(?:[^\W_]|[ _.:/=+@-])"  # letters and digits of any script, as AWS has it


def _tag_hint(value: str) -> Hint | None:
    if value.lower().startswith("aws:"):
        return Hint("must not start with aws: (AWS keeps that prefix for itself)")
    return None


def _cluster_hint(value: str) -> Hint | None:
    arn = _ARN.fullmatch(value)
    if arn and arn["service"] == "eks":
        return Hint("must be the cluster's name, not its ARN", arn["rest"].removeprefix("cluster/"))
    return None


def _queue_hint(value: str) -> Hint | None:
    arn = _ARN.fullmatch(value)
    reason = "Karpenter looks its queue up by name in its own account and region"
    if arn:
        name = arn["rest"] if arn["service"] == "sqs" and re.fullmatch(_QUEUE, arn["rest"]) else None
        return Hint(f"must be a queue name, not an ARN: {reason}", name)
    if "://" in value:
        name = value.rstrip("/").rpartition("/")[2]
        queue_url = re.match(r"https://(?:sqs|[a-z0-9-]+\.queue)\.", value) and re.fullmatch(_QUEUE, name)
        return Hint(f"must be a queue name, not a URL: {reason}", name if queue_url else None)
    if value.endswith(".fifo"):
        return Hint("must be a standard queue: EventBridge delivers Karpenter's events to no FIFO queue")
    return None


def _secret_hint(value: str) -> Hint | None:
    if re.search(r"://|hooks\.slack|T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/", value):
        # The value is left out of message and suggestion: whoever has the URL can post to the channel.
        return Hint(
            "must be the name of a secret in AWS Secrets Manager that holds the URL, never the URL itself:"
            " this file is kept in version control. Treat the URL as leaked if it was committed"
        )
    arn = _ARN.fullmatch(value)
    if arn:
        name = re.fullmatch(r"secret:(.+?)(?:-[A-Za-z0-9]{6})?", arn["rest"])
        return Hint(
            "must be the secret's name, not its ARN: it is looked up in each account and region",
            name[1] if name else None,
        )
    return None


def _policy_hint(value: str) -> Hint | None:
    arn = _ARN.fullmatch(value)
    if arn:
        name = arn["rest"].rpartition("/")[2]
        return Hint(
            "must be the policy's name, not its ARN: it is looked up in the account of each stack",
            name if re.fullmatch(_POLICY, name) else None,
        )
    return None


Prefix = Annotated[
    StrictStr,
    AfterValidator(_text(_PREFIX, "2 to 21 of a-z, 0-9 and hyphen, starting with a letter, no hyphen at the end")),
    _schema(_PREFIX, "holdfast"),
]
ClusterName = Annotated[
    StrictStr,
    AfterValidator(
        _text(
            _CLUSTER,
            "an EKS cluster name: 1 to 100 of A-Z, a-z, 0-9, - and _, not - or _ first",
            _cluster_hint,
        )
    ),
    _schema(_CLUSTER, "orders-prod"),
]
QueueName = Annotated[
    StrictStr,
    AfterValidator(_text(_QUEUE, "an SQS queue name: 1 to 80 of A-Z, a-z, 0-9, - and _", _queue_hint)),
    _schema(_QUEUE, "orders-prod"),
]
NamespaceName = Annotated[
    StrictStr,
    AfterValidator(_text(_LABEL, "a Kubernetes namespace: 1 to 63 of a-z, 0-9 and -")),
    _schema(_LABEL, "kube-system"),
]
ServiceAccountName = Annotated[
    StrictStr,
    AfterValidator(_text(_SUBDOMAIN, "a Kubernetes service account name: a-z, 0-9, - and .")),
    _schema(_SUBDOMAIN, "karpenter"),
]
SecretName = Annotated[
    StrictStr,
    AfterValidator(_text(_SECRET, "a secret's name in AWS Secrets Manager: A-Z, a-z, 0-9 and /_+=.@-", _secret_hint)),
    _schema(_SECRET, "holdfast/slack-webhook"),
]
PolicyName = Annotated[
    StrictStr,
    AfterValidator(_text(_POLICY, "an IAM policy name: 1 to 128 of A-Z, a-z, 0-9 and _+=,.@-", _policy_hint)),
    _schema(_POLICY, "platform-boundary"),
]

# -- times and links -----------------------------------------------------------------------------------------

_TIME_OF_DAY = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]"
_ZONE = r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}"
_URL = r"https://[A-Za-z0-9.-]+(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?"
_LONGEST_URL = 300  # so that a message with several links stays within Slack's limits


def _time_of_day(value: object) -> object:
    # YAML 1.1 reads 22:00 as a number to the base of sixty.
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60:
        raise problem("must be a time in quotes", f'"{value // 60:02}:{value % 60:02}"')
    return value


def _time_zone(value: str) -> str:
    # Only a configuration with quiet hours pays for the import.
    from zoneinfo import ZoneInfo  # noqa: PLC0415

    try:
        ZoneInfo(value)
    except (KeyError, ValueError, OSError):
        raise problem("must be a name of the IANA time zone database, such as Europe/Berlin") from None
    return value


def _url_hint(value: str) -> Hint | None:
    if "#" in value:
        return Hint("must be without a fragment: alerts add the section", value.partition("#")[0])
    if value.startswith("http://"):
        return Hint("must be an https URL", f"https://{value.removeprefix('http://')}")
    return Hint(f"must be {_LONGEST_URL} characters at most") if len(value) > _LONGEST_URL else None


TimeOfDay = Annotated[
    StrictStr,
    BeforeValidator(_time_of_day),
    AfterValidator(_text(_TIME_OF_DAY, 'a time of day from "00:00" to "23:59", in quotes')),
    _schema(_TIME_OF_DAY, "22:00"),
]
TimeZone = Annotated[
    StrictStr,
    AfterValidator(_text(_ZONE, "a name of the IANA time zone database, such as Europe/Berlin")),
    AfterValidator(_time_zone),
    _schema(_ZONE, "Europe/Berlin"),
]
HttpsUrl = Annotated[
    StrictStr,
    AfterValidator(_text(_URL, "an https URL without a fragment, spaces and quotes encoded", _url_hint)),
    _schema(_URL, "https://github.com/example/holdfast/blob/main/docs/runbook.md", maxLength=_LONGEST_URL),
]

TagKey = Annotated[
    StrictStr,
    AfterValidator(
        _text(rf"{_TAG_TEXT}{{1,128}}", "a key of 1 to 128 letters, digits, spaces and _.:/=+-@", _tag_hint)
    ),
    WithJsonSchema({"type": "string"}),
]
TagValue = Annotated[
    StrictStr,
    AfterValidator(_text(rf"{_TAG_TEXT}{{0,256}}", "a value of 0 to 256 letters, digits, spaces and _.:/=+-@")),
    WithJsonSchema({"type": "string", "maxLength": 256}),
]

# -- ids and ARNs --------------------------------------------------------------------------------------------

_PARTITION = r"aws(?:-cn|-us-gov)?"
_ROLE_ARN = rf"arn:{_PARTITION}:iam::{_ACCOUNT}:role/(?:[!-.0-~]+/)*[A-Za-z0-9_+=,.@-]{{1,64}}"
_KEY_ARN = rf"arn:{_PARTITION}:kms:{_REGION}:{_ACCOUNT}:key/(?:mrk-[0-9a-f]{{32}}|[0-9a-f-]{{36}})"


def _role_hint(value: str) -> Hint | None:
    arn = _ARN.fullmatch(value)
    if arn and arn["service"] == "sts" and arn["rest"].startswith("assumed-role/"):
        # A session's ARN does not tell the role's path, so the offer is right for a role without one.
        name = arn["rest"].split("/")[1]
        return Hint(
            "must be the role's ARN, not a session's",
            f"arn:{arn['partition']}:iam::{arn['account']}:role/{name}",
        )
    if arn and arn["service"] == "iam" and arn["rest"].startswith("instance-profile/"):
        return Hint("must be a role's ARN, not an instance profile's")
    return None


SQS_MANAGED = "SQS_MANAGED"
"""Encryption with keys that SQS itself holds (SSE-SQS): no key policy, no cost, works with EventBridge."""


def _encryption_hint(value: str) -> Hint | None:
    way_out = "use SQS_MANAGED, or the ARN of a customer managed key"
    if value == SQS_MANAGED:
        return None
    if value.upper() in {"KMS_MANAGED", "AWS/SQS"} or "alias/aws/" in value:
        return Hint(
            "must not be the AWS managed key (aws/sqs): its policy can't be given to EventBridge, whose"
            f" deliveries then fail without a sign; {way_out}",
            SQS_MANAGED,
        )
    if value.upper() in {"UNENCRYPTED", "NONE", "FALSE", "OFF"}:
        return Hint("must be on: Holdfast deploys no queue without encryption", SQS_MANAGED)
    if value.upper() in {"SQS_MANAGED", "SSE-SQS", "SSE_SQS", "SQS-MANAGED", "SQSMANAGED"}:
        return Hint("must be SQS_MANAGED or the ARN of a customer managed KMS key", SQS_MANAGED)
    if "alias/" in value:
        return Hint(f"must be the key's ARN, not an alias: an alias can be moved to another key; {way_out}")
    if re.fullmatch(r"(?:key/)?(?:mrk-[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", value):
        return Hint(f"must be the key's whole ARN, not its id; {way_out}")
    return None


RoleArn = Annotated[
    StrictStr,
    AfterValidator(_text(_ROLE_ARN, "an IAM role ARN: arn:aws:iam::<account>:role/<name>", _role_hint)),
    _schema(_ROLE_ARN, "arn:aws:iam::111122223333:role/KarpenterControllerRole-orders-prod"),
]
Encryption = Annotated[
    StrictStr,
    AfterValidator(
        _text(
            rf"{SQS_MANAGED}|{_KEY_ARN}",
            "SQS_MANAGED or the ARN of a customer managed KMS key: arn:aws:kms:<region>:<account>:key/<id>",
            _encryption_hint,
        )
    ),
    WithJsonSchema(
        {
            "anyOf": [{"const": SQS_MANAGED}, {"type": "string", "pattern": f"^{_KEY_ARN}$"}],
            "examples": [
                SQS_MANAGED,
                "arn:aws:kms:ap-southeast-1:111122223333:key/0fa6e000-0000-4000-8000-000000000000",
            ],
        }
    ),
]
_TOPIC_ARN = rf"arn:{_PARTITION}:sns:{_REGION}:{_ACCOUNT}:[A-Za-z0-9_-]{{1,256}}"


def _topic_hint(value: str) -> Hint | None:
    if value.endswith(".fifo"):
        return Hint("must be a standard topic: e-mail and most pagers cannot subscribe to a FIFO topic")
    return None


def _key_hint(value: str) -> Hint | None:
    if "alias/" in value:
        return Hint("must be the key's ARN, not an alias: an alias can be moved to another key")
    return None


TopicArn = Annotated[
    StrictStr,
    AfterValidator(_text(_TOPIC_ARN, "an SNS topic's ARN: arn:aws:sns:<region>:<account>:<name>", _topic_hint)),
    _schema(_TOPIC_ARN, "arn:aws:sns:ap-southeast-1:111122223333:oncall"),
]
KeyArn = Annotated[
    StrictStr,
    AfterValidator(
        _text(_KEY_ARN, "the ARN of a customer managed KMS key: arn:aws:kms:<region>:<account>:key/<id>", _key_hint)
    ),
    _schema(_KEY_ARN, "arn:aws:kms:ap-southeast-1:111122223333:key/0fa6e000-0000-4000-8000-000000000000"),
]
VpcId = Annotated[
    StrictStr,
    AfterValidator(_text(r"vpc-[0-9a-f]{8,17}", "a VPC id: vpc- and 8 to 17 hex digits")),
    _schema("vpc-[0-9a-f]{8,17}", "vpc-0a1b2c3d4e5f60718"),
]
SubnetId = Annotated[
    StrictStr,
    AfterValidator(_text(r"subnet-[0-9a-f]{8,17}", "a subnet id: subnet- and 8 to 17 hex digits")),
    _schema("subnet-[0-9a-f]{8,17}", "subnet-0a1b2c3d4e5f60718"),
]
SecurityGroupId = Annotated[
    StrictStr,
    AfterValidator(_text(r"sg-[0-9a-f]{8,17}", "a security group id: sg- and 8 to 17 hex digits")),
    _schema("sg-[0-9a-f]{8,17}", "sg-0a1b2c3d4e5f60718"),
]


def arn_part(arn: str, part: str) -> str:
    """One part of an ARN that has passed its type: `partition`, `service`, `region`, `account` or `rest`."""
    parts = _ARN.fullmatch(arn)
    assert parts is not None
    return parts[part]
