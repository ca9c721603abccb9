"""Writes docs/permissions.md from the synthesized templates: `python -m stacks.permissions_page` (a test compares)."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from aws_cdk import Stack
from aws_cdk.assertions import Template

from holdfast.runtime.config import HoldfastConfig
from stacks import assembly
from stacks.cluster import controller_statements, key_statements
from stacks.statement import REASONS, Statement

PAGE_FILE = "docs/permissions.md"

_CONFIGURATION = {
    "clusters": [
        {
            "name": "CLUSTER",
            "region": "eu-central-1",
            "account": "111122223333",
            "network": {
                "vpcId": "vpc-0123456789",
                "subnetIds": ["subnet-0123456789"],
                "securityGroupIds": ["sg-0123456789"],
            },
            "karpenter": {
                "controllerRoleArn": "arn:aws:iam::111122223333:role/CONTROLLER",
                "breakGlassRoleArns": ["arn:aws:iam::111122223333:role/BREAKGLASS"],
            },
        }
    ],
    "alerts": {"slack": {"webhookSecretName": "SECRET"}},
}
_KEY_ARN = "arn:aws:kms:eu-central-1:111122223333:key/KEY"
# What stands in the configuration above, and how the page shows it.
_SHOWN = {
    "arn:aws:iam::111122223333:role/CONTROLLER": "<controllerRoleArn>",
    "arn:aws:iam::111122223333:role/BREAKGLASS": "<breakGlassRoleArns>",
    _KEY_ARN: "<the key>",
    "arn:aws:": "arn:<partition>:",
    "eu-central-1": "<region>",
    "111122223333": "<account>",
    "CLUSTER": "<cluster>",
    "SECRET": "<webhookSecretName>",
}
_NETWORK = re.compile(r"net[0-9a-f]{8}")
_EXPORTED = re.compile(r".*:ExportsOutput(?:Ref|FnGetAtt)(?P<name>[A-Za-z]+?)[0-9A-F]{8}(?P<attribute>Arn)?[0-9A-F]{8}")

_INTRODUCTION = """\
<!-- Generated from the stacks by `python -m stacks.permissions_page`. Do not edit. -->

# Permissions

Every IAM statement that Holdfast deploys, with the reason for it. The reasons are in the templates too, as metadata
`holdfast:reasons` of the resource that holds the policy. No role has a managed policy, and no role of Holdfast may
receive, delete, purge or hide a message on a queue of Karpenter's.

Shown for one cluster in a network, with Slack. `<...>` is what differs from deployment to deployment, `${...}` a resource
of the stack, `<prefix>` is `name` of the configuration. Statements about a network's interfaces are there only for
clusters that have a `network`, the notifier only where Slack is configured.
"""

_BY_HAND = """\
## What you grant

