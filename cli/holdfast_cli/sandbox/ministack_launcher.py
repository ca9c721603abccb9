"""Start MiniStack as the sandbox needs it. Run by path in MiniStack's own Python, so it imports nothing else.

MiniStack's `main` is called as it is, after some things were done to it:

- CloudFormation learns the types that our stacks use and MiniStack refuses, by MiniStack's own service code;
- IAM and DynamoDB answer as AWS does where we depend on it;
- it listens on one loopback port only (with TLS it would take :443 too where it may);
- a control endpoint, `/_holdfast/…`, does what no AWS API allows: events of AWS services with times in the
  past, and an EKS cluster whose API server is ours. It answers only to the bearer token in
  HOLDFAST_SANDBOX_TOKEN.
"""

import asyncio
import hmac
import json
import os
import sys
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

_Json = dict[str, Any]
_Scope = dict[str, Any]
_Receive = Callable[[], Awaitable[_Json]]
_Send = Callable[[_Json], Awaitable[None]]
_Application = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


class RefusedError(Exception):
    """A control request that cannot be carried out."""


def main() -> None:
    # Not left in the environment: MiniStack hands its own to every function it runs.
    token = os.environ.pop("HOLDFAST_SANDBOX_TOKEN")

    import ministack.app  # reads the environment at import  # noqa: PLC0415

    _teach_cloudformation()
    _teach_iam()
    _teach_dynamodb()
    ministack.app._port_is_bindable = lambda *_: False  # noqa: SLF001
    ministack.app.app = with_control(ministack.app.app, token)
    sys.argv[1:] = []
    ministack.app.main()


# CloudFormation. Handlers run on the event loop, where a request to ourselves would deadlock, so they call
# MiniStack's service modules.


def _teach_cloudformation() -> None:
    from ministack.services.cloudformation import provisioners  # noqa: PLC0415

    ours = {
        "AWS::EKS::AccessEntry": {
            "create": create_access_entry,
            "update": update_access_entry,
            "delete": delete_access_entry,
        },
        "AWS::Events::Archive": {
            "create": create_archive,
            "update": update_archive,
            "update_with_logical_id": True,
            "delete": delete_archive,
        },
    }
    known = provisioners._RESOURCE_HANDLERS  # noqa: SLF001
    native = sorted(ours.keys() & known.keys())
    if native:
        sys.exit(f"MiniStack provisions {', '.join(native)} itself by now: remove our handler from {__file__}")
    known.update(ours)
    _accept_metric_math(provisioners)


def _teach_iam() -> None:
    """What IAM does otherwise than MiniStack where our policies depend on it."""
    from ministack.core import iam_actions, iam_evaluator  # noqa: PLC0415

    native = iam_evaluator._resolve_condition_key  # noqa: SLF001

    def resolve(key: str, context: Any) -> Any:
        # Of a role's session, aws:PrincipalArn is the ARN of the role (IAM guide, global condition keys).
        value = native(key, context)
        return role_of_session(value) if key.lower() == "aws:principalarn" and isinstance(value, str) else value

    iam_evaluator._resolve_condition_key = resolve  # noqa: SLF001

    native_action = iam_actions.extract_iam_action

    def action_of(*arguments: Any, **named: Any) -> Any:
        action = native_action(*arguments, **named)
        return _BATCH_ACTIONS.get(action, action)

    iam_actions.extract_iam_action = action_of

    native_resource = iam_actions.extract_resource_arn

    def resource_of(*arguments: Any) -> Any:
        service, _method, _path, headers, body, _query, region, account = arguments
        rule = rule_of_request(headers, body) if service == "events" else None
        return native_resource(*arguments) if rule is None else f"arn:aws:events:{region}:{account}:rule/{rule}"

    iam_actions.extract_resource_arn = resource_of


