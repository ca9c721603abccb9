"""The side door: write the cluster's history, inject faults, read the calls. In process or over HTTP."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

import yaml

from holdfast_cli.sandbox import remote
from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.kube.api import Api
from holdfast_cli.sandbox.kube.calls import LoggedCall
from holdfast_cli.sandbox.kube.faults import Fault
from holdfast_cli.sandbox.kube.identity import UserInfo
from holdfast_cli.sandbox.kube.resources import BY_KIND, RESOURCES, Resource
from holdfast_cli.sandbox.kube.store import KubeObject
from holdfast_cli.sandbox.kube.times import timestamp
from holdfast_cli.sandbox.loopback import LoopbackServer
from holdfast_cli.sandbox.remote import Method


class Control(Protocol):
    """What a player or a test may do to the cluster. Refusals are SandboxErrors that name the object."""

    def issue_token(self, username: str, groups: Sequence[str] = ()) -> str:
        """A static bearer token for this user; the group `system:masters` may do anything."""
        ...

    def apply(self, *objects: Mapping[str, Any]) -> list[KubeObject]:
        """Creates or replaces whole objects. Metadata that is given stays (uid, creationTimestamp,
        deletionTimestamp, …), resourceVersion is the server's.

        A ClusterRole or ClusterRoleBinding is enforced from the next call on.
        """
        ...

    def apply_yaml(self, text: str) -> list[KubeObject]:
        """`apply` of all documents of a YAML text, `List`s unrolled."""
        ...

    def patch(self, kind: str, name: str, merge_patch: Mapping[str, Any], namespace: str | None = None) -> KubeObject:
        """JSON merge patch of any part, status and metadata too."""
        ...

    def mark_deleted(
        self,
        kind: str,
        name: str,
        at: datetime,
        namespace: str | None = None,
        grace_seconds: int | None = None,
    ) -> KubeObject:
        """Sets deletionTimestamp and leaves the object there, as a DELETE does when a finalizer holds it."""
        ...

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        """Gone at once."""
        ...

    def get(self, kind: str, name: str, namespace: str | None = None) -> KubeObject | None: ...

    def objects(self, kind: str, namespace: str | None = None) -> list[KubeObject]:
        """All of a kind, ordered by namespace and name."""
        ...

    def uninstall(self, group: str) -> None:
        """An API group's resources become unknown (plain 404), as if its CRDs had been deleted."""
        ...

    def inject(self, fault: Fault) -> None: ...

    def clear_faults(self) -> None: ...

    def refuse_connections(self) -> None:
        """Closes the port: "connection refused" until accept_connections."""
        ...

    def accept_connections(self) -> None: ...

    def expire_continue_tokens(self) -> None:
        """What etcd's compaction does to lists that are under way: 410 Expired."""
        ...

    def calls(self) -> list[LoggedCall]:
        """What clients did, oldest first."""
        ...

    def clear_calls(self) -> None: ...


@dataclass(frozen=True, slots=True)
class LocalControl(Control):
    """Control of a server in the same process."""

    api: Api
    server: LoopbackServer

    def issue_token(self, username: str, groups: Sequence[str] = ()) -> str:
        token = secrets.token_urlsafe(24)
        self.api.tokens[token] = UserInfo(username, tuple(groups), uid=username)
        return token

    def apply(self, *objects: Mapping[str, Any]) -> list[KubeObject]:
        return [self.api.store.put(item) for item in objects]

    def apply_yaml(self, text: str) -> list[KubeObject]:
        documents = [document for document in yaml.safe_load_all(text) if document]
        return self.apply(*(item for d in documents for item in (d["items"] if d.get("kind") == "List" else [d])))

    def patch(self, kind: str, name: str, merge_patch: Mapping[str, Any], namespace: str | None = None) -> KubeObject:
        resource = _served(kind)
        return self.api.store.patch(resource, name, _namespace(resource, namespace), merge_patch)

    def mark_deleted(
        self,
        kind: str,
        name: str,
        at: datetime,
        namespace: str | None = None,
        grace_seconds: int | None = None,
    ) -> KubeObject:
        metadata: dict[str, Any] = {"deletionTimestamp": timestamp(at)}
        if grace_seconds is not None:
            metadata["deletionGracePeriodSeconds"] = grace_seconds
        return self.patch(kind, name, {"metadata": metadata}, namespace)

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        resource = _served(kind)
        self.api.store.remove(resource, name, _namespace(resource, namespace))

    def get(self, kind: str, name: str, namespace: str | None = None) -> KubeObject | None:
        resource = _served(kind)
        return self.api.store.get(resource, name, _namespace(resource, namespace))

    def objects(self, kind: str, namespace: str | None = None) -> list[KubeObject]:
        return self.api.store.all(_served(kind), namespace or "")

    def uninstall(self, group: str) -> None:
        groups = sorted({r.group for r in RESOURCES if r.custom})
        if group not in groups:
            raise SandboxError(f"no API group {group} to uninstall; there are: {groups}")
        self.api.uninstalled.add(group)

    def inject(self, fault: Fault) -> None:
        self.api.faults.append(fault)

    def clear_faults(self) -> None:
        self.api.faults.clear()

    def refuse_connections(self) -> None:
        self.server.pause()

    def accept_connections(self) -> None:
        self.server.start()

    def expire_continue_tokens(self) -> None:
        self.api.store.expire()

    def calls(self) -> list[LoggedCall]:
        return self.api.calls.all()

    def clear_calls(self) -> None:
        self.api.calls.clear()


