"""The output of pods into the queue's logs: followed while they run, and read to its end once they have.

What has been read is remembered by its time stamp in the database, so that another process goes on without a
gap or a line twice.
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

from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError
from gpupool.queue.kubernetes.cluster import Cluster
from gpupool.queue.kubernetes.job_manifest import CONTAINER, INDEX
from gpupool.queue.kubernetes.mirror import Key, Object
from gpupool.queue.kubernetes.pod_ends import started
from gpupool.queue.store import launches
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.kept_output import TOGETHER_S, KeptOutput

log = structlog.get_logger()

MOST_FOLLOWED = 200
"""Attempts whose output is followed at one time; that of others comes when they end."""
EACH_S = 0.1
"""The pause after one begins to be followed: each costs the cluster two requests and a connection to a node,
and hundreds of jobs may start at once."""
REST_S = 10.0
"""How long reading the rest of an output may take: its node may be dead."""
_WITH_OFFSET = re.compile(r"(.{19})(\.[0-9]+|)([+-][0-9]{2}:[0-9]{2})")


@dataclass
class AttemptOutput:
    """`keep` gives the bytes that are kept of an attempt's output."""

    db: Database
    cluster: Cluster
    keep: Callable[[], int]
    _next: dict[Key, Object] = field(default_factory=dict, init=False)
    """Those to follow, and their pods, in the order of their starts."""
    _opening: asyncio.Task[None] | None = field(default=None, init=False)
    _following: dict[Key, asyncio.Task[None]] = field(default_factory=dict, init=False)
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
        until = self._until.pop(key, None)  # should no answer come, the database knows it
        if until is None:
            until = await launches.logged_until(self.db, *key) or ""
        since = datetime.fromisoformat(until[:19] + "+00:00") if until else None
        latest, kept = until, KeptOutput(self.db, *key, self.keep, until)
        source = self.cluster.output(pod, CONTAINER, since=since, follow=follow)
        waiting: asyncio.Task[bytes] | None = None
        try:
            while not kept.over:
                waiting = waiting or asyncio.ensure_future(anext(source))
                done, _ = await asyncio.wait({waiting}, timeout=TOGETHER_S)
                if not done:
                    await kept.add([])
                    continue
                try:
                    stamp, _, text = waiting.result().decode("utf-8", "replace").partition(" ")
                except StopAsyncIteration:
                    break
                finally:
                    waiting = None
                at = _in_utc(stamp)
                if at > until:
                    latest = max(latest, at)
                    await kept.add([text.rstrip("\r")], latest)
        finally:
            if waiting is not None:
                waiting.cancel()
            await kept.flush()
            if kept.until is not None:
                self._until[key] = kept.until


def _in_utc(stamp: str) -> str:
    """A time stamp of a kubelet, which has the offset of its node's time zone (RFC 3339, nanoseconds)."""
    match = _WITH_OFFSET.fullmatch(stamp)
    if match is None:
        return stamp
    at = datetime.fromisoformat(match[1] + match[3]).astimezone(UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}{match[2]}Z"


def _first(pods: Sequence[Object]) -> Object:
    """The pod of the first node: of several it is the one that people read."""

    def index(pod: Object) -> int:
        return int((pod["metadata"].get("annotations") or {}).get(INDEX) or 0)

    return min(pods, key=index)
