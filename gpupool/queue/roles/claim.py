"""Whose the cluster is: the process that leads acts there only while the cluster's Lease is of its database.

The Lease names the database, and has a mark that changes every few seconds and is in the database too. Where
they don't fit together, this is another database, a copy, or an older state of one: nothing is started or
ended until an administrator lets it. Every look also tells whether the cluster can be reached. What is found
is in the database, for all processes.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from gpupool.environment.plan.pods import LEASE
from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.queue.kubernetes import lease as leases
from gpupool.queue.kubernetes.cluster import Cluster
from gpupool.queue.kubernetes.job_manifest import Object
from gpupool.queue.kubernetes.mirror import JOBS, OURS, is_held, key_of
from gpupool.queue.store import identity as identities
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.identity import Identity
from gpupool.queue.trouble import Trouble, TroubleKind

log = structlog.get_logger()

RENEW_S = 10.0
"""Between two looks at the Lease; also where the cluster is another's."""
AGAIN_S = 2.0
"""After a look that got no answer; the second one in a row is shown."""
ANEW_S = 30.0
"""A cluster that has not answered, or let the queue in, for so long: its credential is read again."""
TRIES = 3


@dataclass
class Claim:
    """`watching`: the error that keeps watches of the cluster from going on, if any."""

    db: Database
    cluster: Cluster
    now: Callable[[], datetime]
    watching: Callable[[], GpupoolError | None]
    clock: Callable[[], float] = time.monotonic
    _identity: Identity | None = field(default=None, init=False)
    """While the cluster is this database's, by the last look that was answered."""
    _lease: Object | None = field(default=None, init=False)
    """As this process has written it last."""
    _failing: datetime | None = field(default=None, init=False)
    """Since when looks are not answered."""
    _answered: float = field(default=float("-inf"), init=False)
    _began: float = field(default=float("-inf"), init=False)
    """When the last look began."""
    _due: float = field(default=float("-inf"), init=False)
    _read: float = field(default=float("-inf"), init=False)
    """When `start_reading_again` last said yes."""
    _task: asyncio.Task[None] | None = field(default=None, init=False)
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def forget(self) -> None:
        """Another process may lead, or this may be another cluster: look before anything else."""
        self._identity = self._lease = None
        self._answered = self._due = float("-inf")
        if self._task is not None:
            self._task.cancel()
            self._task = None

    @property
    def is_known(self) -> bool:
        """Whether a look has been answered."""
        return self._answered > float("-inf")

    async def held(self, epoch: int, patience_s: float) -> Identity | None:
        """The identity of the database while the cluster is its own; None while that is another's, or is not
        known yet. A look that takes longer than `patience_s` goes on. Raises Deposed, StoreError."""
        if self._task is None and self.clock() >= self._due:
            self._task = asyncio.create_task(self._check_alone(epoch))
        if self._task is None and not self.is_known:
            await asyncio.sleep(min(patience_s, self._due - self.clock()))
        elif self._task is not None:
            await asyncio.wait({self._task}, timeout=patience_s)
            if self._task.done():
                task, self._task = self._task, None
                task.result()  # raises what ended it
        return self._identity

    async def _check_alone(self, epoch: int) -> None:
        async with self._looking:
            await self._check(epoch)

    async def is_sure(self, epoch: int) -> bool:
        """Whether the cluster is this database's, and the one that it was, as of this moment."""
        asked = self.clock()
        async with self._looking:
            lease = self._identity and self._identity.lease
            if self._began <= asked:  # one look serves all that asked before it
                await self._check(epoch)
            same = self._identity is not None and self._identity.lease == lease
            return same and self._failing is None

    def start_reading_again(self) -> bool:
        """Whether to read address and credential of the cluster again now, because it has not answered for
        long: at most once in `ANEW_S`, which counts from here."""
        is_time = self._failing is not None and self.clock() - max(self._answered, self._read) > ANEW_S
        if is_time:
            self._read = self.clock()
        return is_time

    async def _check(self, epoch: int) -> None:
        again, self._began = self._failing is not None, self.clock()
        try:
            trouble = await self._renewed(epoch)
            self._answered, self._failing = self.clock(), None
            error = None if trouble else self.watching()
            shown = True
        except StoreError:  # says nothing of the cluster
            raise
        except GpupoolError as unanswered:
            trouble, error, shown = None, unanswered, again
            self._failing = self._failing or self.now()
        if error is not None:
            refused = isinstance(error, ApiError) and error.status < 500 and error.status != 429
            about = " ".join(str(error).split())[:500]
            kind = TroubleKind.REFUSED if refused else TroubleKind.UNREACHABLE
            trouble = Trouble(kind, self.cluster.server, self._failing or self.now(), about)
        self._due = self.clock() + (AGAIN_S if self._failing else RENEW_S)
        if shown:
            await self._show(epoch, trouble)

    async def _renewed(self, epoch: int) -> Trouble | None:
        """Write the next mark; or what is in the way. Raises GpupoolError without an answer."""
        for _ in range(TRIES):
            own = await identities.read(self.db)
            lease = self._lease or await self.cluster.lease()
            obstacle = await self._obstacle(own, lease)
            if obstacle is not None and obstacle.whose != own.take_over:
                self._identity = self._lease = None
                return obstacle
            database = own.database
            if obstacle is not None:
                # A copy that runs elsewhere must not take this one's Jobs for its own.
                database = str(uuid.uuid4()) if obstacle.kind is TroubleKind.RESTORED else database
                log.warning("cluster.taken_over", whose=obstacle.whose, database=database)
            mark = str(uuid.uuid4())
            next_one = leases.marked(lease, database, mark, own.mark, self.now())
            self._lease = await self.cluster.hold(next_one)
            if self._lease is not None:
                uid = self._lease["metadata"]["uid"]
                if own.lease not in (None, uid):
                    log.warning("cluster.another", server=self.cluster.server, lease=uid, before=own.lease)
                self._identity = await identities.marked(self.db, epoch, database, mark, uid, self.now())
                return None
        raise UnreachableError(f"{self.cluster.server}: Lease {LEASE} changes all the time")

    async def _obstacle(self, own: Identity, lease: Object | None) -> Trouble | None:
        """Why the cluster is not this database's."""
        kind, about = None, ""
        if lease is not None and leases.holder_of(lease):
            about = leases.holder_of(lease)
            if about != own.database:
                kind = TroubleKind.OTHERS
            elif own.mark not in leases.marks_of(lease):
                kind = TroubleKind.RESTORED
        elif unknown := await self._unknown_jobs():
            kind, about = TroubleKind.UNKNOWN_JOBS, f"{len(unknown)}, such as {unknown[0]}"
        return Trouble(kind, self.cluster.server, self.now(), about) if kind else None

    async def _unknown_jobs(self) -> list[str]:
        """Jobs of a queue that no queue has recorded, and that this database has no attempt for."""
        jobs, _ = await self.cluster.reader.list_all(JOBS, OURS)
        held = {key: job["metadata"] for job in jobs if (key := key_of(job)) is not None and is_held(job)}
        unknown = await identities.unknown(self.db, held.keys())
        return sorted(f"{held[key]['namespace']}/{held[key]['name']}" for key in unknown)

    async def _show(self, epoch: int, trouble: Trouble | None) -> None:
        """For all processes, and in the log; only what has changed."""
        before = await identities.trouble(self.db)
        if trouble is not None and before is not None and trouble.whose == before.whose:
            return
        if trouble is None and before is None:
            return
        await identities.troubled(self.db, epoch, trouble)
        if trouble is not None:
            log.error("cluster.trouble", kind=trouble.kind.value, error=str(trouble))
        else:
            log.info("cluster.well", server=self.cluster.server)
