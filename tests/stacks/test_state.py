"""The state stack keeps what it holds, whatever is done to it."""

from holdfast.adapters import table
from tests.stacks.templates import Assembly, of_type, one


def test_the_ledger_outlives_its_stack_and_every_mistake(example: Assembly):
    (ledger,) = of_type(example.template("state"), "AWS::DynamoDB::Table").values()
    properties = ledger["Properties"]

    assert ledger["DeletionPolicy"] == ledger["UpdateReplacePolicy"] == "Retain"
    assert properties["DeletionProtectionEnabled"] is True
    assert properties["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    assert properties["SSESpecification"] == {"SSEEnabled": True}
    assert properties["BillingMode"] == "PAY_PER_REQUEST"
    assert "TableName" not in properties


def test_the_ledger_has_the_schema_of_its_adapter(example: Assembly):
    properties = one(example.template("state"), "AWS::DynamoDB::Table", "Ledger")["Properties"]

    assert properties["KeySchema"] == [
        {"AttributeName": table.PARTITION_KEY, "KeyType": "HASH"},
        {"AttributeName": table.SORT_KEY, "KeyType": "RANGE"},
    ]
    assert properties["TimeToLiveSpecification"] == {"AttributeName": table.TTL_ATTRIBUTE, "Enabled": True}
    indexes = {index["IndexName"]: index for index in properties["GlobalSecondaryIndexes"]}
    assert indexes.keys() == {index.name for index in table.INDEXES}
    for index in table.INDEXES:
        made = indexes[index.name]
        assert made["KeySchema"] == [
            {"AttributeName": index.partition_key, "KeyType": "HASH"},
            {"AttributeName": index.sort_key, "KeyType": "RANGE"},
        ]
        wanted = (
            {"ProjectionType": "ALL"}
            if index.projection is None
            else {"ProjectionType": "INCLUDE", "NonKeyAttributes": list(index.projection)}
        )
        assert made["Projection"] == wanted
    keys = {key for index in table.INDEXES for key in (index.partition_key, index.sort_key)}
    assert {item["AttributeName"] for item in properties["AttributeDefinitions"]} == keys | {
        table.PARTITION_KEY,
        table.SORT_KEY,
    }


def test_alarms_reach_people_through_an_encrypted_topic_that_only_alarms_may_use(example: Assembly):
    template = example.template("state")
    key_id = next(iter(of_type(template, "AWS::KMS::Key")))
    key = template["Resources"][key_id]["Properties"]
    topic = one(template, "AWS::SNS::Topic", "AlarmsTopic")["Properties"]
    (policy,) = of_type(template, "AWS::SNS::TopicPolicy").values()

    assert topic["KmsMasterKeyId"] == {"Fn::GetAtt": [key_id, "Arn"]}
    assert key["EnableKeyRotation"] is True
    # SNS encrypts as the publisher: without these CloudWatch's message is dropped (CloudWatch guide, alarm actions).
    (grant,) = [item for item in key["KeyPolicy"]["Statement"] if item["Sid"] == "AllowAlarms"]
    assert grant["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert grant["Action"] == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert grant["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
    allowed, denied = policy["Properties"]["PolicyDocument"]["Statement"]
    assert allowed["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    assert allowed["Condition"] == {"StringEquals": {"aws:SourceAccount": "111122223333"}}
    assert (denied["Effect"], denied["Action"]) == ("Deny", "sns:Publish")
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    assert "AlarmTopicArn" in template["Outputs"]
