"""The one place where an error of an AWS call becomes one of ours.

A message is a gerund phrase with the object, what AWS said, and the way out where there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, ParamValidationError

from holdfast.errors import Conflict, Denied, HoldfastError, NotFound, Throttled, Unavailable

THROTTLED = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "KMS.ThrottlingException",
        "KMSThrottling",
        "KmsThrottled",
        "LimitExceededException",
        "OverLimit",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceeded",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "Throttled",
        "ThrottledException",
        "Throttling",
        "ThrottlingError",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
"""Error codes that ask for fewer calls: those botocore backs off on, and the reasons a transaction gives."""

_NO_PERMISSION = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "AWS.SimpleQueueService.AccessDenied",
        "AuthorizationError",
        "KMS.AccessDeniedException",
        "KmsAccessDenied",
        "UnauthorizedAccess",
        "UnauthorizedOperation",
    }
)
_BAD_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_ABSENT = frozenset(
    {
        "AWS.SimpleQueueService.NonExistentQueue",
        "NotFound",
        "QueueDoesNotExist",
        "ResourceNotFound",
        "ResourceNotFoundException",
        "TableNotFoundException",
    }
)


@contextmanager
def translated(doing: str, *, action: str, on: str) -> Iterator[None]:
    """Runs AWS calls and raises what goes wrong as an error of ours.

    `doing` is the gerund phrase ("writing the fact …"), `action` the IAM action it needs and `on` the resource.
    Parameters that botocore itself refuses are a defect of ours and leave as they are.

    Raises:
        Throttled: AWS asked for fewer calls, after botocore's own retries.
        Denied: a permission is missing (the message names it), or the credentials were refused.
        NotFound: the resource does not exist.
        Conflict: the condition of a write did not hold.
        Unavailable: no answer, or any other failure.
    """
    try:
        yield
    except ClientError as error:
        raise translate(error, doing, action=action, on=on) from error
    except ParamValidationError:
        raise
    except NoCredentialsError as error:
        raise Denied(f"{doing}: there are no AWS credentials") from error
    except BotoCoreError as error:
        raise Unavailable(f"{doing}: {error}") from error


def translate(error: ClientError, doing: str, *, action: str, on: str) -> HoldfastError:
    """The error of ours that says the same as AWS's answer."""
    code = error_code(error)
    answer = f"{doing}: {code}: {error.response.get('Error', {}).get('Message', 'no message')}"
    metadata: Any = error.response.get("ResponseMetadata", {})
    status = metadata.get("HTTPStatusCode", 0)
    if code == "ConditionalCheckFailedException":
        return Conflict(answer)
    if code in THROTTLED or status == 429:
        return Throttled(answer, retry_after=_seconds(metadata.get("HTTPHeaders", {}).get("retry-after")))
    if code in _NO_PERMISSION:
        return Denied(f"{answer}; the caller needs {action} on {on}")
    if code in _BAD_CREDENTIALS:
        return Denied(f"{answer}; AWS refused the credentials, not the permission")
    if code in _ABSENT:
        return NotFound(f"{answer}; {on} does not exist")
    return Unavailable(answer)


def error_code(error: ClientError) -> str:
    """AWS's error code, such as `ConditionalCheckFailedException`."""
    return str(error.response.get("Error", {}).get("Code", "Unknown"))


def _seconds(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        # Retry-After may also be a date; AWS's services do not send that, and the caller has a default.
        return None
