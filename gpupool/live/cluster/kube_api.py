"""Any Kubernetes API server with plain dictionaries in and out, safe for many threads.

For all code but the queue's launcher, the simulated operator and the pod runner, which follow changes with
`async_api`. The Kubernetes client library provides the connection, its trust and its credentials; its
typed models are not used, since manifests are plain values and most kinds here are custom. Kinds and their
paths come from the server's discovery. Nothing is retried, because only the caller knows whether a request
may be sent twice.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3

from gpupool.findings import GpupoolError
from gpupool.live.cluster import kubeconfig

APPLY = "application/apply-patch+yaml"
_HALVES = re.compile(r"\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}")
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""What to accept for a list of metadata alone (Kubernetes documentation, API concepts)."""

REQUEST_SECONDS = 30.0
"""How long an answer may take. Not a watch anywhere, so a silent server is a broken one."""
_CONNECT_SECONDS = 10.0
_NO_SPACE = "database space exceeded"
"""What etcd says when its file has reached the quota (etcd 3.6, api/v3rpc/rpctypes, ErrGRPCNoSpace)."""


class ApiError(GpupoolError):
    """The server refused the request."""

    def __init__(
        self, status: int, reason: str, message: str, causes: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.status = status
        """HTTP code."""
        self.reason = reason
        """The reason that Kubernetes gives: NotFound, Conflict, Invalid, Forbidden ..."""
        self.causes = causes
        """(field path, message) of each part that the server objects to."""


class UnreachableError(GpupoolError):
    """No answer from the server; says which server and what to do."""


@dataclass(frozen=True, slots=True)
class ApiResource:
    """Where objects of one kind live."""

    api_version: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """The URL path of the collection in one namespace (default: `default`), or of one object."""
        return self.collection(namespace or "default") + (f"/{quote(name)}" if name else "")

    def collection(self, namespace: str | None) -> str:
        """The URL path of the collection in one namespace, or of all namespaces."""
        scope = f"/namespaces/{quote(namespace)}" if self.namespaced and namespace else ""
        return f"{_root(self.api_version)}{scope}/{self.plural}"


def _root(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class KubeApi:
    """One API server as one user."""

    def __init__(self, access: kubeconfig.ClusterAccess, seconds: float | None = None) -> None:
        """`seconds` is how long one answer may take, REQUEST_SECONDS where it is not given."""
        seconds = REQUEST_SECONDS if seconds is None else seconds
        self.server = access.server
        self.context = access.context
        self._client = access.client
        self._timeout = urllib3.Timeout(connect=min(seconds, _CONNECT_SECONDS), read=seconds)
        self._kinds: dict[tuple[str, str], ApiResource] = {}
        self._lock = threading.Lock()

    @classmethod
    def connect(
        cls, path: Path | None = None, context: str | None = None, seconds: float | None = None
    ) -> KubeApi:
        """A client for a context of a kubeconfig; nothing is sent yet. Raises KubeconfigError."""
        return cls(kubeconfig.load(path, context), seconds)

    def close(self) -> None:
        """Close the connections; the next request opens them again."""
        self._client.rest_client.pool_manager.clear()

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> tuple[int, Any]:
        """Send one request; the HTTP code and the parsed answer (text where it is not a JSON object).

        Raises ApiError for an answer from 400 on, UnreachableError when there is none.
        """
        url = self.server + path + (f"?{urlencode(query)}" if query else "")
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": content_type})
        # The library refreshes tokens of exec plugins here.
        self._client.update_params_for_auth(headers, [], ["BearerToken", "BasicAuth"], path, method, body)
        data = None if body is None else encoded(body, content_type)
        pool = self._client.rest_client.pool_manager
        try:
            answer = pool.request(
                method, url, body=data, headers=headers, timeout=self._timeout, retries=False
            )
        except urllib3.exceptions.HTTPError as error:
            raise UnreachableError(
                f"the cluster at {self.server} (context {self.context}) does not answer: {_plain(error)}; "
                "check that it runs and that the kubeconfig's context is the right one"
            ) from error
        text = answer.data.decode(errors="replace")
        value = json.loads(text) if text.startswith("{") else text
        if answer.status >= 400:
            raise _refusal(answer.status, value)
        return answer.status, value

    def resource(self, api_version: str, kind: str) -> ApiResource | None:
        """Where `kind` lives, None where the server does not know it (now). Found kinds are remembered."""
        api_resource = self._kinds.get((api_version, kind))
        if api_resource is not None:
            return api_resource
        with self._lock:
            if (api_version, kind) not in self._kinds:
                for row in (self._get(_root(api_version)) or {}).get("resources", ()):
                    if "/" not in row["name"]:
                        api_resource = ApiResource(api_version, row["kind"], row["name"], row["namespaced"])
                        self._kinds[(api_version, row["kind"])] = api_resource
        return self._kinds.get((api_version, kind))

    def _get(self, path: str) -> dict[str, Any] | None:
        """What is at a path; None where there is nothing."""
        try:
            value: dict[str, Any] = self.request("GET", path)[1]
            return value
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def require(self, api_version: str, kind: str) -> ApiResource:
        """`resource`, or ApiError 404 with what to do when the server does not know the kind."""
        api_resource = self.resource(api_version, kind)
        if api_resource is None:
            raise ApiError(
                404, "NoMatch", f"the cluster has no kind {kind} in {api_version}; install its CRD first"
            )
        return api_resource

    def get(
        self, api_version: str, kind: str, name: str, namespace: str | None = None
    ) -> dict[str, Any] | None:
        """The live object; None where it, or its kind, does not exist."""
        where = self.resource(api_version, kind)
        return None if where is None else self._get(where.path(namespace, name))

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str = ""
    ) -> list[dict[str, Any]]:
        """All objects of a kind, of one namespace or of all, that match a label selector.

        Empty for a kind that the server does not know.
        """
        where = self.resource(api_version, kind)
        if where is None:
            return []
        query = {"labelSelector": selector} if selector else None
        items: list[dict[str, Any]] = self.request("GET", where.collection(namespace), query)[1]["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def create(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create the object as it is. Raises ApiError 409 if it is there."""
        where = self.require(body["apiVersion"], body["kind"])
        path = where.path(body["metadata"].get("namespace"))
        value: dict[str, Any] = self.request("POST", path, None, body)[1]
        return value

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        body: Any,
        namespace: str | None = None,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> dict[str, Any]:
        """Patch an object or its subresource (`status`); merge patch by default."""
        path = self.require(api_version, kind).path(namespace, name) + (
            f"/{subresource}" if subresource else ""
        )
        value: dict[str, Any] = self.request("PATCH", path, None, body, content_type)[1]
        return value

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace: int | None = None
    ) -> bool:
        """Delete the object, its dependents in the background; False when there was none.

        `grace` is gracePeriodSeconds.
        """
        query = {"propagationPolicy": "Background"}
        if grace is not None:
            query["gracePeriodSeconds"] = str(grace)
        try:
            self.request("DELETE", self.require(api_version, kind).path(namespace, name), query)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def apply(
        self, body: Mapping[str, Any], manager: str, force: bool = False, dry_run: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """Server-side apply: the HTTP code (201 = created) and the object as the server has it now.

        Unknown fields are refused, because the server would silently drop them.
        """
        metadata = body["metadata"]
        where = self.require(body["apiVersion"], body["kind"])
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        if dry_run:
            query["dryRun"] = "All"
        path = where.path(metadata.get("namespace"), metadata["name"])
        status, value = self.request("PATCH", path, query, body, APPLY)
        return status, value


def encoded(body: Any, content_type: str) -> bytes:
    """The body as JSON. What is applied is read as YAML, where a character beyond U+FFFF stands for itself:
    JSON's escape of two halves is refused."""
    text = json.dumps(body)
    if content_type == APPLY:
        text = _HALVES.sub(lambda halves: str(json.loads(f'"{halves[0]}"')), text)
    return text.encode()


def in_words(message: str) -> str:
    """What the server said; where it passes on that etcd is out of space, what that means and what to do."""
    if _NO_SPACE not in message:
        return message
    return (
        "the cluster's etcd is out of space, so the API server is read-only. On your own cluster, delete "
        "unneeded objects, compact and defragment etcd (etcdctl compact, etcdctl defrag), raise its "
        "--quota-backend-bytes if needed, and clear the alarm (etcdctl alarm disarm). The local "
        "control plane starts empty after: gpupool local down, then gpupool local up"
    )


def _refusal(status: int, value: Any) -> ApiError:
    if not isinstance(value, dict):
        return ApiError(status, "", in_words(str(value).strip()) or f"HTTP {status}")
    causes = tuple(
        (cause.get("field", ""), cause.get("message", ""))
        for cause in (value.get("details") or {}).get("causes") or ()
    )
    message = in_words(value.get("message") or f"HTTP {status}")
    return ApiError(status, value.get("reason") or "", message, causes)


def _plain(error: Exception) -> str:
    """The innermost reason, without the names of the library's objects."""
    reason: BaseException = getattr(error, "reason", None) or error
    while reason.__cause__ is not None:
        reason = reason.__cause__
    return getattr(reason, "strerror", None) or str(reason).rpartition(": ")[2] or type(reason).__name__
