"""The sandbox's certificate is good enough for the strictest of its clients."""

import os
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from holdfast_cli.sandbox import certificates
from holdfast_cli.sandbox.certificates import Certificates

NOW = datetime.now(UTC)  # TLS libraries compare with the real clock
NODE = "require('tls').connect(+process.argv[1], process.argv[2]).once('secureConnect', () => process.exit(0))"


@contextmanager
def served(paths: Certificates) -> Iterator[int]:
    """The port of a server that shakes hands with one client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths.certificate, paths.key)

    def shake(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        try:
            with context.wrap_socket(connection, server_side=True) as secured:
                secured.recv(1)
        except OSError:
            connection.close()  # the client refused us

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=shake, args=[listener])
        thread.start()
        yield listener.getsockname()[1]
        thread.join(timeout=10)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_strict_python_client_accepts_the_certificate(tmp_path: Path, host: str) -> None:
    paths = certificates.ensure(tmp_path, NOW)
    context = ssl.create_default_context(cafile=paths.ca)
    context.verify_flags |= ssl.VERIFY_X509_STRICT

    with (
        served(paths) as port,
        socket.create_connection(("127.0.0.1", port)) as connection,
        context.wrap_socket(connection, server_hostname=host) as secured,
    ):
        assert secured.version() == "TLSv1.3"


def test_client_refuses_another_host_name(tmp_path: Path) -> None:
    paths = certificates.ensure(tmp_path, NOW)
    context = ssl.create_default_context(cafile=paths.ca)

    with (
        served(paths) as port,
        socket.create_connection(("127.0.0.1", port)) as connection,
        pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"),
    ):
        context.wrap_socket(connection, server_hostname="example.com")


def test_node_accepts_the_certificate(tmp_path: Path) -> None:
    paths = certificates.ensure(tmp_path, NOW)

    with served(paths) as port:
        done = subprocess.run(
            ["node", "-e", NODE, str(port), "localhost"],
            env={"PATH": os.environ["PATH"], "NODE_EXTRA_CA_CERTS": str(paths.ca)},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert done.returncode == 0, done.stderr


def test_certificates_are_reused_while_valid(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path, NOW).certificate.read_bytes()

    assert certificates.ensure(tmp_path, NOW + timedelta(days=87)).certificate.read_bytes() == first


def test_certificates_are_made_anew_before_they_expire(tmp_path: Path) -> None:
    first = certificates.ensure(tmp_path, NOW).ca.read_bytes()

    assert certificates.ensure(tmp_path, NOW + timedelta(days=89)).ca.read_bytes() != first


def test_private_key_is_for_its_owner_only(tmp_path: Path) -> None:
    assert certificates.ensure(tmp_path, NOW).key.stat().st_mode & 0o077 == 0
