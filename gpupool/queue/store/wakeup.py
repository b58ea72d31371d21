"""Wake-ups through PostgreSQL: one constant channel, a hint and never the truth.

Who waits looks again after its interval in any case. A notification takes a lock of the whole server at
commit, so senders send few: one after a change, and none within `QUIET_S` of the last. It carries nothing but
its sender, which has woken its own roles already.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import uuid4

import psycopg
import structlog

from gpupool.queue.store.database import Database

log = structlog.get_logger()

CHANNEL = "gpupool_queue"
QUIET_S = 0.02
RECONNECT_S = 1.0


@dataclass
class Bell:
    """Rings for the processes that listen; in bursts, once per `QUIET_S`."""

    db: Database
    here: Callable[[], None] = lambda: None
    """Wakes this process without the database."""
    name: str = field(default_factory=lambda: uuid4().hex)
    """Which of all the bells on the channel this is."""
    _rang: float = field(default=0.0, init=False)
    _later: asyncio.Task[None] | None = field(default=None, init=False)

    def ring(self) -> None:
        """Ring now, or once the quiet time is over."""
        self.here()
        if self._later is None or self._later.done():
            self._later = asyncio.create_task(self._ring())

    async def _ring(self) -> None:
        await asyncio.sleep(max(0.0, self._rang + QUIET_S - time.monotonic()))
        self._rang = time.monotonic()
        try:
            async with self.db.connection() as connection:
                await connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, self.name))
        except Exception as error:  # a lost hint costs an interval, nothing else
            log.warning("bell.failed", error=str(error))


async def listen(url: str, wake: Callable[[], None], own: str) -> None:
    """Call `wake` at each ring of a bell but `own`, and after each lost connection; until cancelled."""
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                wake()
                async for notification in connection.notifies():
                    if notification.payload != own:
                        wake()
        except (psycopg.Error, OSError) as error:
            log.warning("listen.failed", error=str(error).strip())
        wake()
        await asyncio.sleep(RECONNECT_S)
