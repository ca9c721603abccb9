"""The tests that start servers reach those, and nothing else."""

import socket

import pytest
from pytest_socket import SocketConnectBlockedError


def test_loopback_is_reachable() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
    ):
        assert client.getpeername() == server.getsockname()


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_another_address_is_not() -> None:
    with pytest.raises(SocketConnectBlockedError):
        socket.create_connection(("192.0.2.1", 443), timeout=1)
