"""Answers one request as kube-apiserver 1.36 does, without sockets: authentication, RBAC, then the call."""

import json
import logging
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from holdfast_cli.sandbox.kube import discovery, faults, rbac, selectors, status
from holdfast_cli.sandbox.kube.calls import CallLog, LoggedCall
from holdfast_cli.sandbox.kube.faults import Fault
from holdfast_cli.sandbox.kube.identity import ANONYMOUS, AUTHENTICATED, Authenticator, UserInfo
from holdfast_cli.sandbox.kube.request import Call, is_collection, parse
from holdfast_cli.sandbox.kube.resources import (
    AUTHENTICATION_GROUP,
    AUTHORIZATION_GROUP,
    BY_KIND,
    BY_PATH,
    Resource,
    known_elsewhere,
)
from holdfast_cli.sandbox.kube.status import Refused
from holdfast_cli.sandbox.kube.store import ContinueTokenError, ExpiredError, Store
from holdfast_cli.sandbox.loopback import Request, Response

_log = logging.getLogger(__name__)
_INTEGER = re.compile(r"[+-]?\d+")
_JSON_TYPES = frozenset({"application/json", "application/*", "*/*"})


class Api:
    """The server without its sockets: `respond` answers; the attributes are what Control works on."""

    def __init__(
        self,
        *,
        authenticate: Authenticator,
        now: Callable[[], datetime],
        log: CallLog,
        stopping: threading.Event,
    ) -> None:
        self.store = Store(now)
        self.calls = log
        self.faults: list[Fault] = []
        self.tokens: dict[str, UserInfo] = {}
        self.uninstalled: set[str] = set()
        self._authenticate = authenticate
        self._now = now
        self._stopping = stopping
        self._faults_lock = threading.Lock()

    def respond(self, request: Request) -> Response | None:
        """None for a call whose connection a fault closes."""
        call = parse(request.method, request.target)
        with self._faults_lock:
            fault = faults.take(self.faults, call) or Fault()
        if fault.delay:
            self._stopping.wait(fault.delay)
        user = UserInfo("")
        response: Response | None
        try:
            if fault.close:
                response = None
            else:
                user = self._user(request)
                response = self._faulty(fault) or self._answer(call, user, request)
        except Refused as refused:
            response = refused.response
        except Exception:  # noqa: BLE001 (a defect of ours must look like a server's: 500, and logged)
            _log.exception("%s", call)
            response = status.internal_error("see the log of the sandbox's Kubernetes API").response
        self._note(call, user, request, response)
        if response is None:
            return None
        headers = {"Audit-Id": str(uuid.uuid4()), "Cache-Control": "no-cache, private", **response.headers}
        return Response(response.status, response.body, response.content_type, headers)

    def _user(self, request: Request) -> UserInfo:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.tokens.get(token) or self._authenticate(token)
        if user is None:
            raise status.unauthorized()
        groups = dict.fromkeys((*user.groups, AUTHENTICATED))  # a webhook may name it already
        return UserInfo(user.username, tuple(groups), user.uid, user.extra)

    def _faulty(self, fault: Fault) -> Response | None:
        match fault.status:
            case None:
                return None
            case 401:
                raise status.unauthorized()
            case 429:
                raise status.too_many_requests(fault.retry_after)
            case 503:
                raise status.unavailable()
            case _:
                raise status.internal_error("injected by the sandbox")

    def _answer(self, call: Call, user: UserInfo, request: Request) -> Response:
        asked = rbac.Attributes.of(call)
        if not self._decide(user, asked).allowed:
            details = _details(call) if call.resource else {}
            raise status.refuse(403, rbac.forbidden_message(user, asked), "Forbidden", details)
        if not call.resource:
            return self._path(call)
        review = _REVIEWS.get((call.group, call.resource))
        if review is not None and call.verb == "create":
            return _json(review(self, user, _object(request)), 201)
        resource = self._resource(call)
        if call.subresource or call.verb not in {"get", "list"}:
            raise status.unsupported(str(call))
        _accepts_json(request)
        return self._get(resource, call) if call.verb == "get" else self._list(resource, call)

    def _decide(self, user: UserInfo, asked: rbac.Attributes) -> rbac.Decision:
        roles = self.store.all(BY_KIND["ClusterRole"])
        bindings = self.store.all(BY_KIND["ClusterRoleBinding"])
        return rbac.authorize(user, asked, roles, bindings)

    def _path(self, call: Call) -> Response:
        if call.verb != "get":
            raise status.unsupported(str(call))
        if call.path in discovery.HEALTH_PATHS:
            return Response(200, b"ok", "text/plain; charset=utf-8")
        return _json(discovery.document(call.path, self.uninstalled))

    def _resource(self, call: Call) -> Resource:
        resource = BY_PATH.get((call.group, call.version, call.resource))
        if call.group in self.uninstalled:
            raise status.page_not_found()
        if resource is None:
            if known_elsewhere(call.group, call.version, call.resource):
                raise status.unsupported(str(call))
            raise status.page_not_found()
        if resource.kind == "Namespace":
            return resource
        # A namespaced object has no path without its namespace, a cluster's object none with one.
        misplaced = not call.namespace and not is_collection(call) if resource.namespaced else call.namespace
        if misplaced:
            raise status.page_not_found()
        return resource

    def _get(self, resource: Resource, call: Call) -> Response:
        namespace = call.namespace if resource.namespaced else ""
        item = self.store.get(resource, call.name, namespace)
        if item is None:
            raise status.not_found(resource.qualified, _details(call))
        return _json(item)

    def _list(self, resource: Resource, call: Call) -> Response:
        query = call.query
        if query.get("resourceVersionMatch", "NotOlderThan") != "NotOlderThan":
            raise status.unsupported(f"resourceVersionMatch={query['resourceVersionMatch']} in {call}")
        continue_token = query.get("continue", "")
        version = self._requested_version(call, continue_token)
        limit = _limit(query.get("limit", ""))
        if version == "0" and not continue_token:
            limit = 0  # answered from the cache, which knows no pages
        field_selector, label_selector = query.get("fieldSelector", ""), query.get("labelSelector", "")
        try:
            by_field = selectors.fields(field_selector, resource)
            by_label = selectors.labels(label_selector)
        except selectors.SelectorError as error:
            raise status.bad_request(str(error)) from None
        except selectors.UnsupportedSelectorError as error:
            raise status.unsupported(f"{error} in {call}") from None
        try:
            page = self.store.page(
                resource,
                namespace=call.namespace if resource.namespaced else "",
                matches=lambda item: by_field(item) and by_label(item),
                limit=limit,
                continue_token=continue_token,
            )
        except ContinueTokenError as error:
            raise status.bad_request(f"invalid continue token: {error}") from None
        except ExpiredError as error:
            raise status.expired(error.token) from None
        metadata: dict[str, Any] = {"resourceVersion": str(page.resource_version)}
        if page.continue_token or resource.custom:
            metadata["continue"] = page.continue_token  # only built-in kinds leave the empty text out
        if page.remaining and not field_selector and not label_selector:
            metadata["remainingItemCount"] = page.remaining
        items = page.items
        if not resource.custom:
            items = [{k: v for k, v in item.items() if k not in {"apiVersion", "kind"}} for item in items]
        return _json(
            {
                "apiVersion": resource.api_version,
                "items": items,
                "kind": f"{resource.kind}List",
                "metadata": metadata,
            }
        )

    def _requested_version(self, call: Call, continue_token: str) -> str:
        version = call.query.get("resourceVersion", "")
        if version in {"", "0"}:
            return version
        if continue_token:
            raise status.bad_request("specifying resource version is not allowed when using continue")
        if not version.isdigit():
            raise status.unsupported(f"resourceVersion={version} in {call}")
        current = self.store.resource_version
        if int(version) > current:
            raise status.too_large_resource_version(int(version), current)
        return version

    def _access_review(self, user: UserInfo, review: Mapping[str, Any]) -> dict[str, Any]:
        spec = review.get("spec") or {}
        match spec:
            case {"resourceAttributes": dict(asked)} if "nonResourceAttributes" not in spec:
                keys = ("verb", "group", "resource", "subresource", "namespace", "name")
                attributes = rbac.Attributes(**{key: asked.get(key, "") for key in keys})
            case {"nonResourceAttributes": dict(asked)} if "resourceAttributes" not in spec:
                attributes = rbac.Attributes(verb=asked.get("verb", ""), path=asked.get("path", ""))
            case _:
                raise status.unsupported("an access review that has not exactly one kind of attributes")
        decision = self._decide(user, attributes)
        answer: dict[str, Any] = {"allowed": decision.allowed}
        if decision.reason:
            answer["reason"] = decision.reason
        return dict(review) | {"status": answer}

    def _subject_review(self, user: UserInfo, review: Mapping[str, Any]) -> dict[str, Any]:
        info: dict[str, Any] = {"username": user.username, "groups": list(user.groups)}
        if user.uid:
            info["uid"] = user.uid
        if user.extra:
            info["extra"] = {key: list(values) for key, values in user.extra.items()}
        return dict(review) | {"status": {"userInfo": info}}

    def _note(self, call: Call, user: UserInfo, request: Request, response: Response | None) -> None:
        self.calls.add(
            LoggedCall(
                time=self._now(),
                verb=call.verb,
                user=user.username,
                group=call.group,
                resource=call.resource,
                subresource=call.subresource,
                namespace=call.namespace,
                name=call.name,
                code=response.status if response else 0,
                user_agent=request.headers.get("user-agent", ""),
                uri=request.target,
            )
        )


