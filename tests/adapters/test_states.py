"""What Holdfast remembers of itself, on a table (moto)."""

from collections.abc import Iterator
from typing import Any

import pytest
from moto import mock_aws

from holdfast.adapters.states import DynamoStates
from holdfast.errors import InvalidDocument
from holdfast.interruption.mode import Lag, Mode
from holdfast.ports import States
from tests.adapters import samples
from tests.adapters.samples import NOW
from tests.builders import ACCOUNT, REGION
from tests.contracts import StatesContract

TABLE = "holdfast-ledger"


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws():
        made = samples.client("dynamodb")
        samples.create_table(made, TABLE)
        yield made


@pytest.fixture
def states(client: Any) -> States:
    return DynamoStates(client, TABLE, account=ACCOUNT, region=REGION, clock=lambda: NOW)


class TestDynamoStates(StatesContract):
    @pytest.fixture
    def states(self, client: Any) -> States:
        return DynamoStates(client, TABLE, account=ACCOUNT, region=REGION, clock=lambda: NOW)


def test_a_row_that_nobody_renews_expires(client: Any, states: States) -> None:
    states.put(Lag(45, NOW))

    (row,) = client.scan(TableName=TABLE)["Items"]
    assert int(row["expires_at"]["N"]) == int(NOW.timestamp()) + 30 * 24 * 3600


def test_a_row_of_another_version_of_holdfast_is_refused_by_name(client: Any, states: States) -> None:
    client.put_item(
        TableName=TABLE,
        Item={"pk": {"S": f"S#{ACCOUNT}#{REGION}"}, "sk": {"S": "mode"}, "doc": {"S": "{}"}, "version": {"N": "1"}},
    )

    with pytest.raises(InvalidDocument, match=f"row pk=S#{ACCOUNT}#{REGION} sk=mode is no mode: decided_at"):
        states.read(Mode)
