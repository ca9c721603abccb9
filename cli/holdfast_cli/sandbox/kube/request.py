"""What a request asks for: verb, resource and name, out of method and path as kube-apiserver does it."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
_VERBS: Mapping[str, str] = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call. A call of a path that is no resource (`/version`, discovery) has resource ""."""

    verb: str
    path: str
    query: Mapping[str, str]
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        if not self.resource:
            return f"{self.verb} {self.path}"
        qualified = f"{self.resource}.{self.group}" if self.group else self.resource
        sub = f"/{self.subresource}" if self.subresource else ""
        return f"{self.verb} {qualified}{sub} ({self.path})"


def parse(method: str, target: str) -> Call:
    """The call that a request line stands for; never raises: what is no resource path is a plain path."""
    split = urlsplit(target)
    query = dict(parse_qsl(split.query, keep_blank_values=True))
    parts = [unquote(part) for part in split.path.strip("/").split("/")]
    match parts:
        case ["api", version, _, *_]:
            group, rest = "", parts[2:]
        case ["apis", group, version, _, *_]:
            rest = parts[3:]
        case _:
            return Call(method.lower(), split.path, query)
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    return Call(
        verb=_verb(method, query, name),
        path=split.path,
        query=query,
        group=group,
        version=version,
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        # A list of one name counts as a call of that name: rules with resourceNames allow it.
        name=name or _only_name(query.get("fieldSelector", "")),
    )


def is_collection(call: Call) -> bool:
    """Whether the path ends at the collection, whatever name its field selector gives."""
    return call.path.rstrip("/").endswith(f"/{call.resource}")


def _verb(method: str, query: Mapping[str, str], name: str) -> str:
    if method in {"GET", "HEAD"}:
        if query.get("watch", "false") not in {"false", "0"}:
            return "watch"
        return "get" if name else "list"
    if method == "DELETE" and not name:
        return "deletecollection"
    return _VERBS.get(method, method.lower())


def _only_name(field_selector: str) -> str:
    for term in field_selector.split(","):
        field, _, value = term.partition("=")
        if field == "metadata.name":
            return value.removeprefix("=")
    return ""
