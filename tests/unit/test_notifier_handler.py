"""The notifier's handler on fakes: which wake-ups it sends back, and what it measures and logs of each destination."""

import json
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from holdfast.adapters.wakeups import parse_wakeup
from holdfast.alerts.deliver import Destination, Pace
from holdfast.alerts.forms import SlackForm
from holdfast.alerts.links import Links
from holdfast.errors import Denied
from holdfast.ports import Delivery, DeliveryStatus
from tests.builders import W, alert
from tests.fakes import Clock, FakeMessenger, FakeOutbox, FakeWakeups, Faults, Shelf
from tests.handlers import loaded


@pytest.fixture
def handler() -> Iterator[ModuleType]:
    with loaded("alert_notifier") as module:
        yield module


class Shop:
    """Two Slack channels with one alert each, decided ten seconds ago."""

    def __init__(self) -> None:
        self.clock = Clock(W + timedelta(seconds=10))
        self.faults: dict[str, Faults] = {}
        self.messengers: dict[str, FakeMessenger] = {}
        self.shelves: dict[str, Shelf] = {}
        self.destinations = tuple(self._destination(name) for name in ("slack", "slack/oncall"))

    def _destination(self, name: str) -> Destination:
        faults, shelf = Faults(), Shelf()
        shelf.put(alert("a", decided_at=W), W)
        self.faults[name], self.shelves[name], self.messengers[name] = faults, shelf, FakeMessenger(faults)
        wakeups = FakeWakeups(self.clock, faults)
        return Destination(name, FakeOutbox(shelf, faults), self.messengers[name], SlackForm(Links()), wakeups)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def run(handler: ModuleType, shop: Shop, monkeypatch: pytest.MonkeyPatch, *bodies: str) -> list[str]:
    """The ids of the messages that are sent back."""
    needs = SimpleNamespace(destinations=shop.destinations, pace=Pace(), parse_wakeup=parse_wakeup)
    monkeypatch.setattr(handler.wiring_slack, "notifier", lambda: needs)
    monkeypatch.setattr(handler.clock, "now", shop.clock)
    records = [
        {"messageId": f"m-{number}", "body": body, "attributes": {}, "messageAttributes": {}, "eventSource": "aws:sqs"}
        for number, body in enumerate(bodies)
    ]
    context = SimpleNamespace(
        function_name="notifier",
        memory_limit_in_mb=512,
        invoked_function_arn="arn:aws:lambda:eu-central-1:111122223333:function:notifier",
        aws_request_id="request",
        get_remaining_time_in_millis=lambda: 40_000,
    )
    answer: dict[str, Any] = handler.lambda_handler({"Records": records}, context)
    return [item["itemIdentifier"] for item in answer["batchItemFailures"]]


def metrics(capsys: pytest.CaptureFixture[str]) -> dict[str, list[float]]:
    (found,) = [line for text in capsys.readouterr().out.splitlines() if "_aws" in (line := json.loads(text))]
    return {name: value for name, value in found.items() if isinstance(value, list)}


def logged(caplog: pytest.LogCaptureFixture, level: str) -> list[tuple[str, str]]:
    """Destination and message of the lines of a level that are about one."""
    return [
        (record.__dict__["destination"], record.getMessage())
        for record in caplog.records
        if record.levelname == level and "destination" in record.__dict__
    ]


def test_what_was_told_is_counted_and_logged_with_its_destination(
    handler: ModuleType,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert run(handler, shop, monkeypatch, '{"alerts":["a"]}') == []

    assert metrics(capsys) == {
        "AlertsTold": [2.0],
        "AlertsWaiting": [0.0],
        "AlertsUndeliverable": [0.0],
        "AlertLagSeconds": [10.0, 10.0],
    }
    assert sorted(logged(caplog, "INFO")) == [("slack", "told"), ("slack/oncall", "told")]


def test_a_revoked_channel_is_measured_and_the_other_goes_on(
    handler: ModuleType,
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    shop.messengers["slack"].outcomes.append(Delivery(DeliveryStatus.REVOKED, "404 no_service"))

    assert run(handler, shop, monkeypatch, '{"alerts":[]}') == []
    written = metrics(capsys)
    assert (written["AlertsUndeliverable"], written["AlertsTold"], written["AlertsWaiting"]) == ([1.0], [1.0], [1.0])
    assert logged(caplog, "ERROR") == [("slack", "slack: 404 no_service")]


def test_an_error_at_one_destination_sends_back_the_wake_ups_that_were_for_it(
    handler: ModuleType, shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop.faults["slack"].fail("post", Denied("the secret may not be read"))
    bodies = ['{"alerts":["a"]}', '{"alerts":[],"destination":"slack/oncall"}', '{"alerts":[],"destination":"slack"}']

    assert run(handler, shop, monkeypatch, *bodies) == ["m-0", "m-2"]
    assert list(shop.shelves["slack/oncall"].told) == ["a"]
    assert logged(caplog, "ERROR") == [("slack", "the secret may not be read")]


def test_a_body_that_is_no_wake_up_wakes_all(
    handler: ModuleType, shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(handler, shop, monkeypatch, "rubbish") == []
    assert metrics(capsys)["AlertsTold"] == [2.0]
