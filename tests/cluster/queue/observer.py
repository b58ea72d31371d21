"""An independent record of what happens to pods and Jobs: a watch of its own, apart from the queue's.

The API server gives every change, in order and numbered. Where a restarted server no longer has what came
after the last number seen, everything is listed again; no change can have been made while it was down.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import urllib3

from gpupool.live.cluster import kubeconfig
from gpupool.live.cluster.kube_api import ApiError, KubeApi, UnreachableError

Object = dict[str, Any]
PATHS = {"Pod": "/api/v1/pods", "Job": "/apis/batch/v1/jobs"}
_WATCH_S = 5


@dataclass(frozen=True)
class Seen:
    """One change."""

    kind: str
    type: str
    """ADDED, MODIFIED or DELETED."""
    thing: Object
    at: float
    """On the monotonic clock."""

    @property
    def uid(self) -> str:
        return str(self.thing["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.thing["metadata"]["name"])

    @property
    def labels(self) -> dict[str, str]:
        found: dict[str, str] = self.thing["metadata"].get("labels") or {}
        return found

    @property
    def holds_node(self) -> str | None:
        """The node that a pod occupies after this change; None where it has none, or has ended."""
        over = self.type == "DELETED" or self.thing["status"].get("phase") in ("Succeeded", "Failed")
        return None if over else self.thing["spec"].get("nodeName")


class Observer:
    """Watches while its block runs."""

    def __init__(self, config: Path) -> None:
        self._access = kubeconfig.load(config, None)
        self._api = KubeApi(self._access)
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._known: dict[str, dict[str, Object]] = {kind: {} for kind in PATHS}
        self._threads = [threading.Thread(target=self._follow, args=(kind,), daemon=True) for kind in PATHS]

    def __enter__(self) -> Observer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(_WATCH_S + 5)
        self._api.close()

    def seen(self, kind: str) -> list[Seen]:
        """Every change of Pods or Jobs, in the API server's order."""
        with self._lock:
            return [one for one in self._seen if one.kind == kind]

    def _follow(self, kind: str) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                if not version:
                    version = self._list(kind)
                for type, thing in self._watch(PATHS[kind], version):
                    if type == "ERROR":
                        version = ""
                        break
                    version = thing["metadata"]["resourceVersion"]
                    if type != "BOOKMARK":
                        self._note(kind, type, thing)
            except (ApiError, UnreachableError, urllib3.exceptions.HTTPError, OSError):
                time.sleep(0.2)

    def _list(self, kind: str) -> str:
        answer = self._api.request("GET", PATHS[kind])[1]
        there = {item["metadata"]["uid"]: item for item in answer["items"]}
        for uid in self._known[kind].keys() - there.keys():
            self._note(kind, "DELETED", self._known[kind][uid])
        for uid, item in there.items():
            old = self._known[kind].get(uid)
            if old is None or old["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._note(kind, "MODIFIED" if old else "ADDED", item)
        return str(answer["metadata"]["resourceVersion"])

    def _note(self, kind: str, type: str, thing: Object) -> None:
        if type == "DELETED":
            self._known[kind].pop(thing["metadata"]["uid"], None)
        else:
            self._known[kind][thing["metadata"]["uid"]] = thing
        with self._lock:
            self._seen.append(Seen(kind, type, thing, time.monotonic()))

    def _watch(self, path: str, version: str) -> Iterator[tuple[str, Object]]:
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={_WATCH_S}&allowWatchBookmarks=true"
        headers = {"Accept": "application/json"}
        self._access.client.update_params_for_auth(headers, [], ["BearerToken"], path, "GET", None)
        answer = self._access.client.rest_client.pool_manager.request(
            "GET", f"{self._access.server}{path}?{query}", headers=headers, preload_content=False,
            timeout=urllib3.Timeout(connect=5, read=_WATCH_S + 10), retries=False,
        )  # fmt: skip
        try:
            if answer.status != 200:
                raise UnreachableError(f"watch: {answer.status}")
            rest = b""
            for chunk in answer.stream(1 << 16):
                *whole, rest = (rest + chunk).split(b"\n")
                for line in whole:
                    event = json.loads(line)
                    yield event["type"], event["object"]
        finally:
            with contextlib.suppress(Exception):
                answer.drain_conn()
            answer.release_conn()