def _teach_dynamodb() -> None:
    """DescribeTable tells the status of each index; MiniStack leaves it out for a table that CloudFormation made."""
    from ministack.services import dynamodb  # noqa: PLC0415

    native = dynamodb._table_description  # noqa: SLF001

    def description(*arguments: Any, **named: Any) -> Any:
        described = native(*arguments, **named)
        for index in described.get("GlobalSecondaryIndexes") or ():
            index.setdefault("IndexStatus", "ACTIVE")
        return described

    dynamodb._table_description = description  # noqa: SLF001


# SQS authorises its batch calls by the single action (SQS guide, "Using identity-based policies").
_BATCH_ACTIONS = {
    "sqs:SendMessageBatch": "sqs:SendMessage",
    "sqs:DeleteMessageBatch": "sqs:DeleteMessage",
    "sqs:ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
}


# Where the rule's name stands in the two requests that read one.
_RULE_NAMES = {"AWSEvents.DescribeRule": "Name", "AWSEvents.ListTargetsByRule": "Rule"}


def rule_of_request(headers: _Json, body: bytes) -> str | None:
    """The rule of the default bus that a request reads, None for every other request.

    The ARN of such a rule names no bus (service authorization reference, EventBridge). MiniStack puts the bus into it,
    and finds no rule in ListTargetsByRule.
    """
    key = _RULE_NAMES.get(headers.get("x-amz-target", ""))
    if key is None:
        return None
    asked = json.loads(body)
    return asked.get(key) if asked.get("EventBusName", "default") == "default" else None


def role_of_session(arn: str) -> str:
    """The role's ARN for that of one of its sessions; any other ARN as it is."""
    head, _, rest = arn.partition(":assumed-role/")
    if not rest:
        return arn
    return f"{head.replace(':sts:', ':iam:')}:role/{rest.split('/')[0]}"


def _accept_metric_math(provisioners: Any) -> None:
    """Alarms on metric math are kept and never evaluated: they stay in INSUFFICIENT_DATA, which claims nothing."""
    native = provisioners._cw_metric_alarm_record  # noqa: SLF001

    def record(name: str, props: _Json) -> _Json:
        if not props.get("Metrics"):
            alarm: _Json = native(name, props)
            return alarm
        stated = {key: value for key, value in props.items() if key != "Metrics"}
        unevaluated = {"Namespace": "Sandbox", "MetricName": "MetricMathIsNotEvaluated", "TreatMissingData": "missing"}
        return dict(native(name, stated | unevaluated))

    try:
        native("probe", {"Metrics": [{}]})
    except ValueError:
        provisioners._cw_metric_alarm_record = record  # noqa: SLF001
    else:
        sys.exit(f"MiniStack takes alarms on metric math itself by now: remove our stand-in from {__file__}")


def create_access_entry(_logical_id: str, props: _Json, _stack: str) -> tuple[str, _Json]:
    """The entry's primary identifier (PrincipalArn|ClusterName, what Ref gives) and its attributes."""
    from ministack.services import eks  # noqa: PLC0415

    cluster, principal = props["ClusterName"], props["PrincipalArn"]
    answer = _answer(
        "AWS::EKS::AccessEntry",
        eks._create_access_entry(  # noqa: SLF001
            cluster,
            {
                "principalArn": principal,
                "type": props.get("Type", "STANDARD"),
                "kubernetesGroups": list(props.get("KubernetesGroups") or []),
                "username": props.get("Username", ""),
                "tags": _tags(props),
            },
        ),
    )
    _set_access_policies(props)
    return f"{principal}|{cluster}", {"AccessEntryArn": answer["accessEntry"]["accessEntryArn"]}


