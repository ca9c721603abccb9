"""What the sandbox relies on in MiniStack, so that a bump of it shows at once what changed."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import boto3
import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from holdfast_cli.sandbox.control import ClusterSeed, Identity, MiniStackControl, token_review
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.state import SandboxState

from .conftest import Deployer, wait_for

pytestmark = pytest.mark.sandbox

WARNING: dict[str, Any] = {
    "version": "0",
    "id": "6f0c2f5e-3f10-4d0c-9a55-0a1b2c3d4e01",
    "detail-type": "EC2 Spot Instance Interruption Warning",
    "source": "aws.ec2",
    "account": "111122223333",
    "time": "2026-03-01T04:10:00Z",
    "region": "ap-southeast-1",
    "resources": ["arn:aws:ec2:ap-southeast-1a:instance/i-0a11111111111111a"],
    "detail": {"instance-id": "i-0a11111111111111a", "instance-action": "terminate"},
}
# botocore is not in this function's package: it comes from MiniStack's environment, which leaks into functions.
RECORDING_FUNCTION = """
import json, os
import botocore.session

table = botocore.session.get_session().create_client("dynamodb")

def handler(event, context):
    failures = []
    for record in event["Records"]:
        body = json.loads(record["body"])
        table.update_item(
            TableName=os.environ["TABLE"],
            Key={"pk": {"S": body["id"]}},
            UpdateExpression="SET body = :body ADD receives :one",
            ExpressionAttributeValues={":body": {"S": record["body"]}, ":one": {"N": "1"}},
        )
        if body.get("fail"):
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}
"""


def recorder(deployer: Deployer, **queue_attributes: str) -> tuple[str, str, str]:
    """URL and ARN of a queue whose messages a function writes into a table, and the table's name."""
    table = deployer.table()
    url, arn = deployer.queue(VisibilityTimeout="3", **queue_attributes)
    _, role = deployer.role("sqs:*", "dynamodb:UpdateItem")
    deployer.client("lambda").create_event_source_mapping(
        EventSourceArn=arn,
        FunctionName=deployer.function(RECORDING_FUNCTION, role, TABLE=table),
        BatchSize=10,
        FunctionResponseTypes=["ReportBatchItemFailures"],
    )
    return url, arn, table


def is_drained(deployer: Deployer, queue_url: str) -> bool:
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = deployer.client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)
    return all(found["Attributes"][name] == "0" for name in names)


def test_put_events_refuses_events_of_aws_services(deployer: Deployer) -> None:
    entry = {"Source": "aws.ec2", "DetailType": "x", "Detail": "{}"}

    answer = deployer.client("events").put_events(Entries=[entry])

    assert answer["Entries"][0]["ErrorCode"] == "NotAuthorizedForSourceException"


def test_delivered_event_reaches_table_unchanged_through_rule_queue_and_function(
    sandbox: SandboxState, deployer: Deployer
) -> None:
    url, arn, table = recorder(deployer)
    events = deployer.client("events")
    rule = deployer.name("rule")
    pattern = {"source": ["aws.ec2"], "detail": {"instance-action": ["terminate", "stop"]}}
    events.put_rule(Name=rule, EventPattern=json.dumps(pattern))
    events.put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": arn}])
    other = WARNING | {"id": "other", "detail": {"instance-action": "hibernate"}}

    MiniStackControl(sandbox).deliver([other, WARNING])

    items = wait_for(lambda: deployer.items(table), "the fact in the table")
    wait_for(lambda: is_drained(deployer, url), "an empty queue")
    assert list(items) == [WARNING["id"]], "the detail filter let something else pass"
    assert json.loads(items[WARNING["id"]]["body"]["S"]) == WARNING


def test_replayed_event_names_its_replay(sandbox: SandboxState, deployer: Deployer) -> None:
    url, arn = deployer.queue()
    events = deployer.client("events")
    rule = deployer.name("rule")
    events.put_rule(Name=rule, EventPattern=json.dumps({"replay-name": [{"exists": True}]}))
    events.put_targets(Rule=rule, Targets=[{"Id": "queue", "Arn": arn}])

    MiniStackControl(sandbox).deliver([WARNING | {"replay-name": "backfill"}])

    (message,) = deployer.client("sqs").receive_message(QueueUrl=url)["Messages"]
    assert json.loads(message["Body"]) == WARNING | {"replay-name": "backfill"}


