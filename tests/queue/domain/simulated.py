"""A cluster in memory for tests of the decision: jobs arrive, rounds decide, time passes, jobs end.

It keeps books of its own, apart from those of the code under test, and checks after every round what must
hold at every moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf

from hypothesis import strategies as st

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.fairness import charge
from gpupool.queue.domain.state import BudgetUsage, Held, Holdings, Queued, Snapshot, held_by
from gpupool.queue.domain.supply import Allowance, Node, PoolSupply, QueueRules, Supply, TenantRule, hold_for
from gpupool.queue.records import MICRO, Decision, Level, Offer
from tests.queue.lanes import in_lanes

GPU = "nvidia.com/gpu"


def pool(
    name: str = "pool", nodes: int = 2, slots: int = 4, whole: bool = True, spot: int = 0, share: float = 0.0,
    reserved: tuple[float, ...] = (),
) -> PoolSupply:  # fmt: skip
    """A pool of `nodes` nodes; its slots are whole GPUs, or slices of the node's one GPU. Some are reserved
    until these times."""
    unit = MICRO if whole else MICRO // slots
    types = ["reserved"] * len(reserved) + ["spot"] * spot
    types += ["on-demand"] * (nodes - len(types))
    ends = dict(enumerate(reserved))
    return PoolSupply(
        name=name,
        key="a10g",
        nodes=tuple(
            Node(number, type, {GPU: slots}, ends.get(number, inf)) for number, type in enumerate(types)
        ),
        gpu_micro={GPU: unit},
        rate_micro={GPU: unit * 2},
        spot_rate_micro={GPU: unit} if spot else None,
        spot_share=share,
    )


RESERVED = st.lists(st.just(inf) | st.integers(0, 5000).map(float), max_size=2).map(tuple)
"""When reserved nodes end."""


def offer(of: PoolSupply, units: int = 1, alone: bool = False) -> Offer:
    """Units of a pool; `alone`: a node of slices for one job."""
    units = of.nodes[0].slots[GPU] if alone else units
    spot = of.spot_rate_micro
    return Offer(
        of.name,
        GPU,
        units,
        1 if alone else units,
        of.gpu_micro[GPU] * units,
        of.rate_micro[GPU] * units,
        spot[GPU] * units if spot else None,
        of.key,
    )


def tenant(
    name: str, pools: Iterable[PoolSupply], weight: float = 1.0, running: int | None = None,
    granted: int = 1000, guaranteed: int = 0, budget_micro: int | None = None, up_to: int | None = None,
) -> TenantRule:  # fmt: skip
    keys = [(of.name, GPU) for of in pools]
    budgets = {} if budget_micro is None else {name: Allowance(budget_micro, budget_micro // 10, "month")}
    return TenantRule(
        name, weight, running, dict.fromkeys(keys, granted), dict.fromkeys(keys, guaranteed), budgets,
        {} if up_to is None else dict.fromkeys(keys, up_to),
    )  # fmt: skip


def supply(pools: Iterable[PoolSupply], tenants: Iterable[TenantRule], **rules: object) -> Supply:
    return Supply({of.name: of for of in pools}, {of.name: of for of in tenants}, QueueRules(**rules))


@dataclass
class Cluster:
    """Books of what is queued, held and spent."""

    supply: Supply
    now: float = 0.0
    queued: list[Queued] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    durations: dict[str, float] = field(default_factory=dict)
    waiting_jobs: dict[str, Queued] = field(default_factory=dict)
    budget_usage: dict[str, BudgetUsage] = field(default_factory=dict)
    clocks: dict[tuple[str, str], int] = field(default_factory=dict)
    reservations: dict[str, str] = field(default_factory=dict)
    floors: dict[tuple[str, str], int] = field(default_factory=dict)
    served: Counter[str] = field(default_factory=Counter)
    """gpu_micro seconds by tenant."""
    started: dict[str, float] = field(default_factory=dict)
    preempted: Counter[str] = field(default_factory=Counter)
    grace: float = 0.0
    """How long a job that is asked to end takes to do so."""
    asked: dict[str, float] = field(default_factory=dict)
    """Job that was asked to end -> when it does."""
    count: int = 0

    def add(
        self, tenant: str, offers: tuple[Offer, ...], seconds: int = 600, level: Level = Level.LOW,
        takes: float | None = None, budget: int | None = None, preemptible: bool = False,
        preempts: bool = False,
    ) -> str:  # fmt: skip
        """Queue a job that may run `seconds` and takes `takes` of them."""
        self.count += 1
        job = f"j{self.count:05}"
        lane = f"{level}-{'-'.join(f'{o.pool}.{o.units}' for o in offers)}-{preemptible}-{preempts}"
        queued = Queued(
            job, 0, tenant, None, lane, level, self.now, offers, seconds, budget, 0, preemptible, preempts
        )
        self.queued.append(queued)
        self.waiting_jobs[job] = queued
        self.durations[job] = seconds if takes is None else takes
        return job

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.now, Holdings.of(self.held.values()), in_lanes(self.queued), dict(self.budget_usage),
            dict(self.clocks), dict(self.reservations), dict(self.floors),
        )  # fmt: skip

    def round(self) -> Decision:
        """Decide once, and do what was decided."""
        decision = decide(self.snapshot(), self.supply)
        for start in decision.starts:
            job = next(job for job in self.queued if job.job == start.job)
            self.queued.remove(job)
            self.started[job.job] = self.now
            key = (start.offer.pool, job.tenant)
            self.clocks[key] = max(self.clocks.get(key, 0), decision.floors[key]) + start.charge
            account = self.budget_usage.get(job.tenant, BudgetUsage(0, 0))
            self.budget_usage[job.tenant] = account._replace(held_micro=account.held_micro + start.hold_micro)
            self.held[job.job] = held_by(job, start, self.now)
        self.reservations = dict(decision.reservations)
        self.floors = dict(decision.floors)
        for preempt in decision.preempts:
            self.preempted[preempt.job] += 1
            self.asked[preempt.job] = self.now + self.grace
            self.held[preempt.job] = self.held[preempt.job]._replace(preempting_for=preempt.beneficiary)
        self._asked_end()
        self.check()
        return decision

    def _asked_end(self) -> None:
        for job in [job for job, at in self.asked.items() if at <= self.now]:
            del self.asked[job]
            if job in self.held:
                held = self.held[job]
                self._end(held)
                self.queued.append(replace(self.waiting_jobs[job], attempt=held.attempt))

    def wait(self, seconds: float) -> None:
        """Time passes, and what is over ends."""
        self.now += seconds
        for held in list(self.held.values()):
            if self.ends(held) <= self.now:
                self.asked.pop(held.job, None)
                self._end(held)
        self._asked_end()

    def ends(self, held: Held) -> float:
        return held.since + min(held.run_limit_s, self.durations[held.job])

    def advance(self) -> bool:
        """Go to the next end of a job; False where nothing runs."""
        if not self.held:
            return False
        self.now = max(self.now, min(self.ends(held) for held in self.held.values()))
        for held in list(self.held.values()):
            if self.ends(held) <= self.now:
                self._end(held)
        return True

    def drain(self, rounds: int = 10_000) -> None:
        """Rounds until nothing waits or nothing moves any more. What a round preempts, or sets free, the next
        one gives, so that a single round without anything that runs is not the end."""
        still = 0
        for _ in range(rounds):
            self.round()
            still = 0 if self.advance() else still + 1
            if still == 2:
                return

    def _end(self, held: Held) -> None:
        del self.held[held.job]
        ran = self.now - held.since
        self.served[held.tenant] += int(held.gpu_micro * ran)
        weight = self.supply.tenants[held.tenant].weight
        self.clocks[held.pool, held.tenant] += charge(held.gpu_micro, int(ran) - held.run_limit_s, weight)
        account = self.budget_usage[held.tenant]
        rate = held.hold_micro * 3600 // max(1, held.run_limit_s)
        cost = min(held.hold_micro, hold_for(rate, int(ran)))
        self.budget_usage[held.tenant] = BudgetUsage(
            account.spent_micro + cost, account.held_micro - held.hold_micro
        )

    def check(self) -> None:
        """What must hold at every moment, counted again."""
        used: Counter[tuple[str, int]] = Counter()
        by_tenant: Counter[tuple[str, str]] = Counter()
        for held in self.held.values():
            for node, units in held.placement:
                at = self.supply.pools[held.pool].nodes[node]
                assert held.capacity_type == at.capacity_type
                assert held.ends <= at.until
                used[held.pool, node] += units
                by_tenant[held.tenant, held.pool] += units
        for (name, node), units in used.items():
            assert units <= self.supply.pools[name].nodes[node].slots[GPU], (name, node, units)
        running = Counter(held.tenant for held in self.held.values())
        for rule in self.supply.tenants.values():
            assert rule.running is None or running[rule.name] <= rule.running
            for key, granted in rule.grants.items():
                assert by_tenant[rule.name, key[0]] <= rule.up_to.get(key, granted)
            for scope, allowance in rule.budgets.items():
                account = self.budget_usage.get(scope, BudgetUsage(0, 0))
                limit = allowance.limit_micro + allowance.overrun_micro
                assert account.spent_micro + account.held_micro <= limit
                assert account.held_micro >= 0


def small(**rules: object) -> tuple[Cluster, Supply]:
    """Two nodes of four slots for two tenants."""
    of = pool(nodes=2, slots=4)
    made = supply([of], [tenant("a", [of]), tenant("b", [of])], **rules)
    return Cluster(made), made