_REVIEWS: Mapping[tuple[str, str], Callable[[Api, UserInfo, Mapping[str, Any]], dict[str, Any]]] = {
    (AUTHORIZATION_GROUP, "selfsubjectaccessreviews"): Api._access_review,  # noqa: SLF001 (its own table)
    (AUTHENTICATION_GROUP, "selfsubjectreviews"): Api._subject_review,  # noqa: SLF001
}


def _json(value: Mapping[str, Any], code: int = 200) -> Response:
    return Response(code, json.dumps(value, separators=(",", ":")).encode())


def _object(request: Request) -> Mapping[str, Any]:
    try:
        value = json.loads(request.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise status.unsupported("a body that is not a JSON object")
    return value


def _details(call: Call) -> dict[str, str]:
    details = {"name": call.name, "group": call.group, "kind": call.resource}
    return {key: value for key, value in details.items() if value}


def _limit(text: str) -> int:
    if not text:
        return 0
    if not _INTEGER.fullmatch(text):
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return max(int(text), 0)


def _accepts_json(request: Request) -> None:
    accepted = request.headers.get("accept", "*/*").split(",")
    if not any(kind.partition(";")[0].strip() in _JSON_TYPES for kind in accepted):
        raise status.refuse(406, "only the following media types are accepted: application/json", "NotAcceptable", {})
