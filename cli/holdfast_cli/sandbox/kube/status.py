"""The bodies by which a kube-apiserver refuses, word for word; observed on 1.36.3 unless said otherwise."""

import json
from collections.abc import Mapping
from typing import Any

from holdfast_cli.sandbox.loopback import Response


class Refused(Exception):
    """Ends the handling of a request with this answer."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.body.decode())
        self.response = response


def body(
    code: int,
    message: str,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A `Status` of failure; keys without a value are left out, as the real one does."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": dict(metadata or {}),
        "status": "Failure",
        "message": message,
    }
    if reason is not None:
        status["reason"] = reason
    if details is not None:
        status["details"] = dict(details)
    return status | {"code": code}


def refuse(
    code: int,
    message: str,
    reason: str | None = None,
    details: Mapping[str, Any] | None = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Refused:
    content = json.dumps(body(code, message, reason, details, metadata)).encode()
    return Refused(Response(code, content, headers=headers or {}))


def unauthorized() -> Refused:
    return refuse(401, "Unauthorized", "Unauthorized")


def bad_request(message: str) -> Refused:
    return refuse(400, message, "BadRequest")


def not_found(qualified: str, details: Mapping[str, str]) -> Refused:
    return refuse(404, f'{qualified} "{details["name"]}" not found', "NotFound", details)


def page_not_found() -> Refused:
    """An unknown group or resource: not JSON. This is how "Karpenter is not installed" looks."""
    return Refused(Response(404, b"404 page not found\n", "text/plain; charset=utf-8"))


def too_many_requests(retry_after: int | None) -> Refused:
    """What a server says whose cache of a large custom resource is not filled yet."""
    seconds = {} if retry_after is None else {"retryAfterSeconds": retry_after}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return refuse(429, "storage is (re)initializing", "TooManyRequests", seconds, headers=headers)


def internal_error(cause: str) -> Refused:
    """From source (apimachinery's NewInternalError)."""
    message = f"Internal error occurred: {cause}"
    return refuse(500, message, "InternalError", {"causes": [{"message": cause}]})


def unavailable() -> Refused:
    """From source (apimachinery's NewServiceUnavailable)."""
    return refuse(503, "the server is currently unable to handle the request", "ServiceUnavailable")


def expired(continue_token: str) -> Refused:
    message = (
        "The provided continue parameter is too old to display a consistent list result. You can start a new "
        "list without the continue parameter, or use the continue token in this response to retrieve the "
        "remainder of the results. Continuing with the provided token results in an inconsistent list - "
        "objects that were created, modified, or deleted between the time the first chunk was returned and "
        "now may show up in the list."
    )
    return refuse(410, message, "Expired", metadata={"continue": continue_token})


def too_large_resource_version(wanted: int, current: int) -> Refused:
    return refuse(
        504,
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        "Timeout",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def unsupported(what: str) -> Refused:
    """Ours: a call that a real server answers and this stand-in does not."""
    return refuse(501, f"the sandbox's Kubernetes API does not support: {what}", "NotImplemented")
