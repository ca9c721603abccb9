"""Publishing to a topic: each answer of SNS is an outcome that says what to do."""

from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, ParamValidationError
from moto import mock_aws

from holdfast.adapters.sns import SnsMessenger
from holdfast.alerts.mail import mail_payload
from holdfast.ports import DeliveryStatus
from tests.adapters import samples
from tests.builders import alert

TOPIC = "arn:aws:sns:ap-southeast-1:111122223333:alerts"


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        yield samples.client("sns")


def answering(code: str, status: int = 400, headers: dict[str, str] | None = None) -> SnsMessenger:
    error = ClientError(
        {
            "Error": {"Code": code, "Message": "because"},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "HTTPHeaders": headers or {},
                "RequestId": "r",
                "RetryAttempts": 0,
                "HostId": "",
            },
        },
        "Publish",
    )
    return SnsMessenger(mock.Mock(publish=mock.Mock(side_effect=error)), TOPIC)


def test_an_alert_is_published_whole(client: Any) -> None:
    queue = samples.client("sqs").create_queue(QueueName="inbox")["QueueUrl"]
    topic = client.create_topic(Name="alerts")["TopicArn"]
    arn = samples.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"][
        "QueueArn"
    ]
    client.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"})
    outcome = SnsMessenger(client, topic).post(mail_payload(alert("one")))
    (message,) = samples.client("sqs").receive_message(QueueUrl=queue, MessageAttributeNames=["All"])["Messages"]

    assert outcome.status is DeliveryStatus.DELIVERED
    assert message["Body"].startswith("WARNING: title of one\n")
    assert message["MessageAttributes"]["severity"]["StringValue"] == "warning"


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("Throttled", DeliveryStatus.RETRY),
        ("KMSThrottling", DeliveryStatus.RETRY),
        ("InternalError", DeliveryStatus.RETRY),
        ("InvalidParameter", DeliveryStatus.REFUSED),
        ("ParameterValueInvalid", DeliveryStatus.REFUSED),
        ("AuthorizationError", DeliveryStatus.REVOKED),
        ("NotFound", DeliveryStatus.REVOKED),
        ("KMSAccessDenied", DeliveryStatus.REVOKED),
        ("KMSDisabled", DeliveryStatus.REVOKED),
    ],
)
def test_what_sns_answers_says_whether_to_wait_to_reword_or_to_call_somebody(code: str, status: DeliveryStatus) -> None:
    outcome = answering(code).post({"Message": "x"})

    assert outcome.status is status
    assert f"publishing to topic {TOPIC}: {code}: because" in outcome.reason


def test_a_denial_names_the_permission() -> None:
    assert f"sns:Publish on topic {TOPIC}" in answering("AuthorizationError").post({}).reason
    assert "kms:GenerateDataKey" in answering("KMSAccessDenied").post({}).reason


def test_the_time_that_sns_asks_for_is_handed_on() -> None:
    assert answering("Throttled", headers={"retry-after": "7"}).post({}).retry_after == 7


def test_no_answer_is_tried_again() -> None:
    error = EndpointConnectionError(endpoint_url="https://sns")
    outcome = SnsMessenger(mock.Mock(publish=mock.Mock(side_effect=error)), TOPIC).post({"Message": "x"})

    assert outcome.status is DeliveryStatus.RETRY


def test_parameters_that_botocore_refuses_are_a_defect(client: Any) -> None:
    with pytest.raises(ParamValidationError):
        SnsMessenger(client, TOPIC).post({"Nonsense": 1})