def test_control_endpoint_answers_only_to_the_sandboxs_token(sandbox: SandboxState) -> None:
    stranger = SandboxState(sandbox.folder, sandbox.account, sandbox.region, "guess", sandbox.started, sandbox.services)

    with pytest.raises(SandboxError, match="bearer token"):
        MiniStackControl(stranger).deliver([WARNING])


def test_rule_matches_as_test_event_pattern_says(deployer: Deployer) -> None:
    pattern = {"detail": {"instance-action": [{"anything-but": "hibernate"}]}}

    answer = deployer.client("events").test_event_pattern(EventPattern=json.dumps(pattern), Event=json.dumps(WARNING))

    assert answer["Result"] is True


def test_partial_batch_failure_returns_only_the_failed_message_until_it_is_redriven(
    deployer: Deployer,
) -> None:
    dead_url, dead_arn = deployer.queue()
    redrive = json.dumps({"deadLetterTargetArn": dead_arn, "maxReceiveCount": 2})
    url, _, table = recorder(deployer, RedrivePolicy=redrive)
    sqs = deployer.client("sqs")
    # A cold start may outlast the visibility timeout, and then a message comes twice without having failed.
    sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"id": "warm"}))
    wait_for(lambda: deployer.items(table) and is_drained(deployer, url), "a warm function")

    bodies: list[dict[str, Any]] = [{"id": "good"}, {"id": "bad", "fail": True}]
    entries = [{"Id": body["id"], "MessageBody": json.dumps(body)} for body in bodies]
    sqs.send_message_batch(QueueUrl=url, Entries=entries)

    (message,) = wait_for(
        lambda: sqs.receive_message(QueueUrl=dead_url).get("Messages"), "a message in the dead-letter queue"
    )
    assert json.loads(message["Body"])["id"] == "bad"
    assert is_drained(deployer, url)
    receives = {key: item["receives"]["N"] for key, item in deployer.items(table).items()}
    assert (receives["good"], receives["bad"]) == ("1", "2")


def test_delay_seconds_hides_a_message(deployer: Deployer) -> None:
    url, _ = deployer.queue()
    sqs = deployer.client("sqs")
    sent = time.monotonic()

    sqs.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=2)

    assert "Messages" not in sqs.receive_message(QueueUrl=url)
    (message,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10)["Messages"]
    assert message["Body"] == "later"
    assert time.monotonic() - sent >= 2


def test_conditional_put_refuses_the_second_item_of_a_key(deployer: Deployer) -> None:
    dynamodb, table = deployer.client("dynamodb"), deployer.table()
    item = {"pk": {"S": "a"}}
    once = {"TableName": table, "Item": item, "ConditionExpression": "attribute_not_exists(pk)"}
    dynamodb.put_item(**once)

    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(**once)


def test_transaction_with_a_failed_check_writes_nothing_and_says_which_failed(deployer: Deployer) -> None:
    dynamodb, table = deployer.client("dynamodb"), deployer.table()
    put = {"Put": {"TableName": table, "Item": {"pk": {"S": "new"}}}}
    check = {
        "ConditionCheck": {
            "TableName": table,
            "Key": {"pk": {"S": "absent"}},
            "ConditionExpression": "attribute_exists(pk)",
        }
    }

    with pytest.raises(dynamodb.exceptions.TransactionCanceledException) as cancelled:
        dynamodb.transact_write_items(TransactItems=[put, check])

    codes = [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]
    assert codes == ["None", "ConditionalCheckFailed"]
    assert deployer.items(table) == {}


