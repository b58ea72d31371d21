"""The state of one scheduling round: the order of jobs, what fits, and what is taken.

Order, most significant first: a job with a reservation on nodes; jobs within their tenants' grants, then
those that borrow, of the tenant that has borrowed least for its weight; tenants below their guaranteed
share; the level, raised by one for each `aging` of waiting; the tenant's fair clock; the time of submission.
This module must not decide what follows when a job does not fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpupool.environment.plan.model import RESERVED, SPOT_FIRST
from gpupool.queue.domain import budget, fairness, refusals
from gpupool.queue.domain.borrowing import Reclaims
from gpupool.queue.domain.placement import Reach, Shadow, Slots, shadow
from gpupool.queue.domain.possible import Possible, reach_of
from gpupool.queue.domain.reservations import Reservation, Reservations, Shortfall, reservation_for
from gpupool.queue.domain.state import BudgetUsage, Held, Holdings, Lane, Queued, Snapshot, held_by
from gpupool.queue.domain.supply import UNKNOWN, Supply, TenantRule
from gpupool.queue.records import Level, Offer, Placement, Preempt, Start, Waiting, WaitReason

NOT_BORROWING = -1.0
"""Orders a job before all that borrow."""
_FULL = (WaitReason.CAPACITY, WaitReason.EXCLUSIVE, WaitReason.UNSCHEDULABLE)
"""What a pool without room lacks for nodes of any type."""
_RECLAIMED = "reclaimed by a tenant below its grant"

Key = tuple[bool, float, bool, int, int, float, str]
"""What orders heads of lanes; smaller goes first."""


@dataclass(slots=True)
class Round:
    """A round as it goes on. `explain` asks it for the terms of its order."""

    supply: Supply
    now: float
    slots: Slots
    held: Holdings
    budget_usage: dict[str, BudgetUsage]
    moved: dict[fairness.Key, int]
    """Clocks, without their floors."""
    floors: Mapping[fairness.Key, int]
    possible: Possible
    reservations: Reservations
    written: Collection[str]
    """Jobs of which it is written why they wait."""
    lanes: Mapping[Lane, Sequence[Queued]]
    shadows: dict[tuple[Offer, Reach], Shadow] = field(default_factory=dict)
    """Offer, nodes in reach -> where and when there is room for it."""
    own: dict[str, list[Held]] = field(default_factory=dict)
    """What each tenant holds, once that is needed."""
    rooms: dict[tuple[Offer, bool, frozenset[int]], Placement | Waiting] = field(default_factory=dict)
    """Where offers have room, or why they have none, for jobs that may be on spot and for those that may not,
    by the nodes that are closed to them: most heads wait for the same few offers."""
    taking: set[str] = field(default_factory=set)
    """Tenants and pools of its starts. (A pool of a tenant's name only makes more jobs looked at again.)"""
    limits: dict[str, Waiting] = field(default_factory=dict)
    """Tenants that have reached their limit of running jobs."""
    starts: list[Start] = field(default_factory=list)
    preempts: list[Preempt] = field(default_factory=list)
    waits: dict[str, Waiting] = field(default_factory=dict)
    reclaiming: set[tuple[str, str]] = field(default_factory=set)
    """(pool, resource) on which borrowing is paused in this round, because a tenant reclaims its grant."""
    exhausted: set[Lane] = field(default_factory=set)
    """Lanes that were read to their end: jobs behind it might start or reclaim."""
    visited: set[Lane] = field(default_factory=set)
    """Lanes that the round has processed, ..."""
    stayed: set[Lane] = field(default_factory=set)
    """... and those that wait whatever it does."""
    reclaims: Reclaims | None = None
    """What this round reclaims; None until a job does."""

    @classmethod
    def of(cls, snapshot: Snapshot, supply: Supply) -> Round:
        """A round over a snapshot, which it leaves as it is."""
        ids = set(snapshot.reservations.values())
        waiting = {job.job: job for job in snapshot.queued if job.job in ids} if ids else {}
        slots = Slots.of(supply.pools, snapshot.held.taken)
        round = cls(
            supply=supply,
            now=snapshot.now,
            slots=slots,
            held=snapshot.held.copy(),
            budget_usage=dict(snapshot.budget_usage),
            moved=dict(snapshot.clocks),
            floors=fairness.floors(
                snapshot.floors,
                active_keys(snapshot),
                snapshot.clocks,
                lambda pools: charged_ahead(snapshot.held, supply, snapshot.now, pools),
            ),
            possible=Possible(supply, snapshot.now, slots, snapshot.held.pods),
            reservations=Reservations.of(snapshot.reservations, waiting, supply.tenants),
            written=snapshot.waits.keys(),
            lanes=snapshot.lanes,
        )
        round.end_reservations(round.reservations.holders.values())
        return round

    def end_reservations(self, holders: Iterable[Queued]) -> None:
        """Of those of `holders` to which they are of no use any more. A job for which others give way keeps
        its own. What this sets free may be given again in this round.

        That its tenant is at its limits at present ends none: who passed it ends before it may start, and
        others would take its nodes again and again.
        """
        for job in {job.job: job for job in holders}.values():
            if self.held.pending_preemptions.get(job.job):
                continue
            offer = job.offers[0]
            if self.unpaid(job, offer) or not self.possible.attainable(job):
                self.reservations.release(job)
        self.reservations.freed.clear()

    def key(self, job: Queued) -> Key:
        """The terms that order `job`, in the order of their weight."""
        pool = job.offers[0].pool
        ordering = self.supply.rules.ordering
        others = not self.reservations.mine(pool, job)
        borrowed = self.borrowed_share(job) if self.borrows(job, job.offers[0]) else NOT_BORROWING
        if ordering == "fifo":
            return (others, borrowed, False, 0, 0, job.enqueued, job.job)
        clock = self.clock(pool, job.tenant) if ordering == "fair-share" else 0
        above = ordering == "fair-share" and not self.below_guarantee(job)
        return (others, borrowed, above, -self.aged(job), clock, job.enqueued, job.job)

    def changed(self, job: Queued) -> bool:
        """Whether a start of this round has taken from what the job may have."""
        if not self.starts:
            return False
        return job.tenant in self.taking or not self.taking.isdisjoint(offer.pool for offer in job.offers)

    def borrows(self, job: Queued, offer: Offer) -> bool:
        """Whether the job would start beyond its tenant's grant. On its first offer only: the order looks at
        no other, and who borrows goes last."""
        rule, key = self.rule(job.tenant), (offer.pool, offer.resource)
        if key not in rule.up_to or not job.preemptible or offer != job.offers[0]:
            return False
        return self.held.used.get((job.tenant, *key), 0) + offer.units > rule.grants.get(key, 0)

    def borrowed_share(self, job: Queued) -> float:
        """What the tenant would have borrowed with the job, divided by its weight; only with `fair-share`."""
        if self.supply.rules.ordering != "fair-share":
            return 0.0
        offer, rule = job.offers[0], self.rule(job.tenant)
        key = offer.pool, offer.resource
        held = self.held.used.get((job.tenant, *key), 0) + offer.units
        return (held - rule.grants.get(key, 0)) / rule.weight

    def clock(self, pool: str, tenant: str) -> int:
        """The tenant's fair clock there."""
        key = pool, tenant
        return max(self.floors.get(key, 0), self.moved.get(key, 0))

    def aged(self, job: Queued) -> int:
        """The level with aging; not stored, so that a changed setting applies at once."""
        return min(Level.CRITICAL, job.level + int((self.now - job.enqueued) / self.supply.rules.aging_s))

    def below_guarantee(self, job: Queued) -> bool:
        """Whether the tenant stays within its guaranteed share of the pool with this job."""
        offer = job.offers[0]
        guaranteed = self.rule(job.tenant).guaranteed.get((offer.pool, offer.resource), 0)
        return self.held.used.get((job.tenant, offer.pool, offer.resource), 0) + offer.units <= guaranteed

    def rule(self, tenant: str) -> TenantRule:
        return self.supply.tenants.get(tenant, UNKNOWN)

    def start(self, job: Queued) -> tuple[Waiting, ...]:
        """Start `job` on the first of its offers that is possible; else why each of them is not."""
        return self._refusals(job, self._start_on)

    def out_of_reach(self, job: Queued) -> tuple[Waiting, ...]:
        """Why each offer of `job` is impossible in this round, whatever else starts; empty where one may be
        possible."""
        return self._refusals(job, self._never_on)

    def _refusals(self, job: Queued, ask: Callable[[Queued, Offer], Waiting | None]) -> tuple[Waiting, ...]:
        if job.tenant not in self.supply.tenants:
            return (refusals.no_tenant(job.tenant),)
        limit = self.running_limit(job)
        waits = []
        for offer in job.offers:
            waiting = limit and (
                self.possible.impossible(job, offer) or self.possible.unaffordable(job, offer) or limit
            )
            waiting = waiting or ask(job, offer)
            if waiting is None:
                return ()
            waits.append(waiting)
        return tuple(waits)

    def running_limit(self, job: Queued) -> Waiting | None:
        most = self.rule(job.tenant).running
        if most is None or (running := self.held.running.get(job.tenant, 0)) < most:
            return None
        limit = self.limits.get(job.tenant)
        if limit is None:  # within a round there are only more that run
            limit = self.limits[job.tenant] = refusals.running_limit(job.tenant, running, most)
        return limit

    def grant_limit(self, job: Queued, offer: Offer) -> Waiting | None:
        rule, key = self.rule(job.tenant), (offer.pool, offer.resource)
        granted, used = rule.grants.get(key, 0), self.held.used.get((job.tenant, *key), 0)
        if used + offer.units <= granted:
            return None
        if not self.borrows(job, offer):
            return self.possible.impossible(job, offer) or refusals.grant_in_use(
                job.tenant, offer, used, granted
            )
        if used + offer.units > (most := rule.up_to[key]):
            return self.possible.impossible(job, offer) or refusals.up_to_in_use(
                job.tenant, offer, used, granted, most
            )
        return refusals.borrowing_paused(job.tenant, offer, used, granted) if key in self.reclaiming else None

    def shortfall(self, job: Queued, offer: Offer) -> Shortfall:
        """By how much the job exceeds its tenant's limits now."""
        rule = self.rule(job.tenant)
        used = self.held.used.get((job.tenant, offer.pool, offer.resource), 0)
        units = used + offer.units - rule.grants.get((offer.pool, offer.resource), 0)
        jobs = 0 if rule.running is None else self.held.running.get(job.tenant, 0) + 1 - rule.running
        return Shortfall(max(0, units), max(0, jobs))

    def room(self, job: Queued, offer: Offer) -> Placement | Waiting:
        """Where the offer has room at present for jobs like this one, reservations apart, or why nowhere."""
        alike = (offer, job.may_be_on_spot, self.closed(job, offer))
        room = self.rooms.get(alike)
        if room is None:
            reach = self.reach(job, offer)
            room = self.slots.place(offer, reach) or self._no_room(offer, reach)
            self.rooms[alike] = room
        return room

    def _never_on(self, job: Queued, offer: Offer) -> Waiting | None:
        """Slots and grants only become fewer, but where the spot share wants a job changes with a start."""
        room = self.grant_limit(job, offer) or self.room(job, offer)
        if isinstance(room, Waiting) and room.reason is not WaitReason.SPOT_SHARE:
            return room
        return None

    def _start_on(self, job: Queued, offer: Offer) -> Waiting | None:
        placement = self.grant_limit(job, offer) or self.room(job, offer)
        if isinstance(placement, Waiting):
            return self.possible.unaffordable(job, offer) or placement
        pool = self.supply.pools[offer.pool]
        against = self.reservations.against(job, offer.pool)
        reservations = [(bound, self.reservation(holder)) for bound, holder in against]
        for bound, reserved in reservations:
            if bound == offer.pool:
                reach = self.reach(job, offer)
                placement = self.slots.place(offer, reach, reserved.nodes) or placement
        capacity_type = pool.nodes[placement[0][0]].capacity_type
        hold = self.payment(job, offer, capacity_type)
        if isinstance(hold, Waiting):
            return self.possible.unaffordable(job, offer) or hold
        for bound, reserved in reservations:
            if not reserved.allows(bound, offer, placement, self.now + hold.run_limit_s):
                waited = self.now - self.reservations.holders[bound].enqueued
                return refusals.reserved_for_another(bound, waited)
        self._take(job, offer, placement, capacity_type, hold)
        return None

    def payment(self, job: Queued, offer: Offer, capacity_type: str) -> budget.Hold | Waiting:
        """What an attempt holds there, or why the budgets don't allow it."""
        hold = budget.hold(job, offer.rate(capacity_type))
        if isinstance(hold, Waiting):
            return hold
        return budget.refusal(job, hold.micro, self.rule(job.tenant), self.budget_usage, self.now) or hold

    def unpaid(self, job: Queued, offer: Offer) -> Waiting | None:
        """Why the budgets don't allow the offer where the spot share wants the job; None where they do."""
        if job.budget_limit_micro is None and not self.rule(job.tenant).budgets:
            return None
        types = self.reach(job, offer).types
        paid = next(
            (type for type in ("spot", SPOT_FIRST, "on-demand", RESERVED) if type in types), "on-demand"
        )
        payment = self.payment(job, offer, paid)
        return payment if isinstance(payment, Waiting) else None

    def closed(self, job: Queued, offer: Offer) -> frozenset[int]:
        """Nodes that end before the job may have."""
        pool = self.supply.pools.get(offer.pool)
        return pool.closed_to(self.now + job.timeout_s, self.now) if pool else frozenset()

    def reach(self, job: Queued, offer: Offer) -> Reach:
        """Where a job may be: on what is reserved, and where the spot share wants it, on spot, if it may, or
        not; whichever brings the share nearer."""
        pool = self.supply.pools.get(offer.pool)
        if pool is None:
            return Reach(frozenset(), frozenset())
        reach = reach_of(pool, job, self.now)
        if len(reach.types - {RESERVED}) < 2:
            return reach
        now = self.held.gpus.get((pool.name, "spot"), 0)
        total = now + self.held.gpus.get((pool.name, "on-demand"), 0) + offer.gpu_micro
        with_spot = abs((now + offer.gpu_micro) / total - pool.spot_share)
        without = abs(now / total - pool.spot_share)
        side = "spot" if with_spot <= without else "on-demand"
        return reach._replace(types=(reach.types & {RESERVED}) | {side})

    def _no_room(self, offer: Offer, reach: Reach) -> Waiting:
        if (never := self.possible.no_place(offer)) is not None:
            return never
        pool = self.supply.pools[offer.pool]
        others = reach._replace(types=pool.types - reach.types)
        if others.types and self.slots.place(offer, others) is not None:
            return refusals.spot_share(pool, min(reach.types - {RESERVED} or reach.types))
        if reach.closed and self.slots.place(offer, Reach(reach.types, frozenset())) is not None:
            return refusals.ends_before(pool)
        return refusals.no_room(pool, offer, self.slots, self.held)

    def reservation(self, holder: Queued) -> Reservation:
        """The plan of a job that holds a reservation."""
        reserved = self.reservations.planned.get(holder.job)
        if reserved is None:
            offer = holder.offers[0]
            nodes = None
            if self.reservations.mine(offer.pool, holder) or not self.shortfall(holder, offer):
                nodes = self.shadow(offer, self.reach(holder, offer))
            if not self.own:
                for held in self.held:
                    self.own.setdefault(held.tenant, []).append(held)
            own = self.own.get(holder.tenant, ())
            reserved = reservation_for(offer, self.rule(holder.tenant), own, nodes, self.now)
            self.reservations.planned[holder.job] = reserved
        return reserved

    def shadow(self, offer: Offer, reach: Reach) -> Shadow:
        """Where and when there is room for the offer."""
        found = self.shadows.get((offer, reach))
        if found is None:
            found = self.shadows[offer, reach] = shadow(offer, reach, self.slots, self.held, self.now)
        return found

    def _take(
        self,
        job: Queued,
        offer: Offer,
        placement: Placement,
        capacity_type: str,
        hold: budget.Hold,
    ) -> None:
        charge = fairness.charge(offer.gpu_micro, hold.run_limit_s, self.rule(job.tenant).weight)
        self.moved[offer.pool, job.tenant] = self.clock(offer.pool, job.tenant) + charge
        start = Start(
            job.job, job.attempt, job.tenant, offer, capacity_type, placement, offer.rate(capacity_type),
            hold.micro, hold.run_limit_s, charge, self.borrows(job, offer),
        )  # fmt: skip
        self.starts.append(start)
        self.taking |= {job.tenant, offer.pool}
        held = held_by(job, start, self.now)
        self.held.add(held)
        if self.own:
            self.own.setdefault(job.tenant, []).append(held)
        self.slots.take(offer.pool, offer.resource, placement)
        if self.reclaims is not None:
            self.reclaims.slots.take(offer.pool, offer.resource, placement)
        self.hold(job, hold.micro)
        if self.reservations.holders:
            self.reservations.release(job)
            self.reservations.forget(job.tenant, offer.pool)
            self.shadows = {at: found for at, found in self.shadows.items() if at[0].pool != offer.pool}
        left = self.rooms.items()
        self.rooms = {at: room for at, room in left if isinstance(room, Waiting) and room.reason in _FULL}

    def reclaim(self, job: Queued, offer: Offer) -> int | None:
        """Preempt borrowed jobs for `job`, which is within its grant; return their number, or None if that is
        impossible. If they only have not run for the minimum run time yet, borrowing is paused."""
        key = offer.pool, offer.resource
        if not self.may_reclaim(job, offer) or self.shortfall(job, offer) or self.unpaid(job, offer):
            return None
        if self.reclaims is None:
            reserved_for = (holder.job for holder in self.reservations.holders.values())
            self.reclaims = Reclaims.of(self.supply, self.now, self.held, reserved_for)
        reach = self.reach(job, offer)

        def allowed(gone: tuple[Held, ...], place: Placement) -> bool:
            reserved = any(self.reservations.against(job, offer.pool))
            return not reserved or self.without(gone).respects_reservations(job, offer, place)

        ending = self.reclaims.take(job, offer, reach, allowed)
        if ending is None:
            reserved = any(self.reservations.against(job, offer.pool))
            if not reserved and self.reclaims.can_reclaim_later(offer, reach):
                self.reclaiming.add(key)
            return None
        self.reclaiming.add(key)
        for held in ending:
            self.preempts.append(Preempt(held.job, held.attempt, job.job, _RECLAIMED))
            self.held.add(held._replace(preempting_for=job.job))
        if ending:
            self.own, self.shadows = {}, {}
            self.reservations.planned.clear()
        return len(ending)

    def respects_reservations(self, job: Queued, offer: Offer, placement: Placement) -> bool:
        """Whether the job, running there until its timeout, delays no reserved job."""
        return all(
            self.reservation(holder).allows(bound, offer, placement, self.now + job.timeout_s)
            for bound, holder in self.reservations.against(job, offer.pool)
        )

    def may_reclaim(self, job: Queued, offer: Offer) -> bool:
        """Whether there are borrowed jobs, and the job is within its tenant's grant."""
        key = offer.pool, offer.resource
        if not self.held.borrowed.get(key):
            return False
        used = self.held.used.get((job.tenant, *key), 0)
        return used + offer.units <= self.rule(job.tenant).grants.get(key, 0)

    def preempt(self, job: Queued, taken: Iterable[Held]) -> None:
        """Preempt these for `job`, and reserve everything that bounds it."""
        reason = f"preempted for a job of level {job.level.name.lower()}"
        for held in taken:
            self.preempts.append(Preempt(held.job, held.attempt, job.job, reason))
            self.held.add(held._replace(preempting_for=job.job))
        self.own, self.shadows = {}, {}
        self.reservations.planned.clear()
        self.reservations.give(self.reservations.bounds(job), job)

    def without(self, gone: Iterable[Held]) -> Round:
        """The same if these had ended."""
        held = self.held.copy()
        for other in gone:
            held.remove(other.job)
        slots = Slots.of(self.supply.pools, held.taken)
        reservations = Reservations(self.reservations.rules, self.reservations.holders)
        return replace(
            self, held=held, slots=slots, rooms={}, shadows={}, own={}, limits={}, reservations=reservations
        )

    def would_start(self, job: Queued, offer: Offer) -> bool:
        """Whether the job could start there, reservations and money apart."""
        if self.running_limit(job) or self.grant_limit(job, offer):
            return False
        return not isinstance(self.room(job, offer), Waiting)

    def hold(self, job: Queued, micro: int) -> None:
        """So much of the job's budgets is not for others in this round; in millionths of a USD."""
        names = budget.budgeted(self.rule(job.tenant).budgets, job)
        budget.book(self.budget_usage, names, spent=0, held=micro)


def active_keys(snapshot: Snapshot) -> set[fairness.Key]:
    """(pool, tenant) of tenants that hold slots there, or have jobs that wait for them."""
    active = {(pool, tenant) for (tenant, pool, _), units in snapshot.held.used.items() if units}
    # All jobs of a lane have the same offers.
    return active | {
        (offer.pool, lane[0].tenant) for lane in snapshot.lanes.values() for offer in lane[0].offers
    }


def charged_ahead(
    held: Holdings, supply: Supply, now: float, pools: Collection[str]
) -> Counter[fairness.Key]:
    """How far clocks were moved for time that jobs that run on these pools have not used yet."""
    moved = Counter[fairness.Key]()
    for job in held.jobs.values():  # clocks know nothing of others' pods
        if job.pool not in pools:
            continue
        left = min(job.run_limit_s, max(0.0, job.ends - now))
        moved[job.pool, job.tenant] += fairness.charge(job.gpu_micro, left, supply.rule(job.tenant).weight)
    return moved
