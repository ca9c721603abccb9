"""EKS bearer tokens as clients make them, by botocore's own signer."""

import base64

from botocore.credentials import Credentials
from botocore.hooks import HierarchicalEmitter
from botocore.model import ServiceId
from botocore.signers import RequestSigner

CLUSTER = "eksworkshop"
REGION = "ap-southeast-1"
KEY = "ASIAEXAMPLEHOLDFAST1"
SECRET, SESSION_TOKEN = "secret+/of=the/key", "session/token+with=signs"


def presigned(
    *,
    key: str = KEY,
    secret: str = SECRET,
    session_token: str | None = SESSION_TOKEN,
    cluster: str | None = CLUSTER,
    region: str = REGION,
    host: str | None = None,
    expires: int = 60,
    action: str = "GetCallerIdentity",
) -> str:
    """The presigned URL inside a token, as the product and `aws eks get-token` make it."""
    events = HierarchicalEmitter()  # the signer keeps a weak reference to it only
    credentials = Credentials(key, secret, session_token)
    signer = RequestSigner(ServiceId("STS"), region, "sts", "v4", credentials, events)
    host = host or f"sts.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
    request = {
        "method": "GET",
        "url": f"https://{host}/?Action={action}&Version=2011-06-15",
        "body": {},
        "headers": {} if cluster is None else {"x-k8s-aws-id": cluster},
        "context": {},
    }
    return str(signer.generate_presigned_url(request, "GetCallerIdentity", region_name=region, expires_in=expires))


def token(url: str) -> str:
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