def test_update_with_an_old_version_is_refused(deployer: Deployer) -> None:
    dynamodb, table = deployer.client("dynamodb"), deployer.table()
    dynamodb.put_item(TableName=table, Item={"pk": {"S": "a"}, "version": {"N": "1"}})
    from_version_1 = {
        "TableName": table,
        "Key": {"pk": {"S": "a"}},
        "UpdateExpression": "SET version = :next",
        "ConditionExpression": "version = :read",
        "ExpressionAttributeValues": {":next": {"N": "2"}, ":read": {"N": "1"}},
    }
    dynamodb.update_item(**from_version_1)

    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.update_item(**from_version_1)


def test_sparse_index_holds_only_items_with_its_key(deployer: Deployer) -> None:
    dynamodb = deployer.client("dynamodb")
    index = {
        "IndexName": "due",
        "KeySchema": [
            {"AttributeName": "lane", "KeyType": "HASH"},
            {"AttributeName": "at", "KeyType": "RANGE"},
        ],
        "Projection": {"ProjectionType": "KEYS_ONLY"},
    }
    table = deployer.table(
        GlobalSecondaryIndexes=[index],
        AttributeDefinitions=[
            {"AttributeName": "lane", "AttributeType": "S"},
            {"AttributeName": "at", "AttributeType": "N"},
        ],
    )
    due = {"pk": {"S": "due"}, "lane": {"S": "0"}, "at": {"N": "5"}, "more": {"S": "x"}}
    late = {"pk": {"S": "late"}, "lane": {"S": "0"}, "at": {"N": "50"}}
    for item in (due, late, {"pk": {"S": "done"}}):
        dynamodb.put_item(TableName=table, Item=item)

    found = dynamodb.query(
        TableName=table,
        IndexName="due",
        KeyConditionExpression="lane = :lane AND #at <= :now",
        ExpressionAttributeNames={"#at": "at"},
        ExpressionAttributeValues={":lane": {"S": "0"}, ":now": {"N": "10"}},
    )["Items"]

    assert found == [{"pk": {"S": "due"}, "lane": {"S": "0"}, "at": {"N": "5"}}]


def test_secret_is_read_back(deployer: Deployer) -> None:
    secrets = deployer.client("secretsmanager")
    name = deployer.name("secret")
    secrets.create_secret(Name=name, SecretString="https://localhost/hook")

    assert secrets.get_secret_value(SecretId=name)["SecretString"] == "https://localhost/hook"


READING_FUNCTION = """
import os
import botocore.session
from botocore.exceptions import ClientError

table = botocore.session.get_session().create_client("dynamodb")

def handler(event, context):
    try:
        table.get_item(TableName=os.environ["TABLE"], Key={"pk": {"S": "a"}})
    except ClientError as error:
        return error.response["Error"]["Code"]
    return "ok"
"""


def test_function_may_do_what_its_role_may_do_at_that_moment(deployer: Deployer) -> None:
    role, arn = deployer.role()
    function = deployer.function(READING_FUNCTION, arn, TABLE=deployer.table())

    answers = [deployer.invoke(function, {})]
    deployer.allow(role, "dynamodb:GetItem")
    answers.append(deployer.invoke(function, {}))
    deployer.client("iam").delete_role_policy(RoleName=role, PolicyName="p")
    answers.append(deployer.invoke(function, {}))

    assert answers == ["AccessDeniedException", "ok", "AccessDeniedException"]


def test_request_signed_with_another_secret_than_the_role_s_is_refused(
    sandbox: SandboxState, deployer: Deployer
) -> None:
    session = session_of(deployer, deployer.role("sqs:ListQueues")[1])
    sqs = boto3.client(
        "sqs",
        endpoint_url=sandbox.service("ministack").url,
        verify=str(sandbox.ca),
        region_name=sandbox.region,
        aws_access_key_id=session.access_key,
        aws_secret_access_key="guess",
        aws_session_token=session.token,
    )

    with pytest.raises(ClientError, match="SignatureDoesNotMatch"):
        sqs.list_queues()


