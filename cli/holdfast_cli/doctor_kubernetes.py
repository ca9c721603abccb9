"""What `holdfast doctor` reads of Kubernetes, by a context of the person's own kubeconfig."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from kubernetes.config import new_client_from_config
from kubernetes.config.config_exception import ConfigException
from urllib3.exceptions import HTTPError

from holdfast.errors import Denied, Unavailable
from holdfast.render.rbac import AUDIT_ROLE
from holdfast_cli.errors import Mistake

_RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_TIMEOUTS: Final = (5.0, 10.0)  # to connect, and between two pieces of the answer


class Context:
    """A cluster as a context of the kubeconfig reaches it."""

    def __init__(self, name: str) -> None:
        """Reads the kubeconfig; asks the cluster nothing.

        Raises:
            Mistake: there is no such context, or the kubeconfig cannot be read.
        """
        try:
            self._api: ApiClient = new_client_from_config(context=name)  # type: ignore[no-untyped-call]
        except (ConfigException, OSError) as error:
            raise Mistake(f"--kube-context {name}: {error}") from error
        self.name = name

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return str(self._api.configuration.host)

    def role(self) -> Mapping[str, Any] | None:
        """The audit's ClusterRole; None when there is none."""
        return self._get("clusterroles")

    def binding(self) -> Mapping[str, Any] | None:
        """The audit's ClusterRoleBinding; None when there is none."""
        return self._get("clusterrolebindings")

    def _get(self, resource: str) -> Mapping[str, Any] | None:
        where = f"context {self.name}: {resource} {AUDIT_ROLE}"
        try:
            request = self._api.param_serialize(
                "GET",
                f"{_RBAC}/{resource}/{AUDIT_ROLE}",
                header_params={"Accept": "application/json"},
                auth_settings=["BearerToken"],
            )
            answer = self._api.call_api(*request, _request_timeout=_TIMEOUTS)
            body: bytes = answer.read()  # type: ignore[no-untyped-call] # the client's types leave it out
        except (ApiException, HTTPError, OSError) as error:
            raise Unavailable(f"{where}: {error}") from error
        if answer.status == HTTPStatus.NOT_FOUND:
            return None
        if answer.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise Denied(f"{where}: {answer.status} {answer.reason}; allow yourself to get {resource}")
        if answer.status != HTTPStatus.OK:
            raise Unavailable(f"{where}: {answer.status} {answer.reason}")
        found: Mapping[str, Any] = json.loads(body)
        return found