def update_access_entry(physical_id: str, old: _Json, new: _Json, stack: str) -> tuple[str, _Json]:
    """As documented: ClusterName, PrincipalArn and Type replace the entry, the rest changes in place."""
    from ministack.services import eks  # noqa: PLC0415

    identity = ("ClusterName", "PrincipalArn", "Type")
    if any(old.get(name) != new.get(name) for name in identity):
        # The same cluster and principal cannot have two entries, so a changed Type deletes first.
        delete_access_entry(physical_id, old)
        return create_access_entry("", new, stack)
    cluster, principal = new["ClusterName"], new["PrincipalArn"]
    change: _Json = {"kubernetesGroups": list(new.get("KubernetesGroups") or [])}
    if "Username" in new:
        change["username"] = new["Username"]
    answer = _answer(
        "AWS::EKS::AccessEntry",
        eks._update_access_entry(cluster, principal, change),  # noqa: SLF001
    )
    kept = {policy["PolicyArn"] for policy in new.get("AccessPolicies") or []}
    for policy in old.get("AccessPolicies") or []:
        if policy["PolicyArn"] not in kept:
            eks._disassociate_access_policy(cluster, principal, policy["PolicyArn"])  # noqa: SLF001
    _set_access_policies(new)
    return physical_id, {"AccessEntryArn": answer["accessEntry"]["accessEntryArn"]}


def delete_access_entry(physical_id: str, _props: _Json) -> None:
    """The entry is gone afterwards, whether or not it was there."""
    from ministack.services import eks  # noqa: PLC0415

    principal, _, cluster = physical_id.partition("|")
    _gone("AWS::EKS::AccessEntry", eks._delete_access_entry(cluster, principal))  # noqa: SLF001


def _set_access_policies(props: _Json) -> None:
    from ministack.services import eks  # noqa: PLC0415

    for policy in props.get("AccessPolicies") or []:
        scope = policy["AccessScope"]
        _answer(
            "AWS::EKS::AccessEntry",
            eks._associate_access_policy(  # noqa: SLF001
                props["ClusterName"],
                props["PrincipalArn"],
                {
                    "policyArn": policy["PolicyArn"],
                    "accessScope": {"type": scope["Type"], "namespaces": scope.get("Namespaces") or []},
                },
            ),
        )


def create_archive(logical_id: str, props: _Json, stack: str) -> tuple[str, _Json]:
    """The archive's name (what Ref gives) and its attributes."""
    from ministack.services import eventbridge  # noqa: PLC0415
    from ministack.services.cloudformation.provisioners import _physical_name  # noqa: PLC0415

    # 48 characters: ArchiveName's limit in the API.
    name = props.get("ArchiveName") or _physical_name(stack, logical_id, max_len=48)
    answer = _answer(
        "AWS::Events::Archive",
        eventbridge._create_archive(  # noqa: SLF001
            {"ArchiveName": name, "EventSourceArn": props["SourceArn"], **_archive_settings(props)}
        ),
    )
    return name, {"Arn": answer["ArchiveArn"], "ArchiveName": name}


def update_archive(physical_id: str, old: _Json, new: _Json, stack: str, logical_id: str) -> tuple[str, _Json]:
    """As documented: ArchiveName and SourceArn replace the archive, the rest changes in place."""
    from ministack.services import eventbridge  # noqa: PLC0415

    if any(old.get(name) != new.get(name) for name in ("ArchiveName", "SourceArn")):
        delete_archive(physical_id, old)
        return create_archive(logical_id, new, stack)
    answer = _answer(
        "AWS::Events::Archive",
        eventbridge._update_archive({"ArchiveName": physical_id, **_archive_settings(new)}),  # noqa: SLF001
    )
    return physical_id, {"Arn": answer["ArchiveArn"], "ArchiveName": physical_id}


def delete_archive(physical_id: str, _props: _Json) -> None:
    """The archive is gone afterwards, whether or not it was there."""
    from ministack.services import eventbridge  # noqa: PLC0415

    _gone("AWS::Events::Archive", eventbridge._delete_archive({"ArchiveName": physical_id}))  # noqa: SLF001


def _archive_settings(props: _Json) -> _Json:
    pattern = props.get("EventPattern") or ""
    return {
        "Description": props.get("Description", ""),
        "EventPattern": pattern if isinstance(pattern, str) else json.dumps(pattern),
        "RetentionDays": int(props.get("RetentionDays") or 0),
        "KmsKeyIdentifier": props.get("KmsKeyIdentifier", ""),
    }


def _tags(props: _Json) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in props.get("Tags") or []}


