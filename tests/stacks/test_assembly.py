"""The app as a whole: which stacks there are, in every partition, safe to deploy again, and clean to the linters."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App

import app as cdk_app
from holdfast.runtime.config import HoldfastConfig
from stacks import assembly as stacks_assembly
from stacks import nag
from stacks.constructs import python_function
from stacks.constructs.python_function import EnvironmentTooLarge
from tests.stacks.templates import ACCOUNT, ROOT, WIDE, Assembly, controller, network

# Resources that hold what cannot be made again. Another logical id means another resource: what is in this one is lost,
# or the deployment fails because its name is taken.
PINNED = {
    "holdfast-state-111122223333-ap-southeast-1": {
        "LedgerB7379752": "AWS::DynamoDB::Table",
        "AlarmsTopic3A2DFEBA": "AWS::SNS::Topic",
    },
    "holdfast-cluster-111122223333-ap-southeast-1-eksworkshop": {
        "InterruptionQueueA3EE13F3": "AWS::SQS::Queue",
        "InterruptionDeadLetters465E9383": "AWS::SQS::Queue",
        "InterruptionUndelivered66476743": "AWS::SQS::Queue",
    },
    "holdfast-control-plane-111122223333-ap-southeast-1": {
        "AuditEventsQueueF5740A12": "AWS::SQS::Queue",
        "AuditEventsDeadLettersFD85F52E": "AWS::SQS::Queue",
        "AuditEventsUndeliveredE09A5C8F": "AWS::SQS::Queue",
        "AuditLookspublicQueueD55648E4": "AWS::SQS::Queue",
        "AlertsWakeupsQueueB3FF9676": "AWS::SQS::Queue",
    },
}
SERVICE_PRINCIPALS = {
    "lambda.amazonaws.com",
    "events.amazonaws.com",
    "cloudwatch.amazonaws.com",
}


def stack_of(manifest: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = manifest["artifacts"][name]["properties"]
    return found


def test_stateful_resources_keep_their_logical_ids(example: Assembly):
    for stack, pinned in PINNED.items():
        resources = example.templates[stack]["Resources"]
        assert {name: resources[name]["Type"] for name in pinned} == pinned


def test_there_are_three_kinds_of_stacks(wide: Assembly):
    """State and control plane for each account and region, one for each cluster whose queue is ours."""
    assert set(wide.templates) == {
        f"hf-state-{ACCOUNT}-ap-southeast-1",
        f"hf-control-plane-{ACCOUNT}-ap-southeast-1",
        f"hf-cluster-{ACCOUNT}-ap-southeast-1-open",
        f"hf-cluster-{ACCOUNT}-ap-southeast-1-closed",
        f"hf-state-{ACCOUNT}-cn-north-1",
        f"hf-control-plane-{ACCOUNT}-cn-north-1",
        f"hf-cluster-{ACCOUNT}-cn-north-1-beijing",
        f"hf-state-{ACCOUNT}-us-gov-west-1",
        f"hf-control-plane-{ACCOUNT}-us-gov-west-1",
        f"hf-cluster-{ACCOUNT}-us-gov-west-1-gov",
    }


def test_what_must_not_vanish_is_protected_against_it(wide: Assembly):
    manifest = json.loads((wide.folder / "manifest.json").read_text())
    for name in wide.templates:
        protected = stack_of(manifest, name).get("terminationProtection", False)
        assert protected == ("control-plane" not in name), name


@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-gov-west-1", "aws-us-gov")])
def test_other_partitions_get_arns_and_hosts_of_their_own(region: str, partition: str, wide: Assembly):
    templates = {name: template for name, template in wide.templates.items() if region in name}
    assert len(templates) == 3
    for name, template in templates.items():
        text = json.dumps({key: value for key, value in template.items() if key not in {"Parameters", "Rules"}})
        assert "arn:aws:" not in text, name
        assert f"arn:{partition}:" in text or "AWS::Partition" in text, name
        for principal in SERVICE_PRINCIPALS:
            text = text.replace(principal, "")
        assert "amazonaws.com" not in text, name


def test_no_stack_depends_on_the_control_plane_or_on_a_clusters(wide: Assembly):
    """So that each of them can be deleted without another one."""
    manifest = json.loads((wide.folder / "manifest.json").read_text())
    for name in wide.templates:
        needed = [other for other in manifest["artifacts"][name].get("dependencies", []) if other in wide.templates]
        assert all("-state-" in other for other in needed), name


@pytest.mark.report("awslabs/cdk-eks-blueprints#587")
def test_exports_carry_the_name_of_their_stack(wide: Assembly):
    """A fixed export name clashed for the second cluster elsewhere (cdk-eks-blueprints#587)."""
    for name, template in wide.templates.items():
        for output in template.get("Outputs", {}).values():
            if "Export" in output:
                assert output["Export"]["Name"].startswith(f"{name}:")


def test_every_taggable_resource_has_the_configured_tags(wide: Assembly):
    for kind in ("AWS::SQS::Queue", "AWS::Lambda::Function", "AWS::DynamoDB::Table", "AWS::IAM::Role"):
        for _, name, item in wide.resources(kind):
            assert {"Key": "team", "Value": "platform"} in item["Properties"]["Tags"], name


@pytest.mark.parametrize("assembly", ["example", "wide"])
def test_cfn_lint_has_nothing_to_say(assembly: str, request: pytest.FixtureRequest):
    """W3005 is about a DependsOn that the CDK writes although a reference implies it."""
    made: Assembly = request.getfixturevalue(assembly)
    linted = subprocess.run(
        [
            Path(sys.executable).with_name("cfn-lint"),
            "--ignore-checks",
            "W3005",
            "--template",
            *made.folder.glob("*.template.json"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (linted.returncode, linted.stdout) == (0, ""), linted.stdout + linted.stderr


@pytest.mark.report("cdklabs/cdk-nag#1798")
def test_cdk_nag_still_has_each_finding_that_we_acknowledge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An acknowledgement that is no longer needed would hide the next finding. Synthesis fails without them."""
    acknowledged: set[tuple[str, str]] = set()

    def listen(construct: Any, finding: nag.Finding) -> None:
        acknowledged.add((construct.node.path, finding.rule))

    monkeypatch.setattr(nag, "acknowledge", listen)
    app = stacks_assembly.app_without_bundling(outdir=str(tmp_path))
    # The channel of a cluster that is left out here goes with it.
    slack = {**WIDE["alerts"]["slack"], "channels": WIDE["alerts"]["slack"]["channels"][:1]}
    fewer = {**WIDE, "clusters": WIDE["clusters"][:2], "alerts": {**WIDE["alerts"], "slack": slack}}
    stacks_assembly.build(app, HoldfastConfig.read(json.dumps(fewer)))

    with pytest.raises(RuntimeError, match="ValidationFailed"):
        app.synth()

    report = json.loads((tmp_path / "validation-report.json").read_text())
    found = {
        (construct["constructPath"].removesuffix("/Resource"), violation["ruleName"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }
    assert found == acknowledged


def test_a_configuration_with_too_many_networks_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch):
    clusters = [
        {
            "name": f"cluster-{number:02}",
            "region": "eu-central-1",
            "account": ACCOUNT,
            "network": network(number),
            "karpenter": {"controllerRoleArn": controller("any")},
        }
        for number in range(10, 30)
    ]
    config = HoldfastConfig.read(json.dumps({"clusters": clusters}))

    with pytest.raises(EnvironmentTooLarge, match=r"interruption_ingest .* HOLDFAST_LOOK_QUEUES"):
        stacks_assembly.build(stacks_assembly.app_without_bundling(), config)


def test_the_environment_is_measured_in_bytes_with_room_for_what_cloudformation_fills_in():
    assert python_function._check_size("some_function", {"A": "x" * 2_999}) is None
    with pytest.raises(EnvironmentTooLarge, match="3001 bytes"):
        python_function._check_size("some_function", {"A": "x" * 3_000})
    with pytest.raises(EnvironmentTooLarge, match="some_function would get 3016 bytes"):
        python_function._check_size("some_function", {"A": "${Token[TOKEN.7]}" * 15 + "é" * 7 + "x"})


def test_a_mistake_in_the_configuration_ends_synth_with_a_message(tmp_path: Path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("clusters: []\nclutters: 1\n")

    with pytest.raises(SystemExit) as ended:
        cdk_app.synthesize(App(context={"config": str(wrong)}))

    assert "wrong.yaml" in str(ended.value)
    assert "clutters" in str(ended.value)


def test_the_app_takes_the_configuration_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(ROOT)

    cdk_app.synthesize(stacks_assembly.app_without_bundling(outdir=str(tmp_path)))

    assert len(list(tmp_path.glob("holdfast-*.template.json"))) == 3


def test_the_cdk_starts_the_app_in_the_projects_own_environment():
    document = json.loads((ROOT / "cdk.json").read_text())

    assert document["app"] == ".venv/bin/python app.py"
    # A reference that CloudFormation holds: the ledger cannot be deleted under the functions that use it.
    assert document["context"]["@aws-cdk/core:defaultCrossStackReferences"] == "strong"
    assert document["context"]["@aws-cdk/core:target-partitions"] == ["aws", "aws-cn", "aws-us-gov"]
