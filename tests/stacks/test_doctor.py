"""What the stacks deploy is what `holdfast doctor` looks for and calls ok."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from holdfast.runtime import names
from holdfast.runtime.config import Cluster
from holdfast_cli import doctor_checks as checks
from holdfast_cli import doctor_look
from holdfast_cli.doctor_checks import RuleSeen, State, Target
from holdfast_cli.doctor_look import Deployed, Environment
from holdfast_cli.redrive_rules import dead_letters_in
from stacks.constructs import alarms
from tests.stacks.templates import ACCOUNT, Assembly, of_type, one

REGION = "ap-southeast-1"


@pytest.fixture
def deployed(wide: Assembly) -> Environment:
    """Every kind of cluster in one place; nobody asks AWS for anything."""
    return Environment(None, wide.config, ACCOUNT, REGION, None)  # type: ignore[arg-type]


def control(wide: Assembly) -> Mapping[str, Any]:
    return wide.template("control-plane", REGION)


def made(wide: Assembly) -> list[Cluster]:
    """The clusters there whose queue Holdfast makes."""
    return [cluster for cluster in wide.config.clusters_in(ACCOUNT, REGION) if cluster.queue is not None]


def stack_of(wide: Assembly, cluster: Cluster) -> Mapping[str, Any]:
    return wide.templates[names.cluster_stack_id(wide.config.name, ACCOUNT, REGION, cluster.name)]


def arn_of(template: Mapping[str, Any], value: Any) -> str:
    """An ARN in a template: plain, or of a queue in it."""
    if isinstance(value, str):
        return value
    resource = template["Resources"][value["Fn::GetAtt"][0]]
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{resource['Properties']['QueueName']}"


def attributes(template: Mapping[str, Any], queue: str, policy: str) -> dict[str, str]:
    """What SQS would answer for a queue of a template."""
    properties = one(template, "AWS::SQS::Queue", queue)["Properties"]
    redrive = properties["RedrivePolicy"]
    found = {
        "MessageRetentionPeriod": str(properties["MessageRetentionPeriod"]),
        "RedrivePolicy": json.dumps(
            redrive | {"deadLetterTargetArn": arn_of(template, redrive["deadLetterTargetArn"])}
        ),
        "Policy": json.dumps(one(template, "AWS::SQS::QueuePolicy", policy)["Properties"]["PolicyDocument"]),
    }
    if "KmsMasterKeyId" in properties:
        found["KmsMasterKeyId"] = properties["KmsMasterKeyId"]
    return found


def rule_seen(template: Mapping[str, Any], name: str) -> RuleSeen:
    """What EventBridge would answer for a rule of a template."""
    (found,) = (
        rule["Properties"]
        for rule in of_type(template, "AWS::Events::Rule").values()
        if rule["Properties"].get("Name") == name
    )
    targets = tuple(
        Target(arn_of(template, target["Arn"]), arn_of(template, target["DeadLetterConfig"]["Arn"]))
        for target in found["Targets"]
    )
    return RuleSeen(name, found["State"] == "ENABLED", found["EventPattern"], targets)


def test_the_limits_are_those_of_the_alarms() -> None:
    assert checks.KARPENTER_QUEUE_WARNING == alarms.KARPENTER_QUEUE_WARNING
    assert checks.KARPENTER_QUEUE_PAGE == alarms.KARPENTER_QUEUE_PAGE
    assert checks.AUDIT_QUEUE_LAG == alarms.AUDIT_QUEUE_LAG
    assert checks.OUTBOX_AGE == alarms.OUTBOX_AGE


@pytest.mark.report("terraform-aws-modules/terraform-aws-eks#3674")
def test_every_rule_that_is_deployed_is_looked_for_and_ok(
    wide: Assembly, deployed: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates = [control(wide), *(stack_of(wide, cluster) for cluster in made(wide))]
    seen = {
        properties["Name"]: rule_seen(template, properties["Name"])
        for template in templates
        for properties in (rule["Properties"] for rule in of_type(template, "AWS::Events::Rule").values())
        if "Name" in properties
    }
    monkeypatch.setattr(Environment, "rule", lambda _, name: seen.pop(name))
    told = {
        probe.name: probe.look()
        for probe in doctor_look.probes(deployed, clusters=made(wide), send_test=False)
        if probe.name.startswith("rule ")
    }
    assert {state[0] for state in told.values() if state} == {State.OK}
    assert len(told) == 7 + 1 + 5 * len(made(wide))  # the audit's, the canary's, and those of each cluster's queue
    assert seen == {}


@pytest.mark.report("prowler-cloud/prowler#2565")
def test_karpenters_queue_as_deployed_is_ok(
    wide: Assembly, deployed: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    for cluster in made(wide):
        found = attributes(stack_of(wide, cluster), "InterruptionQueue", "InterruptionPolicy")
        monkeypatch.setattr(Environment, "attributes", lambda _self, _name, found=found: found)
        told = {
            probe.name.rpartition(": ")[2]: probe.look()
            for probe in doctor_look.probes(deployed, clusters=[cluster], send_test=False)
            if probe.place == cluster.name and probe.name.endswith((": settings", ": policy", ": readers"))
        }
        assert set(told) == {"settings", "policy", "readers"}
        assert {name: state[0] for name, state in told.items() if state} == dict.fromkeys(told, State.OK), told


def test_the_audits_queue_as_deployed_is_ok(
    wide: Assembly, deployed: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = attributes(control(wide), "AuditEventsQueue", "AuditEventsPolicy")
    monkeypatch.setattr(Environment, "attributes", lambda _self, _name: found)
    (probe,) = (
        probe for probe in doctor_look.probes(deployed, clusters=[], send_test=False) if probe.name.endswith(": policy")
    )
    told = probe.look()
    assert told is not None
    assert told[0] is State.OK


def test_every_function_and_the_table_are_found_by_their_logical_ids(
    wide: Assembly, deployed: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logical id stands for the physical one here; functions that only the CDK needs are none of ours."""
    stacks = {
        names.control_plane_stack_id(wide.config.name, ACCOUNT, REGION): control(wide),
        names.state_stack_id(wide.config.name, ACCOUNT, REGION): wide.template("state", REGION),
    }

    def ask(self: Deployed) -> list[tuple[str, str, str]]:
        return [(name, one["Type"], name) for name, one in stacks[self.stack]["Resources"].items()]

    asked: list[str | None] = []

    def function(_: Environment, name: str | None) -> dict[str, Any] | None:
        asked.append(name)
        return {} if name else None

    monkeypatch.setattr(Deployed, "_ask", ask)
    monkeypatch.setattr(Environment, "function", function)
    monkeypatch.setattr(
        Environment,
        "table",
        lambda _self, name: {
            "TableStatus": "ACTIVE",
            "DeletionProtectionEnabled": True,
            "GlobalSecondaryIndexes": [
                {"IndexName": index["IndexName"], "IndexStatus": "ACTIVE"}
                for index in stacks[wide_state(wide)]["Resources"][name]["Properties"]["GlobalSecondaryIndexes"]
            ],
        },
    )
    told = {
        probe.name: probe.look()
        for probe in doctor_look.probes(deployed, clusters=[], send_test=False)
        if probe.name.endswith(": function") or probe.name == "ledger"
    }
    assert {name: state[0] for name, state in told.items() if state} == dict.fromkeys(told, State.OK), told
    functions = {name for name in of_type(control(wide), "AWS::Lambda::Function") if not name.startswith("Custom")}
    assert set(asked) == functions


def wide_state(wide: Assembly) -> str:
    return names.state_stack_id(wide.config.name, ACCOUNT, REGION)


def test_every_dead_letter_queue_that_is_deployed_is_known(wide: Assembly) -> None:
    known = {queue.name for queue in dead_letters_in(wide.config, ACCOUNT, REGION)}
    deployed = {
        queue["Properties"]["QueueName"]
        for template in (control(wide), *(stack_of(wide, cluster) for cluster in made(wide)))
        for queue in of_type(template, "AWS::SQS::Queue").values()
        if "RedrivePolicy" not in queue["Properties"]
    }
    # The queue of the cluster that brought its own is deployed by somebody else.
    assert known == deployed | {"theirs-dead"}
