"""The real CDK command line works against the sandbox."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from holdfast_cli.sandbox import aws, cdk
from holdfast_cli.sandbox.cdk import CdkError
from holdfast_cli.sandbox.state import SandboxState

from .conftest import Deployer

pytestmark = pytest.mark.sandbox

# Writes the cloud assembly that the CDK's library writes for a queue and a function from an asset, without the library:
# its start would take longer than all the rest of the test.
APP = """
import json, os, pathlib

out = pathlib.Path(os.environ["CDK_OUTDIR"])
visibility = int(json.loads(os.environ["CDK_CONTEXT_JSON"])["visibility"])
environment = "111122223333-ap-southeast-1"
bucket = f"cdk-hnb659fds-assets-{environment}"

def role(name):
    return "arn:${AWS::Partition}:iam::111122223333:role/cdk-hnb659fds-" + name + "-role-" + environment

def asset(path, packaging, key):
    place = {
        "bucketName": bucket,
        "objectKey": key,
        "region": "ap-southeast-1",
        "assumeRoleArn": role("file-publishing"),
    }
    return {"source": {"path": path, "packaging": packaging}, "destinations": {"here": place}}

def write(name, document):
    (out / name).write_text(json.dumps(document))

code = pathlib.Path(__file__).with_name("code")
(out / "code").mkdir(parents=True, exist_ok=True)
(out / "code" / "index.py").write_text((code / "index.py").read_text())
trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
write("Tiny.template.json", {"Resources": {
    "Queue": {
        "Type": "AWS::SQS::Queue",
        "Properties": {"QueueName": "tiny", "VisibilityTimeout": visibility},
    },
    "Role": {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [trust]}},
    },
    "Function": {
        "Type": "AWS::Lambda::Function",
        "Properties": {
            "FunctionName": "tiny",
            "Code": {"S3Bucket": bucket, "S3Key": "code.zip"},
            "Handler": "index.handler",
            "Runtime": "python3.13",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        },
    },
}})
template_key = f"template-{visibility}.json"
write("Tiny.assets.json", {"version": "48.0.0", "dockerImages": {}, "files": {
    "code": asset("code", "zip", "code.zip"),
    "template": asset("Tiny.template.json", "file", template_key),
}})
write("manifest.json", {"version": "48.0.0", "artifacts": {
    "Tiny.assets": {"type": "cdk:asset-manifest", "properties": {"file": "Tiny.assets.json"}},
    "Tiny": {
        "type": "aws:cloudformation:stack",
        "environment": "aws://111122223333/ap-southeast-1",
        "dependencies": ["Tiny.assets"],
        "properties": {
            "templateFile": "Tiny.template.json",
            "stackTemplateAssetObjectUrl": f"s3://{bucket}/{template_key}",
            "assumeRoleArn": role("deploy"),
            "cloudFormationExecutionRoleArn": role("cfn-exec"),
        },
    },
}})
"""


@pytest.fixture
def app_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "app"
    (folder / "code").mkdir(parents=True)
    (folder / "code" / "index.py").write_text("def handler(event, context):\n    return 'from the asset'\n")
    (folder / "app.py").write_text(APP)
    (folder / "cdk.json").write_text(json.dumps({"app": "python app.py"}))
    return folder


@pytest.fixture
def own_sandbox(tmp_path: Path) -> Iterator[SandboxState]:
    """A sandbox that no other test deploys into: a bootstrap is once an account."""
    folder = tmp_path / "sandbox"
    try:
        yield aws.start(folder)
    finally:
        aws.stop(folder)


def test_app_is_deployed_changed_compared_and_destroyed(own_sandbox: SandboxState, app_dir: Path) -> None:
    deployer = Deployer(own_sandbox)
    lines: list[str] = []

    def visibility() -> str:
        sqs = deployer.client("sqs")
        url = sqs.get_queue_url(QueueName="tiny")["QueueUrl"]
        found = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["VisibilityTimeout"])
        return str(found["Attributes"]["VisibilityTimeout"])

    cdk.bootstrap(own_sandbox, on_line=lines.append)
    cdk.deploy(own_sandbox, app_dir, "-c", "visibility=10", on_line=lines.append)
    assert visibility() == "10"
    assert deployer.invoke("tiny", {}) == "from the asset"

    cdk.deploy(own_sandbox, app_dir, "-c", "visibility=20", on_line=lines.append)
    assert visibility() == "20"

    differences: list[str] = []
    cdk.diff(own_sandbox, app_dir, "-c", "visibility=30", on_line=differences.append)
    assert any("VisibilityTimeout" in line for line in differences)

    cdk.destroy(own_sandbox, on_line=lines.append)
    assert deployer.client("sqs").list_queues().get("QueueUrls", []) == []
    assert any("Tiny" in line for line in lines)


def test_destroying_before_any_deployment_is_an_error_that_says_so(tmp_path: Path) -> None:
    nothing = SandboxState(tmp_path, "111122223333", "ap-southeast-1", "token", datetime.now(UTC), {})

    with pytest.raises(CdkError, match="nothing was deployed into the sandbox yet"):
        cdk.destroy(nothing)


def test_failing_app_is_an_error_with_its_last_words(sandbox: SandboxState, app_dir: Path) -> None:
    (app_dir / "app.py").write_text("raise SystemExit('holdfast.yaml: no such cluster')")

    with pytest.raises(CdkError, match=r"ended with code 1(.|\n)*holdfast\.yaml: no such cluster"):
        cdk.deploy(sandbox, app_dir, on_line=lambda _: None)
