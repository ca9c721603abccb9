"""What EC2 answers about instances, in the shapes it is known to answer in."""

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest
from botocore.exceptions import ConnectTimeoutError
from botocore.stub import Stubber
from moto import mock_aws

from holdfast.adapters.ec2 import Ec2Instances
from holdfast.errors import Denied, Throttled, Unavailable
from holdfast.interruption.observation import Answer, InstanceView
from tests.adapters import samples

A, B, C = "i-0a11111111111111a", "i-0b22222222222222b", "i-0c33333333333333c"
LAUNCHED = datetime(2026, 9, 1, 1, 2, 3, tzinfo=UTC)
KARPENTERS_TAGS = {
    "eks:eks-cluster-name": "orders",
    "kubernetes.io/cluster/orders": "owned",
    "karpenter.sh/nodepool": "orders-spot",
    "karpenter.sh/nodeclaim": "orders-spot-x7k2p",
}


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        yield samples.client("ec2")


def instance(instance_id: str = A, *, tags: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    labels = KARPENTERS_TAGS if tags is None else tags
    return {
        "InstanceId": instance_id,
        "State": {"Code": 16, "Name": "running"},
        "Tags": [{"Key": key, "Value": value} for key, value in labels.items()],
        **fields,
    }


ENDED = {
    "State": {"Code": 48, "Name": "terminated"},
    "StateReason": {"Code": "Server.SpotInstanceTermination", "Message": "Spot instance termination"},
    "StateTransitionReason": "Server.SpotInstanceTermination (2026-09-01 04:12:05 GMT)",
    "InstanceLifecycle": "spot",
    "SpotInstanceRequestId": "sir-abc",
}


def answers(client: Any, *pages: list[list[dict[str, Any]]]) -> Stubber:
    """EC2 answers DescribeInstances with these pages of reservations of instances."""
    stubber = Stubber(client)
    for number, reservations in enumerate(pages, start=1):
        page: dict[str, Any] = {"Reservations": [{"Instances": instances} for instances in reservations]}
        if number < len(pages):
            page["NextToken"] = f"page-{number + 1}"
        stubber.add_response("describe_instances", page)
    return stubber


def test_everything_a_view_needs_is_read(client: Any) -> None:
    told = instance(
        A,
        **{**ENDED, "State": {"Code": 32, "Name": "shutting-down"}},
        LaunchTime=LAUNCHED,
        InstanceType="c6i.2xlarge",
        Placement={"AvailabilityZone": "ap-southeast-1a"},
    )
    status = {"SpotInstanceRequests": [{"SpotInstanceRequestId": "sir-abc", "Status": {"Code": "no-capacity"}}]}
    with answers(client, [[told]]) as stubber:
        stubber.add_response("describe_spot_instance_requests", status)
        views = Ec2Instances(client).describe([A])
    assert views == {
        A: InstanceView(
            Answer.OK,
            state="shutting-down",
            state_reason="Server.SpotInstanceTermination",
            transitioned_at=datetime(2026, 9, 1, 4, 12, 5, tzinfo=UTC),
            launched_at=LAUNCHED,
            instance_type="c6i.2xlarge",
            zone="ap-southeast-1a",
            capacity_type="spot",
            spot_status="no-capacity",
            cluster="orders",
            nodepool="orders-spot",
            nodeclaim="orders-spot-x7k2p",
        )
    }


@pytest.mark.report(
    "github-aws-runners/terraform-aws-github-runner/lambdas/functions/termination-watcher/src/termination-warning.ts"
)
def test_every_reservation_of_every_page_is_read(client: Any) -> None:
    """A tool that read `Reservations[0]` alone lost most of a mass interruption."""
    with answers(client, [[instance(A)], [instance(B)]], [[instance(C)]]):
        assert set(Ec2Instances(client).describe([A, B, C])) == {A, B, C}


def test_no_ids_need_no_call(client: Any) -> None:
    with answers(client):
        assert Ec2Instances(client).describe([]) == {}


def test_two_hundred_ids_go_into_one_filter_each_once(client: Any) -> None:
    ids = [f"i-{number:017x}" for number in range(401)]
    asked: list[list[str]] = []
    client.meta.events.register(
        "provide-client-params.ec2.DescribeInstances",
        lambda params, **_: asked.append(params["Filters"][0]["Values"]),
    )
    Ec2Instances(client).describe([*ids, *ids])
    assert [len(values) for values in asked] == [200, 200, 1]
    assert [value for values in asked for value in values] == ids


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User initiated (2026-09-01 04:11:01 GMT)", datetime(2026, 9, 1, 4, 11, 1, tzinfo=UTC)),
        ("User initiated (2026-09-01 04:11:01 UTC)", datetime(2026, 9, 1, 4, 11, 1, tzinfo=UTC)),
        ("Server.SpotInstanceTermination", None),
        ("User initiated (yesterday)", None),
        ("", None),
    ],
)
def test_the_time_of_a_transition_is_read_where_ec2_writes_one(
    client: Any, text: str, expected: datetime | None
) -> None:
    with answers(client, [[instance(A, StateTransitionReason=text)]]):
        assert Ec2Instances(client).describe([A])[A].transitioned_at == expected


