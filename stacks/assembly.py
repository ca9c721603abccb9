"""The whole app from a configuration: which stacks there are, and what holds for all of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack, Tags, Validations, aws_iam
from cdk_nag import AwsSolutionsChecks

from holdfast.runtime import names
from holdfast.runtime.config import HoldfastConfig
from stacks.cluster import ClusterStack
from stacks.constructs.arns import Arns
from stacks.control_plane import ControlPlaneStack
from stacks.state import StateStack

ROOT = Path(__file__).resolve().parents[1]


def app_without_bundling(outdir: str | None = None) -> App:
    """An app as `cdk synth` makes it from cdk.json, except that nothing is bundled: for whoever only reads templates.

    `outdir` is where it writes them; a temporary folder when it is left out.
    """
    context: dict[str, Any] = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    read = {"aws:cdk:enable-path-metadata": True, "aws:cdk:bundling-stacks": []}
    return App(context=context | read, outdir=outdir)


def build(app: App, config: HoldfastConfig) -> Mapping[str, Stack]:
    """Adds all stacks of the configuration to `app`; they are in the answer under their names.

    Synthesizing the app then also runs cdk-nag over it, and fails on a finding that nobody gave a reason for.
    """
    stacks: dict[str, Stack] = {}
    for account, region in config.environments:
        state = StateStack(app, names.state_stack_id(config.name, account, region), account=account, region=region)
        clusters = config.clusters_in(account, region)
        control_plane = ControlPlaneStack(
            app,
            names.control_plane_stack_id(config.name, account, region),
            config=config,
            clusters=clusters,
            state=state,
        )
        queues = [
            ClusterStack(
                app,
                names.cluster_stack_id(config.name, account, region, cluster.name),
                prefix=config.name,
                cluster=cluster,
                alarm_topic=state.alarm_topic,
            )
            for cluster in clusters
            if cluster.queue is not None
        ]
        stacks |= {stack.stack_name: stack for stack in (state, control_plane, *queues)}
    for stack in stacks.values():
        if config.permissions_boundary is not None:
            boundary = Arns.of(stack).policy(config.permissions_boundary)
            aws_iam.PermissionsBoundary.of(stack).apply(
                aws_iam.ManagedPolicy.from_managed_policy_arn(stack, "PermissionsBoundary", boundary)
            )
        for key, value in config.tags.items():
            Tags.of(stack).add(key, value)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    return stacks
