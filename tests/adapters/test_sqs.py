"""Looks, wake-ups and queue depths on SQS (moto), and what is done when SQS takes only a part."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from holdfast.adapters.sqs import QueueNames, SqsLooks, SqsQueues, parse_look
from holdfast.adapters.wakeups import SqsWakeups, parse_wakeup
from holdfast.errors import Denied, InvalidDocument, Throttled, Unavailable
from holdfast.interruption.observation import Answer, QueueView
from holdfast.ports import InstanceKey, Look, Wakeup
from tests.adapters import samples
from tests.adapters.samples import KEY, NOW

SECOND = timedelta(seconds=1)


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        yield samples.client("sqs")


def queue(client: Any, name: str) -> str:
    return client.create_queue(QueueName=name)["QueueUrl"]


def sent(client: Any) -> Any:
    """Records what goes to SendMessageBatch and lets it through."""
    return mock.patch.object(client, "send_message_batch", wraps=client.send_message_batch)


def received(client: Any, url: str) -> list[str]:
    answer = client.receive_message(QueueUrl=url, MaxNumberOfMessages=10)
    return [message["Body"] for message in answer.get("Messages", [])]


# Looks


def test_a_look_arrives_whole_in_the_queue_of_its_clusters_network(client: Any) -> None:
    orders, default = queue(client, "orders"), queue(client, "default")
    looks = SqsLooks(client, {"orders": orders}, default)
    known, unknown, none = Look(KEY, NOW, "orders"), Look(KEY, NOW, "elsewhere"), Look(KEY, NOW)
    looks.send([known, unknown, none], now=NOW)
    assert [parse_look(body) for body in received(client, orders)] == [known]
    assert [parse_look(body) for body in received(client, default)] == [unknown, none]


@pytest.mark.parametrize(
    ("ahead", "delay"),
    [
        (-3600, 0),
        (0, 0),
        (0.2, 1),  # a look that came before it is due would find nothing to do
        (20, 20),
        (899.001, 900),
        (900, 900),
    ],
)
def test_a_look_is_delayed_until_it_is_due_and_never_arrives_before(client: Any, ahead: float, delay: int) -> None:
    url = queue(client, "looks")
    with sent(client) as send:
        SqsLooks(client, {}, url).send([Look(KEY, NOW + ahead * SECOND)], now=NOW)
    assert [entry["DelaySeconds"] for entry in send.call_args.kwargs["Entries"]] == [delay]


def test_a_look_beyond_sqs_longest_delay_is_left_to_the_sweeper(client: Any) -> None:
    with sent(client) as send:
        SqsLooks(client, {}, queue(client, "looks")).send([Look(KEY, NOW + 901 * SECOND)], now=NOW)
    send.assert_not_called()


def test_looks_go_in_batches_of_ten(client: Any) -> None:
    url = queue(client, "looks")
    looks = [Look(InstanceKey("1", "r", f"i-{number:017x}"), NOW) for number in range(25)]
    with sent(client) as send:
        SqsLooks(client, {}, url).send(looks, now=NOW)
    assert [len(call.kwargs["Entries"]) for call in send.call_args_list] == [10, 10, 5]


def test_a_batch_of_which_a_part_was_not_taken_is_unavailable_and_says_why(client: Any) -> None:
    answer = {
        "Successful": [{"Id": "0", "MessageId": "m", "MD5OfMessageBody": "x"}],
        "Failed": [{"Id": "1", "Code": "InternalError", "Message": "try later", "SenderFault": False}],
    }
    looks = [Look(KEY, NOW), Look(KEY, NOW, "orders")]
    with (
        mock.patch.object(client, "send_message_batch", return_value=answer),
        pytest.raises(Unavailable, match="sending 2 looks to queue looks: 1 were not taken: InternalError: try later"),
    ):
        SqsLooks(client, {}, "https://sqs/111122223333/looks").send(looks, now=NOW)


@pytest.mark.parametrize(
    ("code", "expected"),
    [("RequestThrottled", Throttled), ("AccessDenied", Denied), ("KmsAccessDenied", Denied), ("Other", Unavailable)],
)
def test_errors_of_sending_are_ours(client: Any, code: str, expected: type[Exception]) -> None:
    error = ClientError({"Error": {"Code": code, "Message": "no"}}, "SendMessageBatch")
    with mock.patch.object(client, "send_message_batch", side_effect=error), pytest.raises(expected) as caught:
        SqsLooks(client, {}, "https://sqs/111122223333/looks").send([Look(KEY, NOW)], now=NOW)
    assert type(caught.value) is expected
    if expected is Denied:
        assert str(caught.value).endswith("the caller needs sqs:SendMessage on queue looks")


@pytest.mark.parametrize("body", ["", "{}", "abcd", '{"key":1,"due_at":"x"}', "[]"])
def test_a_message_that_is_no_look_is_refused(body: str) -> None:
    with pytest.raises(InvalidDocument, match="message is no look"):
        parse_look(body)


# Wake-ups


def test_a_wakeup_names_its_alerts(client: Any) -> None:
    url = queue(client, "alerts")
    SqsWakeups(client, url).wake(["a", "b#c"])
    (body,) = received(client, url)
    assert parse_wakeup(body) == Wakeup(("a", "b#c"))


def test_a_wakeup_may_be_for_one_destination(client: Any) -> None:
    url = queue(client, "alerts")
    SqsWakeups(client, url, destination="slack/a").wake([])
    (body,) = received(client, url)
    assert parse_wakeup(body) == Wakeup((), "slack/a")


def test_a_wakeup_waits_as_long_as_asked_and_names_no_more_than_fits(client: Any) -> None:
    with mock.patch.object(client, "send_message") as send:
        SqsWakeups(client, "https://sqs/1/alerts").wake(["x"] * 5000, delay=30.5 * SECOND)
        SqsWakeups(client, "https://sqs/1/alerts").wake([], delay=3600 * SECOND)
    assert [call.kwargs["DelaySeconds"] for call in send.call_args_list] == [31, 900]
    assert len(json.loads(send.call_args_list[0].kwargs["MessageBody"])["alerts"]) == 100


@pytest.mark.parametrize(
    "body", ["", "{}", "[]", "1", '{"alerts":"a"}', '{"alerts":[1]}', '{"alerts":[],"destination":1}', "[" * 100_000]
)
def test_a_message_that_is_no_wakeup_is_refused(body: str) -> None:
    with pytest.raises(InvalidDocument, match="no wake-up"):
        parse_wakeup(body)


# Karpenter's queues

NAMES = QueueNames("orders", "orders-dlq", "orders-undelivered")


def depths(client: Any, names: QueueNames = NAMES) -> QueueView:
    return SqsQueues(client, {"orders": names}).depths("orders")


def test_the_depths_of_all_three_queues_are_read_without_receiving(client: Any) -> None:
    urls = {name: queue(client, name) for name in ("orders", "orders-dlq", "orders-undelivered")}
    for name, count in (("orders", 3), ("orders-dlq", 2), ("orders-undelivered", 1)):
        for _ in range(count):
            client.send_message(QueueUrl=urls[name], MessageBody="x")
    client.receive_message(QueueUrl=urls["orders"], MaxNumberOfMessages=1, VisibilityTimeout=60)
    with mock.patch.object(client, "receive_message") as receive:
        view = depths(client)
    assert view == QueueView(Answer.OK, visible=2, in_flight=1, dead_letters=2, undelivered=1, retention=345_600)
    receive.assert_not_called()


def test_a_missing_queue_is_not_found_and_named(client: Any) -> None:
    view = depths(client)
    assert view.answer is Answer.NOT_FOUND
    assert view.reason.startswith("Karpenter's queue orders does not exist: ")
    assert (view.visible, view.dead_letters) == (None, None)


def test_a_missing_dead_letter_queue_is_unknown_not_empty_and_the_rest_stands(client: Any) -> None:
    for name in ("orders", "orders-undelivered"):
        queue(client, name)
    view = depths(client)
    assert (view.answer, view.visible, view.dead_letters, view.undelivered) == (Answer.OK, 0, None, 0)
    assert "orders-dlq does not exist" in view.reason


def test_queues_that_are_not_configured_are_not_asked_for(client: Any) -> None:
    queue(client, "orders")
    assert depths(client, QueueNames("orders")) == QueueView(Answer.OK, visible=0, in_flight=0, retention=345_600)
    assert SqsQueues(client, {}).depths("orders").answer is Answer.SKIPPED


def test_a_refused_queue_names_the_permission(client: Any) -> None:
    queue(client, "orders")
    error = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetQueueAttributes")
    with (
        mock.patch.object(client, "get_queue_attributes", side_effect=error),
        pytest.raises(Denied, match=r"reading queue orders: .* needs sqs:GetQueueAttributes on queue orders"),
    ):
        depths(client)


def test_a_queue_url_is_looked_up_once(client: Any) -> None:
    queue(client, "orders")
    queues = SqsQueues(client, {"orders": QueueNames("orders")})
    with mock.patch.object(client, "get_queue_url", wraps=client.get_queue_url) as look_up:
        queues.depths("orders")
        queues.depths("orders")
    assert look_up.call_count == 1
