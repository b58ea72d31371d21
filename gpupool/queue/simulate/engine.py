"""The jobs of a trace on one environment: events on one clock, and the queue's own rounds after each of them.

Rounds are `gpupool.queue.domain.scheduler_cache`, ends of attempts `gpupool.queue.domain.attempt_end`: what
the dispatcher and the store do. Left out, because no trace says it: jobs that fail for a reason of their own,
or are cancelled, and users who submit less where they wait longer. Times are epoch seconds.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf

from gpupool.queue.domain.attempt_end import Attempt, end_of, on_demand_only
from gpupool.queue.domain.current import Current
from gpupool.queue.domain.scheduler_cache import SchedulerCache
from gpupool.queue.domain.state import Held, Holdings, Queued, Snapshot
from gpupool.queue.records import MICRO, Outcome, Start, WaitReason
from gpupool.queue.simulate.demand import Demand
from gpupool.queue.simulate.nodes import SimulatedNodes, nodes_of
from gpupool.queue.simulate.record import JobRecord, PoolSeries, Record
from gpupool.queue.simulate.trace import Arrival

BACKOFF = (10.0, 600.0)
"""Before a retry, as the queue has it: first, and at most."""
# What happens, in the order in which it does at one moment.
ENDS, LOST, STOPS, BEGINS, GOES = range(5)
_OUTCOMES = {"done": Outcome("succeeded"), "timeout": Outcome("timeout"), "stopped": Outcome("preempted"),
             "lost": Outcome("disrupted")}  # fmt: skip
_PROGRESS = 2000
"""Jobs between two reports of progress."""
STILL_S = 62 * 86_400.0
"""Two months: no budget's period is longer than one."""


@dataclass(slots=True)
class _Running:
    """An attempt that holds slots."""

    job: Queued
    start: Start
    number: int
    """Of the attempt."""
    begins: float
    left_s: float
    """What the job had still to run at its start."""
    spot: bool


