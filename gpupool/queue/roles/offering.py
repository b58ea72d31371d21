"""The part of the dispatcher that follows the environment file: it puts a Plan into force, and makes the
offers again of what waits with those of another one.

So it is with jobs from before a change, with those whose attempt ends after it, and with those that an API of
another file accepted: all are judged by the leader's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from gpupool.queue.domain import fit
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.offers import UnservableRequest
from gpupool.queue.kubernetes.admission import Admission, Verdicts
from gpupool.queue.records import Waiting
from gpupool.queue.roles.policies import policies_of
from gpupool.queue.store import plans, waiting_jobs
from gpupool.queue.store.database import Database
from gpupool.queue.store.waiting_jobs import Offered, Stale

log = structlog.get_logger()

BATCH = 1000
"""Jobs of one transaction."""


@dataclass
class Offering:
    """`present` gives the Plan; `admission` judges container jobs by its policies, where they go to a
    cluster. `holder`: the process."""

    db: Database
    present: Callable[[], Current]
    holder: str
    now: Callable[[], datetime]
    admission: Admission | None = None
    _enacted: tuple[int, str] | None = field(default=None, init=False)

    async def step(self, epoch: int) -> int:
        """Put the present Plan into force where it is not, and make offers for a batch of the jobs that have
        none of it; how many jobs that were. Raises Deposed."""
        current = self.present()
        if self._enacted != (epoch, current.hash):
            await plans.enact(self.db, epoch, current.hash, policies_of(current), self.holder, self.now())
            self._enacted = (epoch, current.hash)
        # Policies may look at anything of a request.
        fields = fit.FIELDS if self.admission is None else None
        stale = await waiting_jobs.stale(self.db, current.hash, BATCH, fields)
        if not stale:
            return 0
        verdicts = await self.admission.verdicts(current) if self.admission is not None else None
        offered = await asyncio.to_thread(_offered, current, verdicts, stale)
        await waiting_jobs.write(self.db, epoch, current.hash, offered, self.now())
        count = sum(len(group.ids) for group in stale)
        refused = sum(len(group.jobs.ids) for group in offered if isinstance(group.fit, Waiting))
        log.info("offers.made", plan=current.hash, jobs=count, unschedulable=refused)
        return count


def _offered(current: Current, verdicts: Verdicts | None, stale: Sequence[Stale]) -> list[Offered]:
    fails = current.plan.queue.on_impossible == "fail"
    offered = []
    for jobs in stale:
        try:
            offered.append(Offered(jobs, _fit(current, verdicts, jobs)))
        except UnservableRequest as refused:
            # A file that this process has not read yet may allow it: that ends no job.
            offered.append(Offered(jobs, fit.unschedulable(refused), fails and jobs.enacted))
    return offered


def _fit(current: Current, verdicts: Verdicts | None, jobs: Stale) -> fit.Fit:
    job = jobs.job
    taken = fit.fit_again(current.plan, current.supply, current.tenants, job)
    if verdicts is None or job.is_http:
        return taken
    placed = replace(job, level=taken.level, isolation=taken.isolation, preemptible=taken.preemptible)
    refusals = {offer: verdicts.refusals(placed, offer, current) for offer in taken.offers}
    admitted = tuple(offer for offer in taken.offers if not refusals[offer])
    if not admitted:
        first = refusals[taken.offers[0]][0]
        raise UnservableRequest("policy-refuses", str(first), "policies")
    return replace(taken, offers=admitted)
