"""Keep copies of collections of the API server until the end: for components that run in this Python.

It does not interpret the objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from gpupool.live.cluster.async_api import AsyncKubeApi, Gone
from gpupool.live.cluster.kube_api import ApiError, UnreachableError

Object = dict[str, Any]
Changed = Callable[[str, Object, Object | None], None]
"""Called with the event (ADDED, MODIFIED, DELETED), the object, and the one it replaces."""
Key = Callable[[Object], str | None]
"""Under which key an object is kept; None for one that is not wanted."""

_LOG = logging.getLogger(__name__)
_RETRY_SECONDS = 0.5


def _name(item: Object) -> str | None:
    return str(item["metadata"]["name"])


async def follow(
    api: AsyncKubeApi,
    path: str,
    store: dict[str, Object],
    changed: Changed,
    ready: asyncio.Event,
    key: Key = _name,
    query: Mapping[str, str] | None = None,
) -> None:
    """Keep `store` equal to the collection at `path` for ever, calling `changed` on the way."""
    while True:
        try:
            items, version = await api.list_all(path, query)
            _replace(items, store, changed, key)
            ready.set()
            async for event, item in api.watch(path, version, query):
                name = None if event == "BOOKMARK" else key(item)
                if name is None:
                    continue
                before = store.get(name)
                if event == "DELETED":
                    store.pop(name, None)
                else:
                    store[name] = item
                changed(event, item, before)
        except (ApiError, Gone, UnreachableError) as error:
            _LOG.warning("watching %s: %s; listing again", path, error)
            await asyncio.sleep(_RETRY_SECONDS)


async def until_signalled(work: Coroutine[Any, Any, None]) -> None:
    """Do `work` until this process is asked to end."""
    task = asyncio.create_task(work)
    for kind in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(kind, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _replace(items: list[Object], store: dict[str, Object], changed: Changed, key: Key) -> None:
    fresh = {name: item for item in items if (name := key(item)) is not None}
    for name in [name for name in store if name not in fresh]:
        changed("DELETED", store.pop(name), None)
    for name, item in fresh.items():
        before = store.get(name)
        store[name] = item
        changed("MODIFIED" if before else "ADDED", item, before)
