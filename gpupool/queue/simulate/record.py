"""What a run of a simulation came to: jobs, and pools over time. Counted while it runs; `figures` says what
it means."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import inf

from gpupool.queue.domain.state import Held
from gpupool.queue.domain.supply import PoolSupply
from gpupool.queue.records import MICRO, Level, WaitReason
from gpupool.queue.simulate.nodes import SimulatedNodes
from gpupool.queue.simulate.samples import Samples


@dataclass(slots=True)
class JobRecord:
    """One job."""

    submitted: float
    tenant: str
    level: Level
    gpus: float
    seconds: float
    pool: str = ""
    dispatched: float = inf
    """When its first attempt was."""
    begun: float = inf
    """When that attempt ran."""
    ended: float = inf
    how: str = ""
    """done or timeout; empty while it is not over."""
    ran_s: float = 0.0
    """GPU seconds that it ran, of the GPUs that it asks for: a slice may be larger."""
    spot_s: float = 0.0
    """Of these on spot nodes."""
    borrowed_s: float = 0.0
    """Of these beyond its tenant's grant."""
    lost_s: float = 0.0
    """GPU seconds of work that had to be done again."""
    preempted: int = 0
    disrupted: int = 0
    micro_usd: int = 0

    def started(self, now: float, begins: float, held: Held) -> None:
        """An attempt was dispatched."""
        if self.dispatched == inf:
            self.dispatched, self.begun = now, begins
        self.pool = held.pool

    def ran(self, ran: float, held: Held, spot: bool, micro_usd: int) -> None:
        """An attempt is over that ran for so long."""
        seconds = self.gpus * ran
        self.ran_s += seconds
        self.spot_s += seconds if spot else 0.0
        self.borrowed_s += seconds if held.borrowed else 0.0
        self.micro_usd += micro_usd

    def over(self, now: float, how: str) -> None:
        """The job is."""
        self.ended, self.how = now, how

    def again(self, how: str) -> None:
        """It waits once more."""
        self.preempted += how == "stopped"
        self.disrupted += how == "lost"

    @property
    def served_s(self) -> float:
        """GPU seconds of work that was not done again."""
        return self.ran_s - self.lost_s

    @property
    def wait_s(self) -> float:
        """In the queue, until it was dispatched first."""
        return self.dispatched - self.submitted

    @property
    def to_gpu_s(self) -> float:
        """From its submission until it ran first."""
        return self.begun - self.submitted


@dataclass(slots=True)
class PoolSeries:
    """What is held of a pool and what waits for it, from change to change."""

    gpus: float
    """Of all nodes that the pool may have."""
    slots: dict[str, int]
    """Extended resource -> units of all nodes."""
    at: array[float] = field(default_factory=lambda: array("d"))
    held: array[float] = field(default_factory=lambda: array("d"))
    """GPUs held since then."""
    on: array[float] = field(default_factory=lambda: array("d"))
    """GPUs of nodes that run since then."""
    queued: array[float] = field(default_factory=lambda: array("d"))
    """Jobs that wait for it since then."""
    held_s: float = 0.0
    """GPU seconds held."""
    waited_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Resource -> seconds in which a job waited for it, first of all."""
    passed_s: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    """(resource, another of the pool) -> seconds in which a job waited for it while the other was free."""
    _waiting: Counter[str] = field(default_factory=Counter)
    _jobs: int = 0
    """That wait, for any resource."""
    _used: dict[str, int] = field(default_factory=dict)
    _gpus: float = 0.0
    _now: float = -1.0

    @classmethod
    def of(cls, pool: PoolSupply) -> PoolSeries:
        slots = {resource: pool.slots(resource) for resource in pool.gpu_micro}
        return cls(sum(count * pool.gpu_micro[name] for name, count in slots.items()) / MICRO, slots)

    def moved(self, now: float, held: Held, sign: int, on: float) -> None:
        """A job holds what it does from now on, or no longer; nodes with so many GPUs run."""
        self._until(now)
        self._gpus += sign * held.gpu_micro / MICRO
        self._used[held.resource] = self._used.get(held.resource, 0) + sign * held.units
        self._note(now, on)

    def nodes(self, now: float, on: float) -> None:
        """Nodes with so many GPUs run from now on."""
        self._until(now)
        self._note(now, on)

    def waits(self, now: float, resource: str, sign: int) -> None:
        """A job waits for the resource from now on, or no longer."""
        self._until(now)
        self._waiting[resource] += sign
        self._jobs += sign
        self._note(now, self.on[-1] if self.on else 0.0)

    def _until(self, now: float) -> None:
        passed = now - self._now
        if self._now >= 0 and passed > 0:
            self.held_s += self._gpus * passed
            for resource, count in self._waiting.items():
                if count:
                    self.waited_s[resource] += passed
                    if len(self.slots) > 1:
                        for other, slots in self.slots.items():
                            if other != resource and self._used.get(other, 0) < slots:
                                self.passed_s[resource, other] += passed
        self._now = now

    def _note(self, now: float, on: float) -> None:
        if self.at and self.at[-1] == now:
            self.held[-1], self.on[-1], self.queued[-1] = self._gpus, on, self._jobs
            return
        self.at.append(now)
        self.held.append(self._gpus)
        self.on.append(on)
        self.queued.append(self._jobs)

    def close(self, end: float) -> None:
        """The run ends."""
        self._until(end)


@dataclass(slots=True)
class Record:
    """A whole run."""

    begin: float
    end: float
    nodes: dict[str, SimulatedNodes]
    series: dict[str, PoolSeries]
    jobs: dict[str, JobRecord] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    """Type of the problem by which the queue would refuse it -> jobs."""
    never: Counter[WaitReason] = field(default_factory=Counter)
    """What they waited for last -> jobs that had not ended when nothing more could happen."""
    rounds: int = 0
    visited: int = 0
    """Heads of lanes that rounds looked at."""
    most_waiting: int = 0
    spot_losses: int = 0
    samples: Samples = field(default_factory=Samples)
