"""How a function reaches a cluster's Kubernetes API: endpoint and CA from EKS, and a bearer token of its own role.

The token is a presigned STS GetCallerIdentity request, as aws-iam-authenticator defines it: EKS sends it to STS and
takes the answer's role for the caller. Signing needs no call and no permission.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.loaders import create_loader
from botocore.regions import EndpointResolver

from holdfast.adapters.actions import calls
from holdfast.adapters.aws_errors import translated
from holdfast.errors import Denied, NotFound, Unavailable

if TYPE_CHECKING:
    import boto3
    from types_boto3_eks import EKSClient

TOKEN_LIFETIME: Final = 600.0
"""Seconds a token is used for. EKS takes it for 15 minutes after it was signed."""

_EXPIRES: Final = 60
"""X-Amz-Expires. EKS counts 15 minutes from X-Amz-Date whatever it says; 60 is what AWS's own clients send."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Where a cluster's API is, the CA (PEM) that signed its certificate, and the token to show."""

    endpoint: str
    ca_pem: str
    token: str

    def __repr__(self) -> str:
        """Without the token: whoever has it is this function's role for 15 minutes."""
        return f"Connection(endpoint={self.endpoint!r})"


class EksAccess:
    """Connections to the clusters of one account and region, kept for the life of the container."""

    def __init__(
        self, client: EKSClient, session: boto3.Session, region: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`session` has the credentials that sign tokens; `clock` counts seconds."""
        self._client = client
        self._session = session
        self._region = region
        self._clock = clock
        self._clusters: dict[str, tuple[str, str]] = {}
        self._tokens: dict[str, tuple[float, str]] = {}
        self._host = _sts_host(region)

    @calls("eks:DescribeCluster")
    def connection(self, cluster: str) -> Connection:
        """How to reach the cluster.

        Raises:
            NotFound: EKS knows no such cluster here.
            Denied: the role may not describe it, or there are no credentials.
            Unavailable: EKS did not answer, or the cluster has no endpoint yet.
        """
        if cluster not in self._clusters:
            self._clusters[cluster] = self._describe(cluster)
        endpoint, ca_pem = self._clusters[cluster]
        return Connection(endpoint, ca_pem, self._token(cluster))

    def forget(self, cluster: str) -> None:
        """Keeps nothing of the cluster: for one that refused the token, could not be reached, or was made anew."""
        self._clusters.pop(cluster, None)
        self._tokens.pop(cluster, None)

    def _describe(self, cluster: str) -> tuple[str, str]:
        doing = f"describing EKS cluster {cluster}"
        with translated(doing, action="eks:DescribeCluster", on=f"cluster {cluster}"):
            found = self._client.describe_cluster(name=cluster)["cluster"]
        endpoint = found.get("endpoint")
        encoded = found.get("certificateAuthority", {}).get("data")
        if not endpoint or not encoded:
            raise Unavailable(f"{doing}: it is {found.get('status', 'in an unknown state')} and has no endpoint yet")
        try:
            return endpoint, base64.b64decode(encoded, validate=True).decode("ascii")
        except (binascii.Error, UnicodeDecodeError) as error:
            raise Unavailable(f"{doing}: its certificate authority is not base64 text") from error

    def _token(self, cluster: str) -> str:
        signed_at, token = self._tokens.get(cluster, (0.0, ""))
        if not token or self._clock() - signed_at > TOKEN_LIFETIME:
            token = self._sign(cluster)
            self._tokens[cluster] = (self._clock(), token)
        return token

    def _sign(self, cluster: str) -> str:
        doing = f"signing a token for cluster {cluster}"
        with translated(doing, action="sts:GetCallerIdentity", on="*"):
            credentials = self._session.get_credentials()
            if credentials is None:
                raise Denied(f"{doing}: there are no AWS credentials")
            request = AWSRequest(
                method="GET",
                url=f"https://{self._host}/",
                params={"Action": "GetCallerIdentity", "Version": "2011-06-15"},
                headers={"x-k8s-aws-id": cluster},
            )
            SigV4QueryAuth(credentials.get_frozen_credentials(), "sts", self._region, expires=_EXPIRES).add_auth(
                request
            )
        return "k8s-aws-v1." + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")


def _sts_host(region: str) -> str:
    """The region's own STS host in its partition.

    EKS takes tokens for the real host only, so an endpoint set in the environment must not get in here, as it would
    through an STS client.
    """
    resolver = EndpointResolver(create_loader().load_data("endpoints"))
    endpoint = resolver.construct_endpoint("sts", region)
    if endpoint is None:
        raise NotFound(f"botocore knows no STS endpoint in region {region}")
    return str(endpoint["hostname"])
