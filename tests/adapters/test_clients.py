"""The clients of a container: one of each, and none that waits longer than a function may run."""

import pytest
from moto import mock_aws

from holdfast.adapters import clients

MAKERS = [clients.dynamodb, clients.sqs, clients.ec2, clients.eks, clients.secretsmanager]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_a_client_is_made_once_for_its_region_and_gives_up_in_time(make) -> None:
    with mock_aws():
        client = make("eu-central-1")
    assert make("eu-central-1") is client
    assert client.meta.region_name == "eu-central-1"
    config = client.meta.config
    assert (config.connect_timeout, config.read_timeout) == (2, 5)
    assert config.retries == {"mode": "standard", "total_max_attempts": 3}
    assert "holdfast" in config.user_agent_extra
