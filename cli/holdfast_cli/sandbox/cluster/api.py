"""The API of a real cluster as its administrator: what builds scenes and reads what became of them."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from holdfast_cli.sandbox.control import opener
from holdfast_cli.sandbox.errors import SandboxError

_TIMEOUT: Final = 30.0
_POLL: Final = 0.1

KubeObject = dict[str, Any]


class ApiRefusedError(SandboxError):
    """The API server refused a call; `code` is its HTTP status."""

    def __init__(self, code: int, words: str) -> None:
        """Keeps the status beside the words."""
        super().__init__(words)
        self.code = code


@dataclass(frozen=True, slots=True)
class Api:
    """Calls with one bearer token. Refusals are SandboxErrors that name the object."""

    url: str
    ca: Path
    token: str

    def ready(self) -> bool:
        """Whether the server says that it is."""
        try:
            return self._open("GET", "/readyz").startswith(b"ok")
        except (OSError, SandboxError):
            return False

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, content_type: str = "application/json"
    ) -> KubeObject:
        """The JSON that the server answers."""
        document: KubeObject = json.loads(self._open(method, path, body, content_type) or b"{}")
        return document

    def apply(self, *objects: Mapping[str, Any]) -> list[KubeObject]:
        """Creates or changes the objects by server-side apply, then the `status` of those that bring one."""
        applied = []
        for item in objects:
            path = f"{path_of(item)}?fieldManager=sandbox&force=true"
            made = self.call("PATCH", path, _without_status(item), content_type="application/apply-patch+yaml")
            if "status" in item:
                made = self.patch_status(item, item["status"])
            applied.append(made)
        return applied

    def patch_status(self, item: Mapping[str, Any], status: Mapping[str, Any]) -> KubeObject:
        """Merges into the object's status."""
        return self.call(
            "PATCH", f"{path_of(item)}/status", {"status": status}, content_type="application/merge-patch+json"
        )

    def patch(self, item: Mapping[str, Any], merge_patch: Mapping[str, Any]) -> KubeObject:
        """Merges into the object."""
        return self.call("PATCH", path_of(item), merge_patch, content_type="application/merge-patch+json")

    def get(self, item: Mapping[str, Any]) -> KubeObject | None:
        """The object of this kind, namespace and name; None when there is none."""
        try:
            return self.call("GET", path_of(item))
        except ApiRefusedError as error:
            if error.code == 404:
                return None
            raise

    def delete(self, item: Mapping[str, Any], query: str = "") -> None:
        """Asks for its deletion; one that is gone already is no error."""
        try:
            self.call("DELETE", f"{path_of(item)}{query}")
        except ApiRefusedError as error:
            if error.code != 404:
                raise

    def patch_away(self, item: Mapping[str, Any]) -> None:
        """Deletes the object at once, whatever finalizers and grace period it has."""
        found = self.get(item)
        if found is None:
            return
        if found["metadata"].get("finalizers"):
            self.patch(item, {"metadata": {"finalizers": None}})
        self.delete(item, "?gracePeriodSeconds=0")

    def items(self, api_version: str, kind: str, namespace: str | None = None, **query: str) -> list[KubeObject]:
        """All objects of a kind, of one namespace or of all."""
        where = {"apiVersion": api_version, "kind": kind, "metadata": {"namespace": namespace} if namespace else {}}
        text = "&".join(f"{name}={value}" for name, value in query.items())
        listed = self.call("GET", _collection(where) + (f"?{text}" if text else ""))
        found: list[KubeObject] = listed["items"]
        return found

    def install(self, *definitions: Mapping[str, Any], seconds: float) -> None:
        """Applies CustomResourceDefinitions and waits until the server lists objects of each of them.

        A kind that is established answers 429 for as long as its cache is filled, whatever /readyz says.

        Raises:
            SandboxError: one is not served in time.
        """
        self.apply(*definitions)
        deadline = time.monotonic() + seconds
        for definition in definitions:
            spec = definition["spec"]
            path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}?limit=1"
            while not self._listed(path):
                if time.monotonic() > deadline:
                    raise SandboxError(f"CRD {definition['metadata']['name']} was not served within {seconds:g} s")
                time.sleep(_POLL)

    def _listed(self, path: str) -> bool:
        try:
            self.call("GET", path)
        except ApiRefusedError as error:
            if error.code in {404, 429}:
                return False
            raise
        return True

    def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, content_type: str = "application/json"
    ) -> bytes:
        request = urllib.request.Request(  # noqa: S310 - the URL is the cluster's own, on loopback
            f"{self.url}{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": content_type},
            method=method,
        )
        try:
            with opener(self.ca).open(request, timeout=_TIMEOUT) as response:
                answer: bytes = response.read()
                return answer
        except urllib.error.HTTPError as error:
            with error:
                words = error.read().decode(errors="replace")
            raise ApiRefusedError(error.code, f"{method} {path}: {error.code} {words}") from error


def path_of(item: Mapping[str, Any]) -> str:
    """The path of an object, by its apiVersion, kind, namespace and name."""
    return f"{_collection(item)}/{item['metadata']['name']}"


def _collection(item: Mapping[str, Any]) -> str:
    version, kind = item["apiVersion"], item["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = item.get("metadata", {}).get("namespace")
    lower = kind.lower()
    resource = f"{lower}es" if lower.endswith("class") else f"{lower}s"
    return f"{root}/namespaces/{namespace}/{resource}" if namespace else f"{root}/{resource}"


def _without_status(item: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key != "status"}
