"""A moment before which a job can't start, however deep in the queue it is.

A lane is first in, first out: a job starts once all before it in its lane have started. So by then they have
ended, but for those that run beside it, and the places that the lane can have at once, by nodes, grant and
running limit, bound how soon so much work is done. What other lanes take only makes it later. A job passes
those before it for one reason, that the budget does not pay for them: where there is a budget, only those
count that can't ask more of it. This module must not decide, and must not read the lane itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import floor

from gpupool.queue.domain import budget
from gpupool.queue.domain.placement import Slots
from gpupool.queue.domain.projection import may_make_room
from gpupool.queue.domain.state import Held, Queued, Snapshot
from gpupool.queue.domain.supply import Supply, TenantRule
from gpupool.queue.records import Offer


@dataclass(frozen=True, slots=True)
class Line:
    """The jobs before one in its own lane."""

    jobs: int
    seconds: int = 0
    """How long those that can't be passed run, all together, if each runs for as long as it may."""
    longest: int = 0
    """How much of that the `beside` longest take."""


@dataclass(frozen=True, slots=True)
class Places:
    """How many jobs of a lane can run at once, and what to ask of those before a job of it."""

    steps: tuple[tuple[float, int], ...]
    """(since, places), in order: there are more as those that run end."""
    beside: int
    """So many may still run when the job starts."""
    rate_micro: int
    """The highest price of an hour that the lane's jobs may pay."""
    patient_s: int | None
    """Jobs that may run for longer may be passed; None: none is passed."""

    def line(self, jobs: Sequence[Queued]) -> Line:
        """What these jobs are to one behind them."""
        seconds = sorted(map(self._runs, jobs), reverse=True)
        return Line(len(jobs), sum(seconds), sum(seconds[: self.beside]))

    def _runs(self, job: Queued) -> int:
        """How long a job runs at least, if it runs for as long as it may; 0 where it may be passed."""
        if job.on_demand_only or (self.patient_s is not None and job.timeout_s > self.patient_s):
            return 0
        hold = budget.hold(job, self.rate_micro)
        return hold.run_limit_s if isinstance(hold, budget.Hold) else 0

    def earliest(self, line: Line) -> float:
        """Epoch seconds, rounded down; infinity where there is never a place."""
        left: float = max(0, line.seconds - line.longest)
        ends = [since for since, _ in self.steps[1:]]
        for (since, places), end in zip(self.steps, [*ends, float("inf")], strict=True):
            if places and since + left / places <= end:
                return floor(since + left / places)
            left -= places * (end - since) if places else 0
        return float("inf")


def places_for(job: Queued, snapshot: Snapshot, supply: Supply) -> Places | None:
    """How many jobs like `job` can run at once, from now on; None where its tenant is unknown."""
    rule = supply.tenants.get(job.tenant)
    if rule is None:
        return None
    holding = [held for held in snapshot.held if held.of_queue]
    if job.preempts or may_make_room(snapshot, supply):
        holding = [held for held in holding if not held.preemptible]  # these may end at any moment
    holding = [held for held in holding if not held.borrowed]  # likewise
    count = _Count(job, rule, supply, [*snapshot.held.pods, *holding])
    steps = {snapshot.now: count.places()}
    for held in sorted(holding, key=lambda held: held.ends):
        if count.gone(held):
            steps[max(snapshot.now, held.ends)] = count.places()
    return Places(tuple(steps.items()), max(0, count.places() - 1), *_patience(job, rule, supply))


def _patience(job: Queued, rule: TenantRule, supply: Supply) -> tuple[int, int | None]:
    """The highest rate of the offers, and how long a job may run that can't cost more than `job` on any."""
    highest = max(offer.rate_micro for offer in job.offers)
    if not any(scope in rule.budgets for scope in budget.scopes(job.tenant, job.project)):
        return highest, None
    shortest = job.timeout_s
    for offer in job.offers:
        dear = offer.rate_micro
        hold = budget.hold(job, dear)
        runs = hold.run_limit_s if isinstance(hold, budget.Hold) else 0
        pool = supply.pools.get(offer.pool)
        if pool is not None and dear:
            # Those before it may have been asked for more.
            types = pool.types_for(job.may_be_on_spot) if len(pool.types) > 1 else ()
            runs = runs * min((dear, *map(offer.rate, types))) // dear
        shortest = min(shortest, runs)
    return highest, shortest


class _Count:
    """How many of a lane's jobs have a place, as what is held is given back."""

    def __init__(self, job: Queued, rule: TenantRule, supply: Supply, held: list[Held]) -> None:
        self._job, self._rule = job, rule
        own = [other for other in held if other.tenant == job.tenant]
        self._running = sum(other.of_queue for other in own)
        self._used = Counter[tuple[str, str]]()
        for other in own:
            self._used[other.pool, other.resource] += other.units
        taken = Counter[tuple[str, str, int]]()
        for other in held:
            for node, units in other.placement:
                taken[other.pool, other.resource, node] += units
        slots = Slots.of(supply.pools, taken)
        self._free = slots.free
        self._spans = {offer: slots.nodes_for(offer) for offer in job.offers}
        """Offer -> (nodes, units on each)."""
        self._room = dict.fromkeys(job.offers, 0)
        for offer in job.offers:
            nodes = self._free.get((offer.pool, offer.resource), ())
            self._room[offer] = sum(self._fitting(offer, free) for free in nodes)

    def _fitting(self, offer: Offer, free: int) -> int:
        """How many of the offer's parts a node with so many free units takes."""
        nodes, units = self._spans[offer]
        return max(0, free // units) if nodes == 1 else int(free >= units)

    def gone(self, held: Held) -> bool:
        """Count what is held no longer; whether that may make a place."""
        key = held.pool, held.resource
        offers = [offer for offer in self._job.offers if (offer.pool, offer.resource) == key]
        free = self._free.get(key, [])
        for node, units in held.placement:
            if node < len(free):
                for offer in offers:
                    more = self._fitting(offer, free[node] + units) - self._fitting(offer, free[node])
                    self._room[offer] += more
                free[node] += units
        own = held.tenant == self._job.tenant
        if own:
            self._running -= held.of_queue
            self._used[key] -= held.units
        return own or bool(offers)

    def places(self) -> int:
        """At most so many jobs of the lane can run now."""
        places = 0
        for offer in self._job.offers:
            key = offer.pool, offer.resource
            most = self._rule.up_to.get(key, self._rule.grants.get(key, 0)) - self._used[key]
            places += max(0, min(self._room[offer] // self._spans[offer][0], most // offer.units))
        if self._rule.running is not None:
            places = min(places, self._rule.running - self._running)
        return max(0, places)
