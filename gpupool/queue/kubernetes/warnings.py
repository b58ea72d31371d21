"""What the cluster's events say of Jobs and pods that do not start: a quota or a policy that refuses the pod,
a node that does not come; and how that is worded.

To list the events of one object an API server reads all of its namespace, which may be thousands. So a
namespace is read at once for all attempts that wait in it, one namespace at a time, and nine tenths of the
time none is read. It must not decide what follows from them, and no attempt waits for a reading.
"""

from __future__ import annotations

import asyncio
import re
import textwrap
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from gpupool.findings import GpupoolError

log = structlog.get_logger()

AGAIN = timedelta(seconds=15)
"""What is older is read again when somebody asks."""
IDLE = 9
"""After a reading none begins for so many times as long as it took."""
LEAST_S = 0.5
"""Nor for less than this."""


LONGEST = 500
"""Characters of what is shown of an attempt."""
_PREFIX = re.compile(r'^(Error creating: )?(\S+ "[^"]*" is (forbidden|invalid): )?')
"""Before the reason of a refusal. The name of a pod is another one each time."""
_PREEMPTION = re.compile(r"(?<=\.) (no new claims to deallocate, )?preemption: .*$")
"""After the scheduler's reasons: pods of the queue never preempt by themselves."""
_POLICY = re.compile(r"^ValidatingAdmissionPolicy '([^']*)' with binding '[^']*' denied request: ")


def cause(text: str) -> str:
    """What an API server, a controller or the scheduler says of an object, as the cause alone."""
    bare = _PREEMPTION.sub("", _PREFIX.sub("", " ".join(text.split())))
    return _POLICY.sub(r"policy \1: ", bare)


def sentence(text: str) -> str:
    """`text` at the length that is shown, cut between words."""
    return textwrap.shorten(text, LONGEST, placeholder=" ...")


@dataclass
class Warnings:
    """`read` is `Cluster.warnings`; `now` gives the present time."""

    read: Callable[[str], Awaitable[dict[str, list[str]]]]
    now: Callable[[], datetime]
    _read: dict[str, tuple[datetime, dict[str, list[str]]]] = field(default_factory=dict, init=False)
    _asked: dict[str, None] = field(default_factory=dict, init=False)
    _reading: asyncio.Task[None] | None = field(default=None, init=False)

    def about(self, thing: Mapping[str, Any], since: datetime) -> str | None:
        """What has been warned of, as read at `since` or later; None where that is still to be read."""
        namespace, uid = thing["metadata"]["namespace"], thing["metadata"]["uid"]
        at, said = self._read.get(namespace, (None, {}))
        if at is None or at < since or self.now() - at > AGAIN:
            self._asked[namespace] = None
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(self._read_asked())
        return None if at is None or at < since else "; ".join(said.get(uid, ()))

    def close(self) -> None:
        """Read nothing any more."""
        if self._reading is not None:
            self._reading.cancel()
        self._reading, self._asked, self._read = None, {}, {}

    async def _read_asked(self) -> None:
        while self._asked:
            namespace = next(iter(self._asked))
            del self._asked[namespace]
            at, began = self.now(), time.monotonic()
            try:
                self._read[namespace] = at, await self.read(namespace)
            except GpupoolError as error:
                log.warning("events.unread", namespace=namespace, error=str(error))
            await asyncio.sleep(max(LEAST_S, IDLE * (time.monotonic() - began)))
