"""Orphaned Jobs: those in the cluster of attempts that do not run, left over or of another queue.

Only Jobs of this database's queue are deleted, each with a line in the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from gpupool.environment.plan.pods import DATABASE_LABEL
from gpupool.queue.kubernetes.job_manifest import Object
from gpupool.queue.kubernetes.mirror import Key, is_held
from gpupool.queue.store import identity, launches
from gpupool.queue.store.database import Database

log = structlog.get_logger()


@dataclass
class Orphans:
    """`database`: the id of this queue's, as its Jobs have it in a label."""

    db: Database
    database: str = ""
    _left: set[Key] = field(default_factory=set, init=False)
    """Jobs of another queue that the log has named."""

    async def should_delete(self, key: Key, things: Sequence[Object]) -> bool:
        """Whether to delete this Job and these pods, of an attempt that is not known to run. The log says
        which are deleted, and once which are left because they are another queue's."""
        if not any(map(is_held, things)):
            return False
        # A process that no longer leads without knowing it must not take the new leader's for orphans.
        if await launches.is_held(self.db, *key):
            return False
        databases = {(thing["metadata"].get("labels") or {}).get(DATABASE_LABEL) for thing in things}
        about = {"job": key[0], "attempt": key[1], "namespace": things[0]["metadata"]["namespace"]}
        # Earlier releases wrote no id; a database that was restored has had another one.
        if databases == {self.database} or not await identity.unknown(self.db, [key]):
            log.warning("launcher.discarded", **about)
            return True
        if key not in self._left:
            self._left.add(key)
            log.warning("launcher.left", **about, databases=sorted(map(str, databases)), own=self.database)
        return False
