"""A small synchronous client of one Kubernetes API server, for start-up work, status and tests.

Plain dictionaries in and out; kinds are found by asking the server. It knows no kind in particular.
The simulated GPU Operator, which watches, has a client of its own (`operator.watch`).
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from infra.local.layout import CONTEXT

Object = dict[str, Any]

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The server said no. `status` is the HTTP code, `reason` Kubernetes' own word, `str()` its message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason


class Api:
    """One server, one user. Not for several threads at once: each makes its own."""

    def __init__(self, server: str, token: str, authority: str, timeout: float = 30.0) -> None:
        """`server` as https://host:port, `authority` the PEM text to trust, `timeout` in seconds."""
        parts = urllib.parse.urlsplit(server)
        context = ssl.create_default_context(cadata=authority)
        self._connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=context, timeout=timeout
        )
        self._token = token
        self._paths: dict[tuple[str, str], tuple[str, bool]] = {}

    @classmethod
    def from_kubeconfig(cls, path: Path, timeout: float = 30.0) -> Api:
        """A client for the kubeconfig that the control plane writes (one cluster, one token).

        Raises OSError when the file can't be read.
        """
        config = yaml.safe_load(path.read_text())
        cluster = next(row["cluster"] for row in config["clusters"] if row["name"] == CONTEXT)
        user = next(row["user"] for row in config["users"] if row["name"] == CONTEXT)
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        return cls(cluster["server"], user["token"], authority, timeout)

    def close(self) -> None:
        """Close the connection; the next request opens it again."""
        self._connection.close()

    def request(
        self, method: str, path: str, body: object = None, content_type: str = "application/json"
    ) -> Any:
        """Send one request and return the parsed answer (text for paths that don't answer JSON).

        Raises ApiError for any answer from 400 on, OSError when the server can't be reached.
        """
        status, kind, data = self._send(method, path, body, content_type)
        text = data.decode(errors="replace")
        answer = json.loads(text) if "json" in kind and text else text
        if status >= 400:
            if isinstance(answer, dict):
                raise ApiError(status, answer.get("reason", ""), answer.get("message", text))
            raise ApiError(status, "", text)
        return answer

    def _send(self, method: str, path: str, body: object, content_type: str) -> tuple[int, str, bytes]:
        """One exchange over the kept connection, which is opened anew once if the server has closed it."""
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = content_type
        payload = None if body is None else json.dumps(body).encode()
        fresh = self._connection.sock is None
        while True:
            try:
                self._connection.request(method, path, payload, headers)
                response = self._connection.getresponse()
                return response.status, response.getheader("Content-Type", ""), response.read()
            except (http.client.HTTPException, OSError) as error:
                self._connection.close()
                if fresh:
                    raise OSError(f"{method} {path}: {error}") from error
                fresh = True

    def path(self, api_version: str, kind: str, namespace: str | None = None, name: str | None = None) -> str:
        """The URL path of a kind's collection, or of one object. Raises ApiError 404 for an unknown kind."""
        plural, namespaced = self._resource(api_version, kind)
        root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
        scope = f"/namespaces/{namespace}" if namespaced and namespace else ""
        return f"{root}{scope}/{plural}" + (f"/{urllib.parse.quote(name)}" if name else "")

    def _resource(self, api_version: str, kind: str) -> tuple[str, bool]:
        if (api_version, kind) not in self._paths:
            root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
            for row in self.request("GET", root)["resources"]:
                if "/" not in row["name"]:
                    self._paths[(api_version, row["kind"])] = (row["name"], row["namespaced"])
        found = self._paths.get((api_version, kind))
        if found is None:
            raise ApiError(404, "NotFound", f"the server has no kind {kind} in {api_version}")
        return found

    def _path_of(self, thing: Mapping[str, Any], with_name: bool = True) -> str:
        meta = thing["metadata"]
        namespace = meta.get("namespace") or "default"
        return self.path(thing["apiVersion"], thing["kind"], namespace, meta["name"] if with_name else None)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """The object, or None when there is none."""
        try:
            answer: Object = self.request("GET", self.path(api_version, kind, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return answer

    def list(
        self, api_version: str, kind: str, namespace: str | None = None, selector: str = ""
    ) -> list[Object]:
        """All objects of a kind, of one namespace or of all, optionally by label selector."""
        query = f"?labelSelector={urllib.parse.quote(selector)}" if selector else ""
        items: list[Object] = self.request("GET", self.path(api_version, kind, namespace) + query)["items"]
        return [{"apiVersion": api_version, "kind": kind, **item} for item in items]

    def create(self, thing: Object) -> Object:
        """Create the object as it is. Raises ApiError 409 if it is there."""
        answer: Object = self.request("POST", self._path_of(thing, with_name=False), thing)
        return answer

    def apply(self, thing: Object, manager: str = "gpupool-local", force: bool = True) -> Object:
        """Server-side apply under the given field manager, unknown fields refused."""
        query = f"?fieldManager={manager}&force={str(force).lower()}&fieldValidation=Strict"
        answer: Object = self.request("PATCH", self._path_of(thing) + query, thing, APPLY)
        return answer

    def patch(
        self,
        api_version: str,
        kind: str,
        name: str,
        body: object,
        namespace: str | None = None,
        subresource: str = "",
        content_type: str = MERGE,
    ) -> Object:
        """Patch an object or its subresource (`status`); merge patch unless told otherwise."""
        path = self.path(api_version, kind, namespace, name) + (f"/{subresource}" if subresource else "")
        answer: Object = self.request("PATCH", path, body, content_type)
        return answer

    def delete(
        self, api_version: str, kind: str, name: str, namespace: str | None = None, grace: int | None = None
    ) -> bool:
        """Delete the object; False when there was none. `grace` is gracePeriodSeconds."""
        query = "?propagationPolicy=Background" + (
            f"&gracePeriodSeconds={grace}" if grace is not None else ""
        )
        try:
            self.request("DELETE", self.path(api_version, kind, namespace, name) + query)
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True
