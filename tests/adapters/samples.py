"""Facts, looks, judged cases and alerts for the adapters' tests, and a table like the one the state stack builds."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import boto3
from botocore.config import Config

from holdfast.adapters import table
from holdfast.alerts.alert import Alert, Severity
from holdfast.interruption.case import Cluster, Scope, fold
from holdfast.interruption.event import Disposition, Fact, Home, Kind, Rejection
from holdfast.interruption.observation import (
    Answer,
    Blocker,
    BlockerReason,
    ClusterView,
    Condition,
    InstanceView,
    Observation,
    QueueView,
)
from holdfast.interruption.record import CaseRecord
from holdfast.interruption.verdict import judge
from holdfast.ports import InstanceKey

REGION = "ap-southeast-1"
ACCOUNT = "111122223333"
NOW = datetime(2026, 9, 1, 4, 12, 30, 123456, tzinfo=UTC)
WARNED = datetime(2026, 9, 1, 4, 10, 0, tzinfo=UTC)
KEY = InstanceKey(ACCOUNT, REGION, "i-0a11111111111111a")
OTHER = InstanceKey(ACCOUNT, REGION, "i-0b22222222222222b")
SCOPE = Scope(Home(ACCOUNT, REGION), {"orders": Cluster("orders", "arn:aws:iam::111122223333:role/karpenter")})

FACT = Fact(
    kind=Kind.SPOT_WARNING,
    account=ACCOUNT,
    region=REGION,
    subject=KEY.instance_id,
    at=WARNED,
    event_id="12345678-1234-1234-1234-123456789012",
    action="terminate",
    notes=("version_missing",),
    sent_at=WARNED + timedelta(milliseconds=1250),
    received_at=WARNED + timedelta(seconds=2),
)

LOOK = Observation(
    instance_id=KEY.instance_id,
    at=NOW,
    account=ACCOUNT,
    region=REGION,
    ec2=InstanceView(Answer.OK, state="running", launched_at=WARNED - timedelta(hours=3), cluster="orders"),
    kubernetes=ClusterView(
        Answer.OK,
        cluster="orders",
        nodeclaim="spot-x7k2p",
        conditions=(Condition("Drained", "False", "Draining", WARNED),),
        pods_answer=Answer.OK,
        pods_left=1,
        longest_grace=30,
        blockers=(Blocker("shop", "cart-0", BlockerReason.PDB, "cart", "StatefulSet/cart"),),
    ),
    queue=QueueView(Answer.OK, visible=0, in_flight=0),
)

REJECTION = Rejection(
    disposition=Disposition.POISON,
    code="not_json",
    reason="the body is not JSON",
    digest="ab" * 32,
    body="abcd",
)

ALERT = Alert(
    id="case/111122223333/ap-southeast-1/i-0a11111111111111a/0/MISSED/UNKNOWN",
    severity=Severity.PAGE,
    title="missed by Karpenter",
    what="Karpenter did nothing.",
    meaning="Pods were killed.",
    action="Look at Karpenter's queue.",
    at=WARNED,
    cluster="orders",
    fields=(("Node", "ip-10-0-1-7"),),
)


def record(key: InstanceKey = KEY, *, warned: datetime = WARNED, cluster: str | None = "orders") -> CaseRecord:
    """A case that was warned of at `warned`, judged at NOW."""
    fact = replace(FACT, account=key.account, region=key.region, subject=key.instance_id, at=warned)
    look = replace(
        LOOK, instance_id=key.instance_id, ec2=replace(LOOK.ec2, cluster=cluster), kubernetes=None, queue=None
    )
    (case,) = fold([fact], [look], SCOPE)
    return CaseRecord(case, judge(case, NOW, exhausted=False), NOW)


def alert(alert_id: str) -> Alert:
    """An alert of that id."""
    return replace(ALERT, id=alert_id)


@cache
def _session() -> boto3.Session:
    # One for all tests, since it keeps the service models that it has parsed; made late, since moto hooks itself into
    # sessions that are made after its import.
    return boto3.Session("testing", "testing", "testing", REGION)


def client(service: str) -> Any:
    """A client that does not try again, made while moto is at work."""
    return _session().client(service, config=Config(retries={"max_attempts": 0}))


def create_table(client: Any, name: str) -> None:
    """A table with the keys and indexes that `adapters.table` names."""
    keys = [(table.PARTITION_KEY, table.SORT_KEY), *((index.partition_key, index.sort_key) for index in table.INDEXES)]
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=_schema(*keys[0]),
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for pair in keys for key in pair],
        GlobalSecondaryIndexes=[
            {
                "IndexName": index.name,
                "KeySchema": _schema(index.partition_key, index.sort_key),
                "Projection": {"ProjectionType": "ALL"}
                if index.projection is None
                else {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(index.projection)},
            }
            for index in table.INDEXES
        ],
    )


def _schema(partition_key: str, sort_key: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": partition_key, "KeyType": "HASH"},
        {"AttributeName": sort_key, "KeyType": "RANGE"},
    ]