def sqs_of(sandbox: SandboxState, deployer: Deployer, role_arn: str) -> Any:
    session = session_of(deployer, role_arn)
    return boto3.client(
        "sqs",
        endpoint_url=sandbox.service("ministack").url,
        verify=str(sandbox.ca),
        region_name=sandbox.region,
        aws_access_key_id=session.access_key,
        aws_secret_access_key=session.secret_key,
        aws_session_token=session.token,
    )


def test_a_queue_policy_knows_a_session_by_its_role(sandbox: SandboxState, deployer: Deployer) -> None:
    """IAM guide, global condition keys: aws:PrincipalArn of a role's session is the ARN of the role."""
    _, reader = deployer.role("sqs:ReceiveMessage")
    _, stranger = deployer.role("sqs:ReceiveMessage")
    url, arn = deployer.queue()
    statement = {
        "Sid": "ReadersOnly",
        "Effect": "Deny",
        "Principal": "*",
        "Action": "sqs:ReceiveMessage",
        "Resource": arn,
        "Condition": {"ArnNotEquals": {"aws:PrincipalArn": [reader]}},
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    deployer.client("sqs").set_queue_attributes(QueueUrl=url, Attributes={"Policy": policy})

    assert "Messages" not in sqs_of(sandbox, deployer, reader).receive_message(QueueUrl=url)
    with pytest.raises(ClientError, match="explicit deny"):
        sqs_of(sandbox, deployer, stranger).receive_message(QueueUrl=url)


def test_reading_a_rule_is_authorised_on_the_arn_of_that_rule(sandbox: SandboxState, deployer: Deployer) -> None:
    """Service authorization reference: the ARN of a rule on the default bus names no bus."""
    events = deployer.client("events")
    for name in ("ours", "theirs"):
        events.put_rule(Name=name, EventPattern='{"source":["aws.ec2"]}')
    arn = events.describe_rule(Name="ours")["Arn"]
    name, reader = deployer.role()
    statement = {"Effect": "Allow", "Action": ["events:DescribeRule", "events:ListTargetsByRule"], "Resource": arn}
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    deployer.client("iam").put_role_policy(RoleName=name, PolicyName="p", PolicyDocument=policy)
    session = session_of(deployer, reader)
    client = boto3.client(
        "events",
        endpoint_url=sandbox.service("ministack").url,
        verify=str(sandbox.ca),
        region_name=sandbox.region,
        aws_access_key_id=session.access_key,
        aws_secret_access_key=session.secret_key,
        aws_session_token=session.token,
    )

    assert client.describe_rule(Name="ours")["State"] == "ENABLED"
    assert client.list_targets_by_rule(Rule="ours")["Targets"] == []
    for ask in (lambda: client.describe_rule(Name="theirs"), lambda: client.list_targets_by_rule(Rule="theirs")):
        with pytest.raises(ClientError, match="AccessDenied"):
            ask()


def test_a_batch_is_authorised_by_the_action_on_one_message(sandbox: SandboxState, deployer: Deployer) -> None:
    """SQS guide: SendMessageBatch needs sqs:SendMessage, and no other action gives it."""
    _, sender = deployer.role("sqs:SendMessage")
    _, reader = deployer.role("sqs:ReceiveMessage")
    url, _ = deployer.queue()
    batch = [{"Id": "1", "MessageBody": "hello"}]

    assert [
        item["Id"]
        for item in sqs_of(sandbox, deployer, sender).send_message_batch(QueueUrl=url, Entries=batch)["Successful"]
    ] == ["1"]
    with pytest.raises(ClientError, match="AccessDenied"):
        sqs_of(sandbox, deployer, reader).send_message_batch(QueueUrl=url, Entries=batch)


def test_an_alarm_on_metric_math_is_kept_and_claims_nothing(deployer: Deployer) -> None:
    cloudformation, stack = deployer.client("cloudformation"), deployer.name("stack")
    metric = {"Metric": {"Namespace": "AWS/SQS", "MetricName": "NumberOfEmptyReceives"}, "Period": 60, "Stat": "Sum"}
    alarm = {
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "ComparisonOperator": "LessThanThreshold",
            "EvaluationPeriods": 1,
            "Threshold": 1,
            "TreatMissingData": "breaching",
            "Metrics": [
                {"Id": "sum", "Expression": "a + a"},
                {"Id": "a", "MetricStat": metric, "ReturnData": False},
            ],
        },
    }

    cloudformation.create_stack(StackName=stack, TemplateBody=json.dumps({"Resources": {"Alarm": alarm}}))
    wait_for(
        lambda: cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"] == "CREATE_COMPLETE",
        "the stack is made",
    )
    name = cloudformation.describe_stack_resource(StackName=stack, LogicalResourceId="Alarm")["StackResourceDetail"][
        "PhysicalResourceId"
    ]
    (kept,) = deployer.client("cloudwatch").describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert kept["StateValue"] == "INSUFFICIENT_DATA"
    cloudformation.delete_stack(StackName=stack)