def methods(control: Control) -> Mapping[str, Method]:
    """The calls that ControlClient makes, as JSON in and JSON out."""
    return {
        "issue_token": lambda a: control.issue_token(a["username"], a["groups"]),
        "apply": lambda a: control.apply(*a["objects"]),
        "apply_yaml": lambda a: control.apply_yaml(a["text"]),
        "patch": lambda a: control.patch(a["kind"], a["name"], a["merge_patch"], a["namespace"]),
        "delete": lambda a: control.delete(a["kind"], a["name"], a["namespace"]),
        "get": lambda a: control.get(a["kind"], a["name"], a["namespace"]),
        "objects": lambda a: control.objects(a["kind"], a["namespace"]),
        "mark_deleted": lambda a: control.mark_deleted(
            a["kind"], a["name"], datetime.fromisoformat(a["at"]), a["namespace"], a["grace_seconds"]
        ),
        "uninstall": lambda a: control.uninstall(a["group"]),
        "inject": lambda a: control.inject(Fault(**a["fault"])),
        "clear_faults": lambda _: control.clear_faults(),
        "refuse_connections": lambda _: control.refuse_connections(),
        "accept_connections": lambda _: control.accept_connections(),
        "expire_continue_tokens": lambda _: control.expire_continue_tokens(),
        "calls": lambda _: [logged.to_json() for logged in control.calls()],
        "clear_calls": lambda _: control.clear_calls(),
    }


@dataclass(frozen=True, slots=True)
class ControlClient(Control):
    """Control of the background process. SandboxError if it does not answer."""

    url: str
    token: str

    def _call(self, method: str, **arguments: Any) -> Any:
        return remote.call(self.url, self.token, method, **arguments)

    def issue_token(self, username: str, groups: Sequence[str] = ()) -> str:
        return str(self._call("issue_token", username=username, groups=list(groups)))

    def apply(self, *objects: Mapping[str, Any]) -> list[KubeObject]:
        return list(self._call("apply", objects=objects))

    def apply_yaml(self, text: str) -> list[KubeObject]:
        return list(self._call("apply_yaml", text=text))

    def patch(self, kind: str, name: str, merge_patch: Mapping[str, Any], namespace: str | None = None) -> KubeObject:
        return dict(self._call("patch", kind=kind, name=name, merge_patch=merge_patch, namespace=namespace))

    def mark_deleted(
        self,
        kind: str,
        name: str,
        at: datetime,
        namespace: str | None = None,
        grace_seconds: int | None = None,
    ) -> KubeObject:
        return dict(
            self._call(
                "mark_deleted",
                kind=kind,
                name=name,
                at=at.isoformat(),
                namespace=namespace,
                grace_seconds=grace_seconds,
            )
        )

    def delete(self, kind: str, name: str, namespace: str | None = None) -> None:
        self._call("delete", kind=kind, name=name, namespace=namespace)

    def get(self, kind: str, name: str, namespace: str | None = None) -> KubeObject | None:
        found = self._call("get", kind=kind, name=name, namespace=namespace)
        return None if found is None else dict(found)

    def objects(self, kind: str, namespace: str | None = None) -> list[KubeObject]:
        return list(self._call("objects", kind=kind, namespace=namespace))

    def uninstall(self, group: str) -> None:
        self._call("uninstall", group=group)

    def inject(self, fault: Fault) -> None:
        self._call("inject", fault=fault.to_json())

    def clear_faults(self) -> None:
        self._call("clear_faults")

    def refuse_connections(self) -> None:
        self._call("refuse_connections")

    def accept_connections(self) -> None:
        self._call("accept_connections")

    def expire_continue_tokens(self) -> None:
        self._call("expire_continue_tokens")

    def calls(self) -> list[LoggedCall]:
        return [LoggedCall.from_json(row) for row in self._call("calls")]

    def clear_calls(self) -> None:
        self._call("clear_calls")


def _served(kind: str) -> Resource:
    resource = BY_KIND.get(kind)
    if resource is None:
        raise SandboxError(f"kind {kind} is not served; there are: {', '.join(sorted(BY_KIND))}")
    return resource


def _namespace(resource: Resource, namespace: str | None) -> str:
    """The namespace kubectl would take: `default` for a namespaced object without one."""
    return (namespace or "default") if resource.namespaced else ""
