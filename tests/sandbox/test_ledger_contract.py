"""The ledger and the outbox on the sandbox's AWS, by a role that may do what their methods declare and nothing else."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from holdfast.adapters.actions import actions_of
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.adapters.outbox import DynamoOutbox
from holdfast.errors import Denied
from holdfast_cli.sandbox.state import SandboxState
from tests.adapters.samples import FACT, create_table
from tests.builders import W
from tests.contracts import LedgerContract, Make, OutboxContract, Store
from tests.fakes import Clock

from .conftest import Deployer

pytestmark = pytest.mark.sandbox


@contextmanager
def client_of(sandbox: SandboxState, deployer: Deployer, actions: Iterable[str]) -> Iterator[Any]:
    """A DynamoDB client of a role that may do these actions."""
    _, arn = deployer.role(*actions)
    issued = deployer.client("sts").assume_role(RoleArn=arn, RoleSessionName="ledger")["Credentials"]
    session = boto3.Session(issued["AccessKeyId"], issued["SecretAccessKey"], issued["SessionToken"], sandbox.region)
    there = {"endpoint_url": sandbox.service("ministack").url, "verify": str(sandbox.ca)}
    client: Any = session.client("dynamodb", **there)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture(scope="module")
def ours(sandbox: SandboxState, deployer: Deployer) -> Iterator[Any]:
    """A client of a role that may do what the ledger and the outbox declare."""
    with client_of(sandbox, deployer, actions_of(DynamoLedger) | actions_of(DynamoOutbox)) as client:
        yield client


@pytest.fixture
def stores(deployer: Deployer, ours: Any) -> Make:
    def fresh() -> Store:
        name = deployer.name("ledger")
        create_table(deployer.client("dynamodb"), name)
        clock = Clock(W)
        return Store(DynamoLedger(ours, name, clock=clock), DynamoOutbox(ours, name), clock)

    return fresh


class TestLedgerOnTheSandbox(LedgerContract):
    @pytest.fixture
    def make(self, stores: Make) -> Make:
        return stores


class TestOutboxOnTheSandbox(OutboxContract):
    @pytest.fixture
    def make(self, stores: Make) -> Make:
        return stores


def test_without_a_declared_action_the_ledger_is_denied_and_names_it(sandbox: SandboxState, deployer: Deployer) -> None:
    """So that the contracts above show that the declared actions are needed, not that everything is allowed."""
    with client_of(sandbox, deployer, actions_of(DynamoLedger) - {"dynamodb:PutItem"}) as client:
        name = deployer.name("ledger")
        create_table(deployer.client("dynamodb"), name)
        with pytest.raises(Denied, match=f"needs dynamodb:PutItem on table/{name}"):
            DynamoLedger(client, name).put_fact(FACT)
