"""Event bodies from the audit queue, read into facts.

`parse` is total: any text or bytes gives a `Parsed`, never an exception, and nothing is lost without a row that says
what it was. The shapes follow the EventBridge references of EC2, AWS Health, FIS and CloudTrail and the deviations
seen in public samples of them; the kinds carry the names that Karpenter's interruption controller gives them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from holdfast.times import parse_http_date, parse_time

_INSTANCE_ID = re.compile(r"i-(?:[0-9a-f]{8}|[0-9a-f]{17})")
_ANY_WARNING = re.compile(r"EC2 .*Interruption Warning")
_CANARY_ID = re.compile(r"canary-[0-9TZ:.-]{1,40}")
_MAX_NESTING = 3
_KEPT_BODY = 2048
_KEPT_FIELD = 512


CANARY_SOURCE = "holdfast.canary"
CANARY_DETAIL_TYPE = "Holdfast Canary"
"""Of the event that Holdfast sends to itself: no rule of Karpenter's matches it."""


class Kind(StrEnum):
    """What a fact is about. The first group are Karpenter's message kinds."""

    SPOT_WARNING = "spot_interrupted"
    REBALANCE = "rebalance_recommendation"
    CAPACITY_WARNING = "capacity_reservation_interrupted"
    SCHEDULED_CHANGE = "scheduled_change"
    STATE_CHANGE = "state_change"

    UNKNOWN_WARNING = "unknown_interruption_warning"
    BID_EVICTED = "bid_evicted"
    TERMINATE_CALL = "terminate_instances_call"
    SPOT_FULFILLED = "spot_request_fulfilled"
    RESERVATION_NOTICE = "capacity_reservation_notice"
    EXPERIMENT = "experiment_state_change"
    CANARY = "canary"


WARNINGS = frozenset({Kind.SPOT_WARNING, Kind.CAPACITY_WARNING, Kind.SCHEDULED_CHANGE, Kind.UNKNOWN_WARNING})
"""The kinds that announce an interruption and so open a case."""

ENDING_STATES = frozenset({"stopping", "stopped", "shutting-down", "terminated"})
"""The EC2 states on which Karpenter acts; `pending` and `running` begin a run."""


