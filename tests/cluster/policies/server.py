"""Asks the real API server for its verdict on an object, as any user, with the warnings it gives."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gpupool.live.cluster import kubeconfig
from gpupool.live.cluster.kube_api import KubeApi

Object = dict[str, Any]
_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    message: str
    """Empty when it had nothing against the object."""
    warnings: tuple[str, ...]
    body: Object


class Server:
    """One API server; every request is a dry run unless said otherwise."""

    def __init__(self, config: Path | None) -> None:
        self._access = kubeconfig.load(config, None)
        self.api = KubeApi(self._access)

    def ask(
        self,
        operation: str,
        body: Object,
        *,
        user: str | None = None,
        groups: tuple[str, ...] = (),
        dry_run: bool = True,
        strict: bool = False,
    ) -> Answer:
        """CREATE, UPDATE or DELETE of the object; `user` is impersonated. `strict` refuses unknown fields, as
        kubectl does."""
        resource = self.api.require(body["apiVersion"], body["kind"])
        namespace = body["metadata"].get("namespace", "default") if resource.namespaced else None
        name = body["metadata"].get("name")
        path = resource.collection(namespace) if operation == "CREATE" else resource.path(namespace, name)
        method = {"CREATE": "POST", "UPDATE": "PUT", "DELETE": "DELETE"}[operation]
        assert len(groups) <= 1, "one header per group is what the server wants; one group is enough here"
        group = groups[0] if groups else None
        sent = None if method == "DELETE" else body
        return self.send(method, path, sent, user=user, group=group, dry_run=dry_run, strict=strict)

    def send(
        self,
        method: str,
        path: str,
        body: Object | None,
        content_type: str = "application/json",
        *,
        user: str | None = None,
        group: str | None = None,
        dry_run: bool = True,
        strict: bool = False,
    ) -> Answer:
        """One request as it stands; `user` and `group` are impersonated."""
        headers: dict[str, Any] = {"Content-Type": content_type, "Accept": "application/json"}
        if user:
            headers["Impersonate-User"] = user
        if group:
            headers["Impersonate-Group"] = group
        self._access.client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        query = {"dryRun": "All"} if dry_run else {}
        query |= {"fieldValidation": "Strict"} if strict else {}
        url = self._access.server + path + ("?" + urlencode(query) if query else "")
        answer = self._access.client.rest_client.pool_manager.request(
            method, url, body=b"" if body is None else json.dumps(body).encode(), headers=headers
        )
        data = json.loads(answer.data)
        warnings = tuple(
            re.sub(r"\\(.)", r"\1", text) for text in _WARNING.findall(answer.headers.get("Warning", ""))
        )
        message = data.get("message", "") if answer.status >= 400 else ""
        return Answer(answer.status, message, warnings, data)
