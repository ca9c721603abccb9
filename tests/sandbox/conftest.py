"""The embedded AWS, started once a session in a folder of its own, and what the contract tests deploy into it."""

import io
import json
import signal
import time
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from holdfast_cli.sandbox import aws, up
from holdfast_cli.sandbox.state import SandboxState

LAMBDA_MAY_ASSUME = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"},
        {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"},
    ],
}


PATIENCE = 300.0
"""Longer than a message that failed stays invisible (120 s) and comes back, on a busy machine."""


def wait_for[T](look: Callable[[], T], what: str | Callable[[], str], seconds: float = 30.0, every: float = 0.05) -> T:
    """The first answer of `look`, which is asked `every` so many seconds, that is true; none in time fails the test."""
    deadline = time.monotonic() + seconds
    while not (answer := look()):
        if time.monotonic() >= deadline:
            pytest.fail(f"{what if isinstance(what, str) else what()}: not within {seconds:g} s")
        time.sleep(every)
    return answer


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The burst comes last: it leaves the audit in degraded mode for five minutes, in which pods are not looked at."""
    items.sort(key=lambda item: item.path.name == "test_burst.py")


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> None:
    """A shell that starts the tests in the background has them ignore SIGINT, and what they start inherits that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def zipped(files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxState]:
    folder = tmp_path_factory.mktemp("sandbox")
    try:
        yield aws.start(folder)
    finally:
        aws.stop(folder)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxState]:
    """The sandbox whole, with Holdfast deployed. Tests share it: each has instances of its own, and mends what it broke."""
    folder = tmp_path_factory.mktemp("whole")
    sandbox = up.up(folder, progress=lambda _: None)
    try:
        yield sandbox
    finally:
        aws.stop(folder)


@dataclass(frozen=True)
class Deployer:
    """Makes throwaway resources in the sandbox, each under a name of its own."""

    sandbox: SandboxState
    clients: dict[str, Any] = field(default_factory=dict)

    def client(self, service: str) -> Any:
        if service not in self.clients:
            self.clients[service] = aws.client(self.sandbox, service)
        return self.clients[service]

    def name(self, what: str) -> str:
        return f"{what}-{uuid.uuid4().hex[:8]}"

    def role(self, *actions: str) -> tuple[str, str]:
        """Name and ARN of a role that functions may take and that may do these actions on everything."""
        name = self.name("role")
        arn: str = self.client("iam").create_role(
            RoleName=name, AssumeRolePolicyDocument=json.dumps(LAMBDA_MAY_ASSUME)
        )["Role"]["Arn"]
        if actions:
            self.allow(name, *actions)
        return name, arn

    def allow(self, role: str, *actions: str) -> None:
        statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [statement]}
        self.client("iam").put_role_policy(RoleName=role, PolicyName="p", PolicyDocument=json.dumps(policy))

    def table(self, **more: Any) -> str:
        """A table with the string key `pk`."""
        name = self.name("table")
        attributes = [{"AttributeName": "pk", "AttributeType": "S"}, *more.pop("AttributeDefinitions", [])]
        self.client("dynamodb").create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=attributes,
            **more,
        )
        return name

    def items(self, table: str) -> dict[str, dict[str, Any]]:
        found = self.client("dynamodb").scan(TableName=table)["Items"]
        return {item["pk"]["S"]: item for item in found}

    def queue(self, **attributes: str) -> tuple[str, str]:
        """URL and ARN of a queue."""
        sqs = self.client("sqs")
        url: str = sqs.create_queue(QueueName=self.name("queue"), Attributes=attributes)["QueueUrl"]
        arn: str = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        return url, arn

    def function(self, code: str, role_arn: str, *, layer: Mapping[str, str] | None = None, **env: str) -> str:
        """Name of a function whose handler is `handler` in `code`."""
        lambda_ = self.client("lambda")
        layers = []
        if layer:
            published = lambda_.publish_layer_version(LayerName=self.name("layer"), Content={"ZipFile": zipped(layer)})
            layers = [published["LayerVersionArn"]]
        name = self.name("function")
        lambda_.create_function(
            FunctionName=name,
            Runtime="python3.13",
            Role=role_arn,
            Handler="index.handler",
            Code={"ZipFile": zipped({"index.py": code})},
            Timeout=10,
            Layers=layers,
            Environment={"Variables": env},
        )
        return name

    def invoke(self, function: str, payload: Any) -> Any:
        answer = self.client("lambda").invoke(FunctionName=function, Payload=json.dumps(payload))
        return json.load(answer["Payload"])


@pytest.fixture(scope="session")
def deployer(sandbox: SandboxState) -> Deployer:
    return Deployer(sandbox)
