"""The state of the queue between rounds, in memory: for projections and simulations, as kube-scheduler's
cache is for its cycles.

It decides by the very rounds of `decide`, over the lanes alone for which something has changed since they
were looked at, by itself or with time; that comes to the same as looking at all of them. What makes the
difference is kept here: which lanes a change is of use to. It must not know how long jobs run.

A lane that waits goes on waiting until one of these changes: what is held on a pool of its offers; what its
tenant holds anywhere, or has left to spend; what is kept for others in its way, which follows what their
holders lack; or time passes a `Moment`.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from gpupool.queue.domain import budget, fairness
from gpupool.queue.domain.decide import run
from gpupool.queue.domain.moments import Moment, Moments, first_passed, first_too_late
from gpupool.queue.domain.periods import period_end
from gpupool.queue.domain.placement import Slots
from gpupool.queue.domain.possible import Possible
from gpupool.queue.domain.reservations import Reservations
from gpupool.queue.domain.round import Key, Round, charged_ahead
from gpupool.queue.domain.state import BudgetUsage, Held, Holdings, Lane, Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.domain.waiting_lanes import WaitingLanes
from gpupool.queue.records import Decision

_NOTHING_WRITTEN: Mapping[str, None] = {}


@dataclass(slots=True)
class SchedulerCache:
    """What is held, who waits, money and clocks at the moment `now`."""

    supply: Supply
    now: float
    held: Holdings
    slots: Slots
    queue: WaitingLanes
    budget_usage: dict[str, BudgetUsage] = field(default_factory=dict)
    """Of the present periods."""
    clocks: dict[fairness.Key, int] = field(default_factory=dict)
    floors: Mapping[fairness.Key, int] = field(default_factory=dict)
    holders: dict[str, Queued] = field(default_factory=dict)
    """Bound -> job that it is kept for."""
    _touched: dict[Lane, None] = field(default_factory=dict)
    _stirred: set[str] = field(default_factory=set)
    """Bounds whose holders' prospects have changed, or that have another holder."""
    _exhausted: set[Lane] = field(default_factory=set)
    """Lanes that were read to their end: one more job would have been looked at."""
    _open: dict[Lane, None] = field(default_factory=dict)
    """Lanes that were looked at, and might have gone on had the round done something else."""
    _unsure: dict[str, Queued] = field(default_factory=dict)
    """Jobs that something is kept for: whether it is of use to them has to be seen again."""
    _active: Counter[fairness.Key] = field(default_factory=Counter)
    """Lanes and jobs, and pods, of each tenant on each pool."""
    _other_keys: bool = True
    """Whether there are others than the least clocks are known of."""
    _moments: Moments = field(init=False)
    _ending: frozenset[str] = frozenset()
    """Pools with nodes that end."""
    _possible: Possible = field(init=False)
    _begun: dict[str, float] = field(default_factory=dict)
    """Period of budgets -> a moment since which the present one has gone on."""
    _decided: dict[str, float] = field(default_factory=dict)
    """Job that holds slots -> when its attempt was dispatched: its money is of that period."""

    @classmethod
    def of(cls, snapshot: Snapshot, supply: Supply) -> SchedulerCache:
        """From what a round would begin with. Nothing of it is changed."""
        held = snapshot.held.copy()
        cache = cls(
            supply,
            snapshot.now,
            held,
            Slots.of(supply.pools, held.taken),
            WaitingLanes(supply.tenants),
            budget_usage=dict(snapshot.budget_usage),
            clocks=dict(snapshot.clocks),
            floors=snapshot.floors,
        )
        for jobs in snapshot.lanes.values():
            for job in jobs:
                cache.submit(job)
        present = Reservations.of(snapshot.reservations, cache.waiting, supply.tenants)
        cache.holders = present.holders
        for holding in held:
            cache._activate(holding.pool, holding.tenant)
        for running in held.jobs.values():
            cache._watch(running)
        return cache

    def __post_init__(self) -> None:
        self._moments = Moments(self._may_matter)
        pools = self.supply.pools.values()
        self._ending = frozenset(pool.name for pool in pools if pool.ending)
        for pool in pools:
            for until in {node.until for node in pool.ending if node.until > self.now}:
                self._moments.remember(until, "pool", pool.name)
        rules = self.supply.tenants.values()
        for period in {allowance.period for rule in rules for allowance in rule.budgets.values()}:
            self._begin_period(period)
        self._possible = Possible(self.supply, self.now, self.slots, self.held.pods)

    @property
    def lanes(self) -> Mapping[Lane, deque[Queued]]:
        """Jobs that wait; no lane is empty."""
        return self.queue.lanes

    @property
    def waiting(self) -> Mapping[str, Queued]:
        """The jobs of all lanes, by id."""
        return self.queue.jobs

    # What happens to jobs.

    def submit(self, job: Queued) -> None:
        """`job` waits from now on: at its place in its lane, by the time of its submission."""
        name = job.tenant, job.lane
        at = self.queue.add(job)
        if at is None:
            for offer in job.offers:
                self._activate(offer.pool, job.tenant)
        if not at or name in self._exhausted:
            self._touched[name] = None
        due = first_passed(job.enqueued, self.supply.rules.reserve_after_s)
        if due > self.now:
            self._moments.remember(due, "due", job.job)
        for pool in self._ending & {offer.pool for offer in job.offers} if self._ending else ():
            for until in {node.until for node in self.supply.pools[pool].ending} - {inf}:
                if (too_late := first_too_late(until, job.timeout_s)) > self.now:
                    self._moments.remember(too_late, "closed", job.job)

    def withdraw(self, job: str) -> None:
        """`job`, which waits, does so no longer."""
        for bound in [bound for bound, holder in self.holders.items() if holder.job == job]:
            del self.holders[bound]
            self._stirred.add(bound)
        queued = self._leaves(job)
        if (name := (queued.tenant, queued.lane)) in self.lanes:
            self._touched[name] = None

    def _leaves(self, job: str) -> Queued:
        """It waits no longer."""
        queued, empty = self.queue.remove(job)
        if empty:
            name = queued.tenant, queued.lane
            for offer in queued.offers:
                self._deactivate(offer.pool, queued.tenant)
            self._touched.pop(name, None)
            self._open.pop(name, None)
            self._exhausted.discard(name)
        return queued

    def _deactivate(self, pool: str, tenant: str) -> None:
        key = pool, tenant
        self._active[key] -= 1
        if not self._active[key]:
            del self._active[key]
            self._other_keys = True

    def _activate(self, pool: str, tenant: str) -> None:
        key = pool, tenant
        if key not in self._active:
            self._other_keys = True
        self._active[key] += 1

    def end(self, job: str, cost_micro: int, clock: int) -> Held:
        """The attempt of `job` is over: what it cost, and how far its tenant's clock moves back."""
        held = self.held.jobs[job]
        self.held.remove(job)
        self.slots.give(held.pool, held.resource, held.placement)
        self._deactivate(held.pool, held.tenant)
        key = held.pool, held.tenant
        self.clocks[key] = max(0, self.clocks.get(key, 0) + clock)
        self._settle(held, cost_micro)
        self.touch_pool(held.pool)
        self.touch_tenant(held.tenant)
        return held

    def _settle(self, held: Held, cost_micro: int) -> None:
        """What was held in an earlier period is settled there."""
        decided = self._decided.pop(held.job, held.since)
        budgets = self.supply.rule(held.tenant).budgets
        names = [
            name for name in budget.budgeted(budgets, held) if self._is_of_this(budgets[name].period, decided)
        ]
        budget.book(self.budget_usage, names, cost_micro, -held.hold_micro)

    def _is_of_this(self, period: str, moment: float) -> bool:
        seen = moment >= self._begun[period]
        return seen or period_end(period, moment).timestamp() > self.now

    def wait_for_node(self, job: str) -> None:
        """The container of `job`, which was just dispatched, does not run yet."""
        held = self.held.runs(job, self.now, started=False)
        if held.borrowed:  # it may be taken back at once
            self.touch_pool(held.pool)

    def begin(self, job: str) -> None:
        """The container of `job` runs from now on; it has been dispatched before."""
        held = self.held.runs(job, self.now, started=True)
        self._watch(held)
        self._ends_elsewhen(held)

    def _ends_elsewhen(self, held: Held) -> None:
        """When the job ends at the latest has changed, or is past: that says when others may start."""
        for holder in self.holders.values():
            if holder.tenant == held.tenant or holder.offers[0].pool == held.pool:
                self.touch_pool(held.pool)
                self.touch_tenant(held.tenant)
                return

    # Which lanes that is of use to.

    def touch_pool(self, pool: str) -> None:
        """What is held on the pool has changed."""
        self._stirred.add(pool)

    def touch_tenant(self, tenant: str) -> None:
        """What the tenant holds or may spend has changed."""
        self._stirred.add(f"/{tenant}")

    def _concerned(self, stirred: Collection[str], lanes: Iterable[Lane]) -> dict[Lane, None]:
        return self.queue.concerned(stirred, lanes, self.holders)

    # Time.

    def _watch(self, held: Held) -> None:
        """When something follows from its running for so long."""
        if held.preemptible:
            ripe = first_passed(held.since, self.supply.rules.minimum_runtime_s)
            if ripe > self.now:
                self._moments.remember(ripe, "ripe", held.job, held.attempt)
        if held.ends > self.now:
            self._moments.remember(held.ends, "late", held.job, held.attempt)

    @property
    def next_moment(self) -> float:
        """When time alone may bring something about; infinity where it does not."""
        return self._moments.next_at

    def _may_matter(self, moment: Moment) -> bool:
        """Whether anything may still follow from it."""
        if moment.kind in ("due", "closed"):
            return moment.subject in self.waiting
        if moment.kind in ("ripe", "late"):
            held = self.held.jobs.get(moment.subject)
            return held is not None and held.attempt == moment.attempt
        return True

    def advance(self, now: float) -> None:
        """It is `now`, in epoch seconds; what ended by then has been said."""
        self.now = now
        while (moment := self._moments.take_due(now)) is not None:
            if moment.kind == "due":
                job = self.waiting[moment.subject]
                name = job.tenant, job.lane
                if self.lanes[name][0] is job or name in self._exhausted:
                    self._touched[name] = None
            elif moment.kind == "ripe":
                self._may_give_way(self.held.jobs[moment.subject])
            elif moment.kind == "late":
                self._ends_elsewhen(self.held.jobs[moment.subject])
            elif moment.kind == "closed":
                for offer in self.waiting[moment.subject].offers:
                    self.touch_pool(offer.pool)
            elif moment.kind == "pool":
                self.touch_pool(moment.subject)
            else:
                self._end_period(moment.subject)

    def _may_give_way(self, held: Held) -> None:
        """It has run for long enough: that is of use to who takes its place, or its tenant's money."""
        lanes = self.queue.on_pool.get(held.pool, {}) | self.queue.of_tenant.get(held.tenant, {})
        lends = held.borrowed or held.pool in self.queue.lending
        paid = held.tenant in self.queue.paying
        for name in lanes:
            if lends or (paid and name[0] == held.tenant) or self.lanes[name][0].preempts:
                self._touched[name] = None

    def _begin_period(self, period: str) -> None:
        self._begun[period] = self.now
        self._moments.remember(period_end(period, self.now).timestamp(), "period", period)

    def _end_period(self, period: str) -> None:
        for rule in self.supply.tenants.values():
            for scope, allowance in rule.budgets.items():
                if allowance.period == period:
                    self.budget_usage.pop(scope, None)
                    self.touch_tenant(rule.name)
        self._begin_period(period)

    # Rounds.

    def decisions(self) -> Iterator[Decision]:
        """Rounds until nothing follows any more, each of them done before it is given."""
        while self._touched or self._stirred or self._unsure:
            names = self._concerned(self._stirred, self._touched)
            self._touched, self._stirred = {}, set()
            if names or self._unsure or self._ending:
                yield self._round(names)
        self._renew_floors()

    def round_of_all(self) -> Decision:
        """One round over all lanes, done before it is given: it says of each lane why its jobs wait."""
        self._touched, self._stirred = {}, set()
        return self._round(dict.fromkeys(self.lanes))

    def _renew_floors(self) -> Mapping[fairness.Key, int]:
        """The least clocks, with those of tenants that have become active."""
        if self._other_keys:
            self._other_keys = False
            self.floors = fairness.floors(
                self.floors,
                self._active.keys(),
                self.clocks,
                lambda pools: charged_ahead(self.held, self.supply, self.now, pools),
            )
        return self.floors

    def _round(self, names: dict[Lane, None]) -> Decision:
        """One round over these lanes, and do what it decides."""
        self._possible.now = self.now
        reservations = Reservations(self.supply.tenants, self.holders)
        round = Round(
            supply=self.supply,
            now=self.now,
            slots=self.slots,
            held=self.held,
            budget_usage=dict(self.budget_usage),
            moved=dict(self.clocks),
            floors=self._renew_floors(),
            possible=self._possible,
            reservations=reservations,
            written=_NOTHING_WRITTEN.keys(),
            lanes=self.lanes,
        )
        if self.holders:
            names = self._without_use(round, names)
        decision = run(round, names, _Seen(self).changed)
        self._exhausted.difference_update(names)
        self._exhausted |= decision.exhausted
        self._open.update(dict.fromkeys(round.visited & self.lanes.keys()))
        for name in round.stayed:
            self._open.pop(name, None)
        self._follow(decision)
        return decision

    def _without_use(self, round: Round, names: dict[Lane, None]) -> dict[Lane, None]:
        """End reservations that are of no use any more; the lanes, with those that this is of use to."""
        before = dict(self.holders)
        round.end_reservations(
            holder
            for holder in before.values()
            if (holder.tenant, holder.lane) in names
            or holder.job in self._unsure
            or holder.offers[0].pool in self._ending
        )
        self._unsure = {}
        gone = before.keys() - self.holders.keys()
        return self._concerned(gone, names) if gone else names

    def _follow(self, decision: Decision) -> None:
        """Do what was decided; slots, holdings and reservations are the round's already."""
        for start in decision.starts:
            self._leaves(start.job)
            held = self.held.jobs[start.job]
            self._activate(held.pool, held.tenant)
            self._decided[start.job] = self.now
            names = budget.budgeted(self.supply.rule(held.tenant).budgets, held)
            budget.book(self.budget_usage, names, 0, held.hold_micro)
            key = held.pool, held.tenant
            floor = decision.floors.get(key, 0)
            self.clocks[key] = max(self.clocks.get(key, 0), floor) + start.charge
            self._watch(held)
            self._see_again(held)

    def _see_again(self, started: Held) -> None:
        """What a start may bring about for those that wait: nothing that it takes, but they may wait for
        something else from now on, which may be kept for them."""
        tenant, pool = started.tenant, started.pool
        self._touched.update(self._open_for(started))
        rule, after = self.supply.rule(tenant), self.supply.rules.reserve_after_s
        if rule.running is not None and self.held.running[tenant] >= rule.running:
            self.touch_tenant(tenant)
        elif f"{pool}/{tenant}" not in self.holders:
            for name in self.queue.of_tenant.get(tenant, ()):
                head = self.lanes[name][0]
                if head.offers[0].pool == pool and self.now - head.enqueued >= after:
                    self._touched[name] = None
        for holder in self.holders.values():
            if holder.tenant == tenant or holder.offers[0].pool == pool:
                self._unsure[holder.job] = holder

    def _open_for(self, started: Held) -> dict[Lane, None]:
        """Lanes of the same tenant, or with an offer on the same pool."""
        on_pool = self.queue.on_pool.get(started.pool, {})
        return {name: None for name in self._open if name[0] == started.tenant or name in on_pool}


