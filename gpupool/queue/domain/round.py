"""A round as it goes on: who goes first, what fits, and what is taken.

Order, each term before the next: a job that capacity was reserved for; tenants below their guaranteed share;
the level, raised by one for each `aging` of waiting; the tenant's fair clock; the time of submission. This
module must not decide what follows when a job does not fit.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from gpupool.queue.domain import budget, fairness
from gpupool.queue.domain.placement import Shadow, Slots, shadow
from gpupool.queue.domain.state import Account, Holdings, Queued, Snapshot, held_by
from gpupool.queue.domain.supply import Supply, TenantRule
from gpupool.queue.records import Level, Offer, Placement, Preempt, Reason, Start, Waiting

Key = tuple[bool, bool, int, int, float, str]
"""What orders heads of lanes; smaller goes first."""

UNKNOWN = TenantRule("", 1.0, 0, {}, {}, {})
"""The rule of a tenant that the environment file no longer has: nothing is started for it."""


@dataclass(slots=True)
class Round:
    """A round as it goes on. `explain` asks it for the terms of its order."""

    supply: Supply
    now: float
    slots: Slots
    held: Holdings
    accounts: dict[str, Account]
    moved: dict[fairness.Key, int]
    """Clocks, without their floors."""
    floors: Mapping[fairness.Key, int]
    reserved: dict[str, Queued]
    """Pool -> job that it is reserved for."""
    written: Collection[str]
    """Jobs of which it is written why they wait."""
    lanes: dict[tuple[str, str], deque[Queued]]
    shadows: dict[str, Shadow] = field(default_factory=dict)
    rooms: dict[tuple[Offer, bool], Placement | Waiting] = field(default_factory=dict)
    """Where offers have room, or why they have none, for jobs that may be on spot and for those that may not:
    most heads wait for the same few offers."""
    starts: list[Start] = field(default_factory=list)
    preempts: list[Preempt] = field(default_factory=list)
    waits: dict[str, Waiting] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, supply: Supply) -> Round:
        lanes = defaultdict[tuple[str, str], deque[Queued]](deque)
        found = {}
        ids = set(snapshot.reservations.values())
        for job in snapshot.queued:
            lanes[job.tenant, job.lane].append(job)
            if job.job in ids:
                found[job.job] = job
        active = {(pool, tenant) for (tenant, pool, _), units in snapshot.held.used.items() if units}
        # All jobs of a lane have the same offers.
        active |= {(offer.pool, lane[0].tenant) for lane in lanes.values() for offer in lane[0].offers}

        def ahead() -> Counter[fairness.Key]:
            moved = Counter[fairness.Key]()
            for held in snapshot.held:
                if held.of_queue:  # clocks know nothing of others' pods
                    left = min(held.run_limit_s, max(0.0, held.ends - snapshot.now))
                    weight = supply.tenants.get(held.tenant, UNKNOWN).weight
                    moved[held.pool, held.tenant] += fairness.charge(held.gpu_micro, left, weight)
            return moved

        return cls(
            supply=supply,
            now=snapshot.now,
            slots=Slots.of(supply.pools, snapshot.held.taken),
            held=snapshot.held.copy(),
            accounts=dict(snapshot.accounts),
            moved=dict(snapshot.clocks),
            floors=fairness.floors(snapshot.floors, active, snapshot.clocks, ahead),
            reserved={pool: found[job] for pool, job in snapshot.reservations.items() if job in found},
            written=snapshot.waits.keys(),
            lanes=lanes,
        )

    def key(self, job: Queued) -> Key:
        """The terms that order `job`, in the order of their weight."""
        pool = job.offers[0].pool
        ordering = self.supply.rules.ordering
        holder = self.reserved.get(pool)
        others = holder is None or holder.job != job.job
        if ordering == "fifo":
            return (others, False, 0, 0, job.enqueued, job.job)
        clock = self.clock(pool, job.tenant) if ordering == "fair-share" else 0
        above = ordering == "fair-share" and not self.below_guarantee(job)
        return (others, above, -self.aged(job), clock, job.enqueued, job.job)

    def clock(self, pool: str, tenant: str) -> int:
        """The tenant's fair clock there."""
        key = pool, tenant
        return max(self.floors.get(key, 0), self.moved.get(key, 0))

    def aged(self, job: Queued) -> int:
        """The level with ageing: never stored, so that a changed setting holds at once."""
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
        limit = self.running_limit(job)
        if limit is not None:
            return (limit,)
        refusals = []
        for offer in job.offers:
            waiting = ask(job, offer)
            if waiting is None:
                return ()
            refusals.append(waiting)
        return tuple(refusals)

    def running_limit(self, job: Queued) -> Waiting | None:
        rule, running = self.rule(job.tenant), self.held.running.get(job.tenant, 0)
        if rule is UNKNOWN:
            return Waiting(Reason.TENANT_LIMIT, f"the environment file has no tenant {job.tenant}")
        if rule.running is not None and running >= rule.running:
            return Waiting(
                Reason.TENANT_LIMIT, f"{running} of {rule.running} jobs of {job.tenant} are running"
            )
        return None

    def grant_limit(self, job: Queued, offer: Offer) -> Waiting | None:
        granted = self.rule(job.tenant).grants.get((offer.pool, offer.resource), 0)
        used = self.held.used.get((job.tenant, offer.pool, offer.resource), 0)
        if used + offer.units > granted:
            return Waiting(
                Reason.TENANT_LIMIT,
                f"{job.tenant} holds {used} of its {granted} {offer.resource} of {offer.pool}, "
                f"and the job needs {offer.units}",
            )
        return None

    def room(self, job: Queued, offer: Offer) -> Placement | Waiting:
        """Where the offer has room at present for jobs like this one, reservations apart, or why nowhere."""
        alike = (offer, job.may_be_on_spot)
        room = self.rooms.get(alike)
        if room is None:
            wanted = self.capacity_types(job, offer)
            room = self.rooms[alike] = self.slots.place(offer, wanted) or self.no_room(offer, wanted)
        return room

    def _never_on(self, job: Queued, offer: Offer) -> Waiting | None:
        """Slots and grants only become fewer, but where the spot share wants a job changes with a start."""
        room = self.grant_limit(job, offer) or self.room(job, offer)
        if isinstance(room, Waiting) and room.reason is not Reason.SPOT_SHARE:
            return room
        return None

    def _start_on(self, job: Queued, offer: Offer) -> Waiting | None:
        placement = self.grant_limit(job, offer) or self.room(job, offer)
        if isinstance(placement, Waiting):
            return placement
        kept = self.shadow(job, offer.pool)
        if kept is not None:
            beside = self.slots.place(offer, self.capacity_types(job, offer), kept.nodes)
            placement = beside or placement
        capacity_type = self.supply.pools[offer.pool].nodes[placement[0][0]].capacity_type
        hold = self.payment(job, offer, capacity_type)
        if isinstance(hold, Waiting):
            return hold
        if kept is not None and not kept.allows(placement, self.now + hold.run_limit_s):
            return self.passed_over(offer.pool)
        self._take(job, offer, placement, capacity_type, hold)
        return None

    def payment(self, job: Queued, offer: Offer, capacity_type: str) -> budget.Hold | Waiting:
        """What an attempt holds there, or why the budgets don't allow it."""
        hold = budget.hold(job, offer.rate(capacity_type))
        if isinstance(hold, Waiting):
            return hold
        return budget.refusal(job, hold.micro, self.rule(job.tenant), self.accounts) or hold

    def capacity_types(self, job: Queued, offer: Offer) -> frozenset[str]:
        """Where the spot share wants a job: on spot, if it may, or not; whichever brings the share nearer."""
        pool = self.supply.pools.get(offer.pool)
        types = pool.types if pool else frozenset[str]()
        if pool is None or len(types) < 2:
            return types
        if not job.may_be_on_spot:
            return types - {"spot"}
        now = self.held.gpus.get((pool.name, "spot"), 0)
        total = now + self.held.gpus.get((pool.name, "on-demand"), 0) + offer.gpu_micro
        with_spot = abs((now + offer.gpu_micro) / total - pool.spot_share)
        without = abs(now / total - pool.spot_share)
        return frozenset({"spot"}) if with_spot <= without else frozenset({"on-demand"})

    def no_room(self, offer: Offer, wanted: frozenset[str]) -> Waiting:
        pool = self.supply.pools.get(offer.pool)
        if pool is None:
            return Waiting(Reason.CAPACITY, f"the environment file has no pool {offer.pool}")
        if wanted != pool.types and self.slots.place(offer, pool.types - wanted) is not None:
            (only,) = wanted
            return Waiting(
                Reason.SPOT_SHARE,
                f"{offer.pool} keeps {pool.spot_share:.0%} on spot, and its {only} nodes are full",
            )
        free = self.slots.sum_free(pool.name, offer.resource)
        if offer.units > offer.request:
            return Waiting(Reason.EXCLUSIVE, f"no node of {pool.name} is empty: {free} of its slots are free")
        size = self.slots.sliced.get((pool.name, offer.resource))
        alone = sum(
            held.of_queue and held.units == size and (held.pool, held.resource) == (pool.name, offer.resource)
            for held in (self.held if size and free == 0 else ())
        )
        if alone:
            return Waiting(
                Reason.EXCLUSIVE,
                f"exclusive jobs hold {alone} of {len(pool.nodes)} nodes of {pool.name}, and no slot is free",
            )
        return Waiting(
            Reason.CAPACITY,
            f"{offer.units} {offer.resource} of {pool.name} needed; {free} of "
            f"{pool.slots(offer.resource)} free, at most "
            f"{self.slots.largest_free(pool.name, offer.resource)} on one node",
        )

    def passed_over(self, pool: str) -> Waiting:
        other = self.reserved[pool]
        waited = (self.now - other.enqueued) / 60
        return Waiting(
            Reason.RESERVATION,
            f"{pool} is reserved for a job that has waited for {waited:.0f} minutes",
        )

    def shadow(self, job: Queued, pool: str) -> Shadow | None:
        """What another job's reservation keeps of the pool; None where there is none."""
        other = self.reserved.get(pool)
        if other is None or other.job == job.job:
            return None
        if pool not in self.shadows:
            offer = next(offer for offer in other.offers if offer.pool == pool)
            wanted = self.capacity_types(other, offer)
            self.shadows[pool] = shadow(offer, wanted, self.slots, self.held, self.now)
        return self.shadows[pool]

    def reserve(self, job: Queued) -> None:
        """Reserve its first pool for `job`, in place of the job that had it."""
        pool = job.offers[0].pool
        if pool in self.supply.pools:
            self.reserved[pool] = job
            self.shadows.pop(pool, None)

    def unreserve(self, job: Queued) -> None:
        """Keep no pool for `job` any more."""
        for pool in [pool for pool, reserved in self.reserved.items() if reserved.job == job.job]:
            del self.reserved[pool]
            self.shadows.pop(pool, None)

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
            hold.micro, hold.run_limit_s, charge,
        )  # fmt: skip
        self.starts.append(start)
        self.held.add(held_by(job, start, self.now))
        self.slots.take(offer.pool, offer.resource, placement)
        self.hold(job, hold.micro)
        self.unreserve(job)
        self.shadows.pop(offer.pool, None)
        full = (Reason.CAPACITY, Reason.EXCLUSIVE)  # these have no room on nodes of any type
        left = self.rooms.items()
        self.rooms = {at: room for at, room in left if isinstance(room, Waiting) and room.reason in full}

    def hold(self, job: Queued, micro: int) -> None:
        """So much of the job's budgets is not for others in this round; in millionths of a USD."""
        budget.book(self.accounts, job, spent=0, held=micro)