REPORTING_FUNCTION = """
import os
import greeting, jmespath

def handler(event, context):
    return {
        "environment": dict(os.environ),
        "greeting": greeting.WORD,
        "jmespath": jmespath.__version__,
        "remaining": context.get_remaining_time_in_millis(),
        "arn": context.invoked_function_arn,
    }
"""


@pytest.fixture(scope="module")
def report(deployer: Deployer) -> dict[str, Any]:
    """What a function finds around itself."""
    _, role = deployer.role()
    layer = {
        "python/greeting.py": "WORD = 'from the layer'\n",
        "python/jmespath/__init__.py": "__version__ = 'of the layer'\n",
    }
    answer: dict[str, Any] = deployer.invoke(
        deployer.function(REPORTING_FUNCTION, role, layer=layer, SETTING="value"), {}
    )
    return answer


def test_function_finds_the_sandbox_by_its_environment(sandbox: SandboxState, report: dict[str, Any]) -> None:
    found = report["environment"]

    assert found["AWS_ENDPOINT_URL"] == sandbox.service("ministack").url
    assert found["AWS_ENDPOINT_URL_EC2"] == sandbox.service("moto").url
    assert found["AWS_CA_BUNDLE"] == found["SSL_CERT_FILE"] == str(sandbox.ca)
    assert found["AWS_REGION"] == "ap-southeast-1"
    assert found["SETTING"] == "value"


def test_function_sees_no_secret_of_the_sandbox(sandbox: SandboxState, report: dict[str, Any]) -> None:
    assert sandbox.control_token not in report["environment"].values()
    assert report["environment"]["AWS_ACCESS_KEY_ID"].startswith("ASIA"), "not the role's own credentials"


def test_layer_wins_over_the_packages_of_ministack(report: dict[str, Any]) -> None:
    assert report["greeting"] == "from the layer"
    assert report["jmespath"] == "of the layer"


def test_function_context_tells_time_left_and_arn(report: dict[str, Any]) -> None:
    assert 0 < report["remaining"] <= 10_000
    assert report["arn"].startswith("arn:aws:lambda:ap-southeast-1:111122223333:function:function-")


@pytest.fixture(scope="module")
def cluster(sandbox: SandboxState, deployer: Deployer) -> tuple[str, str]:
    """Name of a seeded cluster and the URL of its TokenReview webhook."""
    name = deployer.name("cluster")
    return name, MiniStackControl(sandbox).seed_cluster(seed(sandbox, deployer, name))


def seed(sandbox: SandboxState, deployer: Deployer, name: str, endpoint: str = "https://localhost:1") -> ClusterSeed:
    return ClusterSeed(name, endpoint, sandbox.ca.read_text(), "1.33", deployer.role()[1])


def test_describe_cluster_answers_the_seeded_endpoint_and_authority(
    sandbox: SandboxState, deployer: Deployer, cluster: tuple[str, str]
) -> None:
    found = deployer.client("eks").describe_cluster(name=cluster[0])["cluster"]

    assert (found["endpoint"], found["status"], found["version"]) == ("https://localhost:1", "ACTIVE", "1.33")
    assert base64.b64decode(found["certificateAuthority"]["data"]) == sandbox.ca.read_bytes()
    assert found["arn"] == f"arn:aws:eks:ap-southeast-1:111122223333:cluster/{cluster[0]}"


