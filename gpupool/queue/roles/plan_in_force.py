"""Every process of the queue: its environment file, and the Plan by which the leader decides.

This module must not put a Plan into force: `gpupool.queue.roles.offering` does, in the process that leads.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import structlog

from gpupool.queue.plan_source import PlanSource
from gpupool.queue.store import plans
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError

log = structlog.get_logger()


@dataclass
class Following:
    """Reads the file where it has changed, and compares with what the leader has."""

    db: Database
    source: PlanSource
    _known: str | None = field(default=None, init=False)
    _differs: bool = field(default=False, init=False)

    async def step(self) -> bool:
        """Whether the process has another Plan than after the last step."""
        self.source.refresh()
        try:
            self.source.leads(await plans.in_force(self.db))
        except StoreError as error:  # the file is followed all the same
            log.warning("plan.leader_unknown", error=str(error))
        state = self.source.state()
        if (state.leader is not None) != self._differs:
            self._differs = state.leader is not None
            if state.leader is not None:
                log.error(
                    "plan.differs", plan=state.hash, leader=state.leader.holder, leads=state.leader.hash
                )
            else:
                log.info("plan.agrees", plan=state.hash)
        changed = self.source.current.hash != self._known
        self._known = self.source.current.hash
        return changed
