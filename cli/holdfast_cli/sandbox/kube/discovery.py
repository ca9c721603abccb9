"""What kubectl and the clients' discovery ask before anything else: versions, groups and resources."""

from collections.abc import Collection
from typing import Any

from holdfast_cli.sandbox.kube.resources import RESOURCES, Resource
from holdfast_cli.sandbox.kube.status import page_not_found

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.4-eks-a887778",
    "gitTreeState": "clean",
    "compiler": "gc",
    "platform": "linux/amd64",
}
HEALTH_PATHS = frozenset({"/healthz", "/livez", "/readyz"})


def document(path: str, hidden_groups: Collection[str]) -> dict[str, Any]:
    """The discovery document of `/api…`, `/apis…` or `/version`. Refused with 404 if there is none.

    Only what is served is listed, so that a client does not try what would be answered with 501.
    """
    served = [r for r in RESOURCES if r.group not in hidden_groups]
    match path.strip("/").split("/"):
        case ["version"]:
            return dict(VERSION)
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}
        case ["apis"]:
            groups = sorted({r.group for r in served} - {""})
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name) for name in groups]}
        case ["apis", group] if any(r.group == group for r in served):
            return {"kind": "APIGroup", "apiVersion": "v1"} | _group(group)
        case ["api", "v1"]:
            return _resources("v1", [r for r in served if not r.group])
        case ["apis", group, "v1"] if any(r.group == group for r in served):
            return _resources(f"{group}/v1", [r for r in served if r.group == group])
    raise page_not_found()


def _group(name: str) -> dict[str, Any]:
    version = {"groupVersion": f"{name}/v1", "version": "v1"}
    return {"name": name, "versions": [version], "preferredVersion": version}


def _resources(group_version: str, resources: list[Resource]) -> dict[str, Any]:
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": [
            {
                "name": r.plural,
                "singularName": r.kind.lower(),
                "namespaced": r.namespaced,
                "kind": r.kind,
                "verbs": ["get", "list"],
                "shortNames": list(r.short_names),
            }
            for r in resources
        ],
    }