class _Seen:
    """What a round has changed that may be of use to lanes that it did not begin with."""

    def __init__(self, cache: SchedulerCache) -> None:
        self._cache = cache
        self._before = self._holders = dict(cache.holders)
        self._starts = self._preempts = 0

    def changed(self, round: Round) -> Iterable[tuple[Key, Lane]]:
        """Since it was asked last: such lanes, and their keys as they were when the round began."""
        cache, stirred = self._cache, set[str]()
        holders = cache.holders
        if holders != self._holders:
            bounds = holders.keys() | self._holders.keys()
            stirred |= {bound for bound in bounds if holders.get(bound) is not self._holders.get(bound)}
            self._holders = dict(holders)
        lanes: dict[Lane, None] = {}
        for start in round.starts[self._starts :]:
            job = cache.waiting[start.job]
            stirred |= cache.queue.lending & {offer.pool for offer in job.offers}
            lanes |= cache._open_for(cache.held.jobs[start.job])
        self._starts = len(round.starts)
        for preempt in round.preempts[self._preempts :]:
            held = cache.held.jobs[preempt.job]
            stirred |= {held.pool, f"/{held.tenant}"}
        self._preempts = len(round.preempts)
        if stirred:
            cache._stirred |= stirred
            useful = cache._concerned(stirred, ())
            lanes |= {name: None for name in useful if name in cache._open}
        if not lanes:
            return ()
        began = self._as_it_began(round)
        return [(began.key(cache.lanes[name][0]), name) for name in lanes]

    def _as_it_began(self, round: Round) -> Round:
        """What keys are made of."""
        used = round.held.used.copy()
        for start in round.starts:
            used[start.tenant, start.offer.pool, start.offer.resource] -= start.offer.units
        return replace(
            round,
            moved=self._cache.clocks,
            held=Holdings(used=used),
            reservations=Reservations(round.supply.tenants, self._before),
        )
