"""The rules of one account and region as `cdk deploy` makes them: what the sweeper compares EventBridge's answer with."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.interruption.drift import ExpectedRule
from holdfast.ports import RuleTarget
from holdfast.runtime import event_patterns, names
from holdfast.runtime.config import HoldfastConfig
from holdfast.runtime.config_types import partition_of


def deployed_rules(config: HoldfastConfig, account: str, region: str) -> tuple[ExpectedRule, ...]:
    """The audit's rules, and those of each cluster whose queue Holdfast makes; nobody's rules are expected elsewhere."""
    return tuple(_rules(config, account, region))


def _rules(config: HoldfastConfig, account: str, region: str) -> Iterator[ExpectedRule]:
    def target(queue: str) -> RuleTarget:
        arn = f"arn:{partition_of(region)}:sqs:{region}:{account}"
        return RuleTarget(f"{arn}:{queue}", f"{arn}:{names.target_dlq_name(queue)}")

    audit = target(names.audit_queue_name(config.name))
    control_plane = names.control_plane_stack_id(config.name, account, region)
    patterns = event_patterns.audit(config.name, include_terminate_calls=config.audit.include_terminate_calls)
    for kind, pattern in patterns.items():
        yield ExpectedRule(names.audit_rule_name(config.name, kind), pattern, audit, control_plane)
    for cluster in config.clusters_in(account, region):
        if cluster.queue is None:
            continue
        stack = names.cluster_stack_id(config.name, account, region, cluster.name)
        for feeding, pattern in event_patterns.KARPENTER.items():
            name = names.rule_name(config.name, cluster.name, feeding)
            yield ExpectedRule(name, pattern, target(cluster.queue_name), stack, cluster.name)
