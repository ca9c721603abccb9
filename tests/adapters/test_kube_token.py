"""EKS bearer tokens, judged by the sandbox's authenticator."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import pytest

from holdfast_cli.sandbox import certificates
from holdfast_cli.sandbox.kube.identity import UserInfo
from holdfast_cli.sandbox.kube_api import KubeApi, webhook
from holdfast_cli.sandbox.kube_token import AccessEntry, Credential, EksTokens, principal_of
from holdfast_cli.sandbox.loopback import LoopbackServer, Request, Response
from tests.eks_tokens import CLUSTER, KEY, SECRET, SESSION_TOKEN, presigned, token

ROLE = "arn:aws:iam::111122223333:role/holdfast-judge"
SESSION = "arn:aws:sts::111122223333:assumed-role/holdfast-judge/judge@1"

ISSUED = Credential(SECRET, SESSION, SESSION_TOKEN)


def changed(url: str, **parameters: str) -> str:
    """The URL with parameters replaced after it was signed."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query)) | {name.replace("_", "-"): value for name, value in parameters.items()}
    return urlunsplit(parts._replace(query=urlencode(query)))


def authenticator(
    *,
    later: timedelta = timedelta(0),
    entries: dict[str, AccessEntry] | None = None,
    credential: Credential = ISSUED,
) -> Callable[[str], UserInfo | None]:
    known = {ROLE: AccessEntry("holdfast", ("holdfast:auditors",))} if entries is None else entries
    return EksTokens(
        CLUSTER,
        credential_of={KEY: credential}.get,
        entry_of=known.get,
        now=lambda: datetime.now(UTC) + later,
    )


def test_a_role_session_becomes_the_user_of_its_access_entry():
    user = authenticator()(token(presigned()))

    assert user is not None
    assert (user.username, user.groups) == ("holdfast", ("holdfast:auditors",))
    assert user.extra["arn"] == (SESSION,)
    assert user.extra["canonicalArn"] == (ROLE,)


def test_the_session_name_is_filled_into_the_username_of_the_entry():
    """EKS's default username; `@` is no character of a Kubernetes user there."""
    entry = AccessEntry("arn:aws:sts::{{AccountID}}:assumed-role/holdfast-judge/{{SessionName}}")

    user = authenticator(entries={ROLE: entry})(token(presigned()))

    assert user is not None
    assert user.username == "arn:aws:sts::111122223333:assumed-role/holdfast-judge/judge-1"


def test_a_key_without_session_token_is_a_user():
    arn = "arn:aws:iam::111122223333:user/operator"
    check = authenticator(credential=Credential(SECRET, arn), entries={arn: AccessEntry("operator")})

    user = check(token(presigned(session_token=None)))

    assert user is not None
    assert user.username == "operator"


def test_china_has_a_host_name_of_its_own():
    assert authenticator()(token(presigned(region="cn-north-1"))) is not None
    assert authenticator()(token(presigned(region="cn-north-1", host="sts.cn-north-1.amazonaws.com"))) is None


@pytest.mark.parametrize(
    "later",
    [timedelta(minutes=14, seconds=50), -timedelta(minutes=4, seconds=50)],
    ids=["almost 15 minutes old", "from a clock almost 5 minutes ahead"],
)
def test_fifteen_minutes_count_and_not_x_amz_expires(later):
    """aws-iam-authenticator: a token lives 15 minutes from X-Amz-Date, whatever X-Amz-Expires says."""
    assert authenticator(later=later)(token(presigned(expires=60))) is not None


@pytest.mark.parametrize(
    "later",
    [timedelta(minutes=15, seconds=2), -timedelta(minutes=5, seconds=2)],
    ids=["stale", "from the future"],
)
def test_a_token_out_of_its_time_is_refused(later):
    assert authenticator(later=later)(token(presigned())) is None


