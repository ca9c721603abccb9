"""Each handler under AWS's own runtime client, as Lambda starts it: by name, with JSON in and JSON out."""

import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.settings import IngestSettings, JudgeSettings, NotifierSettings, Settings, SweeperSettings
from stacks.config import to_resolved_json
from tests.adapters import samples

PROJECT = Path(__file__).parents[2]
ACCOUNT, REGION = "123456789012", "eu-central-1"
INSTANCE = "i-0a11111111111111a"
SECONDS = 60.0


@dataclass
class RuntimeApi:
    """Lambda's runtime API for one function: hands out one event and takes what becomes of it."""

    events: "queue.Queue[dict[str, Any]]" = field(default_factory=queue.Queue)
    answers: "queue.Queue[tuple[str, Any]]" = field(default_factory=queue.Queue)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = json.dumps(api.events.get()).encode()
                self.send_response(200)
                for name, value in {
                    "Content-Type": "application/json",
                    "Content-Length": str(len(body)),
                    "Lambda-Runtime-Aws-Request-Id": "8476a536-e9f4-11e8-9739-2dfe598c3fcd",
                    "Lambda-Runtime-Deadline-Ms": "4102444800000",
                    "Lambda-Runtime-Invoked-Function-Arn": f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f",
                    "Lambda-Runtime-Trace-Id": "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700",
                }.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                api.answers.put((self.path.rsplit("/", 1)[-1], json.loads(body or b"null")))
                self.send_response(202)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                """Nothing: the test prints what it has to say."""

        return Handler


class QuietServer(ThreadingHTTPServer):
    def handle_error(self, *arguments: object) -> None:
        """The function is killed while it waits for its next event; its broken connection is no news."""


@pytest.fixture(scope="module")
def aws_url() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        _, port = server.get_host_and_port()
        yield f"http://localhost:{port}"
    finally:
        server.stop()


