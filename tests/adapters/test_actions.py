"""What each adapter method declares to call is what it calls: no permission too few, none too many."""

import base64
import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from moto import mock_aws

import holdfast.adapters
from holdfast.adapters.actions import actions_of, calls, declarations
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.adapters.ec2 import Ec2Instances
from holdfast.adapters.eks import EksAccess
from holdfast.adapters.events import EventBridge
from holdfast.adapters.kube import KubeClusters
from holdfast.adapters.outbox import DynamoOutbox, DynamoOutboxes
from holdfast.adapters.reports import DynamoReports
from holdfast.adapters.secrets import WebhookSecret
from holdfast.adapters.slack import SlackMessenger
from holdfast.adapters.sns import SnsMessenger
from holdfast.adapters.sqs import QueueNames, SqsLooks, SqsQueues
from holdfast.adapters.states import DynamoStates
from holdfast.adapters.wakeups import SqsWakeups
from holdfast.interruption.event import Home
from holdfast.interruption.mode import Lag, Mode
from holdfast.ports import Lease, Look
from holdfast_cli.sandbox.kube.identity import UserInfo
from holdfast_cli.sandbox.kube_api import KubeApi
from tests.adapters import samples
from tests.adapters.samples import ALERT, FACT, KEY, LOOK, NOW, REJECTION, WARNED

TABLE = "holdfast-ledger"
NO_CALL = {KubeClusters: {"names"}, EksAccess: {"forget"}}
"""Public methods that ask nobody."""