@dataclass(slots=True)
class Simulation:
    """One run; `play` is called once."""

    current: Current
    arrivals: Sequence[Arrival]
    numbers: dict[str, float]
    seed: int = 1
    notify: Callable[[int], None] = lambda _: None
    """Is called with the number of jobs that have arrived, every so often."""
    _cache: SchedulerCache = field(init=False)
    _nodes: dict[str, SimulatedNodes] = field(init=False)
    _record: Record = field(init=False)
    _events: list[tuple[float, int, int, str, int]] = field(default_factory=list)
    _count: int = 0
    _ran_last: float = 0.0
    """When a job ended last, or the last one was submitted."""
    _jobs: dict[str, Queued] = field(default_factory=dict)
    """Jobs that are not over."""
    _running: dict[str, _Running] = field(default_factory=dict)
    _on: dict[tuple[str, int], dict[str, None]] = field(default_factory=dict)
    """(pool, node) -> jobs there; of pools whose nodes may be lost."""
    _left: dict[str, float] = field(default_factory=dict)
    """Job -> what it has still to run, where that is not all of it."""
    _numbers_of: dict[str, Counter[str]] = field(default_factory=dict)
    """Job -> its failures, disruptions and lost spot nodes, once there are any."""
    _series: dict[str, PoolSeries] = field(default_factory=dict)

    def play(self) -> Record:
        """Run it."""
        begin = self.arrivals[0].submitted if self.arrivals else 0.0
        self._ran_last = self.arrivals[-1].submitted if self.arrivals else 0.0
        supply = self.current.supply
        self._cache = SchedulerCache.of(Snapshot(begin, Holdings(), {}), supply)
        self._nodes = nodes_of(self.current.plan, self.numbers, self.seed)
        for nodes in self._nodes.values():
            nodes.begin(begin)
        self._series = {name: PoolSeries.of(pool) for name, pool in supply.pools.items()}
        self._record = Record(begin, begin, self._nodes, self._series)
        demand = Demand(self.current)
        position, total = 0, len(self.arrivals)
        cache, events = self._cache, self._events
        while True:
            arrives = self.arrivals[position].submitted if position < total else inf
            now = min(arrives, events[0][0] if events else inf, cache.next_moment)
            if now == inf or (position >= total and not self._running and self._over(now)):
                break
            cache.advance(now)
            while events and events[0][0] <= now:
                _, kind, _, name, number = heapq.heappop(events)
                self._happens(kind, name, number)
            while position < total and self.arrivals[position].submitted <= now:
                # Those of one moment come in the order of the trace, by their ids.
                self._arrives(demand, f"{position:09}", self.arrivals[position])
                position += 1
                if position % _PROGRESS == 0:
                    self.notify(position)
            self._rounds()
        return self._close()

    def _over(self, now: float) -> bool:
        """Whether nothing will run any more: nothing waits, or nothing has run for longer than any budget's
        period lasts, of which there is always another one."""
        return not self._cache.waiting or now > self._ran_last + STILL_S

    def _push(self, at: float, kind: int, name: str, number: int) -> None:
        self._count += 1
        heapq.heappush(self._events, (at, kind, self._count, name, number))

    def _arrives(self, demand: Demand, id: str, arrival: Arrival) -> None:
        queued = demand.queued(id, arrival)
        if isinstance(queued, str):
            self._record.refused[queued] += 1
            return
        self._record.jobs[id] = JobRecord(
            arrival.submitted, arrival.tenant, queued.level, arrival.gpus, arrival.seconds
        )
        weight = self._cache.supply.rule(queued.tenant).weight
        self._record.samples.arrived(queued, weight, arrival.gpus * arrival.seconds)
        self._submit(queued)

    def _submit(self, queued: Queued) -> None:
        self._jobs[queued.job] = queued
        self._cache.submit(queued)
        offer = queued.offers[0]
        self._series[offer.pool].waits(self._cache.now, offer.resource, 1)

    def _rounds(self) -> None:
        cache, record = self._cache, self._record
        for decision in cache.decisions():
            record.rounds += 1
            record.visited += len(decision.waits) + len(decision.starts)
            for start in decision.starts:
                self._starts(start)
            for preempt in decision.preempts:
                victim = self._running[preempt.job]
                self._push(cache.now + self.numbers["stopping"], STOPS, preempt.job, victim.number)
        record.most_waiting = max(record.most_waiting, len(cache.waiting))
        record.samples.inspect(cache)

    def _starts(self, start: Start) -> None:
        cache, now = self._cache, self._cache.now
        held = cache.held.jobs[start.job]
        nodes, job = self._nodes[held.pool], self._record.jobs[start.job]
        ready = max([nodes.take(number, now) for number, _ in start.placement])
        begins = ready + self.numbers["pod"]
        spot = "spot" in [nodes.states[number].type for number, _ in start.placement]
        left_s = self._left.get(start.job)
        if left_s is None:
            left_s = job.seconds * (self.numbers["slowdown"] if held.gpu_micro < MICRO else 1.0)
        self._running[start.job] = _Running(self._jobs[start.job], start, held.attempt, begins, left_s, spot)
        wished = self._jobs[start.job].offers[0]
        self._series[wished.pool].waits(now, wished.resource, -1)
        job.started(now, begins, held)
        cache.wait_for_node(start.job)
        self._push(begins, BEGINS, start.job, held.attempt)
        self._push(begins + min(left_s, start.run_limit_s), ENDS, start.job, held.attempt)
        if spot:
            for number, _ in start.placement:
                there = self._on.setdefault((held.pool, number), {})
                there[start.job] = None
                state = nodes.states[number]
                if state.lost < inf and len(there) == 1:
                    self._push(state.lost, LOST, f"{held.pool}/{number}", state.number)
        self._series[held.pool].moved(now, held, 1, nodes.on)

    def _happens(self, kind: int, name: str, number: int) -> None:
        if kind == LOST:
            self._node_lost(name, number)
            return
        if kind == GOES:
            pool, _, node = name.partition("/")
            if self._nodes[pool].goes(int(node), self._cache.now, number):
                self._series[pool].nodes(self._cache.now, self._nodes[pool].on)
            return
        running = self._running.get(name)
        if running is None or running.number != number:
            return  # it was ended before
        if kind == BEGINS:
            self._cache.begin(name)
        elif kind == STOPS:
            self._ends(name, "stopped")
        else:
            cut = running.left_s > running.start.run_limit_s
            self._ends(name, "timeout" if cut else "done")

    def _node_lost(self, name: str, launch: int) -> None:
        pool, _, node = name.partition("/")
        number, nodes = int(node), self._nodes[pool]
        if nodes.states[number].number != launch or nodes.states[number].since == inf:
            return  # that machine is gone already
        for job in list(self._on.get((pool, number), ())):
            self._ends(job, "lost")
        self._record.spot_losses += 1
        nodes.stop(number, self._cache.now)
        self._series[pool].nodes(self._cache.now, nodes.on)

    def _ends(self, name: str, how: str) -> None:
        cache, now = self._cache, self._cache.now
        running = self._running.pop(name)
        self._ran_last = now
        held, job = cache.held.jobs[name], self._record.jobs[name]
        ran = max(0.0, now - running.begins) if held.started else 0.0
        end = end_of(self._attempt(held, running), _OUTCOMES[how], timedelta(seconds=ran), BACKOFF)
        cache.end(name, end.cost_micro, end.clock)
        job.ran(ran, held, running.spot, end.cost_micro)
        for number, _ in held.placement:
            self._on.get((held.pool, number), {}).pop(name, None)
            self._leaves(held.pool, number)
        self._series[held.pool].moved(now, held, -1, self._nodes[held.pool].on)
        if not end.again:
            job.over(now, how)
            del self._jobs[name]
            return
        job.again(how)
        done = min(ran, running.left_s)
        job.lost_s += done * self.numbers["again"] * job.gpus
        self._left[name] = max(1.0, running.left_s - done * (1 - self.numbers["again"]))
        of = self._numbers_of.setdefault(name, Counter())
        of.update(failures=end.failures, disruptions=end.disruptions, spot_losses=end.spot_losses)
        queued = replace(
            running.job,
            attempt=held.attempt,
            spent_micro=running.job.spent_micro + end.cost_micro,
            on_demand_only=on_demand_only(of["spot_losses"], 0),
        )
        self._submit(queued)

    def _attempt(self, held: Held, running: _Running) -> Attempt:
        of = self._numbers_of.get(held.job, Counter())
        job, start = running.job, running.start
        # On a spot node of a pool that takes those first, the price is that of spot.
        rate = start.offer.rate("spot") if running.spot and start.rate_micro else start.rate_micro
        return Attempt(
            started=held.started, rate_micro=rate,
            capacity_type="spot" if running.spot else held.capacity_type,
            hold_micro=start.hold_micro, gpu_micro=held.gpu_micro, run_limit_s=start.run_limit_s,
            weight=self._cache.supply.rule(job.tenant).weight, retries=0, failures=of["failures"],
            disruptions=of["disruptions"], unstarted=0, budget_limit_micro=None, spent_micro=job.spent_micro,
            stopping=held.preempting_for is not None,
        )  # fmt: skip

    def _leaves(self, pool: str, number: int) -> None:
        nodes, now = self._nodes[pool], self._cache.now
        goes = nodes.leave(number, now)
        if goes < inf:
            self._push(goes, GOES, f"{pool}/{number}", nodes.states[number].empties)

    def _close(self) -> Record:
        record = self._record
        ends = (job.ended for job in record.jobs.values() if job.ended < inf)
        submitted = self.arrivals[-1].submitted if self.arrivals else record.begin
        record.end = max(submitted, max(ends, default=submitted))
        for nodes in self._nodes.values():
            nodes.close(record.end)
        for series in self._series.values():
            series.close(record.end)
        waits = self._cache.round_of_all().waits
        for job in self._cache.waiting.values():
            waiting = waits.get(job.job)
            record.never[waiting.reason if waiting else WaitReason.QUEUED] += 1
        return record
