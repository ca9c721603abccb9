"""Configurations for tests of the stacks, and a way to read the templates they become."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.runtime.config import HoldfastConfig

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "111122223333"
KEY_ARN = f"arn:aws:kms:ap-southeast-1:{ACCOUNT}:key/0fa0e000-0000-4000-8000-000000000000"
BREAK_GLASS_ARN = f"arn:aws:iam::{ACCOUNT}:role/platform/on-call"

Resource = Mapping[str, Any]


def controller(cluster: str, partition: str = "aws") -> str:
    return f"arn:{partition}:iam::{ACCOUNT}:role/KarpenterControllerRole-{cluster}"


def network(number: int) -> dict[str, Any]:
    return {
        "vpcId": f"vpc-0000000{number}",
        "subnetIds": [f"subnet-0000000{number}", f"subnet-1000000{number}"],
        "securityGroupIds": [f"sg-0000000{number}"],
    }


# Every kind of cluster side by side in one account and region, and one in each other partition.
WIDE: dict[str, Any] = {
    "name": "hf",
    "clusters": [
        {
            "name": "open",
            "region": "ap-southeast-1",
            "account": ACCOUNT,
            "karpenter": {"controllerRoleArn": controller("open")},
        },
        {
            "name": "closed",
            "region": "ap-southeast-1",
            "account": ACCOUNT,
            "authenticationMode": "CONFIG_MAP",
            "network": network(1),
            "karpenter": {"controllerRoleArn": controller("closed"), "breakGlassRoleArns": [BREAK_GLASS_ARN]},
            "queue": {"name": "closed-interruptions", "encryption": KEY_ARN, "retention": "15m"},
        },
        {
            "name": "adopted",
            "region": "ap-southeast-1",
            "account": ACCOUNT,
            "authenticationMode": "API_AND_CONFIG_MAP",
            "network": network(2),
            "karpenter": {"controllerRoleArn": controller("adopted")},
            "existingQueue": {"name": "theirs", "deadLetterQueueName": "theirs-dead"},
        },
        {
            "name": "beijing",
            "region": "cn-north-1",
            "account": ACCOUNT,
            "network": network(3),
            "karpenter": {"controllerRoleArn": controller("beijing", "aws-cn")},
        },
        {
            "name": "gov",
            "region": "us-gov-west-1",
            "account": ACCOUNT,
            "karpenter": {"controllerRoleArn": controller("gov", "aws-us-gov")},
        },
    ],
    "audit": {"includeTerminateCalls": True, "archiveRetentionDays": 7, "maxConcurrency": 20, "interruptionRate": 12},
    "alerts": {
        "slack": {
            "webhookSecretName": "team/webhook",
            "channels": [
                {"webhookSecretName": "team/oncall", "severities": ["page"]},
                {"webhookSecretName": "team/gov", "severities": ["page", "warning"], "clusters": ["gov"]},
            ],
        },
        "sns": {"severities": ["page"]},
        "quietHours": {"from": "22:00", "to": "07:00", "timezone": "Europe/Berlin"},
        "runbookUrl": "https://git.example/runbook.md",
    },
    "tags": {"team": "platform"},
    "permissionsBoundary": "platform-boundary",
    "architecture": "x86_64",
    "logRetentionDays": 731,
}

SILENT: dict[str, Any] = {
    "clusters": [
        {
            "name": "quiet",
            "region": "eu-central-1",
            "account": ACCOUNT,
            "karpenter": {"controllerRoleArn": controller("quiet")},
        }
    ]
}


@dataclass(frozen=True)
class Assembly:
    """What a configuration was synthesized into."""

    config: HoldfastConfig
    folder: Path
    templates: Mapping[str, Mapping[str, Any]]
    warnings: tuple[str, ...]

    def template(self, *words: str) -> Mapping[str, Any]:
        """The one template whose stack's name has all these words."""
        (found,) = (template for name, template in self.templates.items() if all(word in name for word in words))
        return found

    def resources(self, of_type: str) -> list[tuple[str, str, Resource]]:
        """Stack, logical id and resource of every resource of a type."""
        return [
            (stack, logical_id, resource)
            for stack, template in self.templates.items()
            for logical_id, resource in template["Resources"].items()
            if resource["Type"] == of_type
        ]


def of_type(template: Mapping[str, Any], kind: str) -> dict[str, Resource]:
    """The resources of a type, by logical id."""
    return {name: resource for name, resource in template["Resources"].items() if resource["Type"] == kind}


def one(template: Mapping[str, Any], kind: str, prefix: str) -> Resource:
    """The one resource of a type whose logical id begins so."""
    (found,) = (resource for name, resource in of_type(template, kind).items() if name.startswith(prefix))
    return found
