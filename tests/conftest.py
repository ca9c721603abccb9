"""What holds for every test: no network beyond loopback, no credentials of the person who runs it."""

import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
# The layers whose tests talk to servers that the tests themselves started. All others get no socket at all.
LOOPBACK_LAYERS = {"adapters", "sandbox", "cluster"}
LOOPBACK = ["127.0.0.1", "::1", "localhost"]

# Whatever could lead a test to a real account or a real cluster.
SCRUBBED_PREFIXES = ("AWS_", "CDK_", "KUBE", "HOLDFAST_", "POWERTOOLS_", "SLACK_")
SAFE = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_SESSION_TOKEN": "testing",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_REGION": "eu-central-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "KUBECONFIG": os.devnull,
    # pip may need the proxy of the person's network; what the tests start on loopback never does.
    "NO_PROXY": ",".join(LOOPBACK),
    "no_proxy": ",".join(LOOPBACK),
}

# The CDK's runtime warns of Node 20 on its way out, below the line that says how the tests went.
os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "20")

settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("here", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test the network of its layer (pytest-socket reads the marks)."""
    for item in items:
        layer = item.path.relative_to(TESTS).parts[0]
        allowed = layer in LOOPBACK_LAYERS
        item.add_marker(pytest.mark.allow_hosts(LOOPBACK) if allowed else pytest.mark.disable_socket())


@pytest.fixture(scope="session", autouse=True)
def scrubbed_environment() -> Iterator[None]:
    """Dummy credentials for the whole session, so that fixtures of any scope see nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(SCRUBBED_PREFIXES)}
    with mock.patch.dict(os.environ, kept | SAFE, clear=True):
        yield


@pytest.fixture(autouse=True)
def restored_environment(scrubbed_environment: None) -> Iterator[None]:
    """What a test sets in the environment is gone after it."""
    with mock.patch.dict(os.environ):
        yield
