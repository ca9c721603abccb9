"""What the sandbox's EC2 answers: what the player decided, in the fields that EC2 has for it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast_cli.sandbox.control import Ec2Control, Ec2Instance
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState

from .conftest import Deployer

pytestmark = pytest.mark.sandbox

SPOT = Ec2Instance(
    id="i-0a11111111111111a",
    type="m7i.xlarge",
    zone="ap-southeast-1b",
    launched=datetime(2026, 3, 1, 2, 0, tzinfo=UTC),
    spot_request="sir-abcd1234",
    private_ip="10.0.1.7",
    tags={"karpenter.sh/nodepool": "general", "eks:eks-cluster-name": "prod"},
)


@pytest.fixture
def ec2(sandbox: SandboxState) -> Ec2Control:
    return Ec2Control(sandbox)


def described(deployer: Deployer, instance_id: str) -> list[dict[str, Any]]:
    """Every instance with that id, asked as the product asks: an unknown id gives none and no error."""
    answer = deployer.client("ec2").describe_instances(Filters=[{"Name": "instance-id", "Values": [instance_id]}])
    return [instance for reservation in answer["Reservations"] for instance in reservation["Instances"]]


def test_running_spot_instance_is_described_as_it_was_put(ec2: Ec2Control, deployer: Deployer) -> None:
    ec2.put_instance(SPOT)

    (found,) = described(deployer, SPOT.id)

    assert found["InstanceType"] == "m7i.xlarge"
    assert found["Placement"]["AvailabilityZone"] == "ap-southeast-1b"
    assert found["LaunchTime"] == SPOT.launched
    assert (found["InstanceLifecycle"], found["SpotInstanceRequestId"]) == ("spot", "sir-abcd1234")
    assert found["State"] == {"Code": 16, "Name": "running"}
    assert found["PrivateDnsName"] == "ip-10-0-1-7.ap-southeast-1.compute.internal"
    assert {tag["Key"]: tag["Value"] for tag in found["Tags"]} == SPOT.tags


def test_on_demand_instance_has_no_lifecycle(ec2: Ec2Control, deployer: Deployer) -> None:
    ec2.put_instance(Ec2Instance("i-0d11111111111111a", "m7i.large", "ap-southeast-1a", SPOT.launched))

    (found,) = described(deployer, "i-0d11111111111111a")

    assert "InstanceLifecycle" not in found
    assert "SpotInstanceRequestId" not in found


def test_state_and_its_reasons_are_described_as_they_were_set(ec2: Ec2Control, deployer: Deployer) -> None:
    ec2.put_instance(SPOT)

    ec2.set_state(
        SPOT.id,
        "terminated",
        reason_code="Server.SpotInstanceTermination",
        reason_message="Server.SpotInstanceTermination: Spot instance termination",
        transition="Server.SpotInstanceTermination (2026-03-01 04:12:00 GMT)",
    )

    (found,) = described(deployer, SPOT.id)
    assert found["State"] == {"Code": 48, "Name": "terminated"}
    assert found["StateReason"] == {
        "Code": "Server.SpotInstanceTermination",
        "Message": "Server.SpotInstanceTermination: Spot instance termination",
    }
    assert found["StateTransitionReason"] == "Server.SpotInstanceTermination (2026-03-01 04:12:00 GMT)"


def test_spot_request_tells_its_status_and_when_it_changed(ec2: Ec2Control, deployer: Deployer) -> None:
    ec2.put_instance(SPOT)
    at = datetime(2026, 3, 1, 4, 12, tzinfo=UTC)

    ec2.set_spot_request(SPOT.id, "closed", "instance-terminated-by-price", updated=at)

    (request,) = deployer.client("ec2").describe_spot_instance_requests(SpotInstanceRequestIds=["sir-abcd1234"])[
        "SpotInstanceRequests"
    ]
    assert (request["State"], request["InstanceId"]) == ("closed", SPOT.id)
    assert request["Status"] == {"Code": "instance-terminated-by-price", "Message": "", "UpdateTime": at}


def test_forgotten_instance_is_described_as_none(ec2: Ec2Control, deployer: Deployer) -> None:
    ec2.put_instance(SPOT)

    ec2.forget(SPOT.id)

    assert described(deployer, SPOT.id) == []


def test_instance_put_twice_is_there_once(ec2: Ec2Control, deployer: Deployer) -> None:
    ec2.put_instance(SPOT)
    ec2.put_instance(SPOT)

    assert len(described(deployer, SPOT.id)) == 1


def test_unknown_instance_and_unknown_state_are_refused(ec2: Ec2Control) -> None:
    ec2.put_instance(SPOT)

    with pytest.raises(SandboxError, match="no instance i-0bad"):
        ec2.set_state("i-0bad", "running")
    with pytest.raises(SandboxError, match="'asleep' is none of pending, running"):
        ec2.set_state(SPOT.id, "asleep")
