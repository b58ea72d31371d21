"""The relay: gives each event its place in the stream and publishes it, in order, at least once.

The database is the truth; a broker that is away delays and loses nothing. It must not change jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from gpupool.queue.events.bus import Bus, BusUnavailable
from gpupool.queue.events.envelope import encoded
from gpupool.queue.records import JobEvent
from gpupool.queue.roles.leader import LeaderRole, Leadership
from gpupool.queue.store import outbox
from gpupool.queue.store.database import Database

log = structlog.get_logger()

BATCH = 500


class Relay(LeaderRole):
    """Publishes while it leads its role."""

    interval_s = 1.0

    def __init__(
        self, db: Database, leadership: Leadership, bus: Bus, envelope: Callable[[JobEvent], dict[str, Any]]
    ) -> None:
        super().__init__(leadership)
        self._db = db
        self._bus = bus
        self._envelope = envelope

    async def _act(self, epoch: int) -> bool:
        placed = await outbox.place(self._db, epoch, BATCH)
        due = await outbox.unpublished(self._db, BATCH)
        sent = []
        try:
            for event in due:
                envelope = self._envelope(event)
                await self._bus.publish(envelope["type"], encoded(envelope), event.id)
                sent.append(event)
        except BusUnavailable as error:
            log.warning("relay.waiting", error=str(error), unpublished=len(due) - len(sent))
        finally:
            if sent:
                await outbox.published(self._db, sent)
        return len(placed) == BATCH or len(sent) == BATCH
