"""How the queue stands with its cluster, for the parts of it that don't see the cluster: what the process
that leads there has written last."""

from __future__ import annotations

from dataclasses import dataclass

from gpupool.queue.store import identity
from gpupool.queue.store.database import Database
from gpupool.queue.trouble import Trouble


@dataclass(slots=True)
class QueueHealth:
    """As of the last `read`."""

    db: Database
    trouble: Trouble | None = None

    async def read(self) -> None:
        self.trouble = await identity.trouble(self.db)

    def present(self) -> Trouble | None:
        return self.trouble

    def keeps_off(self) -> bool:
        """Whether nothing may be started: the cluster is another queue's."""
        return self.trouble is not None and self.trouble.keeps_off