@pytest.mark.parametrize(
    ("lifecycle", "expected"),
    [
        ({}, "on-demand"),
        ({"InstanceLifecycle": "spot"}, "spot"),
        ({"InstanceLifecycle": "capacity-block"}, "reserved"),
        ({"InstanceLifecycle": "interruptible-capacity-reservation"}, "reserved"),
    ],
)
def test_the_capacity_type_has_karpenters_name(client: Any, lifecycle: dict[str, str], expected: str) -> None:
    with answers(client, [[instance(A, **lifecycle)]]):
        assert Ec2Instances(client).describe([A])[A].capacity_type == expected


@pytest.mark.parametrize(
    ("tags", "cluster"),
    [
        (KARPENTERS_TAGS, "orders"),
        ({"kubernetes.io/cluster/shop": "owned"}, "shop"),
        ({"kubernetes.io/cluster/shop": "shared"}, None),
        ({"kubernetes.io/cluster/shop": "owned", "kubernetes.io/cluster/orders": "owned"}, None),
        ({"eks:eks-cluster-name": "orders", "kubernetes.io/cluster/shop": "owned"}, "orders"),
        ({}, None),
    ],
)
def test_the_cluster_is_what_the_tags_say_and_none_when_they_disagree(
    client: Any, tags: dict[str, str], cluster: str | None
) -> None:
    with answers(client, [[instance(A, tags=tags)]]):
        assert Ec2Instances(client).describe([A])[A].cluster == cluster


def test_spot_requests_are_asked_for_once_and_only_for_spot_instances_that_ended(client: Any) -> None:
    asked: list[Any] = []
    client.meta.events.register(
        "provide-client-params.ec2.DescribeSpotInstanceRequests", lambda params, **_: asked.append(params["Filters"])
    )
    running = {"InstanceLifecycle": "spot", "SpotInstanceRequestId": "sir-running"}
    with answers(client, [[instance(A, **ENDED), instance(B, **running), instance(C)]]) as stubber:
        stubber.add_response("describe_spot_instance_requests", {"SpotInstanceRequests": []})
        views = Ec2Instances(client).describe([A, B, C])
    assert asked == [[{"Name": "spot-instance-request-id", "Values": ["sir-abc"]}]]
    assert views[A].spot_status is None


def test_a_refused_spot_request_leaves_the_view_and_says_what_is_missing(client: Any) -> None:
    with answers(client, [[instance(A, **ENDED)]]) as stubber:
        stubber.add_client_error("describe_spot_instance_requests", "UnauthorizedOperation", "no", 403)
        view = Ec2Instances(client).describe([A])[A]
    assert (view.answer, view.state_reason, view.spot_status) == (Answer.OK, "Server.SpotInstanceTermination", None)
    assert view.reason.startswith("Spot status not known: describing 1 Spot requests: UnauthorizedOperation")
    assert view.reason.endswith("needs ec2:DescribeSpotInstanceRequests on *")


@pytest.mark.report(
    "github-aws-runners/terraform-aws-github-runner/lambdas/functions/termination-watcher/src/termination-warning.ts"
)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("UnauthorizedOperation", Denied),
        ("AuthFailure", Denied),
        ("RequestLimitExceeded", Throttled),
        ("InternalError", Unavailable),
    ],
)
def test_errors_are_ours_and_never_an_empty_answer(client: Any, code: str, expected: type[Exception]) -> None:
    with Stubber(client) as stubber:
        stubber.add_client_error("describe_instances", code, "no")
        with pytest.raises(expected, match=f"describing 1 instances: {code}") as caught:
            Ec2Instances(client).describe([A])
    assert type(caught.value) is expected


def test_an_error_on_the_second_page_is_not_half_an_answer(client: Any) -> None:
    stubber = Stubber(client)
    stubber.add_response("describe_instances", {"Reservations": [{"Instances": [instance(A)]}], "NextToken": "2"})
    stubber.add_client_error("describe_instances", "RequestLimitExceeded")
    with stubber, pytest.raises(Throttled):
        Ec2Instances(client).describe([A, B])


def test_no_answer_is_unavailable(client: Any) -> None:
    error = ConnectTimeoutError(endpoint_url="https://ec2")
    with mock.patch.object(client, "_make_api_call", side_effect=error), pytest.raises(Unavailable, match="ec2"):
        Ec2Instances(client).describe([A])


def test_a_spot_instance_is_described_as_it_is_run_and_an_unknown_id_is_absent(client: Any) -> None:
    """Against an emulated EC2, so that the filters' names are known to be right."""
    specification = {"ImageId": "ami-0123456789abcdef0", "InstanceType": "c5.large"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)  # moto's remark on AMIs it does not know
        request = client.request_spot_instances(InstanceCount=1, LaunchSpecification=specification)
    known = request["SpotInstanceRequests"][0]["InstanceId"]
    tags = [{"Key": key, "Value": value} for key, value in KARPENTERS_TAGS.items()]
    client.create_tags(Resources=[known], Tags=tags)
    client.terminate_instances(InstanceIds=[known])
    views = Ec2Instances(client).describe([known, "i-0123456789abcdef0"])
    assert set(views) == {known}
    view = views[known]
    assert (view.answer, view.state, view.nodepool, view.cluster) == (Answer.OK, "terminated", "orders-spot", "orders")
    assert (view.reason, view.capacity_type) == ("", "spot")
