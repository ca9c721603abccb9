"""The safety net of the tests works."""

import os
import socket

import pytest
from pytest_socket import SocketBlockedError


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_a_unit_test_cannot_open_a_socket() -> None:
    with pytest.raises(SocketBlockedError):
        socket.socket()


def test_no_test_sees_the_credentials_of_the_person_who_runs_it() -> None:
    assert os.environ["AWS_ACCESS_KEY_ID"] == "testing"
    assert "AWS_PROFILE" not in os.environ