@pytest.fixture(scope="module")
def made(aws_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The table, the queues and the configuration file that the functions are given."""

    def client(service: str) -> Any:
        return boto3.client(service, endpoint_url=aws_url, region_name=REGION)

    samples.create_table(client("dynamodb"), "ledger")
    looks, wakeups = (client("sqs").create_queue(QueueName=name)["QueueUrl"] for name in ("looks", "alerts"))
    client("secretsmanager").create_secret(Name="webhook", SecretString="http://127.0.0.1:9/services/T/B/x")
    package = tmp_path_factory.mktemp("layer") / "holdfast_config"
    package.mkdir()
    role = f"arn:aws:iam::{ACCOUNT}:role/KarpenterControllerRole"
    cluster = {"name": "c", "region": REGION, "account": ACCOUNT, "karpenter": {"controllerRoleArn": role}}
    config = HoldfastConfig.read(json.dumps({"clusters": [cluster]}))
    (package / "config.json").write_text(to_resolved_json(config))
    return {"looks": json.dumps({"public": looks}), "wakeups": wakeups, "layer": str(package.parent)}


def run(
    function: str, settings: Settings, event: dict[str, Any], made: dict[str, str], aws_url: str
) -> tuple[str, Any]:
    """`response` or `error` and its document, of one invocation under the runtime client."""
    api = RuntimeApi()
    server = QuietServer(("127.0.0.1", 0), api.handler())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    task = PROJECT / "lambdas" / function
    environment = {
        **{name: value for name, value in os.environ.items() if name.startswith("AWS_") or name in {"PATH", "HOME"}},
        **settings.to_env(),
        "AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{server.server_address[1]}",
        "AWS_ENDPOINT_URL": aws_url,
        "AWS_LAMBDA_FUNCTION_NAME": function,
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": "512",
        "LAMBDA_TASK_ROOT": str(task),
        "PYTHONPATH": os.pathsep.join([str(task), str(PROJECT / "layers/holdfast/python"), made["layer"]]),
        "POWERTOOLS_METRICS_NAMESPACE": "Holdfast",
    }
    api.events.put(event)
    command = [sys.executable, "-m", "awslambdaric", "handler.lambda_handler"]
    with subprocess.Popen(
        command, env=environment, cwd=task, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as child:
        try:
            return api.answers.get(timeout=SECONDS)
        except queue.Empty:
            child.kill()
            assert child.stdout is not None
            pytest.fail(f"{function} gave no answer:\n{child.stdout.read().decode()}")
        finally:
            child.kill()
            server.shutdown()
            server.server_close()


def sqs_event(*bodies: str) -> dict[str, Any]:
    return {
        "Records": [
            {
                "messageId": f"m-{number}",
                "receiptHandle": "handle",
                "body": body,
                "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1788235801210"},
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:q",
                "awsRegion": REGION,
            }
            for number, body in enumerate(bodies)
        ]
    }


WARNING = json.dumps(
    {
        "version": "0",
        "id": "6f0c2f5e-3f10-4d0c-9a55-0a1b2c3d4e01",
        "detail-type": "EC2 Spot Instance Interruption Warning",
        "source": "aws.ec2",
        "account": ACCOUNT,
        "time": "2026-09-01T04:10:00Z",
        "region": REGION,
        "resources": [],
        "detail": {"instance-id": INSTANCE, "instance-action": "terminate"},
    }
)


def place(made: dict[str, str]) -> dict[str, str]:
    return {"account": ACCOUNT, "region": REGION, "table": "ledger", "wakeup_queue": made["wakeups"]}


def rows(aws_url: str) -> list[str]:
    items = boto3.client("dynamodb", endpoint_url=aws_url, region_name=REGION).scan(TableName="ledger")["Items"]
    return sorted(f"{item['pk']['S']} {item['sk']['S']}" for item in items)


def test_ingest_stores_what_it_is_given_and_acknowledges_it(made: dict[str, str], aws_url: str) -> None:
    settings = IngestSettings(**place(made), look_queues=made["looks"])

    assert run("interruption_ingest", settings, sqs_event(WARNING, "abcd"), made, aws_url) == (
        "response",
        {"batchItemFailures": []},
    )
    stored = rows(aws_url)
    assert any(row.startswith(f"I#{ACCOUNT}#{REGION}#{INSTANCE} F#") for row in stored)
    assert any(row.startswith("P#2026-09-01#") for row in stored)


def test_judge_drops_a_look_that_nobody_can_read(made: dict[str, str], aws_url: str) -> None:
    settings = JudgeSettings(**place(made), look_queues=made["looks"], network="public")

    assert run("interruption_judge", settings, sqs_event("no look"), made, aws_url) == (
        "response",
        {"batchItemFailures": []},
    )


def test_sweeper_says_what_it_found(made: dict[str, str], aws_url: str) -> None:
    settings = SweeperSettings(**place(made), look_queues=made["looks"])
    kind, answer = run("interruption_sweeper", settings, {"id": "e-1", "source": "aws.events"}, made, aws_url)

    assert (kind, answer["problems"]) == ("response", [])


def test_notifier_keeps_what_a_silent_slack_does_not_take(made: dict[str, str], aws_url: str) -> None:
    ingest = IngestSettings(**place(made), look_queues=made["looks"])
    run("interruption_ingest", ingest, sqs_event("efgh"), made, aws_url)
    notifier = NotifierSettings(
        **place(made),
        webhooks='{"slack":"webhook"}',
        topic="none",
        digest_window="60",
        quiet_hours="22:00-07:00 Europe/Berlin",
        runbook_url="none",
        dashboard_url="none",
    )

    assert run("alert_notifier", notifier, sqs_event("{}"), made, aws_url) == ("response", {"batchItemFailures": []})
    (key,) = [row.split(" ", 1)[1] for row in rows(aws_url) if row.startswith("X#slack ")]
    alert = boto3.client("dynamodb", endpoint_url=aws_url, region_name=REGION).get_item(
        TableName="ledger", Key={"pk": {"S": "X#slack"}, "sk": {"S": key}}
    )["Item"]
    assert "told_at" not in alert


def test_a_function_without_its_settings_fails_and_names_them(made: dict[str, str], aws_url: str) -> None:
    class Nothing(IngestSettings):
        def to_env(self) -> dict[str, str]:
            return {}

    settings = Nothing(**place(made), look_queues=made["looks"])
    kind, answer = run("interruption_ingest", settings, sqs_event(WARNING), made, aws_url)

    assert kind == "error"
    assert "HOLDFAST_TABLE" in answer["errorMessage"]
