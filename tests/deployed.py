"""A ledger as a deployment leaves it behind (moto's DynamoDB and CloudFormation), and a configuration that finds it."""

import json
from pathlib import Path

import boto3

from holdfast.adapters import table
from holdfast.adapters.dynamodb import DynamoLedger
from holdfast.runtime.names import state_stack_id
from holdfast_cli.evidence import Evidence, read_evidence
from holdfast_cli.judge import inferred, judge_evidence

TRACES = Path(__file__).parent / "events" / "traces"
ACCOUNT, REGION = "123456789012", "ap-southeast-1"  # moto's account
SEEN_IN = "111122223333"  # the account in the traces


def config_text(*clusters: tuple[str, str, str]) -> str:
    lines = ["clusters:"]
    for name, account, region in clusters:
        lines += [
            f"  - name: {name}",
            f"    region: {region}",
            f'    account: "{account}"',
            "    karpenter:",
            f"      controllerRoleArn: arn:aws:iam::{account}:role/KarpenterControllerRole",
        ]
    return "\n".join(lines) + "\n"


def key_type(name: str) -> dict[str, str]:
    return {"AttributeName": name, "AttributeType": "S"}


def key_schema(partition: str, sort: str) -> list[dict[str, str]]:
    return [{"AttributeName": partition, "KeyType": "HASH"}, {"AttributeName": sort, "KeyType": "RANGE"}]


def deploy(account: str = ACCOUNT, region: str = REGION) -> str:
    """What the state stack leaves behind: a stack with the ledger's table in it."""
    keys = [table.PARTITION_KEY, table.SORT_KEY] + [
        name for index in table.INDEXES for name in (index.partition_key, index.sort_key)
    ]
    template = {
        "Resources": {
            "Ledger": {
                "Type": "AWS::DynamoDB::Table",
                "Properties": {
                    "BillingMode": "PAY_PER_REQUEST",
                    "AttributeDefinitions": [key_type(name) for name in keys],
                    "KeySchema": key_schema(table.PARTITION_KEY, table.SORT_KEY),
                    "GlobalSecondaryIndexes": [
                        {
                            "IndexName": index.name,
                            "KeySchema": key_schema(index.partition_key, index.sort_key),
                            "Projection": {"ProjectionType": "ALL"},
                        }
                        for index in table.INDEXES
                    ],
                },
            },
            "Topic": {"Type": "AWS::SNS::Topic"},
        }
    }
    stack = state_stack_id("holdfast", account, region)
    cloudformation = boto3.client("cloudformation", region_name=region)
    cloudformation.create_stack(StackName=stack, TemplateBody=json.dumps(template))
    resources = cloudformation.describe_stack_resources(StackName=stack)["StackResources"]
    return next(str(it["PhysicalResourceId"]) for it in resources if it["ResourceType"] == "AWS::DynamoDB::Table")


def trace(name: str) -> bytes:
    return (TRACES / f"{name}.jsonl").read_bytes().replace(SEEN_IN.encode(), ACCOUNT.encode())


def fill(name: str, *files: bytes, region: str = REGION) -> None:
    """Puts what the files tell into the ledger, as ingest and judge would have."""
    ledger = DynamoLedger(boto3.client("dynamodb", region_name=region), name)
    evidence = Evidence()
    for raw in files:
        read_evidence("trace", raw, evidence)
    judged = judge_evidence(evidence, inferred(evidence, {}))
    for key, history in judged.histories.items():
        for fact in history.facts:
            ledger.put_fact(fact)
        for look in history.observations:
            ledger.put_observation(key, look)
        ledger.open_watch(key, history.facts[0].at)
        watch = ledger.history(key).watch
        assert watch is not None
        records = [record for record in judged.cases if record.case.instance_id == key.instance_id]
        ledger.save(watch, records, (), obsolete=())
