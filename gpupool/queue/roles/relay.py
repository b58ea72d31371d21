"""The relay: gives each event its place in the stream and publishes it, in order, at least once.

The database is the truth; a broker that is away delays and loses nothing. It must not change jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import structlog

from gpupool.queue.events.bus import Bus, BusUnavailable
from gpupool.queue.events.envelope import encoded
from gpupool.queue.measures import Measures
from gpupool.queue.records import JobEvent
from gpupool.queue.roles.leader import LeaderRole
from gpupool.queue.store import outbox

log = structlog.get_logger()

BATCH = 500


@dataclass
class Relay(LeaderRole):
    """Publishes while it leads its role."""

    bus: Bus
    envelope: Callable[[JobEvent], dict[str, Any]]
    measures: Measures | None = None

    interval_s = 3.0
    """A wake-up tells it of new events; it looks for itself in case one was lost."""
    delay_s = 0.1
    _up_to_date: int | None = field(default=None, init=False)
    """The epoch under which all that was placed before has been published."""

    async def _act(self, epoch: int) -> bool:
        complete = self._up_to_date == epoch
        self._up_to_date = None  # until this step has ended well
        placed = await outbox.place(self.db, epoch, BATCH)
        if self.measures:
            self.measures.placed(placed)
        due = placed if complete else await outbox.unpublished(self.db, BATCH)
        sent = []
        try:
            for event in due:
                envelope = self.envelope(event)
                await self.bus.publish(envelope["type"], encoded(envelope), event.id)
                sent.append(event)
        except BusUnavailable as error:
            log.warning("relay.waiting", error=str(error), unpublished=len(due) - len(sent))
        finally:
            if sent:
                await outbox.published(self.db, sent[-1])
        if len(sent) == len(due) < BATCH:
            self._up_to_date = epoch
        return len(placed) == BATCH or len(sent) == BATCH
