"""An IAM statement that says why it is there.

Every statement Holdfast writes, of a role, a queue, a topic or a key, has a Sid and a reason. The reasons travel in the
template, in the metadata of the resource that holds the policy, so that docs/permissions.md and whoever reads the
template in the console see the same words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aws_cdk import CfnResource, aws_iam

REASONS = "holdfast:reasons"
"""The key in a resource's metadata that maps each Sid to its reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement of a policy.

    `services`, `account` (an ARN) and `everyone` (`*`) are the principals of a resource's policy; a statement of a role
    has none. `reason` is a sentence for whoever reviews the permission.
    """

    sid: str
    reason: str
    actions: Sequence[str]
    resources: Sequence[str] = ()
    conditions: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    deny: bool = False
    services: Sequence[str] = ()
    account: str | None = None
    everyone: bool = False

    def to_json(self) -> dict[str, Any]:
        """The statement as it stands in a policy document; tokens of the CDK stay in it."""
        document: dict[str, Any] = {"Sid": self.sid, "Effect": "Deny" if self.deny else "Allow"}
        if self.everyone:
            document["Principal"] = "*"
        elif self.account is not None:
            document["Principal"] = {"AWS": self.account}
        elif self.services:
            document["Principal"] = {"Service": _one_or_all(self.services)}
        document["Action"] = _one_or_all(self.actions)
        if self.resources:
            document["Resource"] = _one_or_all(self.resources)
        if self.conditions:
            document["Condition"] = {operator: dict(keys) for operator, keys in self.conditions.items()}
        return document


def policy_json(statements: Sequence[Statement]) -> dict[str, Any]:
    """A policy document of these statements.

    Raises:
        ValueError: two of them have the same Sid, which IAM refuses.
    """
    sids = [statement.sid for statement in statements]
    repeated = sorted({sid for sid in sids if sids.count(sid) > 1})
    if repeated:
        raise ValueError(f"statements of one policy need Sids of their own; there twice: {', '.join(repeated)}")
    return {"Version": "2012-10-17", "Statement": [statement.to_json() for statement in statements]}


def policy_document(statements: Sequence[Statement]) -> aws_iam.PolicyDocument:
    """The same as the CDK's object, for constructs that take nothing else."""
    return aws_iam.PolicyDocument.from_json(policy_json(statements))


def record_reasons(resource: CfnResource, statements: Sequence[Statement]) -> None:
    """Writes the reasons into the metadata of the resource whose policy has these statements."""
    resource.add_metadata(REASONS, {statement.sid: statement.reason for statement in statements})


def deny_http(action: str, resource: str) -> Statement:
    """Nobody may use `resource` without TLS."""
    return Statement(
        sid="DenyHTTP",
        reason="Nothing is sent or read in clear text, by anybody.",
        deny=True,
        everyone=True,
        actions=[action],
        resources=[resource],
        conditions={"Bool": {"aws:SecureTransport": "false"}},
    )


def _one_or_all(values: Sequence[str]) -> str | list[str]:
    return values[0] if len(values) == 1 else list(values)
