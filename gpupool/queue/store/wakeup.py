"""Wake-ups through PostgreSQL: one constant channel, a hint and never the truth.

Who waits looks again after its interval in any case. A notification takes a lock of the whole server at
commit, so senders send few: one after a change, and none within `QUIET_S` of the last. It names its sender,
which has woken its own roles already, and the roles for which there is something to do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
import structlog

from gpupool.queue.store.database import LIVENESS, Database

log = structlog.get_logger()

CHANNEL = "gpupool_queue"
QUIET_S = 0.02
RECONNECT_S = 1.0
SUBMITTED = ENDED = ("dispatcher", "relay")
"""Roles that have something to do when jobs were submitted, or attempts have ended."""
DECIDED = ("executor", "launcher", "relay")
EVERY = ("dispatcher", "executor", "launcher", "relay")


@dataclass
class Bell:
    """Rings for the processes that listen; in bursts, once per `QUIET_S`."""

    db: Database
    here: Callable[[Collection[str]], None] = lambda _: None
    """Wakes these roles of this process without the database."""
    name: str = field(default_factory=lambda: uuid4().hex)
    """Which of all the bells on the channel this is."""
    _rang: float = field(default=0.0, init=False)
    _later: asyncio.Task[None] | None = field(default=None, init=False)
    _roles: set[str] = field(default_factory=set, init=False)
    """Those that are not rung for yet."""

    def ring(self, roles: Collection[str] = EVERY) -> None:
        """Ring for these roles now, or once the quiet time is over."""
        self.here(roles)
        self._roles.update(roles)
        if self._later is None or self._later.done():
            self._later = asyncio.create_task(self._ring())

    async def _ring(self) -> None:
        while self._roles:
            await asyncio.sleep(max(0.0, self._rang + QUIET_S - time.monotonic()))
            self._rang = time.monotonic()
            text = " ".join((self.name, *sorted(self._roles)))
            self._roles.clear()
            try:
                async with self.db.connection() as connection:
                    await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, text))
            except Exception as error:  # a lost hint costs an interval, nothing else
                log.warning("bell.failed", error=str(error))


async def listen(url: str, wake: Callable[[Collection[str]], None], own: str) -> None:
    """Call `wake` with the roles of each ring of a bell but `own`, with all after each lost connection; until
    cancelled."""
    while True:
        try:
            connecting = psycopg.AsyncConnection.connect(url, autocommit=True, **LIVENESS)
            async with await connecting as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                wake(EVERY)
                async for notification in connection.notifies():
                    sender, *roles = notification.payload.split()
                    if sender != own:
                        wake(roles)
        except (psycopg.Error, OSError) as error:
            log.warning("listen.failed", error=str(error).strip())
        wake(EVERY)
        await asyncio.sleep(RECONNECT_S)