def test_seeding_a_cluster_again_changes_it_and_keeps_its_access_entries(
    sandbox: SandboxState, deployer: Deployer
) -> None:
    eks, control, name = deployer.client("eks"), MiniStackControl(sandbox), deployer.name("cluster")
    control.seed_cluster(seed(sandbox, deployer, name))
    _, role = deployer.role()
    eks.create_access_entry(clusterName=name, principalArn=role)

    control.seed_cluster(seed(sandbox, deployer, name, "https://localhost:2"))

    assert eks.describe_cluster(name=name)["cluster"]["endpoint"] == "https://localhost:2"
    assert role in eks.list_access_entries(clusterName=name)["accessEntries"]


def test_cluster_of_an_unknown_role_is_refused(sandbox: SandboxState) -> None:
    role = "arn:aws:iam::111122223333:role/nobody"

    with pytest.raises(SandboxError, match="nobody cannot be found"):
        MiniStackControl(sandbox).seed_cluster(ClusterSeed("c", "https://localhost:1", "", "1.33", role))


STACK = {
    "Resources": {
        "Entry": {
            "Type": "AWS::EKS::AccessEntry",
            "Properties": {
                "ClusterName": {"Ref": "Cluster"},
                "PrincipalArn": {"Ref": "Role"},
                "KubernetesGroups": [{"Ref": "Group"}],
                "Type": "STANDARD",
                "Tags": [{"Key": "owner", "Value": "holdfast"}],
            },
        },
        "Archive": {
            "Type": "AWS::Events::Archive",
            "Properties": {
                "SourceArn": "arn:aws:events:ap-southeast-1:111122223333:event-bus/default",
                "EventPattern": {"source": ["aws.ec2"]},
                "RetentionDays": {"Ref": "Days"},
            },
        },
    },
    "Parameters": {name: {"Type": "String"} for name in ("Cluster", "Role", "Group", "Days")},
    "Outputs": {
        "EntryArn": {"Value": {"Fn::GetAtt": ["Entry", "AccessEntryArn"]}},
        "ArchiveName": {"Value": {"Ref": "Archive"}},
        "ArchiveArn": {"Value": {"Fn::GetAtt": ["Archive", "Arn"]}},
    },
}