REFUSED = {
    "another secret": lambda: token(presigned(secret="forged")),
    "a changed signature": lambda: token(changed(presigned(), X_Amz_Signature="0" * 64)),
    "no signature": lambda: token(changed(presigned(), X_Amz_Signature="")),
    "a longer life after signing": lambda: token(changed(presigned(), X_Amz_Expires="900")),
    "a later date after signing": lambda: token(
        changed(presigned(), X_Amz_Date=f"{datetime.now(UTC) + timedelta(minutes=2):%Y%m%dT%H%M%SZ}")
    ),
    "another cluster": lambda: token(presigned(cluster="other")),
    "no cluster header": lambda: token(presigned(cluster=None)),
    "an unknown key": lambda: token(presigned(key="ASIAEXAMPLEUNKNOWN00")),
    "another session token": lambda: token(presigned(session_token="other")),
    "no session token": lambda: token(presigned(session_token=None)),
    "a foreign host": lambda: token(presigned(host="sts.ap-southeast-1.amazonaws.com.evil.example")),
    "the sandbox's endpoint": lambda: token(presigned(host="localhost:4566")),
    "another service": lambda: token(presigned(host="iam.ap-southeast-1.amazonaws.com")),
    "another region's host": lambda: token(presigned(host="sts.us-east-1.amazonaws.com")),
    "plain http": lambda: token(presigned().replace("https:", "http:")),
    "another action": lambda: token(presigned(action="GetSessionToken")),
    "expiry over 900 s": lambda: token(presigned(expires=901)),
    "expiry of 0 s": lambda: token(presigned(expires=0)),
    "a parameter too many": lambda: token(presigned() + "&X-Extra=1"),
    "a doubled parameter": lambda: token(presigned() + "&Action=GetCallerIdentity"),
    "a query that is none": lambda: token("https://sts.ap-southeast-1.amazonaws.com/?Action"),
    "no query": lambda: token("https://sts.ap-southeast-1.amazonaws.com/"),
    "no prefix": lambda: token(presigned()).removeprefix("k8s-aws-v1."),
    "no base64": lambda: "k8s-aws-v1.!!!",
    "no ASCII": lambda: "k8s-aws-v1." + base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    "a broken host": lambda: token("https://[sts/"),
    "nothing": lambda: "k8s-aws-v1.",
    "too large": lambda: token(presigned() + "&X-Extra=" + "x" * 4096),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED.keys())
def test_what_a_real_authenticator_refuses_is_refused(make):
    assert authenticator()(make()) is None


def test_a_principal_without_access_entry_is_refused():
    assert authenticator(entries={})(token(presigned())) is None


@pytest.mark.parametrize(
    ("arn", "principal"),
    [
        (SESSION, (ROLE, "judge@1")),
        ("arn:aws-cn:sts::1:assumed-role/r/s", ("arn:aws-cn:iam::1:role/r", "s")),
        ("arn:aws:iam::1:user/u", ("arn:aws:iam::1:user/u", "")),
    ],
)
def test_the_principal_of_a_session_is_its_role(arn, principal):
    assert principal_of(arn) == principal


def test_a_webhook_judges_only_tokens_of_good_form(tmp_path):
    """As kube-apiserver asks the authenticator of EKS: a TokenReview (authentication.k8s.io/v1) and its status."""
    tls = certificates.ensure(tmp_path, datetime.now(UTC))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tls.certificate, tls.key)
    good, forged = token(presigned()), token(presigned(secret="forged"))
    asked: list[str] = []

    def review(request: Request) -> Response:
        body = json.loads(request.body)
        asked.append(body["spec"]["token"])
        status = {"authenticated": asked[-1] == good}
        if status["authenticated"]:
            status["user"] = {"username": "holdfast", "groups": ["holdfast:auditors", "system:authenticated"]}
        return Response(200, json.dumps({**body, "status": status}).encode())

    with LoopbackServer(review, tls=context) as server:
        authenticate = webhook(f"{server.url}/review", tls.ca)

        assert authenticate(good) == UserInfo("holdfast", ("holdfast:auditors", "system:authenticated"))
        assert authenticate(forged) is None
        assert authenticate(token(presigned(expires=901))) is None

    assert asked == [good, forged]


def test_the_api_takes_a_good_token_and_answers_a_forged_one_with_401():
    with KubeApi(authenticate=authenticator()) as kube:
        context = ssl.create_default_context(cadata=kube.ca_pem)

        def version(bearer: str) -> int:
            headers = {"Authorization": f"Bearer {bearer}"}
            request = urllib.request.Request(f"{kube.url}/version", headers=headers)
            with urllib.request.urlopen(request, context=context, timeout=10) as response:
                return int(json.load(response)["major"])

        assert version(token(presigned())) == 1
        with pytest.raises(urllib.error.HTTPError) as refused:
            version(token(presigned(secret="forged")))
        with refused.value as answer:
            assert (answer.code, json.load(answer)["reason"]) == (401, "Unauthorized")
        assert [(c.user, c.code) for c in kube.control.calls()] == [("holdfast", 200), ("", 401)]
