"""One cluster with a queue of Holdfast's, reached by its public endpoint, and Slack: what generated pages are about."""

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk.assertions import Template

from holdfast.runtime.config import HoldfastConfig
from stacks import assembly
from stacks.list_prices import REGION

_CONFIGURATION = {
    "clusters": [
        {
            "name": "CLUSTER",
            "region": REGION,
            "account": "111122223333",
            "karpenter": {"controllerRoleArn": "arn:aws:iam::111122223333:role/CONTROLLER"},
        }
    ],
    "alerts": {"slack": {"webhookSecretName": "SECRET"}},
}


def config() -> HoldfastConfig:
    """The example's configuration; all that is not named has its default."""
    return HoldfastConfig.read(json.dumps(_CONFIGURATION))


def templates() -> dict[str, Mapping[str, Any]]:
    """Its synthesized templates by the name of their stack."""
    stacks = assembly.build(assembly.app_without_bundling(), config())
    return {name: Template.from_stack(stack).to_json() for name, stack in stacks.items()}
