"""The launcher: takes up decided container jobs, and follows the cluster that they run on.

One process leads. What it knows is in the database (which attempts are the cluster's) and in the cluster
(Jobs, pods), so that another one goes on where it stops. When something of an attempt changed, and again from
time to time, `reconciler` looks after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from gpupool.findings import GpupoolError
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes.cluster import Cluster
from gpupool.queue.kubernetes.foreign_pods import foreign_pods
from gpupool.queue.kubernetes.mirror import Key, Mirror
from gpupool.queue.measures import Measures
from gpupool.queue.roles.attempt import Attempt
from gpupool.queue.roles.claim import Claim
from gpupool.queue.roles.leader import LeaderRole, steady, utc_now
from gpupool.queue.roles.reconciler import Reconciler
from gpupool.queue.store import launches
from gpupool.queue.store.errors import StoreError

log = structlog.get_logger()

TAKEN = 256
"""Attempts taken from the queue at one time."""


@dataclass
class Launcher(LeaderRole):
    """Launches and watches while it leads. `current` gives the present Plan; `ended` is called when slots
    have become free, or may have. `now` and `clock` as in `Reconciler`."""

    cluster: Cluster
    current: Callable[[], Current]
    now: Callable[[], datetime] = utc_now
    clock: Callable[[], datetime] = steady
    ended: Callable[[], None] = lambda: None
    measures: Measures | None = None
    _epoch: int | None = field(default=None, init=False)
    """The epoch for which the attempts were read from the database; None: they are to be read again."""
    _following: asyncio.Task[None] | None = field(default=None, init=False)
    """Runs `mirror`."""

    interval_s = 1.0

    def __post_init__(self) -> None:
        self.claim = Claim(
            self.db, self.cluster, self.now, lambda: next(iter(self.mirror.failing.values()), None)
        )
        self._forget()

    def _forget(self) -> None:
        """Begin with a mirror, a reconciler and a claim that know nothing."""
        self.mirror = Mirror(self.cluster.reader, self._enqueue)
        self.reconciler = Reconciler(
            self.db,
            self.cluster,
            self.mirror,
            self.current,
            self.now,
            self.clock,
            self.ended,
            self.measures,
            epoch=lambda: self._epoch if self.leadership.epoch == self._epoch else None,
            again=self._enqueue,
            is_sure=self._is_sure,
        )
        self.claim.forget()
        self._missed: set[Key] = set()
        """What changed while the lead was in doubt."""
        self._counted_by: str | None = None
        """Hash of the Plan by which the pods of others were counted last; None until that is written."""

    async def run(self, wake: asyncio.Event) -> None:
        """Steps until cancelled. What runs on the cluster goes on without this process."""
        try:
            await super().run(wake)
        finally:
            await self.close()

    async def step(self) -> bool:
        """Take up what is new, what is to stop and what is due; whether there may be more. A leader's first
        step ends when it has read the cluster: the process is not ready before."""
        more = await self.leadership.act(self._act)
        while self.leadership.epoch is not None and not self._has_read:
            more = await self.leadership.act(self._act)
        if self.leadership.epoch is None and self._following is not None:
            await self.close()
        return more

    @property
    def _has_read(self) -> bool:
        """Whether it is known whose the cluster is, and if it is the queue's, what it has."""
        return self.claim.is_known and (self._following is None or self.mirror.synced.is_set())

    async def close(self) -> None:
        """Forget everything: another process may lead now."""
        following, reconciler = self._following, self.reconciler
        self._following = self._epoch = None
        self._forget()
        await reconciler.close()
        if following is not None:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def _act(self, epoch: int) -> bool:
        await self._read_again()
        identity = await self.claim.held(epoch, self.leadership.ttl_s / 3)
        if identity is None:  # another queue's, or that is not known yet
            if self._following is not None:
                await self.close()
            return False
        self.reconciler.orphans.database = identity.database
        if not self.mirror.synced.is_set():  # neither is it when nothing follows the cluster
            return await self._follow()
        if epoch != self._epoch:
            await self._take_over(epoch, identity.lease_since)
        more = await self._take_up(epoch)
        await self._pass_on_stops()
        self._enqueue_due()
        await self._count_foreign(epoch)
        return more

    async def _follow(self) -> bool:
        """Follow the cluster, and wait a while for what it has; whether that is known now. Raises what has
        ended the following, which begins anew the next time."""
        if self._following is None:
            self._following = asyncio.create_task(self.mirror.run())
        if self._following.done():
            ended = self._following
            await self.close()
            ended.result()
        synced = asyncio.create_task(self.mirror.synced.wait())
        await asyncio.wait(
            {synced, self._following}, timeout=self.leadership.ttl_s / 3, return_when=asyncio.FIRST_COMPLETED
        )
        synced.cancel()
        return self.mirror.synced.is_set()

    async def _take_over(self, epoch: int, lease_since: datetime | None) -> None:
        """Go on with the attempts that the last leader had; all that the cluster has is looked at once."""
        attempts = {}
        for job in await launches.held(self.db):
            attempts[job.id, job.attempt] = attempt = Attempt(
                job, running=job.started_at is not None, waiting=job.waiting
            )
            attempt.served = attempt.running
            attempt.ask_to_stop(job.cancel_requested, job.preempt_reason)
            dispatched = job.dispatched_at
            attempt.elsewhere = (
                dispatched is not None and lease_since is not None and dispatched < lease_since
            )
        self.reconciler.attempts = attempts
        self._epoch = epoch
        for key in {*attempts, *self.mirror.jobs, *self.mirror.pods, *self.mirror.gone}:
            self._enqueue(key)

    async def _take_up(self, epoch: int) -> bool:
        """Take up attempts that were dispatched; whether there may be more."""
        try:
            taken = await launches.take(self.db, epoch, TAKEN)
        except StoreError:
            self._epoch = None  # what was taken nevertheless is found when everything is read again
            raise
        for job in taken:
            self.reconciler.attempts[job.id, job.attempt] = Attempt(job)
            self._enqueue((job.id, job.attempt))
        return len(taken) == TAKEN

    async def _pass_on_stops(self) -> None:
        """Ask the attempts to stop that were cancelled or are preempted."""
        known = self.reconciler.attempts
        for one in await launches.asked(self.db) if known else ():
            found = known.get((one.job, one.attempt))
            if found is not None and found.ask_to_stop(one.cancelled, one.preempted):
                self._enqueue((one.job, one.attempt))

    def _enqueue_due(self) -> None:
        """Look at what changed while the lead was in doubt, and at what is due."""
        missed, self._missed = self._missed, set()
        now = self.clock()
        due = {key for key, attempt in self.reconciler.attempts.items() if attempt.due and attempt.due <= now}
        for key in missed | due:
            self._enqueue(key)

    async def _count_foreign(self, epoch: int) -> None:
        """Write what the pods of others hold, if they, their nodes or the Plan have changed."""
        present = self.current()
        if self.mirror.take_foreign_changed() or present.hash != self._counted_by:
            self._counted_by = None  # until it is written: what fails is done again
            foreign = foreign_pods(
                self.mirror.foreign.values(), self.mirror.nodes, present.plan, present.supply
            )
            await launches.replace_foreign(self.db, epoch, foreign)
            self._counted_by = present.hash
            self.ended()

    async def _read_again(self) -> None:
        """Read the file that says where the cluster is, if it has changed or the claim wants that. Where it
        has changed, everything is forgotten: it may be another cluster."""
        changed = self.cluster.changed()
        if changed:
            await self.close()
        elif not self.claim.start_reading_again():
            return
        try:
            await self.cluster.renew()
            self.claim.forget()
            log.info("cluster.read_again", server=self.cluster.server, changed=changed)
        except GpupoolError as error:
            log.warning("cluster.unreadable", error=str(error))

    async def _is_sure(self) -> bool:
        """Whether the cluster is the one that it was, now that something of it is missing."""
        epoch = self._epoch
        return epoch is not None and await self.claim.is_sure(epoch)

    def _enqueue(self, key: Key) -> None:
        """Look at an attempt, if this process leads; once the lead is certain again, if it is in doubt."""
        if self._epoch is None:
            return
        if self.leadership.epoch != self._epoch:
            self._missed.add(key)
            return
        self.reconciler.work.add(key)
