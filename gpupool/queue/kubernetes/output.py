"""The output of pods into the queue's logs: followed while they run, and read to its end once they have.

What has been read is remembered by its time stamp in the database, so that another process goes on without a
gap or a line twice. It must not decide what an end means.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from gpupool.cluster.kube_api import ApiError
from gpupool.findings import GpupoolError
from gpupool.queue.kubernetes.cluster import Cluster
from gpupool.queue.kubernetes.job_manifest import CONTAINER, INDEX
from gpupool.queue.kubernetes.mirror import Key, Object
from gpupool.queue.kubernetes.observe import started
from gpupool.queue.store import launches
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError

log = structlog.get_logger()

MOST_FOLLOWED = 200
"""Attempts whose output is followed at one time; that of others comes when they end."""
EACH_S = 0.1
"""The pause after one begins to be followed: each costs the cluster two requests and a connection to a node,
and hundreds of jobs may start at once."""
REST_S = 10.0
"""How long reading the rest of an output may take: its node may be dead."""
TOGETHER_S = 0.25
"""Lines that come within so long are written together."""
_WITH_OFFSET = re.compile(r"(.{19})(\.[0-9]+|)([+-][0-9]{2}:[0-9]{2})")


@dataclass
class Output:
    """`limit` gives the bytes that are kept of an attempt's output."""

    db: Database
    cluster: Cluster
    limit: Callable[[], int]
    _next: dict[Key, Object] = field(default_factory=dict, init=False)
    """Those to follow, and their pods, in the order of their starts."""
    _opening: asyncio.Task[None] | None = field(default=None, init=False)
    _following: dict[Key, asyncio.Task[None]] = field(default_factory=dict, init=False)
    _kept: dict[Key, int] = field(default_factory=dict, init=False)
    _until: dict[Key, str] = field(default_factory=dict, init=False)
    """How far this process has read and written, where that is certain."""

    def follow(self, key: Key, pods: Sequence[Object]) -> None:
        """Read an attempt's output as it comes; of several pods that of the first, once that has started."""
        if key in self._following or not pods:
            return
        if started(_first(pods)) is None:  # others may run already; when this one does, it changes
            return
        self._next[key] = _first(pods)
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        while self._next:
            key = next(iter(self._next))
            pod = self._next.pop(key)
            if len(self._following) < MOST_FOLLOWED:
                task = asyncio.create_task(self._quietly(key, pod, follow=True))
                self._following[key] = task
                task.add_done_callback(functools.partial(self._ended, key))
                await asyncio.sleep(EACH_S)

    def _ended(self, key: Key, _: asyncio.Task[None]) -> None:
        """The output has ended, or was cut."""
        self._following.pop(key, None)

    async def finish(self, key: Key, pods: Sequence[Object]) -> None:
        """Read what is left of the output of an attempt that has ended."""
        self._next.pop(key, None)
        following = self._following.get(key)
        if following is not None:
            await asyncio.wait({following}, timeout=3)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        if pods and _first(pods)["status"].get("containerStatuses"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REST_S):
                    await self._quietly(key, _first(pods), follow=False)
        self._kept.pop(key, None)
        self._until.pop(key, None)

    def close(self) -> None:
        """Follow nothing any more."""
        self._next.clear()
        for task in self._following.values():
            task.cancel()

    async def _quietly(self, key: Key, pod: Object, *, follow: bool) -> None:
        """Output that can't be read (its node is gone) is lost; the job's end is not held up by it."""
        try:
            await self._read(key, pod, follow=follow)
        except ApiError as error:
            log.debug("output.unread", job=key[0], attempt=key[1], error=str(error))
        except (GpupoolError, StoreError) as error:
            log.warning("output.unread", job=key[0], attempt=key[1], error=str(error))

    async def _read(self, key: Key, pod: Object, *, follow: bool) -> None:
        if key not in self._until:
            self._until[key] = await launches.logged_until(self.db, *key) or ""
        until = self._until[key]
        since = datetime.fromisoformat(until[:19] + "+00:00") if until else None
        limit = self.limit()
        if self._kept.get(key, 0) > limit:
            return
        pending: list[str] = []
        latest = until
        loop = asyncio.get_running_loop()
        written = loop.time()

        async def write() -> None:
            nonlocal pending, written
            if pending:
                self._until.pop(key, None)  # should no answer come, the database knows it
                await launches.logged(self.db, *key, pending, latest)
                self._until[key] = latest
            pending, written = [], loop.time()

        source = self.cluster.output(pod, CONTAINER, since=since, follow=follow)
        waiting: asyncio.Task[bytes] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(source))
                done, _ = await asyncio.wait({waiting}, timeout=TOGETHER_S)
                if not done:
                    await write()
                    continue
                try:
                    stamp, _, text = waiting.result().decode("utf-8", "replace").partition(" ")
                except StopAsyncIteration:
                    break
                finally:
                    waiting = None
                at = _in_utc(stamp)
                if at <= until:
                    continue
                latest = max(latest, at)
                self._kept[key] = self._kept.get(key, 0) + len(text) + 1
                if self._kept[key] > limit:
                    pending.append(f"[gpupool: the log has {limit} bytes, and what follows is not kept]")
                    break
                pending.append(text.rstrip("\r"))
                if loop.time() - written > TOGETHER_S or len(pending) > 1000:
                    await write()
        finally:
            if waiting is not None:
                waiting.cancel()
            await write()


def _in_utc(stamp: str) -> str:
    """A time stamp of a kubelet, which has the offset of its node's time zone (RFC 3339, nanoseconds)."""
    found = _WITH_OFFSET.fullmatch(stamp)
    if found is None:
        return stamp
    at = datetime.fromisoformat(found[1] + found[3]).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}{found[2]}Z"


def _first(pods: Sequence[Object]) -> Object:
    """The pod of the first node: of several it is the one that people read."""

    def index(pod: Object) -> int:
        return int((pod["metadata"].get("annotations") or {}).get(INDEX) or 0)

    return min(pods, key=index)