def _answer(what: str, response: tuple[int, Any, bytes | str]) -> _Json:
    """The body of a service module's response; its error fails the stack with the service's own words."""
    status, _, body = response
    if status >= 400:
        raise ValueError(f"{what}: {body!r}")
    parsed: _Json = json.loads(body)
    return parsed


def _gone(what: str, response: tuple[int, Any, bytes | str]) -> None:
    status, _, body = response
    if status >= 400 and "NotFound" not in str(body):
        raise ValueError(f"{what}: {body!r}")


# The control endpoint.


def with_control(application: _Application, token: str) -> _Application:
    """`application`, except that `/_holdfast/…` is ours."""
    actions: dict[str, Callable[[Any], _Json]] = {
        "/_holdfast/events": deliver_events,
        "/_holdfast/eks-cluster": seed_cluster,
    }

    async def controlled(scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith("/_holdfast/"):
            await application(scope, receive, send)
            return
        body = await _body(receive)
        given = dict(scope["headers"]).get(b"authorization", b"")
        action = actions.get(scope["path"])
        if not hmac.compare_digest(given, f"Bearer {token}".encode()):
            await _respond(send, 401, {"error": "the bearer token of this sandbox is missing or wrong"})
        elif action is None or scope["method"] != "POST":
            await _respond(send, 404, {"error": f"POST one of {', '.join(actions)}"})
        else:
            try:
                # On the event loop, where MiniStack's own handlers change the same stores.
                await _respond(send, 200, action(json.loads(body)))
            except (RefusedError, ValueError, KeyError, TypeError) as error:
                await _respond(send, 400, {"error": f"{type(error).__name__}: {error}"})

    return controlled


def deliver_events(events: list[_Json]) -> _Json:
    """Put whole event bodies on the default bus: ids and times are kept, sources of AWS are allowed.

    PutEvents refuses `aws.` sources, here as on AWS, and stamps the time itself. Rules, patterns, targets and
    archives are MiniStack's, so they treat these events as any other.
    """
    from ministack.services import eventbridge  # noqa: PLC0415

    with _scope():
        for event in events:
            record = {
                "EventId": event["id"],
                "Source": event["source"],
                "DetailType": event["detail-type"],
                "Detail": json.dumps(event["detail"]),
                "EventBusName": "default",
                "Time": int(datetime.fromisoformat(event["time"]).timestamp()),
                "Resources": event.get("resources", []),
                "Account": event["account"],
                "Region": event["region"],
                "ReplayName": event.get("replay-name"),
            }
            eventbridge._events_log_list().append(record)  # noqa: SLF001
            eventbridge._dispatch_event(record)  # noqa: SLF001
            eventbridge._archive_event(record)  # noqa: SLF001
    return {"delivered": len(events)}


def seed_cluster(seed: _Json) -> _Json:
    """Make DescribeCluster answer the fields of the seed; answers the path of its TokenReview webhook."""
    from ministack.services import eks  # noqa: PLC0415

    fields, secret = seed["cluster"], seed["review_secret"]
    name = fields["name"]
    with _scope():
        if name not in eks._clusters:  # noqa: SLF001
            created = eks._create_cluster({"name": name, "roleArn": fields["roleArn"]})  # noqa: SLF001
            if created[0] >= 400:
                raise RefusedError(f"cluster {name}: {created[2]!r}")
        cluster = eks._clusters[name]  # noqa: SLF001
        network = {**cluster["resourcesVpcConfig"], **fields["resourcesVpcConfig"]}
        cluster.update(fields, status="ACTIVE", _auth_token=secret, resourcesVpcConfig=network)
        account, region = cluster["arn"].split(":")[4], cluster["arn"].split(":")[3]
    return {"review_path": f"/_ministack/eks-auth/{account}/{region}/{name}/{secret}"}


def _scope() -> Any:
    from ministack.core.responses import request_scope  # noqa: PLC0415

    return request_scope(os.environ["MINISTACK_ACCOUNT_ID"], os.environ["MINISTACK_REGION"])


async def _body(receive: _Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def _respond(send: _Send, status: int, document: _Json) -> None:
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    main()
