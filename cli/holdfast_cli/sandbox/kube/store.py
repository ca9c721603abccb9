"""The objects, in memory, with resource versions, consistent pages and real continue tokens."""

import base64
import binascii
import json
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from threading import RLock
from typing import Any

from holdfast_cli.sandbox.errors import SandboxError
from holdfast_cli.sandbox.kube.resources import BY_KIND, Resource
from holdfast_cli.sandbox.kube.times import timestamp

type KubeObject = dict[str, Any]

_SNAPSHOTS_KEPT = 64
_LATEST = -1  # in a continue token: go on at the newest version instead of the one the list began with
_TOKEN_VERSION = "meta.k8s.io/v1"  # noqa: S105 (a format's name)


class ContinueTokenError(ValueError):
    """The message of a 400."""


class ExpiredError(Exception):
    """The version a list began with is gone; `token` goes on without consistency."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        self.token = token


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list. `remaining` counts all objects after it, whether a selector matches them or not."""

    resource_version: int
    items: list[KubeObject]
    continue_token: str = ""
    remaining: int = 0


class Store:
    """Every method is safe to call from several threads. Objects are never changed in place, only replaced,
    so a snapshot is a list of references. Objects given out must not be changed either.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lock = RLock()
        self._version = 1
        self._objects: dict[str, dict[str, KubeObject]] = {}
        self._snapshots: OrderedDict[tuple[str, int], list[tuple[str, KubeObject]]] = OrderedDict()

    @property
    def resource_version(self) -> int:
        with self._lock:
            return self._version

    def get(self, resource: Resource, name: str, namespace: str = "") -> KubeObject | None:
        with self._lock:
            return self._objects.get(resource.qualified, {}).get(_key(namespace, name))

    def all(self, resource: Resource, namespace: str = "") -> list[KubeObject]:
        """In the order of their keys, `namespace/name`, as etcd has them (so `orders-2` comes before `orders`)."""
        prefix = _key(namespace, "") if namespace else ""
        with self._lock:
            return [item for key, item in self._sorted(resource) if key.startswith(prefix)]

    def page(
        self,
        resource: Resource,
        *,
        namespace: str,
        matches: Callable[[KubeObject], bool],
        limit: int,
        continue_token: str,
    ) -> Page:
        """The next `limit` matching objects (0: all) after the token, at the version the list began with.

        Like the real server, a page is full before it knows whether anything after it matches: the last page
        of a list with a selector may be empty.

        Raises:
            ContinueTokenError: the token is not one.
            ExpiredError: the version the list began with is gone.
        """
        with self._lock:
            start, version = _decode(continue_token) if continue_token else ("", self._version)
            if version == _LATEST:
                version = self._version
            rows = self._at(resource, version, start)
            prefix = _key(namespace, "") if namespace else ""
            rows = [row for row in rows if row[0] >= start and row[0].startswith(prefix)]
            items: list[KubeObject] = []
            for index, (key, item) in enumerate(rows):
                if matches(item):
                    items.append(item)
                remaining = len(rows) - index - 1
                if limit and len(items) == limit and remaining:
                    self._keep(resource, version)
                    return Page(version, items, _encode(version, f"{key}\0"), remaining)
            return Page(version, items)

    def expire(self) -> None:
        """Forgets every version but the newest: lists that are under way get ExpiredError."""
        with self._lock:
            self._snapshots.clear()
            self._version += 1

    def put(self, item: Mapping[str, Any]) -> KubeObject:
        """Creates or replaces a whole object. Metadata that is given stays, resourceVersion is set here.

        SandboxError for an object without a name or of a kind that is not served.
        """
        resource = resource_of(item)
        new: KubeObject = json.loads(json.dumps(item))  # a copy of our own, and proof that it is JSON
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name"):
            raise SandboxError(f"a {resource.kind} without metadata.name cannot be stored")
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        key = _key(metadata.get("namespace", ""), metadata["name"])
        with self._lock:
            old = self._objects.get(resource.qualified, {}).get(key)
            kept = old["metadata"] if old else {}
            metadata.setdefault("uid", kept.get("uid") or str(uuid.uuid4()))
            metadata.setdefault("creationTimestamp", kept.get("creationTimestamp") or timestamp(self._now()))
            if "spec" in new:
                changed = old is not None and old.get("spec") != new["spec"]
                metadata.setdefault("generation", kept.get("generation", 1) + changed)
            return self._store(resource, key, new)

    def patch(self, resource: Resource, name: str, namespace: str, patch: Mapping[str, Any]) -> KubeObject:
        """A JSON merge patch (RFC 7386) of any part of an object. SandboxError if it is not there."""
        with self._lock:
            old = self._require(resource, name, namespace)
            new = merge(old, patch)
            new["metadata"] = dict(new["metadata"])  # merge shares what the patch leaves alone
            if new.get("spec") != old.get("spec") and "generation" not in patch.get("metadata", {}):
                new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
            return self._store(resource, _key(namespace, name), new)

    def remove(self, resource: Resource, name: str, namespace: str) -> None:
        """SandboxError if it is not there."""
        with self._lock:
            self._require(resource, name, namespace)
            self._version += 1
            del self._objects[resource.qualified][_key(namespace, name)]

    def _require(self, resource: Resource, name: str, namespace: str) -> KubeObject:
        found = self._objects.get(resource.qualified, {}).get(_key(namespace, name))
        if found is None:
            where = f" in namespace {namespace}" if namespace else ""
            raise SandboxError(f"there is no {resource.kind} {name}{where}; apply it first")
        return found

    def _store(self, resource: Resource, key: str, item: KubeObject) -> KubeObject:
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self._objects.setdefault(resource.qualified, {})[key] = item
        return item

    def _sorted(self, resource: Resource) -> list[tuple[str, KubeObject]]:
        return sorted(self._objects.get(resource.qualified, {}).items(), key=lambda row: row[0])

    def _at(self, resource: Resource, version: int, start: str) -> list[tuple[str, KubeObject]]:
        snapshot = self._snapshots.get((resource.qualified, version))
        if snapshot is not None:
            return snapshot
        if version == self._version:
            return self._sorted(resource)
        raise ExpiredError(_encode(_LATEST, start))

    def _keep(self, resource: Resource, version: int) -> None:
        if (resource.qualified, version) not in self._snapshots:
            self._snapshots[resource.qualified, version] = self._sorted(resource)
            while len(self._snapshots) > _SNAPSHOTS_KEPT:
                self._snapshots.popitem(last=False)


def resource_of(item: Mapping[str, Any]) -> Resource:
    """The resource of an object, by kind and apiVersion. SandboxError for one that is not served."""
    resource = BY_KIND.get(str(item.get("kind")))
    if resource is None or item.get("apiVersion") != resource.api_version:
        served = ", ".join(sorted(f"{r.kind} ({r.api_version})" for r in BY_KIND.values()))
        raise SandboxError(f"{item.get('kind')} ({item.get('apiVersion')}) is not served; there are: {served}")
    return resource


def merge(target: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces. The result shares no changed part."""
    if not isinstance(patch, Mapping):
        return json.loads(json.dumps(patch))
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _encode(version: int, start: str) -> str:
    token = json.dumps({"v": _TOKEN_VERSION, "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[str, int]:
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        fields = json.loads(raw)
    except (binascii.Error, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ContinueTokenError(f"continue key is not valid: {error}") from None
    if not isinstance(fields, dict) or fields.get("v") != _TOKEN_VERSION:
        raise ContinueTokenError("continue key is not valid: server does not recognize this encoded version")
    version, start = fields.get("rv"), fields.get("start")
    if not isinstance(version, int) or version == 0:
        raise ContinueTokenError("continue key is not valid: incorrect encoded start resourceVersion")
    if not isinstance(start, str) or not start:
        raise ContinueTokenError("continue key is not valid: encoded start key empty")
    return start, version
