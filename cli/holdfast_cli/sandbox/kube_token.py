"""EKS bearer tokens: what the authenticator of an EKS cluster checks, the SigV4 signature included.

A token is `k8s-aws-v1.` and the base64url of a presigned STS GetCallerIdentity URL. The rules are those of
aws-iam-authenticator (pkg/token/token.go); it has STS check the signature, here it is computed anew.
"""

import base64
import hashlib
import hmac
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import SplitResult, parse_qsl, quote, urlsplit

from holdfast_cli.sandbox.kube.identity import UserInfo

_log = logging.getLogger(__name__)

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
MAX_AGE = timedelta(minutes=15)  # whatever X-Amz-Expires says
MAX_SKEW = timedelta(minutes=5)
_MAX_EXPIRES = 900
_MAX_TOKEN_BYTES = 4096
_HOST = re.compile(r"sts\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?P<china>\.cn)?")
_PARAMETERS = frozenset(
    {
        "Action",
        "Version",
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-Security-Token",
        "X-Amz-Signature",
        "X-Amz-SignedHeaders",
    }
)
_SIGNED_HEADERS = frozenset({"host", CLUSTER_HEADER})
_EMPTY_BODY_SHA256 = hashlib.sha256(b"").hexdigest()


class TokenError(ValueError):
    """Why a token is refused; for the log, the caller only ever sees 401."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What AWS knows of an access key; `arn` is what GetCallerIdentity answers."""

    secret_key: str
    arn: str
    session_token: str | None = None


@dataclass(frozen=True, slots=True)
class AccessEntry:
    """What an access entry makes of a principal. `username` may hold {{SessionName}} and {{AccountID}}."""

    username: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PresignedCall:
    """The GetCallerIdentity call inside a token, its form checked, its signature not."""

    host: str
    region: str
    access_key_id: str
    signed_at: datetime
    parameters: Mapping[str, str]


def parse(token: str, now: datetime) -> PresignedCall:
    """The call in a token that is well formed and in time. TokenError with the reason otherwise."""
    if len(token) > _MAX_TOKEN_BYTES:
        raise TokenError("the token is too large")
    if not token.startswith(PREFIX):
        raise TokenError(f"the token does not begin with {PREFIX}")
    url, pairs = _split(_decode(token.removeprefix(PREFIX)))
    host = _HOST.fullmatch(url.netloc)
    if url.scheme != "https" or url.path not in {"", "/"} or url.fragment or host is None:
        raise TokenError(f"not the URL of a regional STS endpoint: {url.scheme}://{url.netloc}{url.path}")
    if host["region"].startswith("cn-") != bool(host["china"]):
        raise TokenError(f"{url.netloc} is not in the partition of its region")
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or not parameters.keys() <= _PARAMETERS:
        raise TokenError(f"a parameter is doubled or does not belong there: {[name for name, _ in pairs]}")
    if parameters.get("Action") != "GetCallerIdentity":
        raise TokenError("the action is not GetCallerIdentity")
    if parameters.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256":
        raise TokenError("the algorithm is not AWS4-HMAC-SHA256")
    if set(parameters.get("X-Amz-SignedHeaders", "").split(";")) != _SIGNED_HEADERS:
        raise TokenError(f"the signed headers are not host and {CLUSTER_HEADER}")
    expires = parameters.get("X-Amz-Expires", "")
    if not expires.isdecimal() or not 1 <= int(expires) <= _MAX_EXPIRES:
        raise TokenError(f"X-Amz-Expires is {expires!r}, not 1 to {_MAX_EXPIRES}")
    signed_at = _signed_at(parameters.get("X-Amz-Date", ""), now)
    access_key_id, *scope = parameters.get("X-Amz-Credential", "").split("/")
    if scope != [f"{signed_at:%Y%m%d}", host["region"], "sts", "aws4_request"]:
        raise TokenError(f"the credential scope {scope} does not fit host and date")
    return PresignedCall(url.netloc, host["region"], access_key_id, signed_at, parameters)


