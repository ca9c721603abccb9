"""The judge's handler on fakes: what it answers to Lambda and writes into its log."""

import json
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.documents import dump
from holdfast.adapters.sqs import parse_look
from holdfast.interruption.mode import Mode
from holdfast.runtime import observability
from holdfast.runtime.current_mode import CurrentMode
from holdfast.runtime.settings import JudgeSettings
from tests.builders import OUR, USER, at, ec2, message, nodeclaim, warning_body
from tests.handlers import loaded
from tests.unit.interruption.plant import Plant


@pytest.fixture
def handler() -> Iterator[ModuleType]:
    with loaded("interruption_judge") as module:
        yield module


@pytest.fixture
def plant() -> Plant:
    """A Spot instance that was drained at +50 s and ended at +55 s, looked at at +60 s."""
    plant = Plant(start=1)
    plant.instances.views[OUR] = ec2("terminated", USER, transitioned_at=at(55))
    plant.clusters.claims["cluster-a"] = [nodeclaim(deleted=5, drained=50)]
    plant.ingest(message(warning_body()))
    plant.clock.now = at(60)
    return plant


def run(handler: ModuleType, plant: Plant, monkeypatch: pytest.MonkeyPatch, *bodies: str) -> dict[str, Any]:
    needs = SimpleNamespace(
        parse_look=parse_look,
        scope=plant.scope,
        ledger=plant.ledger,
        instances=plant.instances,
        clusters=plant.clusters,
        queues=plant.queues,
        looks=plant.looks,
        wakeups=plant.wakeups,
        mode=CurrentMode(plant.states, observability.logger(JudgeSettings.service)),
    )
    monkeypatch.setattr(handler.wiring_kubernetes, "judge", lambda: needs)
    monkeypatch.setattr(handler.clock, "now", plant.clock)
    records = [
        {
            "messageId": f"m-{number}",
            "receiptHandle": "r",
            "body": body,
            "attributes": {"ApproximateReceiveCount": "1", "SentTimestamp": "1", "SenderId": "s"},
            "messageAttributes": {},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:111122223333:looks",
            "awsRegion": "eu-central-1",
        }
        for number, body in enumerate(bodies)
    ]
    context = SimpleNamespace(
        function_name="judge",
        memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:eu-central-1:111122223333:function:judge",
        aws_request_id="request",
        get_remaining_time_in_millis=lambda: 30_000,
    )
    answer: dict[str, Any] = handler.lambda_handler({"Records": records}, context)
    return answer


def metrics(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" in line]


def test_a_decided_case_is_counted_by_one_of_two_deliveries(
    handler: ModuleType, plant: Plant, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    (look,) = plant.looks.receive(at(60))
    body = dump(look)
    assert run(handler, plant, monkeypatch, body) == {"batchItemFailures": []}
    written = metrics(capsys)

    assert [record["verdict"] for record in written if "Verdicts" in record] == ["HANDLED_IN_TIME"]
    (handling,) = (record for record in written if "HandledInTime" in record)
    assert (handling["cluster"], handling["nodepool"]) == ("cluster-a", "orders-spot")
    assert (handling["ReactionSeconds"], handling["DrainSeconds"]) == ([5], [50])
    (speed,) = (record for record in written if "VerdictSeconds" in record)
    assert (speed["FirstLookSeconds"], speed["VerdictSeconds"], speed["VerdictsInTime"]) == ([60], [60], [1])
    (interruption,) = (record for record in written if "Interruptions" in record)
    assert (interruption["cluster"], interruption["kind"]) == ("cluster-a", "spot_interrupted")
    (run_metrics,) = (record for record in written if "Looks" in record)
    assert (run_metrics["service"], run_metrics["CasesFinal"]) == (JudgeSettings.service, [1])

    assert run(handler, plant, monkeypatch, body) == {"batchItemFailures": []}
    assert [record for record in metrics(capsys) if "Verdicts" in record or "Interruptions" in record] == []


def test_a_body_that_is_no_look_is_acknowledged(
    handler: ModuleType, plant: Plant, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    assert run(handler, plant, monkeypatch, "hello") == {"batchItemFailures": []}
    (written,) = metrics(capsys)
    assert (written["Looks"], written["JudgeFailures"]) == ([0], [0])


def test_in_degraded_mode_the_stored_verdict_says_why(
    handler: ModuleType, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant.states.put(Mode(at(30), since=at(30), reason="more than 1000 cases are open"))
    (look,) = plant.looks.receive(plant.clock())
    run(handler, plant, monkeypatch, dump(look))

    (record,) = plant.ledger.records[look.key].values()
    assert record.degraded == "more than 1000 cases are open"
