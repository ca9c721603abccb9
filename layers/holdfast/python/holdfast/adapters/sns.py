"""A topic that alerts are published to. Whatever SNS answers is an outcome; the caller decides what becomes of the alert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from botocore.exceptions import ClientError

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import error_code, translated
from holdfast.errors import Denied, NotFound, Unavailable
from holdfast.ports import Delivery, DeliveryStatus

_REFUSED: Final = frozenset({"InvalidParameter", "InvalidParameterValue", "ParameterValueInvalid"})
"""SNS will not take this message; another one it may (SNS API, Publish, errors)."""

_KEY_UNUSABLE: Final = frozenset(
    {"KMSAccessDenied", "KMSDisabled", "KMSInvalidState", "KMSNotFound", "KMSOptInRequired"}
)
"""The topic's key cannot be used: nothing is published until somebody mends that."""


class SnsClient(Protocol):
    """What of SNS's client is used."""

    def publish(self, *, TopicArn: str, **message: Any) -> Mapping[str, Any]:  # noqa: N803 - SNS's own name
        """Publishes one message."""


class SnsMessenger:
    """The `Messenger` port on an SNS topic."""

    def __init__(self, client: SnsClient, topic_arn: str) -> None:
        """`client` is of the topic's region."""
        self._client = client
        self._topic_arn = topic_arn

    @calls("sns:Publish")
    def post(self, payload: Mapping[str, Any]) -> Delivery:
        """Publishes one message: `payload` is what SNS's Publish takes beside the topic.

        A topic that is gone, closed to us, or whose key is, takes nothing until somebody mends it: REVOKED.
        """
        on = f"topic {self._topic_arn}"
        doing = f"publishing to {on}"
        try:
            with translated(doing, action="sns:Publish", on=on):
                try:
                    self._client.publish(TopicArn=self._topic_arn, **payload)
                except ClientError as error:
                    code = error_code(error)
                    if code not in _REFUSED | _KEY_UNUSABLE:
                        raise
                    said = f"{doing}: {code}: {error.response['Error'].get('Message', 'no message')}"
                    if code in _REFUSED:
                        return Delivery(DeliveryStatus.REFUSED, said)
                    way_out = (
                        "the caller needs kms:GenerateDataKey and kms:Decrypt on the topic's key, and a key that works"
                    )
                    return Delivery(DeliveryStatus.REVOKED, f"{said}; {way_out}")
        except (Denied, NotFound) as error:
            return Delivery(DeliveryStatus.REVOKED, str(error))
        except Unavailable as error:
            return Delivery(DeliveryStatus.RETRY, str(error), error.retry_after)
        return Delivery(DeliveryStatus.DELIVERED)
