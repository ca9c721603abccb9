"""The sandbox's Kubernetes API: a server for tests in this process, or a process of its own.

`python -m holdfast_cli.sandbox.kube_api --config FILE` serves until SIGTERM; FILE is a `Config` as JSON.
"""

import argparse
import logging
import signal
import ssl
import tempfile
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict

from holdfast_cli.sandbox import certificates
from holdfast_cli.sandbox.certificates import Certificates
from holdfast_cli.sandbox.control import token_review
from holdfast_cli.sandbox.kube.api import Api
from holdfast_cli.sandbox.kube.calls import CallLog
from holdfast_cli.sandbox.kube.control import LocalControl, methods
from holdfast_cli.sandbox.kube.identity import Authenticator, UserInfo
from holdfast_cli.sandbox.kube_token import TokenError, parse
from holdfast_cli.sandbox.loopback import LoopbackServer
from holdfast_cli.sandbox.remote import endpoint, write_ready

_log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


def _nobody(_token: str) -> UserInfo | None:
    return None


class KubeApi:
    """A Kubernetes API over TLS on 127.0.0.1 with an empty cluster; a context manager.

    `authenticate` maps bearer tokens to users; tokens of `control.issue_token` are taken beside it.
    Without `served_with`, a throwaway authority signs its certificate.
    `request_log` gets every call as a line of JSON.
    """

    def __init__(
        self,
        *,
        authenticate: Authenticator = _nobody,
        served_with: Certificates | None = None,
        port: int = 0,
        now: Callable[[], datetime] = utc_now,
        request_log: Path | None = None,
    ) -> None:
        """Binds the port (0: a free one). OSError if it is taken."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if served_with is None:
            # The files are read at once; clients get the authority from `ca_pem`.
            with tempfile.TemporaryDirectory(prefix="holdfast-kube-") as folder:
                made = certificates.ensure(Path(folder), utc_now())
                context.load_cert_chain(made.certificate, made.key)
                self.ca_pem = made.ca.read_text("ascii")
        else:
            context.load_cert_chain(served_with.certificate, served_with.key)
            self.ca_pem = served_with.ca.read_text("ascii")
        stopping = threading.Event()
        api = Api(authenticate=authenticate, now=now, log=CallLog(request_log), stopping=stopping)
        self._stopping = stopping
        self._server = LoopbackServer(api.respond, port=port, tls=context)
        self.control = LocalControl(api, self._server)

    @property
    def url(self) -> str:
        return self._server.url

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._server.close()


class Config(BaseModel):
    """How the process runs. Ports 0 are chosen free and written to `ready_file` once it serves.

    `token_review_url` is the TokenReview webhook that judges EKS tokens (`ca` signed its certificate);
    without one only tokens of `issue_token` are taken.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    port: int = 0
    control_port: int = 0
    control_token: str
    certificate: Path
    key: Path
    ca: Path
    token_review_url: str | None = None
    ready_file: Path
    request_log: Path | None = None


def webhook(url: str, ca: Path) -> Authenticator:
    """Has each token whose form is good judged by a TokenReview webhook, as a real API server does."""

    def authenticate(token: str) -> UserInfo | None:
        try:
            parse(token, utc_now())
        except TokenError as error:
            _log.info("token refused: %s", error)
            return None
        identity = token_review(url, ca, token)
        if identity is None:
            _log.info("token refused by the TokenReview webhook")
            return None
        return UserInfo(identity.username, identity.groups)

    return authenticate


def serve(config: Config, stop: threading.Event) -> None:
    """Serves until `stop` is set."""
    kube = KubeApi(
        authenticate=webhook(config.token_review_url, config.ca) if config.token_review_url else _nobody,
        served_with=Certificates(config.ca, config.certificate, config.key),
        port=config.port,
        request_log=config.request_log,
    )
    answers = endpoint(methods(kube.control), config.control_token)
    with kube, LoopbackServer(answers, port=config.control_port) as control:
        write_ready(config.ready_file, {"url": kube.url, "control_url": control.url})
        stop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    serve(Config.model_validate_json(parser.parse_args().config.read_bytes()), stop)


if __name__ == "__main__":
    main()
