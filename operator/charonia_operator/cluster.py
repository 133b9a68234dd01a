"""
The cluster: everything that is read from or written to the API server, and the only module that knows its client.

Objects are JSON, as the API server has them. Blocking: called from the queue's worker threads, never from kopf's loop.
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlencode

import urllib3.exceptions
from kubernetes import client, config

from charonia_operator.identity import service_account, token
from charonia_operator.naming import API_VERSION, EVENT, FIELD_MANAGER, INFERENCE_SERVICE, JSON, ResourceKind

_PAGE = 50
"""Objects; a page is decoded as a whole, and a Deployment takes 100 KiB of memory then."""
_OF_NOTHING = "1"
"""A version that no object ever has."""
_TIMEOUT_SECONDS = 30
_APPLY = "application/apply-patch+yaml"
_NO_ANSWER = 0
_NOT_OF_ITS_KIND = "failed to create typed patch object"
"""What the API server says of a list where there must be a map, and the like."""


class ClusterError(Exception):
    """The API server refuses. `status` is HTTP's, 0 without an answer; the message is the API server's own."""

    def __init__(self, status: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.retry_after = retry_after

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed later, without anybody's doing."""
        return self.status in {_NO_ANSWER, 401, 409, 429} or self.status >= 500


class Cluster:
    """One API server, for one of its users."""

    def __init__(self, connections: int, may_write: Callable[[], bool] = lambda: True) -> None:
        """`may_write` is asked before each write."""
        self._may_write = may_write
        settings = _settings()
        settings.connection_pool_maxsize = connections
        self._api = client.ApiClient(settings)
        self._events = 0
        self._lock = threading.Lock()

    def list(self, kind: ResourceKind, namespace: str = "", **query: str) -> Iterator[JSON]:
        """Every object of a kind, page by page; of all namespaces when none is given. Raises ClusterError."""
        query = {"limit": str(_PAGE), **query}
        while True:
            page = self._request("GET", kind.path(namespace), query)
            for body in page["items"]:
                yield {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            token = page["metadata"].get("continue", "")
            if not token:
                return
            query["continue"] = token

    def get(self, kind: ResourceKind, namespace: str, name: str) -> JSON | None:
        """One object, None when there is none. Raises ClusterError."""
        try:
            return self._request("GET", kind.path(namespace, name))
        except ClusterError as error:
            if error.status == 404:
                return None
            raise

    def has(self, service: Mapping[str, Any]) -> bool:
        """Whether this very InferenceService still is there, by the API server's own word. Raises ClusterError."""
        metadata = service["metadata"]
        found = self.list(INFERENCE_SERVICE, metadata["namespace"], fieldSelector=f"metadata.name={metadata['name']}")
        return any(each["metadata"]["uid"] == metadata["uid"] for each in found)

    def apply(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON:
        """Server-side apply: make what `body` says so, whoever else had a say. Raises ClusterError."""
        metadata = body["metadata"]
        return self._apply(kind.path(metadata["namespace"], metadata["name"]), body)

    def create(self, kind: ResourceKind, body: Mapping[str, Any]) -> JSON:
        """
        Server-side apply of what is not there. Raises ClusterError, with status 409 where an object has the name.

        A version in what is applied must be the object's, unless there is none.
        """
        return self.apply(kind, {**body, "metadata": {**body["metadata"], "resourceVersion": _OF_NOTHING}})

    def apply_status(self, service: Mapping[str, Any], status: JSON) -> JSON:
        """Write an InferenceService's status, which nobody else writes. Raises ClusterError."""
        metadata = service["metadata"]
        path = INFERENCE_SERVICE.path(metadata["namespace"], metadata["name"]) + "/status"
        head = {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}
        kind = {"apiVersion": INFERENCE_SERVICE.api_version, "kind": INFERENCE_SERVICE.kind}
        return self._apply(path, {**kind, "metadata": head, "status": status})

    def status_schema(self) -> Mapping[str, Any]:
        """The OpenAPI schema of `status` in the cluster's definition of InferenceServices. Raises ClusterError."""
        document = self._request("GET", f"/openapi/v3/apis/{API_VERSION}")
        for schema in document["components"]["schemas"].values():
            kinds = [each["kind"] for each in schema.get("x-kubernetes-group-version-kind", [])]
            if INFERENCE_SERVICE.kind in kinds:
                found: JSON = schema["properties"]["status"]
                return found
        return {}

    def delete(self, kind: ResourceKind, body: Mapping[str, Any]) -> None:
        """Delete this very object, not another one of its name. Raises ClusterError."""
        metadata = body["metadata"]
        options = {"preconditions": {"uid": metadata["uid"]}, "propagationPolicy": "Background"}
        try:
            self._request("DELETE", kind.path(metadata["namespace"], metadata["name"]), body=options)
        except ClusterError as error:
            if error.status not in {404, 409}:  # gone, or another one already
                raise

    def events_of(self, pod: Mapping[str, Any]) -> Sequence[JSON]:
        """What was told of a pod, the latest first. Raises ClusterError."""
        metadata = pod["metadata"]
        selector = f"involvedObject.uid={metadata['uid']}"
        events = [*self.list(EVENT, metadata["namespace"], fieldSelector=selector)]
        return sorted(events, key=lambda event: str(event.get("lastTimestamp") or ""), reverse=True)

    def record_event(self, service: Mapping[str, Any], *, warning: bool, reason: str, message: str, now: str) -> None:
        """Tell people about a service. Raises ClusterError."""
        metadata = service["metadata"]
        with self._lock:
            self._events += 1
            name = f"{metadata['name']}.{metadata.get('resourceVersion', '0')}.{self._events}"
        event = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": {
                "apiVersion": INFERENCE_SERVICE.api_version,
                "kind": INFERENCE_SERVICE.kind,
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": "Warning" if warning else "Normal",
            "reason": reason,
            "message": message[:1000],
            "source": {"component": FIELD_MANAGER},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        self._request("POST", EVENT.path(metadata["namespace"]), body=event)

    def _apply(self, path: str, body: Mapping[str, Any]) -> JSON:
        return self._request("PATCH", path, {"fieldManager": FIELD_MANAGER, "force": "true"}, body, _APPLY)

    def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
    ) -> JSON:
        if method != "GET" and not self._may_write():
            raise ClusterError(_NO_ANSWER, "NotLeading", "another operator leads")
        try:
            answer = self._api.call_api(
                path + (f"?{urlencode(query)}" if query else ""),
                method,
                header_params={"Content-Type": content_type, "Accept": "application/json"},
                body=body,
                auth_settings=["BearerToken"],
                _preload_content=False,
                _request_timeout=_TIMEOUT_SECONDS,
            )
            document: JSON = json.loads(answer.data)
        except client.ApiException as error:
            _refused(error)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ClusterError(_NO_ANSWER, "NoAnswer", f"the API server does not answer: {error}") from error
        return document


def _settings() -> client.Configuration:
    settings = client.Configuration()
    account = service_account()
    if account is None:
        config.load_kube_config(client_configuration=settings)
        return settings
    settings.host = account.server
    settings.ssl_ca_cert = account.authorities
    settings.refresh_api_key_hook = _read_token  # before each request, if there is a token already
    _read_token(settings)
    return settings


def _read_token(settings: client.Configuration) -> None:
    settings.api_key["BearerToken"] = f"Bearer {token()}"


def _refused(error: client.ApiException) -> NoReturn:
    """Tell the API server's own words."""
    headers = error.headers or {}
    retry_after = str(headers.get("Retry-After", ""))
    try:
        told = json.loads(error.body or "")
    except ValueError:
        told = {}
    reason, message = told.get("reason") or str(error.reason), told.get("message") or str(error.reason)
    seconds = float(retry_after) if retry_after.isdigit() else 0.0
    status = int(error.status or 0)
    if _NOT_OF_ITS_KIND in message:
        status, reason = 422, "Invalid"  # the API server says 500, as if it could do something about it
    raise ClusterError(status, reason, message, seconds) from error
