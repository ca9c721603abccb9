"""Remote control of a stand-in in a process of its own: calls over loopback HTTP with a bearer token."""

import hmac
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from holdfast_cli.sandbox.control import post
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.loopback import Request, Response

type Method = Callable[[Mapping[str, Any]], Any]


def endpoint(methods: Mapping[str, Method], token: str) -> Callable[[Request], Response]:
    """Answers `POST /<method>` with a JSON object of arguments by `{"result": <the method's JSON result>}`.

    401 without the token, 404 for an unknown method, 400 with the reason for what cannot be done.
    """

    def respond(request: Request) -> Response:
        if not hmac.compare_digest(request.headers.get("authorization", ""), f"Bearer {token}"):
            return _answer(401, {"error": "the control token is missing or wrong"})
        method = methods.get(request.target.removeprefix("/"))
        if request.method != "POST" or method is None:
            return _answer(404, {"error": f"there is no such call; there are: {', '.join(sorted(methods))}"})
        try:
            return _answer(200, {"result": method(json.loads(request.body))})
        except SandboxError as error:
            return _answer(400, {"error": str(error)})
        except (KeyError, TypeError, ValueError) as error:
            return _answer(400, {"error": f"bad arguments: {error!r}"})

    return respond


def call(url: str, token: str, method: str, /, **arguments: Any) -> Any:
    """The JSON result of one call.

    Raises:
        SandboxError: it was refused, or nobody answers.
    """
    return post(f"{url}/{method}", arguments, token=token)["result"]


def write_ready(file: Path, facts: Mapping[str, Any]) -> None:
    """Says in one step that this process serves, and where: a reader never sees half a file."""
    staged = file.with_name(f"{file.name}.new")
    staged.write_text(json.dumps({**facts, "pid": os.getpid()}) + "\n", "utf-8")
    staged.replace(file)


def _answer(status: int, body: Mapping[str, Any]) -> Response:
    return Response(status, json.dumps(body).encode())
