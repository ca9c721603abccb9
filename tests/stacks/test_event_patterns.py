"""Which events reach Karpenter and which the audit: every body in tests/events, and some that must not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from moto.events.models import EventPattern

from holdfast.interruption.event import CANARY_DETAIL_TYPE, CANARY_SOURCE
from holdfast.runtime import event_patterns, names
from holdfast.runtime.names import AuditRuleKind, RuleKind
from tests.stacks.templates import ROOT, Assembly, of_type

EVENTS = ROOT / "tests" / "events"

# Samples of what is not an EventBridge event.
NOT_EVENTS = {
    "eventbridge_dlq_message",
    "fis_template",
    "lambda_partial_batch_response",
    "lambda_sqs_batch",
    "rule_patterns_karpenter",
}
# Event → Karpenter's rule, the audit's rule. By EC2's, Health's, FIS's and CloudTrail's references and by what Karpenter
# acts on; None: no rule may take it.
WHERE: dict[str, tuple[RuleKind | None, AuditRuleKind | None]] = {
    "spot_warning": (RuleKind.SPOT, AuditRuleKind.WARNING),
    "spot_warning_full_arn_stop": (RuleKind.SPOT, AuditRuleKind.WARNING),
    "spot_warning_hibernate": (RuleKind.SPOT, AuditRuleKind.WARNING),
    "spot_warning_missing_instance_id": (RuleKind.SPOT, AuditRuleKind.WARNING),
    "spot_warning_unknown_action_extra_fields": (RuleKind.SPOT, AuditRuleKind.WARNING),
    "replayed_spot_warning": (RuleKind.SPOT, AuditRuleKind.WARNING),
    "capacity_block_instance_warning": (RuleKind.CAPACITY, AuditRuleKind.WARNING),
    "capacity_reservation_resources_list": (RuleKind.CAPACITY, AuditRuleKind.WARNING),
    "capacity_reservation_resources_string": (RuleKind.CAPACITY, AuditRuleKind.WARNING),
    "rebalance": (RuleKind.REBALANCE, AuditRuleKind.REBALANCE),
    "state_running_noise": (None, AuditRuleKind.STATE),
    "state_stopping": (RuleKind.STATE, AuditRuleKind.STATE),
    "state_stopped_no_version": (RuleKind.STATE, AuditRuleKind.STATE),
    "state_shutting_down": (RuleKind.STATE, AuditRuleKind.STATE),
    "state_terminated": (RuleKind.STATE, AuditRuleKind.STATE),
    "health_scheduled_single": (RuleKind.HEALTH, AuditRuleKind.HEALTH),
    "health_scheduled_multi_page2": (RuleKind.HEALTH, AuditRuleKind.HEALTH),
    "health_scheduled_closed_update": (RuleKind.HEALTH, AuditRuleKind.HEALTH),
    "health_backup_region_duplicate": (RuleKind.HEALTH, AuditRuleKind.HEALTH),
    "health_org_view_management_account": (RuleKind.HEALTH, AuditRuleKind.HEALTH),
    "health_ec2_issue_public": (None, None),
    "health_other_service_ecs_arn_entities": (None, None),
    "health_lambda_account_notification": (None, None),
    "health_abuse_event": (None, None),
    "fis_state_change": (None, AuditRuleKind.EXPERIMENT),
    "cloudtrail_bid_evicted": (None, AuditRuleKind.CLOUDTRAIL),
    "cloudtrail_terminate_by_karpenter": (None, None),
    "spot_request_fulfillment": (None, None),
    # Samples with `detail_type`: EventBridge knows only `detail-type`.
    "capacity_block_underscore_key": (None, None),
    "capacity_block_expiration_no_instance": (None, None),
}


def event(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return body


def ec2(detail_type: str, **detail: Any) -> dict[str, Any]:
    return {"source": "aws.ec2", "detail-type": detail_type, "detail": detail}


def matching[Kind](patterns: Mapping[Kind, Mapping[str, Any]], body: Mapping[str, Any]) -> list[Kind]:
    return [kind for kind, pattern in patterns.items() if EventPattern.load(json.dumps(pattern)).matches_event(body)]


def deployed(assembly: Assembly, stack: str, prefix: str) -> dict[str, Mapping[str, Any]]:
    """Rule name → pattern, of the rules whose name begins so."""
    rules = of_type(assembly.template(stack), "AWS::Events::Rule").values()
    return {
        rule["Properties"]["Name"]: rule["Properties"]["EventPattern"]
        for rule in rules
        if rule["Properties"].get("Name", "").startswith(prefix)
    }


def test_every_sample_is_decided():
    assert {path.stem for path in EVENTS.glob("*.json")} == WHERE.keys() | NOT_EVENTS


@pytest.mark.parametrize("name", WHERE)
def test_a_sample_reaches_the_rules_it_is_for_and_no_other(name: str, example: Assembly):
    karpenter, audit = WHERE[name]

    at_karpenter = matching(deployed(example, "cluster", "holdfast-"), event(name))
    at_audit = matching(deployed(example, "control-plane", "holdfast."), event(name))

    assert at_karpenter == ([names.rule_name("holdfast", "eksworkshop", karpenter)] if karpenter else [])
    assert at_audit == ([names.audit_rule_name("holdfast", audit)] if audit else [])


def test_the_audit_gets_all_that_karpenter_gets():
    assert all(audit is not None for karpenter, audit in WHERE.values() if karpenter is not None)


@pytest.mark.report("terraform-aws-modules/terraform-aws-eks#3674")
def test_karpenters_patterns_are_those_of_the_deployment_specification():
    assert json.loads(json.dumps(event_patterns.KARPENTER)) == event("rule_patterns_karpenter")


def test_terminate_calls_are_taken_when_they_are_asked_for(wide: Assembly):
    rules = deployed(wide, "control-plane-111122223333-ap", "hf.")

    assert matching(rules, event("cloudtrail_terminate_by_karpenter")) == ["hf.audit.cloudtrail"]
    assert matching(rules, event("cloudtrail_bid_evicted")) == ["hf.audit.cloudtrail"]


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (ec2("EC2 Instance State-change Notification", state="pending"), [AuditRuleKind.STATE]),
        (ec2("EC2 Wormhole Interruption Warning"), [AuditRuleKind.WARNING]),
        (ec2("Capacity Block Delivered"), [AuditRuleKind.CAPACITY]),
        (ec2("Capacity Block Reservation Expiration Warning"), [AuditRuleKind.CAPACITY]),
        (
            ec2("EC2 Interruptible Capacity Reservation Allocation Reclamation Completed"),
            [AuditRuleKind.CAPACITY],
        ),
        (ec2("EC2 Spot Instance Rebalance Recommended"), [AuditRuleKind.REBALANCE]),
        (ec2("EC2 Spot Instance Interruption Warning of another kind"), []),
        (ec2("AWS API Call via CloudTrail", eventName="RunInstances"), []),
        (ec2("AWS Service Event via CloudTrail", eventName="SpotInstanceTermination"), []),
        (ec2("EBS Volume Notification", event="createVolume"), []),
        ({"source": "holdfast.test", "detail-type": "EC2 Spot Instance Interruption Warning", "detail": {}}, []),
    ],
)
def test_near_misses_of_the_audits_rules(body: dict[str, Any], kinds: list[AuditRuleKind]):
    patterns = event_patterns.audit("holdfast", include_terminate_calls=False)

    assert matching(patterns, body) == kinds
    assert matching({"archive": event_patterns.archive(patterns)}, body) == (["archive"] if kinds else [])


@pytest.mark.report("aws/karpenter-provider-aws#9523")
@pytest.mark.parametrize("state", ["pending", "running"])
def test_karpenter_gets_no_state_it_does_nothing_about(state: str):
    assert matching(event_patterns.KARPENTER, ec2("EC2 Instance State-change Notification", state=state)) == []


@pytest.mark.parametrize("name", WHERE)
def test_the_archive_keeps_what_the_audits_rules_match_and_no_more(name: str, example: Assembly):
    (archive,) = of_type(example.template("control-plane"), "AWS::Events::Archive").values()

    kept = matching({"archive": archive["Properties"]["EventPattern"]}, event(name))

    assert bool(kept) == (WHERE[name][1] is not None)


def test_a_canary_reaches_the_audit_of_its_own_deployment_and_nothing_else(example: Assembly):
    canary = {"source": CANARY_SOURCE, "detail-type": CANARY_DETAIL_TYPE}
    ours, theirs = ({**canary, "detail": {"deployment": name, "id": "canary-1"}} for name in ("holdfast", "other"))

    assert matching(deployed(example, "cluster", "holdfast-"), ours) == []
    assert matching(deployed(example, "control-plane", "holdfast."), ours) == ["holdfast.audit.canary"]
    assert matching(deployed(example, "control-plane", "holdfast."), theirs) == []
    (archive,) = of_type(example.template("control-plane"), "AWS::Events::Archive").values()
    assert matching({"archive": archive["Properties"]["EventPattern"]}, ours) == []
