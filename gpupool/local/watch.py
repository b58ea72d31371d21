"""Keep a copy of some collections of the API server, and change objects: for components that are this Python.

Asynchronous, plain dictionaries; it does not interpret the objects.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import yaml

Object = dict[str, Any]
Changed = Callable[[str, Object, Object | None], None]
"""Called with the event (ADDED, MODIFIED, DELETED), the object, and the one it replaces."""
Key = Callable[[Object], str | None]
"""Under which key an object is kept; None for one that is not wanted."""

_LOG = logging.getLogger(__name__)
_WATCH_SECONDS = 300
_RETRY_SECONDS = 0.5


def _name(item: Object) -> str | None:
    return str(item["metadata"]["name"])


class Client:
    """One API server with one token, as the kubeconfig says."""

    def __init__(self, kubeconfig: Path) -> None:
        """Raises OSError or KeyError when the kubeconfig is not one that the control plane wrote."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._server: str = cluster["server"]
        self._headers = {"Authorization": f"Bearer {user['token']}", "Accept": "application/json"}
        self._tls = ssl.create_default_context(cadata=authority)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=64)
        self._session = aiohttp.ClientSession(headers=self._headers, timeout=timeout, connector=connector)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session; the client is used as a context manager."""
        if self._session is None:
            raise RuntimeError("the client is not open")
        return self._session

    async def get(self, path: str) -> Object:
        """One GET. Raises aiohttp.ClientResponseError from 400 on."""
        async with self.session.get(self._server + path, raise_for_status=True) as answer:
            found: Object = await answer.json()
            return found

    async def patch(self, path: str, body: object, kind: str = "merge-patch") -> Object | None:
        """A patch of that kind (or `strategic-merge-patch`); None when the object no longer exists."""
        headers = {"Content-Type": f"application/{kind}+json"}
        async with self.session.patch(self._server + path, data=json.dumps(body), headers=headers) as answer:
            if answer.status == 404:
                return None
            answer.raise_for_status()
            found: Object = await answer.json()
            return found

    async def post(self, path: str, body: object) -> None:
        """Create an object. Raises aiohttp.ClientResponseError from 400 on."""
        async with self.session.post(self._server + path, json=body, raise_for_status=True):
            return

    async def delete(self, path: str, body: object) -> None:
        """Delete an object with these DeleteOptions. Raises aiohttp.ClientResponseError from 400 on."""
        async with self.session.delete(self._server + path, json=body, raise_for_status=True):
            return

    async def follow(
        self, path: str, store: dict[str, Object], changed: Changed, ready: asyncio.Event, key: Key = _name
    ) -> None:
        """Keep `store` equal to the collection at `path` for ever, calling `changed` on the way."""
        while True:
            try:
                version = await self._list(path, store, changed, key)
                ready.set()
                await self._watch(path, version, store, changed, key)
            except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
                _LOG.warning("watching %s: %s; listing again", path, error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _list(self, path: str, store: dict[str, Object], changed: Changed, key: Key) -> str:
        answer = await self.get(path)
        fresh = {name: item for item in answer["items"] if (name := key(item)) is not None}
        for name in [name for name in store if name not in fresh]:
            changed("DELETED", store.pop(name), None)
        for name, item in fresh.items():
            before = store.get(name)
            store[name] = item
            changed("MODIFIED" if before else "ADDED", item, before)
        return str(answer["metadata"]["resourceVersion"])

    async def _watch(
        self, path: str, version: str, store: dict[str, Object], changed: Changed, key: Key
    ) -> None:
        """Follow changes from `version` until the server ends the watch; then the caller lists again."""
        query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(_WATCH_SECONDS)}
        async with self.session.get(self._server + path, params=query, raise_for_status=True) as answer:
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        return
                    item = event["object"]
                    name = key(item)
                    if name is None:
                        continue
                    before = store.get(name)
                    if event["type"] == "DELETED":
                        store.pop(name, None)
                    else:
                        store[name] = item
                    changed(event["type"], item, before)
