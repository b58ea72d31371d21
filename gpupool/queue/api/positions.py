"""The position of the latest event, asked once for all streams of the process.

This module must not read events.
"""

from __future__ import annotations

import asyncio
import time

from gpupool.queue.store import outbox
from gpupool.queue.store.database import Database

FRESH_SECONDS = 0.25


class Positions:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = asyncio.Lock()
        self._latest, self._at = 0, float("-inf")

    async def latest(self) -> int:
        """As it was at most a quarter of a second ago."""
        async with self._lock:
            if time.monotonic() - self._at >= FRESH_SECONDS:
                _, self._latest = await outbox.bounds(self._db)
                self._at = time.monotonic()
            return self._latest
