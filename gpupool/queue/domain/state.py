"""What a round of decisions is made from: what is held, who waits, money, clocks.

Times are epoch seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from gpupool.queue.records import Level, Offer, Placement, Start, Waiting


class Held(NamedTuple):
    """A job that is scheduled or running, or slots that a tenant's own pods hold."""

    job: str
    attempt: int
    """0 for pods that are not the queue's."""
    tenant: str
    project: str | None
    level: Level
    pool: str
    resource: str
    capacity_type: str
    placement: Placement
    gpu_micro: int
    hold_micro: int
    since: float
    """When it was dispatched."""
    run_limit_s: int
    preemptible: bool
    preempting_for: str | None = None
    """The job that it is being preempted for."""
    rate_micro: int = 0
    """Price of an hour, in micro-USD; not known of pods that are not the queue's."""
    started: bool = True
    """Whether its container runs: from then on it is charged."""
    borrowed: bool = False
    """Whether it started beyond its tenant's grant."""

    @property
    def units(self) -> int:
        """Of all its nodes."""
        return sum(units for _, units in self.placement)

    @property
    def of_queue(self) -> bool:
        """Whether it is a job, and not pods of a tenant's own."""
        return self.attempt > 0

    @property
    def ends(self) -> float:
        """When it ends at the latest, if it runs as long as it may."""
        return self.since + self.run_limit_s


@dataclass(frozen=True, slots=True)
class Queued:
    """A job that waits and may start now (not blocked, not backing off)."""

    job: str
    attempt: int
    tenant: str
    project: str | None
    lane: str
    """Jobs of one project with the same offers and level wait in one lane, first in, first out."""
    level: Level
    enqueued: float
    offers: tuple[Offer, ...]
    timeout_s: int
    budget_limit_micro: int | None
    spent_micro: int
    """Settled cost of its earlier attempts; counts against budget_limit_micro."""
    preemptible: bool
    preempts: bool
    on_demand_only: bool = False
    """It lost its spot node three times, or as often as it has retries where these are more."""
    plan_hash: str = ""
    """The Plan that its offers are of."""

    @property
    def may_be_on_spot(self) -> bool:
        """Whether nodes of spot capacity may be used for it."""
        return self.preemptible and not self.on_demand_only


def held_by(job: Queued, start: Start, now: float) -> Held:
    """What `job` holds once it is started."""
    return Held(
        job.job, job.attempt + 1, job.tenant, job.project, job.level, start.offer.pool, start.offer.resource,
        start.capacity_type, start.placement, start.offer.gpu_micro, start.hold_micro, now,
        start.run_limit_s, job.preemptible, borrowed=start.borrowed,
    )  # fmt: skip


@dataclass(slots=True)
class Holdings:
    """All that is held, and what it comes to. The counts follow each job that comes or goes, so that no round
    counts thousands of jobs again; some may stay as 0."""

    jobs: dict[str, Held] = field(default_factory=dict)
    pods: list[Held] = field(default_factory=list)
    """What is not the queue's."""
    used: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """(tenant, pool, resource) -> units."""
    gpus: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(pool, capacity type) -> gpu_micro."""
    taken: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """(pool, resource, node) -> units."""
    running: Counter[str] = field(default_factory=Counter)
    """Tenant -> jobs."""
    borrowed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(pool, resource) -> jobs that started beyond their tenant's grant."""
    pending_preemptions: Counter[str] = field(default_factory=Counter)
    """Job -> number of jobs that are preempted for it and have not ended."""

    @classmethod
    def of(cls, held: Iterable[Held]) -> Holdings:
        holdings = cls()
        for one in held:
            holdings.add(one)
        return holdings

    def __iter__(self) -> Iterator[Held]:
        return chain(self.jobs.values(), self.pods)

    def copy(self) -> Holdings:
        return Holdings(*(getattr(self, name).copy() for name in self.__slots__))

    def add(self, held: Held) -> None:
        """Count `held`, in place of what the same job held before."""
        if held.of_queue:
            self.remove(held.job)
            self.jobs[held.job] = held
        else:
            self.pods.append(held)
        self._count(held, 1)

    def remove(self, job: str) -> None:
        held = self.jobs.pop(job, None)
        if held is not None:
            self._count(held, -1)

    def runs(self, job: str, since: float, started: bool) -> Held:
        """A job has its slots since then; nothing that is counted changes."""
        held = self.jobs[job] = self.jobs[job]._replace(since=since, started=started)
        return held

    def _count(self, held: Held, sign: int) -> None:
        self.used[held.tenant, held.pool, held.resource] += sign * held.units
        self.gpus[held.pool, held.capacity_type] += sign * held.gpu_micro
        for node, units in held.placement:
            self.taken[held.pool, held.resource, node] += sign * units
        if held.of_queue:
            self.running[held.tenant] += sign
        if held.borrowed:
            self.borrowed[held.pool, held.resource] += sign
        if held.preempting_for:
            self.pending_preemptions[held.preempting_for] += sign


class BudgetUsage(NamedTuple):
    """Money of one tenant or project in the current period."""

    spent_micro: int
    held_micro: int


Lane = tuple[str, str]
"""(tenant, name of the lane)"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that changes between rounds."""

    now: float
    held: Holdings
    lanes: Mapping[Lane, Sequence[Queued]]
    """Of each lane the first jobs that wait, in order; a lane has one at least."""
    budget_usage: Mapping[str, BudgetUsage] = field(default_factory=dict)
    """`tenant` or `tenant/project` -> usage; absent: nothing spent yet."""
    clocks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """(pool, tenant) -> fair clock in gpu_micro seconds per weight."""
    reservations: Mapping[str, str] = field(default_factory=dict)
    """Bound (see `gpupool.queue.domain.reservations`) -> job that it is reserved for."""
    floors: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """What the previous round returned; empty for a leader's first."""
    waits: Mapping[str, Waiting] = field(default_factory=dict)
    """Head -> why it waits, as far as that is written."""

    @property
    def queued(self) -> tuple[Queued, ...]:
        """All the jobs, lane by lane."""
        return tuple(chain.from_iterable(self.lanes.values()))