def verify_signature(call: PresignedCall, cluster: str, credential: Credential) -> None:
    """TokenError unless the call was signed with this credential for this cluster."""
    if call.parameters.get("X-Amz-Security-Token") != credential.session_token:
        raise TokenError("the session token is not the one of the access key")
    query = "&".join(
        sorted(
            f"{quote(name, safe='-_.~')}={quote(value, safe='-_.~')}"
            for name, value in call.parameters.items()
            if name != "X-Amz-Signature"
        )
    )
    request = "\n".join(
        (
            "GET",
            "/",
            query,
            f"host:{call.host}",
            f"{CLUSTER_HEADER}:{cluster}",
            "",
            f"host;{CLUSTER_HEADER}",
            _EMPTY_BODY_SHA256,
        )
    )
    date, scope = f"{call.signed_at:%Y%m%d}", f"{call.signed_at:%Y%m%d}/{call.region}/sts/aws4_request"
    to_sign = "\n".join(
        (
            "AWS4-HMAC-SHA256",
            f"{call.signed_at:%Y%m%dT%H%M%SZ}",
            scope,
            hashlib.sha256(request.encode()).hexdigest(),
        )
    )
    key = f"AWS4{credential.secret_key}".encode()
    for part in (date, call.region, "sts", "aws4_request", to_sign):
        key = hmac.digest(key, part.encode(), "sha256")
    if not hmac.compare_digest(key.hex(), call.parameters.get("X-Amz-Signature", "")):
        raise TokenError("the signature does not fit: another secret, another cluster, or a changed URL")


@dataclass(frozen=True, slots=True)
class EksTokens:
    """The authenticator of an EKS cluster: call it with a token.

    `credential_of` knows the access keys AWS issued, `entry_of` the cluster's access entries by principal ARN
    (the role's, for a session of an assumed role; a path of the role is not part of a session's ARN).
    """

    cluster: str
    credential_of: Callable[[str], Credential | None]
    entry_of: Callable[[str], AccessEntry | None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def __call__(self, token: str) -> UserInfo | None:
        """The user of a good token, else None; the reason goes to the log, never the token."""
        try:
            return self._user(token)
        except TokenError as error:
            _log.info("token refused: %s", error)
            return None

    def _user(self, token: str) -> UserInfo:
        call = parse(token, self.now())
        credential = self.credential_of(call.access_key_id)
        if credential is None:
            raise TokenError(f"access key {call.access_key_id} is unknown")
        verify_signature(call, self.cluster, credential)
        principal, session = principal_of(credential.arn)
        entry = self.entry_of(principal)
        if entry is None:
            raise TokenError(f"{principal} has no access entry in cluster {self.cluster}")
        account = credential.arn.split(":")[4]
        username = entry.username.replace("{{SessionName}}", session.replace("@", "-"))
        return UserInfo(
            username.replace("{{AccountID}}", account),
            entry.groups,
            uid=f"aws-iam-authenticator:{account}:{principal}",
            extra={"arn": (credential.arn,), "canonicalArn": (principal,), "sessionName": (session,)},
        )


def principal_of(arn: str) -> tuple[str, str]:
    """IAM principal and session name of an ARN that GetCallerIdentity answers; a user has no session."""
    head, _, tail = arn.partition(":assumed-role/")
    if not tail:
        return arn, ""
    role, _, session = tail.partition("/")
    return f"{head.replace(':sts:', ':iam:')}:role/{role}", session


def _decode(text: str) -> str:
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        return raw.decode("ascii")
    except ValueError as error:  # binascii.Error and UnicodeDecodeError are ValueErrors
        raise TokenError(f"not base64url of a URL: {error}") from None


def _split(text: str) -> tuple[SplitResult, list[tuple[str, str]]]:
    try:
        url = urlsplit(text)
        return url, parse_qsl(url.query, keep_blank_values=True, strict_parsing=True)
    except ValueError as error:
        raise TokenError(f"not a URL with a query: {error}") from None


def _signed_at(text: str, now: datetime) -> datetime:
    try:
        signed_at = datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise TokenError(f"X-Amz-Date {text!r} is not a time like 20260301T100000Z") from None
    if now - signed_at > MAX_AGE:
        raise TokenError(f"signed at {text}, more than 15 minutes ago")
    if signed_at - now > MAX_SKEW:
        raise TokenError(f"signed at {text}, more than 5 minutes in the future")
    return signed_at