class Disposition(StrEnum):
    """Why a body, or a part of it, became no fact."""

    POISON = "poison"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Home:
    """The account and region this audit stands in; they fill in what an envelope leaves out."""

    account: str
    region: str


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that happened to one subject, as its source told it. Facts are appended, never changed.

    `subject` is an EC2 instance id, or the id of a capacity reservation, a FIS experiment or a canary. `at` is the source's time, not
    ours. `sent_at` and `received_at` are the audit queue's and our own clock; they do not belong to the fact's identity.
    """

    kind: Kind
    account: str
    region: str
    subject: str
    at: datetime
    event_id: str
    action: str | None = None
    announced: datetime | None = None
    state: str | None = None
    status: str | None = None
    event_arn: str | None = None
    event_code: str | None = None
    actor: str | None = None
    replay: str | None = None
    notes: tuple[str, ...] = ()
    sent_at: datetime | None = field(default=None, compare=False)
    received_at: datetime | None = field(default=None, compare=False)

    @property
    def is_instance(self) -> bool:
        """Whether the subject is an EC2 instance (and so belongs to a case)."""
        return self.subject.startswith("i-")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A body, or a part of one, that became no fact: what it was and why, in words and as a short code."""

    disposition: Disposition
    code: str
    reason: str
    digest: str
    body: str
    detail_type: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one body said: the facts in it, and the rejection of whatever in it is no fact."""

    facts: tuple[Fact, ...] = ()
    rejection: Rejection | None = None


class _Refused(Exception):
    def __init__(self, disposition: Disposition, code: str, reason: str) -> None:
        super().__init__(reason)
        self.disposition = disposition
        self.code = code


@dataclass(frozen=True, slots=True)
class _Envelope:
    detail_type: str
    detail: Mapping[str, Any]
    account: str
    region: str
    at: datetime
    event_id: str
    replay: str | None
    notes: tuple[str, ...]

    def fact(self, kind: Kind, subject: str, **fields: Any) -> Fact:
        notes = self.notes + tuple(fields.pop("notes", ()))
        return Fact(
            kind=kind,
            account=fields.pop("account", self.account),
            region=fields.pop("region", self.region),
            subject=subject,
            at=self.at,
            event_id=self.event_id,
            replay=self.replay,
            notes=notes,
            **fields,
        )


def parse(body: str | bytes, home: Home, *, sent_at: datetime | None = None) -> Parsed:
    """The facts in one message body, and the rejection of what is none.

    `sent_at` (SQS `SentTimestamp`) stands in for a missing `time`. Never raises for any `body`.
    """
    text = body.decode("utf-8-sig", "backslashreplace") if isinstance(body, bytes) else body.removeprefix("\ufeff")
    detail_type: str | None = None
    source: str | None = None
    try:
        document, wrapping = _unwrap(text)
        detail_type = _text(document.get("detail-type", document.get("detail_type")))
        source = _text(document.get("source"))
        facts, refused = _read(document, wrapping, home, sent_at, text)
    except _Refused as error:
        facts, refused = (), error
    rejection = None
    if refused is not None:
        rejection = Rejection(
            disposition=refused.disposition,
            code=refused.code,
            reason=_printable(str(refused)),
            digest=body_digest(text),
            body=_printable(text, _KEPT_BODY),
            detail_type=detail_type,
            source=source,
        )
    return Parsed(facts, rejection)


def body_digest(text: str) -> str:
    """SHA-256 of a body, in hex: the identity of a body that has no id of its own."""
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def arrived(fact: Fact, *, sent_at: datetime | None, received_at: datetime) -> Fact:
    """The same fact with the times of the queue and of our function on it."""
    return replace(fact, sent_at=sent_at, received_at=received_at)


def _unwrap(text: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """The event inside a body that may be encoded twice or wrapped by SNS."""
    notes: tuple[str, ...] = ()
    value: Any = text
    for _ in range(_MAX_NESTING + 1):
        if isinstance(value, str):
            if not value.strip():
                raise _Refused(Disposition.POISON, "empty", "the body is empty")
            try:
                value = json.loads(value)
            except (ValueError, RecursionError) as error:
                raise _Refused(Disposition.POISON, "not_json", f"the body is not JSON: {error}") from error
            if isinstance(value, str):
                notes += ("double_encoded",)
            continue
        if isinstance(value, dict) and value.get("Type") == "Notification" and isinstance(value.get("Message"), str):
            notes += ("sns_envelope",)
            value = value["Message"]
            continue
        break
    if not isinstance(value, dict):
        name = "null" if value is None else type(value).__name__
        raise _Refused(Disposition.POISON, "not_an_object", f"the body is JSON of type {name}, not an event object")
    return value, notes


def _read(
    document: Mapping[str, Any], wrapping: tuple[str, ...], home: Home, sent_at: datetime | None, text: str
) -> tuple[tuple[Fact, ...], _Refused | None]:
    if document.get("Event") == "s3:TestEvent":
        raise _Refused(
            Disposition.IGNORED,
            "s3_test_event",
            "an S3 test notification, sent when somebody wires a bucket to a queue",
        )
    source = _text(document.get("source"))
    notes = wrapping
    detail_type = document.get("detail-type")
    if detail_type is None and "detail_type" in document:
        # The Capacity Block page of the EC2 guide spells the key so; Karpenter does not read it.
        detail_type = document["detail_type"]
        notes += ("underscore_detail_type",)
    if not source or not isinstance(detail_type, str) or not detail_type:
        raise _Refused(
            Disposition.POISON,
            "no_source_or_type",
            "the body has no source or no detail-type, so it is no EventBridge event",
        )
    reader = _reader(source, detail_type)
    if reader is None:
        raise _Refused(
            Disposition.IGNORED,
            "not_audited",
            f"{detail_type!r} from {source!r} says nothing about an interruption",
        )
    detail = document.get("detail")
    if not isinstance(detail, dict):
        raise _Refused(
            Disposition.POISON,
            "bad_detail",
            f"detail is {type(detail).__name__}, not an object, in {detail_type!r}",
        )

    refused = None
    version = document.get("version")
    if version is None:
        notes += ("version_missing",)
    elif version != "0":
        # Karpenter's parser knows version "0" only and drops the message, so the node may go unhandled: keep the fact too.
        notes += ("unknown_version",)
        refused = _Refused(
            Disposition.POISON,
            "unknown_version",
            f"version {_printable(str(version))!r}: Karpenter reads only version '0'",
        )
    resources = document.get("resources", [])
    if not isinstance(resources, list) or not all(isinstance(item, str) for item in resources):
        # Karpenter reads []string; anything else fails its parser and the message is deleted.
        notes += ("resources_not_a_list",)
    at, notes = _event_time(document, sent_at, notes)
    event_id = _text(document.get("id")) or _text(document.get("customer_event_id"))
    if not event_id:
        event_id = body_digest(text)[:32]
        notes += ("id_missing",)
    envelope = _Envelope(
        detail_type=detail_type,
        detail=detail,
        account=_text(document.get("account")) or home.account,
        region=_text(document.get("region")) or home.region,
        at=at,
        event_id=event_id,
        replay=_text(document.get("replay-name")),
        notes=notes,
    )
    facts: list[Fact] = []
    for item in reader(envelope, home):
        if isinstance(item, Fact):
            facts.append(item)
        else:
            refused = refused or item
    return tuple(facts), refused


_Read = Iterator[Fact | _Refused]
_Reader = Callable[[_Envelope, Home], _Read]


def _spot_warning(event: _Envelope, _home: Home) -> _Read:
    action = _text(event.detail.get("instance-action"))
    notes = () if action in {"terminate", "stop", "hibernate"} else ("unknown_action",)
    yield event.fact(Kind.SPOT_WARNING, _instance(event), action=action, notes=notes)


def _rebalance(event: _Envelope, _home: Home) -> _Read:
    yield event.fact(Kind.REBALANCE, _instance(event))


def _state_change(event: _Envelope, _home: Home) -> _Read:
    state = (_text(event.detail.get("state")) or "").lower()
    if state not in ENDING_STATES | {"pending", "running"}:
        raise _Refused(Disposition.POISON, "unknown_state", f"instance state {state!r} is none that EC2 documents")
    yield event.fact(Kind.STATE_CHANGE, _instance(event), state=state)


def _capacity_warning(event: _Envelope, _home: Home) -> _Read:
    yield _warning_with_end(event, Kind.CAPACITY_WARNING, ())


def _unknown_warning(event: _Envelope, _home: Home) -> _Read:
    yield _warning_with_end(event, Kind.UNKNOWN_WARNING, ("unknown_detail_type",))


def _warning_with_end(event: _Envelope, kind: Kind, notes: tuple[str, ...]) -> Fact:
    announced = None
    if "instance-termination-time" in event.detail:
        try:
            announced = parse_time(event.detail["instance-termination-time"])
        except ValueError:
            notes += ("unreadable_termination_time",)
    return event.fact(
        kind,
        _instance(event),
        action=_text(event.detail.get("instance-action")),
        announced=announced,
        notes=notes,
    )


def _scheduled_change(event: _Envelope, home: Home) -> _Read:
    detail = event.detail
    service, category = _text(detail.get("service")), _text(detail.get("eventTypeCategory"))
    code = _text(detail.get("eventTypeCode"))
    if service != "EC2" or category != "scheduledChange":
        raise _Refused(
            Disposition.IGNORED,
            "health_not_ec2_scheduled",
            f"Health event {code} is {service}/{category}, not an EC2 scheduledChange",
        )
    region = _text(detail.get("eventRegion")) or event.region
    if region != home.region:
        # Health sends each event to a backup region too, flagged backupEvent.
        raise _Refused(
            Disposition.IGNORED,
            "health_other_region",
            f"Health event {code} is about {region}; this audit stands in {home.region}",
        )
    notes: tuple[str, ...] = ()
    announced = None
    try:
        announced = parse_http_date(detail.get("startTime"))
    except ValueError:
        notes = ("unreadable_start_time",)
    entities = detail.get("affectedEntities")
    if not isinstance(entities, list) or not entities:
        raise _Refused(Disposition.IGNORED, "health_no_entities", f"Health event {code} names no affected entity")
    others: list[str] = []
    for entity in entities:
        value = entity.get("entityValue") if isinstance(entity, dict) else None
        name = value.strip() if isinstance(value, str) else ""
        if not _INSTANCE_ID.fullmatch(name):
            others.append(_printable(str(value)))
            continue
        yield event.fact(
            Kind.SCHEDULED_CHANGE,
            name,
            account=_text(detail.get("affectedAccount")) or event.account,
            region=region,
            announced=announced,
            status=_text(detail.get("statusCode")),
            event_arn=_text(detail.get("eventArn")),
            event_code=code,
            notes=notes,
        )
    if others:
        listed = ", ".join(others[:5])
        yield _Refused(
            Disposition.IGNORED,
            "health_other_entities",
            f"Health event {code} also names entities that are no instances: {listed}",
        )


def _health_other(event: _Envelope, _home: Home) -> _Read:
    raise _Refused(
        Disposition.IGNORED, "health_other_type", f"{event.detail_type!r} is not about scheduled maintenance"
    )


def _service_event(event: _Envelope, _home: Home) -> _Read:
    name = _text(event.detail.get("eventName"))
    if name != "BidEvictedEvent":
        raise _Refused(
            Disposition.IGNORED, "cloudtrail_other", f"CloudTrail service event {name} is not BidEvictedEvent"
        )
    details = event.detail.get("serviceEventDetails")
    ids = details.get("instanceIdSet") if isinstance(details, dict) else None
    yield from _per_instance(event, Kind.BID_EVICTED, ids if isinstance(ids, list) else [], {})


def _api_call(event: _Envelope, _home: Home) -> _Read:
    name = _text(event.detail.get("eventName"))
    if name != "TerminateInstances" or event.detail.get("errorCode"):
        raise _Refused(Disposition.IGNORED, "cloudtrail_other", f"CloudTrail call {name} ended no instance")
    parameters = event.detail.get("requestParameters")
    held = parameters.get("instancesSet") if isinstance(parameters, dict) else None
    items = held.get("items") if isinstance(held, dict) else None
    ids = (
        [item.get("instanceId") if isinstance(item, dict) else None for item in items]
        if isinstance(items, list)
        else []
    )
    yield from _per_instance(event, Kind.TERMINATE_CALL, ids, {"actor": _actor(event.detail.get("userIdentity"))})


def _per_instance(event: _Envelope, kind: Kind, ids: list[Any], fields: dict[str, Any]) -> _Read:
    if not ids:
        raise _Refused(Disposition.POISON, "no_instance_id", f"{event.detail_type!r} names no instance")
    bad: list[str] = []
    for value in ids:
        name = value.strip() if isinstance(value, str) else ""
        if _INSTANCE_ID.fullmatch(name):
            yield event.fact(kind, name, **fields)
        else:
            bad.append(_printable(str(value)))
    if bad:
        yield _Refused(Disposition.POISON, "bad_instance_id", f"not instance ids: {', '.join(bad[:5])}")


def _fulfilled(event: _Envelope, _home: Home) -> _Read:
    yield event.fact(Kind.SPOT_FULFILLED, _instance(event))


def _reservation_notice(event: _Envelope, _home: Home) -> _Read:
    subject = _text(event.detail.get("capacity-reservation-id"))
    if not subject:
        raise _Refused(
            Disposition.POISON, "no_reservation_id", f"{event.detail_type!r} without capacity-reservation-id"
        )
    announced = None
    notes: tuple[str, ...] = ()
    if "end-date" in event.detail:
        try:
            announced = parse_time(event.detail["end-date"])
        except ValueError:
            notes = ("unreadable_end_date",)
    yield event.fact(
        Kind.RESERVATION_NOTICE,
        subject,
        announced=announced,
        status=_printable(event.detail_type),
        notes=notes,
    )


def _experiment(event: _Envelope, _home: Home) -> _Read:
    subject = _text(event.detail.get("experiment-id"))
    new_state = event.detail.get("new-state")
    status = _text(new_state.get("status")) if isinstance(new_state, dict) else None
    if not subject or not status:
        raise _Refused(
            Disposition.POISON,
            "bad_experiment",
            "a FIS state change without experiment-id or new-state.status",
        )
    yield event.fact(Kind.EXPERIMENT, subject, status=status)


def _canary(event: _Envelope, _home: Home) -> _Read:
    subject = _text(event.detail.get("id")) or ""
    if not _CANARY_ID.fullmatch(subject):
        # Anybody may send with this source; what is no canary of ours proves nothing.
        raise _Refused(Disposition.IGNORED, "not_our_canary", "a canary whose id is none that Holdfast gives")
    yield event.fact(Kind.CANARY, subject)


_READERS: Mapping[tuple[str, str], _Reader] = {
    ("aws.ec2", "EC2 Spot Instance Interruption Warning"): _spot_warning,
    ("aws.ec2", "EC2 Instance Rebalance Recommendation"): _rebalance,
    ("aws.ec2", "EC2 Spot Instance Rebalance Recommended"): _rebalance,
    ("aws.ec2", "EC2 Instance State-change Notification"): _state_change,
    ("aws.ec2", "EC2 Capacity Reservation Instance Interruption Warning"): _capacity_warning,
    ("aws.ec2", "Capacity Block Delivered"): _reservation_notice,
    ("aws.ec2", "Capacity Block Reservation Delivered"): _reservation_notice,
    ("aws.ec2", "Capacity Block Expiration Warning"): _reservation_notice,
    ("aws.ec2", "Capacity Block Reservation Expiration Warning"): _reservation_notice,
    (
        "aws.ec2",
        "EC2 Interruptible Capacity Reservation Allocation Reclamation Completed",
    ): _reservation_notice,
    ("aws.ec2", "EC2 Spot Instance Request Fulfillment"): _fulfilled,
    ("aws.ec2", "AWS Service Event via CloudTrail"): _service_event,
    ("aws.ec2", "AWS API Call via CloudTrail"): _api_call,
    ("aws.health", "AWS Health Event"): _scheduled_change,
    ("aws.health", "AWS Health Abuse Event"): _health_other,
    ("aws.fis", "FIS Experiment State Change"): _experiment,
    (CANARY_SOURCE, CANARY_DETAIL_TYPE): _canary,
}


def _reader(source: str, detail_type: str) -> _Reader | None:
    known = _READERS.get((source, detail_type))
    if known is None and source == "aws.ec2" and _ANY_WARNING.fullmatch(detail_type):
        return _unknown_warning
    return known


def _event_time(
    document: Mapping[str, Any], sent_at: datetime | None, notes: tuple[str, ...]
) -> tuple[datetime, tuple[str, ...]]:
    raw = document.get("time")
    try:
        return parse_time(raw), notes
    except ValueError as error:
        if sent_at is None:
            raise _Refused(
                Disposition.POISON,
                "no_time",
                f"time is {_printable(repr(raw))}, and no arrival time is known",
            ) from error
        return sent_at, (*notes, "time_from_arrival")


def _instance(event: _Envelope) -> str:
    value = event.detail.get("instance-id")
    name = value.strip() if isinstance(value, str) else ""
    if not _INSTANCE_ID.fullmatch(name):
        raise _Refused(
            Disposition.POISON,
            "no_instance_id" if value is None else "bad_instance_id",
            f"detail.instance-id is {_printable(repr(value))}, not an EC2 instance id, in {event.detail_type!r}",
        )
    return name


def _actor(identity: Any) -> str | None:
    if not isinstance(identity, dict):
        return None
    context = identity.get("sessionContext")
    issuer = context.get("sessionIssuer") if isinstance(context, dict) else None
    role = _text(issuer.get("arn")) if isinstance(issuer, dict) else None
    return role or _text(identity.get("arn")) or _text(identity.get("invokedBy"))


def _text(value: Any) -> str | None:
    """`value` when it is text that is not blank, cut to a length a table row can hold."""
    if not isinstance(value, str) or not value.strip():
        return None
    return _printable(value.strip())


def _printable(text: str, limit: int = _KEPT_FIELD) -> str:
    """`text` without lone surrogates (no store takes them), cut to `limit` bytes of UTF-8: what a table row can hold."""
    return text[:limit].encode("utf-8", "backslashreplace")[:limit].decode("utf-8", "ignore")
