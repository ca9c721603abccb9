"""A small threaded HTTP server on 127.0.0.1, the plumbing below every stand-in of the sandbox."""

import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

HOST = "127.0.0.1"
MAX_BODY_BYTES = 3 * 1024 * 1024  # what a kube-apiserver takes in one request
_IDLE_SECONDS = 120.0  # a kept-alive connection nobody uses is closed after this


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """One HTTP answer."""

    status: int
    body: bytes = b""
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


type Respond = Callable[[Request], Response | None]


class LoopbackServer:
    """Serves `respond` on a port of 127.0.0.1: a thread a connection, keep-alive, TLS if a context is given.

    `respond` runs in the connection's thread and may block; None closes the connection without an answer.
    `close` ends all connections and waits for their threads: a `respond` that waits must watch `stopping`.
    """

    def __init__(self, respond: Respond, *, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        """Binds at once; connections queue until `start`. OSError if the port is taken."""
        self._respond = respond
        self._tls = tls
        self.stopping = threading.Event()
        self._server: _Server | None = _Server(port, respond, tls)
        self._thread: threading.Thread | None = None
        self.port: int = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{HOST}:{self.port}"

    def start(self) -> Self:
        """Begins to answer; after `pause`, on the same port as before."""
        if self._server is None:
            self._server = _Server(self.port, self._respond, self._tls)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def pause(self) -> None:
        """Closes the port and all connections: clients get "connection refused" until `start`."""
        if self._server is None:
            return
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.end_connections()
        self._server.server_close()
        self._server = None

    def close(self) -> None:
        self.stopping.set()
        self.pause()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True  # server_close joins the connections' threads
    request_queue_size = 128

    def __init__(self, port: int, respond: Respond, tls: ssl.SSLContext | None) -> None:
        self.respond = respond
        self._tls = tls
        self._connections: set[socket.socket] = set()
        self._connections_lock = threading.Lock()
        super().__init__((HOST, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer.server_bind looks the host's name up, which takes seconds where the resolver is slow.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        connection, address = super().get_request()
        if self._tls is not None:
            # The handshake belongs to the connection's thread: a client that stalls must not stop accept().
            connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        with self._connections_lock:
            self._connections.add(connection)
        return connection, address

    def close_request(self, request: Any) -> None:
        with self._connections_lock:
            self._connections.discard(request)
        super().close_request(request)

    def end_connections(self) -> None:
        with self._connections_lock:
            connections = list(self._connections)
        for connection in connections:
            try:
                # Not SSLSocket.shutdown: it drops the TLS state that the connection's thread is reading from.
                socket.socket.shutdown(connection, socket.SHUT_RDWR)
            except OSError:
                continue  # ended by itself meanwhile

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 (the base class's signature)
        error = sys.exception()
        if isinstance(error, ConnectionError | TimeoutError | ssl.SSLError | OSError):
            return  # a client that went away or refused our certificate is its own business
        traceback.print_exception(error)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "holdfast-sandbox"
    sys_version = ""
    timeout = _IDLE_SECONDS
    disable_nagle_algorithm = True
    wbufsize = 64 * 1024  # head and body leave in one packet
    server: _Server

    def setup(self) -> None:
        super().setup()
        if isinstance(self.connection, ssl.SSLSocket):
            self.connection.do_handshake()

    def handle_method(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self._send(Response(413, b"send at most 3 MiB with a Content-Length\n", "text/plain; charset=utf-8"))
            return
        request = Request(self.command, self.path, headers, self.rfile.read(int(length)))
        response = self.server.respond(request)
        if response is None:
            self.close_connection = True
            return
        self._send(response)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_method  # noqa: N815

    def _send(self, response: Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(response.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's signature)
        """Nothing: each stand-in keeps a log of its own."""