Holdfast does not make these: the roles and the key are yours. The stack of the cluster prints them as outputs
`KarpenterControllerStatements` and `QueueKeyStatements`.
"""


def page() -> str:
    """The text of `docs/permissions.md`."""
    config = HoldfastConfig.read(json.dumps(_CONFIGURATION))
    lines = [_INTRODUCTION]
    for name, stack in assembly.build(assembly.app_without_bundling(), config).items():
        lines.append(f"## Stack `{_shown(name.replace(config.name, '<prefix>', 1))}`\n")
        lines += _stack(stack, config.name)
    lines.append(_BY_HAND)
    queue, rules = "arn:aws:sqs:eu-central-1:111122223333:CLUSTER", ["arn:aws:events:eu-central-1:111122223333:rule/…"]
    for title, statements in (
        (
            "Karpenter's controller role; the second only with a customer managed key",
            controller_statements(queue, _KEY_ARN),
        ),
        ("The customer managed key of Karpenter's queue", key_statements(rules, "111122223333")),
    ):
        lines += _policy(title, [item.to_json() for item in statements], _reasons(statements))
    return "\n".join(lines)


def policies(template: Mapping[str, Any]) -> Iterator[tuple[str, Sequence[Mapping[str, Any]], Mapping[str, str]]]:
    """Each policy of a template: the logical id of its resource, its statements, and the reasons by Sid.

    A role's trust policy and its permissions are one policy here. Reasons are as recorded; the answer may lack some.
    """
    for logical_id, resource in template["Resources"].items():
        properties = resource.get("Properties", {})
        documents = [
            properties[key]
            for key in ("AssumeRolePolicyDocument", "PolicyDocument", "KeyPolicy", "ResourcePolicy")
            if key in properties
        ]
        documents += [policy["PolicyDocument"] for policy in properties.get("Policies", [])]
        if documents:
            statements = [statement for document in documents for statement in document["Statement"]]
            yield logical_id, statements, resource.get("Metadata", {}).get(REASONS, {})


def write(root: Path) -> None:
    """Writes the page below `root`, the repository."""
    (root / PAGE_FILE).write_text(page(), encoding="utf-8")


def _stack(stack: Stack, prefix: str) -> Iterator[str]:
    template = Template.from_stack(stack).to_json()
    resources = template["Resources"]
    for logical_id, statements, reasons in policies(template):
        resource = resources[logical_id]
        title = f"{_words(resource['Metadata']['aws:cdk:path'])} ({resource['Type'].removeprefix('AWS::')})"
        described = resource["Properties"].get("Description")
        yield from _policy(_shown(title), statements, reasons, f"{described}." if described else None, prefix)


def _policy(
    title: str,
    statements: Sequence[Mapping[str, Any]],
    reasons: Mapping[str, str],
    about: str | None = None,
    prefix: str = "holdfast",
) -> Iterator[str]:
    yield f"### {title}\n"
    if about is not None:
        yield f"{_shown(about)}\n"
    yield "| Sid | | actions | on | if | reason |"
    yield "|---|---|---|---|---|---|"
    for statement in statements:
        cells = [
            f"`{statement['Sid']}`",
            _principal(statement),
            _list(statement["Action"], prefix),
            _list(statement.get("Resource", []), prefix),
            _conditions(statement.get("Condition", {}), prefix),
            reasons[statement["Sid"]],
        ]
        yield "| " + " | ".join(cells) + " |"
    yield ""


def _principal(statement: Mapping[str, Any]) -> str:
    principal = statement.get("Principal")
    who = ""
    if principal is not None:
        named = principal if isinstance(principal, str) else next(iter(principal.values()))
        who = f" `{_shown(_text(named))}`"
    return f"{statement['Effect']}{who}"


def _conditions(conditions: Mapping[str, Mapping[str, Any]], prefix: str) -> str:
    return "<br>".join(
        f"{operator} `{key}` {_list(value, prefix)}"
        for operator, keys in conditions.items()
        for key, value in keys.items()
    )


def _list(values: object, prefix: str) -> str:
    each = values if isinstance(values, list) else [values]
    shown = [_shown(_text(value)) for value in each]
    return "<br>".join(f"`{re.sub(rf'\b{prefix}([.-])', r'<prefix>\1', value)}`" for value in shown)


def _text(value: Any) -> str:
    """A value of a template as a person would write it."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"${{{_plain(name)}}}"
        case {"Fn::GetAtt": [name, "Arn"]}:
            return f"${{{_plain(name)}}}"
        case {"Fn::ImportValue": name} if (found := _EXPORTED.fullmatch(name)) is not None:
            return f"${{{found['name']}}}"
        case {"Fn::Join": [separator, parts]}:
            return str(separator).join(_text(part) for part in parts)
        case _:
            raise ValueError(f"the page has no words for {json.dumps(value)}")


def _plain(logical_id: str) -> str:
    """A logical id without the hash the CDK appends."""
    return _NETWORK.sub("", logical_id[:-8])


def _words(path: str) -> str:
    """The path of a construct without its stack and without the resource's own name."""
    inner = path.split("/")[1:]
    return _NETWORK.sub("", " ".join(inner[:-1] if inner[-1] == "Resource" else inner)).replace("- ", " ")


def _shown(text: str) -> str:
    for real, shown in _SHOWN.items():
        text = text.replace(real, shown)
    return _NETWORK.sub("<network>", text)


def _reasons(statements: Sequence[Statement]) -> dict[str, str]:
    return {statement.sid: statement.reason for statement in statements}


if __name__ == "__main__":
    write(assembly.ROOT)