def test_stack_with_our_two_types_is_created_changed_and_deleted(
    sandbox: SandboxState, deployer: Deployer, cluster: tuple[str, str]
) -> None:
    cloudformation, eks = deployer.client("cloudformation"), deployer.client("eks")
    events, stack = deployer.client("events"), deployer.name("stack")
    _, role = deployer.role()

    def parameters(group: str, days: str) -> list[dict[str, str]]:
        given = {"Cluster": cluster[0], "Role": role, "Group": group, "Days": days}
        return [{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()]

    def settled() -> dict[str, str]:
        """The outputs of the stack once it is complete."""
        wait_for(lambda: status().endswith("_COMPLETE"), "a settled stack")
        history = cloudformation.describe_stack_events(StackName=stack)["StackEvents"]
        reasons = [event["ResourceStatusReason"] for event in history if "ResourceStatusReason" in event]
        assert status() in {"CREATE_COMPLETE", "UPDATE_COMPLETE"}, reasons
        found = cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["Outputs"]
        return {output["OutputKey"]: output["OutputValue"] for output in found}

    def status() -> str:
        return str(cloudformation.describe_stacks(StackName=stack)["Stacks"][0]["StackStatus"])

    def entry() -> dict[str, Any]:
        found: dict[str, Any] = eks.describe_access_entry(clusterName=cluster[0], principalArn=role)["accessEntry"]
        return found

    cloudformation.create_stack(StackName=stack, TemplateBody=json.dumps(STACK), Parameters=parameters("viewers", "30"))
    outputs = settled()
    archive = outputs["ArchiveName"]
    assert outputs["EntryArn"] == entry()["accessEntryArn"]
    assert outputs["ArchiveArn"] == f"arn:aws:events:ap-southeast-1:111122223333:archive/{archive}"
    assert (entry()["kubernetesGroups"], entry()["tags"]) == (["viewers"], {"owner": "holdfast"})
    MiniStackControl(sandbox).deliver([WARNING])
    described = events.describe_archive(ArchiveName=archive)
    assert (described["RetentionDays"], described["EventCount"]) == (30, 1)

    cloudformation.update_stack(StackName=stack, TemplateBody=json.dumps(STACK), Parameters=parameters("editors", "7"))
    assert settled()["ArchiveName"] == archive
    assert entry()["kubernetesGroups"] == ["editors"]
    described = events.describe_archive(ArchiveName=archive)
    assert (described["RetentionDays"], described["EventCount"]) == (7, 1), "changed in place"

    cloudformation.delete_stack(StackName=stack)
    wait_for(lambda: role not in eks.list_access_entries(clusterName=cluster[0])["accessEntries"], "no entry")
    wait_for(lambda: not events.list_archives(NamePrefix=archive)["Archives"], "no archive")


def eks_token(sandbox: SandboxState, credentials: Credentials, cluster: str) -> str:
    """A bearer token as `aws eks get-token` makes it: a presigned GetCallerIdentity that names the cluster."""
    request = AWSRequest(
        method="GET",
        url=f"https://sts.{sandbox.region}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15",
        headers={"x-k8s-aws-id": cluster},
    )
    SigV4QueryAuth(credentials, "sts", sandbox.region, expires=60).add_auth(request)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(str(request.url).encode()).decode().rstrip("=")


@pytest.fixture(scope="module")
def reader(sandbox: SandboxState, deployer: Deployer, cluster: tuple[str, str]) -> Credentials:
    """Credentials of a role with an access entry in the group `viewers`."""
    _, role = deployer.role()
    deployer.client("eks").create_access_entry(clusterName=cluster[0], principalArn=role, kubernetesGroups=["viewers"])
    return session_of(deployer, role)


def session_of(deployer: Deployer, role: str) -> Credentials:
    given = deployer.client("sts").assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    return Credentials(given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"])


def test_token_of_a_role_with_an_access_entry_is_its_identity(
    sandbox: SandboxState, cluster: tuple[str, str], reader: Credentials
) -> None:
    name, url = cluster

    identity = token_review(url, sandbox.ca, eks_token(sandbox, reader, name))

    assert isinstance(identity, Identity)
    assert identity.username.startswith("arn:aws:sts::111122223333:assumed-role/role-")
    assert identity.username.endswith("/session")
    assert identity.groups == ("system:authenticated", "viewers")


def test_token_for_another_cluster_is_refused(
    sandbox: SandboxState, cluster: tuple[str, str], reader: Credentials
) -> None:
    assert token_review(cluster[1], sandbox.ca, eks_token(sandbox, reader, "another")) is None


def test_token_signed_with_another_secret_is_refused(
    sandbox: SandboxState, cluster: tuple[str, str], reader: Credentials
) -> None:
    forged = Credentials(reader.access_key, "guess", reader.token)

    assert token_review(cluster[1], sandbox.ca, eks_token(sandbox, forged, cluster[0])) is None


def test_token_older_than_15_minutes_is_refused(
    sandbox: SandboxState, cluster: tuple[str, str], reader: Credentials
) -> None:
    # The signer takes its clock from the module; there is no argument for it.
    old = datetime.now(UTC) - timedelta(minutes=15, seconds=5)
    with mock.patch("botocore.auth.get_current_datetime", return_value=old):
        token = eks_token(sandbox, reader, cluster[0])

    assert token_review(cluster[1], sandbox.ca, token) is None


def test_token_of_a_role_without_an_access_entry_is_refused(
    sandbox: SandboxState, deployer: Deployer, cluster: tuple[str, str]
) -> None:
    stranger = session_of(deployer, deployer.role()[1])

    assert token_review(cluster[1], sandbox.ca, eks_token(sandbox, stranger, cluster[0])) is None
