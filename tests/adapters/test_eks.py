"""The way to a cluster: endpoint and CA from EKS, and a token that EKS's authenticator takes."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlsplit

import boto3
import pytest
from botocore.exceptions import ClientError

from holdfast.adapters.eks import EksAccess
from holdfast.errors import Denied, NotFound, Throttled, Unavailable
from holdfast_cli.sandbox.kube_token import AccessEntry, Credential, EksTokens
from tests.eks_tokens import CLUSTER, KEY, REGION, SECRET, SESSION_TOKEN

ROLE = "arn:aws:iam::111122223333:role/holdfast-judge"
CREDENTIAL = Credential(SECRET, "arn:aws:sts::111122223333:assumed-role/holdfast-judge/one", SESSION_TOKEN)
ENDPOINT = "https://0123.gr7.ap-southeast-1.eks.amazonaws.com"
PEM = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n"


def eks(**cluster: Any) -> Any:
    """An EKS client that answers DescribeCluster."""
    told = {
        "name": CLUSTER,
        "status": "ACTIVE",
        "endpoint": ENDPOINT,
        "certificateAuthority": {"data": base64.b64encode(PEM.encode()).decode()},
        **cluster,
    }
    return mock.Mock(describe_cluster=mock.Mock(return_value={"cluster": told}))


def session(region: str = REGION, token: str | None = SESSION_TOKEN) -> boto3.Session:
    return boto3.Session(KEY, SECRET, token, region)


def authenticator(cluster: str = CLUSTER, *, later: timedelta = timedelta(0)) -> Callable[[str], Any]:
    return EksTokens(
        cluster,
        credential_of={KEY: CREDENTIAL}.get,
        entry_of={ROLE: AccessEntry("holdfast", ("holdfast:audit",))}.get,
        now=lambda: datetime.now(UTC) + later,
    )


def url_in(token: str) -> str:
    encoded = token.removeprefix("k8s-aws-v1.")
    return base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


def test_endpoint_and_ca_are_as_eks_says() -> None:
    connection = EksAccess(eks(), session(), REGION).connection(CLUSTER)
    assert (connection.endpoint, connection.ca_pem) == (ENDPOINT, PEM)


def test_the_authenticator_takes_the_token_for_this_cluster_and_no_other() -> None:
    token = EksAccess(eks(), session(), REGION).connection(CLUSTER).token
    user = authenticator()(token)
    assert user is not None
    assert user.groups == ("holdfast:audit",)
    assert authenticator("another")(token) is None
    assert "=" not in token


def test_a_token_is_used_ten_minutes_and_the_authenticator_takes_it_to_its_last_second() -> None:
    now = [1000.0]
    access = EksAccess(eks(), session(), REGION, clock=lambda: now[0])
    first = access.connection(CLUSTER).token
    now[0] += 600
    assert access.connection(CLUSTER).token is first
    assert authenticator(later=timedelta(seconds=600))(first) is not None
    now[0] += 1
    with mock.patch("botocore.auth.get_current_datetime", return_value=datetime.now(UTC) + timedelta(seconds=601)):
        second = access.connection(CLUSTER).token
    assert second != first
    assert authenticator(later=timedelta(seconds=601))(second) is not None


@pytest.mark.parametrize(
    ("region", "host"),
    [
        ("ap-southeast-1", "sts.ap-southeast-1.amazonaws.com"),
        ("us-east-1", "sts.us-east-1.amazonaws.com"),
        ("cn-north-1", "sts.cn-north-1.amazonaws.com.cn"),
        ("us-gov-west-1", "sts.us-gov-west-1.amazonaws.com"),
    ],
)
def test_a_token_is_for_the_regions_own_sts_in_every_partition(region: str, host: str) -> None:
    token = EksAccess(eks(), session(region), region).connection(CLUSTER).token
    parts = urlsplit(url_in(token))
    query = dict(parse_qsl(parts.query))
    assert (parts.scheme, parts.netloc) == ("https", host)
    assert query["X-Amz-Credential"].split("/")[2:] == [region, "sts", "aws4_request"]
    assert query["X-Amz-Security-Token"] == SESSION_TOKEN


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_STS"])
def test_an_endpoint_set_in_the_environment_stays_out_of_the_token(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "https://localhost:4566")
    token = EksAccess(eks(), session(), REGION).connection(CLUSTER).token
    assert urlsplit(url_in(token)).netloc == "sts.ap-southeast-1.amazonaws.com"


def test_eks_is_asked_once_and_again_after_forgetting() -> None:
    client = eks()
    access = EksAccess(client, session(), REGION)
    first = access.connection(CLUSTER)
    access.connection(CLUSTER)
    assert client.describe_cluster.call_count == 1
    access.forget(CLUSTER)
    with mock.patch("botocore.auth.get_current_datetime", return_value=datetime.now(UTC) + timedelta(seconds=5)):
        assert access.connection(CLUSTER).token != first.token
    assert client.describe_cluster.call_count == 2


def test_the_token_does_not_show_in_the_connections_repr() -> None:
    connection = EksAccess(eks(), session(), REGION).connection(CLUSTER)
    assert connection.token not in f"{connection!r} {connection}"


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"status": "CREATING", "endpoint": None}, "it is CREATING and has no endpoint yet"),
        ({"status": "CREATING", "certificateAuthority": {}}, "it is CREATING and has no endpoint yet"),
        ({"certificateAuthority": {"data": "%%%"}}, "is not base64 text"),
    ],
)
def test_a_cluster_that_cannot_be_reached_yet_is_unavailable(cluster: dict[str, Any], said: str) -> None:
    with pytest.raises(Unavailable, match=said):
        EksAccess(eks(**cluster), session(), REGION).connection(CLUSTER)


@pytest.mark.parametrize(
    ("code", "expected", "said"),
    [
        ("AccessDeniedException", Denied, "needs eks:DescribeCluster on cluster eksworkshop"),
        ("ResourceNotFoundException", NotFound, "describing EKS cluster eksworkshop"),
        ("ThrottlingException", Throttled, "describing EKS cluster eksworkshop"),
        ("ServerException", Unavailable, "describing EKS cluster eksworkshop"),
    ],
)
def test_errors_of_eks_are_ours(code: str, expected: type[Exception], said: str) -> None:
    client = eks()
    client.describe_cluster.side_effect = ClientError({"Error": {"Code": code, "Message": "no"}}, "DescribeCluster")
    with pytest.raises(expected, match=said) as caught:
        EksAccess(client, session(), REGION).connection(CLUSTER)
    assert type(caught.value) is expected


def test_without_credentials_there_is_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    access = EksAccess(eks(), boto3.Session(region_name=REGION), REGION)
    with pytest.raises(Denied, match="no AWS credentials"):
        access.connection(CLUSTER)


def test_a_region_nobody_knows_is_named() -> None:
    with pytest.raises(NotFound, match="xx-nowhere-1"):
        EksAccess(eks(), session(), "xx-nowhere-1")
