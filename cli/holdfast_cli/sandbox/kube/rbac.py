"""RBAC as kube-apiserver judges it, over real ClusterRole and ClusterRoleBinding objects. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast_cli.sandbox.kube.identity import AUTHENTICATED, UNAUTHENTICATED, UserInfo
from holdfast_cli.sandbox.kube.request import Call

MASTERS = "system:masters"


@dataclass(frozen=True, slots=True)
class Attributes:
    """One question: may this verb be done on this. `path` is set for calls that are no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of(cls, call: Call) -> "Attributes":
        if not call.resource:
            return cls(verb=call.verb, path=call.path)
        return cls(call.verb, call.group, call.resource, call.subresource, call.namespace, call.name)


@dataclass(frozen=True, slots=True)
class Decision:
    """`reason` is what SelfSubjectAccessReview shows of an allowed call, "" of a denied one."""

    allowed: bool
    reason: str = ""


def _default(name: str, groups: Sequence[str], *rules: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    role = {"kind": "ClusterRole", "metadata": {"name": name}, "rules": list(rules)}
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "Group", "name": group} for group in groups],
    }
    return role, binding


# The part of a real server's default policy that lets everybody in (bootstrappolicy, unchanged since 1.14).
_DEFAULTS = (
    _default(
        "system:public-info-viewer",
        (AUTHENTICATED, UNAUTHENTICATED),
        {"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]},
    ),
    _default(
        "system:discovery",
        (AUTHENTICATED,),
        {
            "verbs": ["get"],
            "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"],
        },
    ),
    _default(
        "system:basic-user",
        (AUTHENTICATED,),
        {
            "verbs": ["create"],
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        },
        {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
    ),
)


def authorize(
    user: UserInfo,
    asked: Attributes,
    roles: Iterable[Mapping[str, Any]],
    bindings: Iterable[Mapping[str, Any]],
) -> Decision:
    """Whether one of the bindings, or the server's default ones, allows it."""
    if MASTERS in user.groups:
        return Decision(allowed=True)
    by_name = {role["metadata"]["name"]: role for role in (*(r for r, _ in _DEFAULTS), *roles)}
    for binding in (*(b for _, b in _DEFAULTS), *bindings):
        subject = next((s for s in binding.get("subjects") or () if _is(s, user)), None)
        role_name = binding["roleRef"]["name"]
        role = by_name.get(role_name)
        if subject is None or role is None:
            continue
        if any(_allows(rule, asked) for rule in role.get("rules") or ()):
            return Decision(
                allowed=True,
                reason=f'RBAC: allowed by ClusterRoleBinding "{binding["metadata"]["name"]}" of ClusterRole '
                f'"{role_name}" to {subject["kind"]} "{subject["name"]}"',
            )
    return Decision(allowed=False)


def forbidden_message(user: UserInfo, asked: Attributes) -> str:
    """The message of the 403, word for word."""
    if asked.path:
        return f'forbidden: User "{user.username}" cannot {asked.verb} path "{asked.path}"'
    qualified = f"{asked.resource}.{asked.group}" if asked.group else asked.resource
    named = f' "{asked.name}"' if asked.name else ""
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    scope = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    return (
        f'{qualified}{named} is forbidden: User "{user.username}" cannot {asked.verb} resource "{resource}" '
        f'in API group "{asked.group}" {scope}'
    )


def _is(subject: Mapping[str, Any], user: UserInfo) -> bool:
    match subject["kind"]:
        case "Group":
            return subject["name"] in user.groups
        case "User":
            return bool(subject["name"] == user.username)
        case _:  # a ServiceAccount: no token of one is issued here
            return False


def _allows(rule: Mapping[str, Any], asked: Attributes) -> bool:
    if not _among(asked.verb, rule.get("verbs")):
        return False
    if asked.path:
        urls = rule.get("nonResourceURLs") or ()
        return any(url == asked.path or (url.endswith("*") and asked.path.startswith(url[:-1])) for url in urls)
    if not _among(asked.group, rule.get("apiGroups")):
        return False
    resources = rule.get("resources") or ()
    if asked.subresource:
        combined = f"{asked.resource}/{asked.subresource}"
        resource_allowed = not {"*", combined, f"*/{asked.subresource}"}.isdisjoint(resources)
    else:
        resource_allowed = _among(asked.resource, resources)
    names = rule.get("resourceNames") or ()
    return resource_allowed and (not names or asked.name in names)


def _among(value: str, listed: Sequence[str] | None) -> bool:
    return listed is not None and ("*" in listed or value in listed)