class Recorder:
    """AWS, emulated; keeps the IAM actions of every call that is made from now on."""

    def __init__(self) -> None:
        self.actions: set[str] = set()
        self.clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        if service not in self.clients:
            made = samples.client(service)
            made.meta.events.register("provide-client-params", self._record)
            self.clients[service] = made
        return self.clients[service]

    def _record(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        service, operation = model.service_model.endpoint_prefix, model.name
        if operation == "TransactWriteItems":
            # No action of its own: IAM asks for the action of each item (DynamoDB guide, IAM and transactions).
            items = {kind for item in params["TransactItems"] for kind in item}
            self.actions |= {f"dynamodb:{kind}Item" for kind in items}
        elif operation == "SendMessageBatch":
            self.actions.add("sqs:SendMessage")
        else:
            self.actions.add(f"{service}:{operation}")

    def __call__(self, act: Callable[[], object]) -> frozenset[str]:
        """The actions of one act."""
        self.actions.clear()
        act()
        return frozenset(self.actions)


@pytest.fixture
def aws() -> Iterator[Recorder]:
    with mock_aws():
        yield Recorder()


type Scenario = Callable[[Recorder], Callable[[], object]]
"""Prepares the world and gives the act, which takes every way through the method that makes another call."""


def ledger(aws: Recorder) -> DynamoLedger:
    samples.create_table(aws.client("dynamodb"), TABLE)
    return DynamoLedger(aws.client("dynamodb"), TABLE, clock=lambda: NOW)


def touch_watch(aws: Recorder) -> Callable[[], object]:
    made = ledger(aws)
    made.open_watch(KEY, WARNED)
    return lambda: (made.touch_watch(KEY, WARNED), made.touch_watch(KEY, NOW), made.touch_watch(samples.OTHER, NOW))


def save(aws: Recorder) -> Callable[[], object]:
    made = ledger(aws)
    made.open_watch(KEY, WARNED)
    watch = made.history(KEY).watch
    assert watch is not None
    return partial(made.save, watch, [samples.record()], [ALERT], obsolete=["1"])


def put_rejection(aws: Recorder) -> Callable[[], object]:
    return partial(ledger(aws).put_rejection, REJECTION, day=WARNED, message_id="m", alert=ALERT)


def outbox(aws: Recorder) -> DynamoOutbox:
    ledger(aws).put_rejection(REJECTION, day=WARNED, message_id="m", alert=ALERT)
    return DynamoOutbox(aws.client("dynamodb"), TABLE)


def outbox_table(aws: Recorder) -> str:
    ledger(aws)
    return TABLE


def topic(aws: Recorder) -> SnsMessenger:
    return SnsMessenger(aws.client("sns"), aws.client("sns").create_topic(Name="alerts")["TopicArn"])


def states(aws: Recorder) -> DynamoStates:
    ledger(aws)
    return DynamoStates(aws.client("dynamodb"), TABLE, account=KEY.account, region=KEY.region)


def rule(aws: Recorder) -> Callable[[], object]:
    aws.client("events").put_rule(Name="r", EventPattern="{}")
    return partial(EventBridge(aws.client("events")).describe, "r")


def reports(aws: Recorder) -> DynamoReports:
    ledger(aws)
    return DynamoReports(aws.client("dynamodb"), TABLE)


def each_record(aws: Recorder) -> Callable[[], object]:
    made = reports(aws)
    return lambda: list(made.each_record(None, since=WARNED, until=NOW))


def looks(aws: Recorder) -> SqsLooks:
    return SqsLooks(aws.client("sqs"), {}, queue(aws, "looks"))


def depths(aws: Recorder) -> Callable[[], object]:
    queue(aws, "orders")
    queue(aws, "orders-dlq")
    names = QueueNames("orders", "orders-dlq", "missing")
    return partial(SqsQueues(aws.client("sqs"), {"orders": names}).depths, "orders")


def queue(aws: Recorder, name: str) -> str:
    url: str = aws.client("sqs").create_queue(QueueName=name)["QueueUrl"]
    return url


def describe(aws: Recorder) -> Callable[[], object]:
    ended = {"InstanceId": KEY.instance_id, "State": {"Name": "terminated"}, "SpotInstanceRequestId": "sir-1"}
    stubber = Stubber(aws.client("ec2"))
    stubber.add_response("describe_instances", {"Reservations": [{"Instances": [ended]}]})
    stubber.add_response("describe_spot_instance_requests", {"SpotInstanceRequests": []})
    stubber.activate()
    return partial(Ec2Instances(aws.client("ec2")).describe, [KEY.instance_id])


def access(aws: Recorder, endpoint: str = "https://eks", ca_pem: str = "CA") -> EksAccess:
    told = {"endpoint": endpoint, "certificateAuthority": {"data": base64.b64encode(ca_pem.encode()).decode()}}
    stubber = Stubber(aws.client("eks"))
    stubber.add_response("describe_cluster", {"cluster": told})
    stubber.activate()
    return EksAccess(aws.client("eks"), boto3.Session("key", "secret", "token", samples.REGION), samples.REGION)


def in_kubernetes(method: str, *arguments: str, **more: object) -> Scenario:
    def prepare(aws: Recorder) -> Callable[[], object]:
        def act() -> None:
            with KubeApi(authenticate=lambda _token: UserInfo("us", ("system:masters",))) as kube:
                made = KubeClusters(access(aws, kube.url, kube.ca_pem), ["orders"])
                found = getattr(made, method)("orders", *arguments, **more)
                assert getattr(found, "items", found) == ()

        return act

    return prepare


def secret(aws: Recorder) -> WebhookSecret:
    # Nobody listens at port 9 of this machine: what Slack answers is not what this is about.
    aws.client("secretsmanager").create_secret(Name="slack", SecretString="http://127.0.0.1:9/services/x")
    return WebhookSecret(aws.client("secretsmanager"), "slack")


SCENARIOS: Mapping[type, Mapping[str, Scenario]] = {
    DynamoLedger: {
        "put_fact": lambda aws: partial(ledger(aws).put_fact, FACT),
        "put_rejection": put_rejection,
        "put_observation": lambda aws: partial(ledger(aws).put_observation, KEY, LOOK),
        "open_watch": lambda aws: partial(ledger(aws).open_watch, KEY, NOW),
        "touch_watch": touch_watch,
        "history": lambda aws: partial(ledger(aws).history, KEY),
        "save": save,
        "overdue": lambda aws: partial(ledger(aws).overdue, NOW, limit=1),
        "put_alert": lambda aws: partial(ledger(aws).put_alert, ALERT),
        "canary": lambda aws: partial(ledger(aws).canary, Home(KEY.account, KEY.region), "canary-1"),
        "count_open": lambda aws: partial(ledger(aws).count_open, NOW, limit=1),
    },
    DynamoOutbox: {
        "acquire": lambda aws: partial(outbox(aws).acquire, "one", now=NOW, lifetime=NOW - WARNED),
        "release": lambda aws: partial(outbox(aws).release, Lease("one", NOW), not_before=NOW),
        "pending": lambda aws: partial(outbox(aws).pending, [ALERT.id], now=NOW, limit=9),
        "mark_told": lambda aws: partial(outbox(aws).mark_told, [ALERT.id], now=NOW),
        "put_off": lambda aws: partial(outbox(aws).put_off, [ALERT.id], until=NOW),
        "oldest": lambda aws: partial(outbox(aws).oldest, now=NOW),
    },
    DynamoOutboxes: {
        "oldest": lambda aws: partial(
            DynamoOutboxes(aws.client("dynamodb"), outbox_table(aws), ["slack"]).oldest, now=NOW
        )
    },
    DynamoStates: {
        "read": lambda aws: partial(states(aws).read, Mode),
        "write": lambda aws: partial(states(aws).write, Mode(NOW), version=0),
        "put": lambda aws: partial(states(aws).put, Lag(45, NOW)),
    },
    EventBridge: {
        "describe": rule,
        "send": lambda aws: partial(
            EventBridge(aws.client("events")).send, source="holdfast.canary", detail_type="x", detail={}
        ),
    },
    DynamoReports: {
        "records": lambda aws: partial(reports(aws).records, None, since=WARNED, until=NOW, limit=1),
        "each_record": each_record,
        "rejections": lambda aws: partial(reports(aws).rejections, NOW),
    },
    SqsLooks: {"send": lambda aws: partial(looks(aws).send, [Look(KEY, NOW)], now=NOW)},
    SqsWakeups: {"wake": lambda aws: partial(SqsWakeups(aws.client("sqs"), queue(aws, "alerts")).wake, ["a"])},
    SqsQueues: {"depths": depths},
    Ec2Instances: {"describe": describe},
    EksAccess: {"connection": lambda aws: partial(access(aws).connection, "orders")},
    KubeClusters: {
        "nodeclaims": in_kubernetes("nodeclaims"),
        "pods": in_kubernetes("pods", "ip-10-0-1-7.internal"),
        "disruption_budgets": in_kubernetes("disruption_budgets"),
        "replicas": in_kubernetes("replicas", max_age=NOW - NOW),
        "nodepools": in_kubernetes("nodepools"),
        "pending_pods": in_kubernetes("pending_pods"),
    },
    WebhookSecret: {"url": lambda aws: secret(aws).url},
    SnsMessenger: {"post": lambda aws: partial(topic(aws).post, {"Message": "x"})},
    SlackMessenger: {"post": lambda aws: partial(SlackMessenger(secret(aws)).post, {"text": "x"})},
}


@pytest.mark.parametrize(
    ("adapter", "method"), [(adapter, method) for adapter, methods in SCENARIOS.items() for method in methods]
)
def test_a_method_calls_what_it_declares_and_nothing_else(aws: Recorder, adapter: type, method: str) -> None:
    act = SCENARIOS[adapter][method](aws)
    assert aws(act) == actions_of(adapter, method)


@pytest.mark.parametrize("adapter", SCENARIOS)
def test_every_public_method_declares_its_calls_or_makes_none(adapter: type) -> None:
    public = {name for name, value in vars(adapter).items() if callable(value) and not name.startswith("_")}
    assert public == set(declarations(adapter)) | NO_CALL.get(adapter, set())
    assert set(SCENARIOS[adapter]) == set(declarations(adapter))


def test_every_adapter_class_that_declares_calls_is_tested() -> None:
    found = {
        value
        for module in pkgutil.iter_modules(holdfast.adapters.__path__, "holdfast.adapters.")
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and declarations(value)
    }
    assert found == set(SCENARIOS)


class Example:
    @calls("s3:GetObject", "s3:PutObject")
    def one(self) -> None: ...

    @calls("s3:GetObject")
    def two(self) -> None: ...

    def none(self) -> None: ...


def test_the_actions_of_a_class_are_those_of_all_its_methods_or_of_the_named() -> None:
    assert actions_of(Example) == {"s3:GetObject", "s3:PutObject"}
    assert actions_of(Example, "two") == {"s3:GetObject"}


@pytest.mark.parametrize("name", ["none", "missing"])
def test_a_method_without_a_declaration_is_an_error_not_an_empty_set(name: str) -> None:
    with pytest.raises(LookupError, match=f"Example declares no IAM actions for: {name}"):
        actions_of(Example, "two", name)
