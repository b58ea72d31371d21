"""Karpenter as a state machine for each node that a pool may have: off, starting, ready, empty, off again.

Decisions don't depend on it: the queue's slots are logical, and a job holds them while its node starts.
Limits of the file are the number of these nodes. Not modelled: capacity that the cloud does not have, and
pods of tenants' own.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from math import inf, log

from gpupool.environment.plan.model import RESERVED, SPOT_FIRST, Machine, Plan, Pool
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH
from gpupool.environment.spec.field_types import duration_seconds

NEVER = "Never"


@dataclass(slots=True)
class NodeState:
    """One logical node."""

    type: str
    """reserved, spot, on-demand."""
    machine: Machine
    since: float = inf
    """Since when it runs; infinity while it is off."""
    ready: float = inf
    """Since when it takes pods."""
    empties: int = 0
    """How often it has become empty."""
    lost: float = inf
    """When its spot capacity is taken away."""
    jobs: int = 0
    number: int = 0
    """Counts its starts."""


@dataclass(slots=True)
class SimulatedNodes:
    """The nodes of one pool, and what they come to."""

    pool: Pool
    numbers: dict[str, float]
    draw: random.Random
    states: list[NodeState] = field(default_factory=list)
    gpu_seconds: Counter[str] = field(default_factory=Counter)
    """Capacity type -> GPU seconds that are paid for: of nodes that run, and of all that are reserved."""
    usd: float = 0.0
    launches: int = 0
    on: int = 0
    """GPUs of nodes that run at present."""
    began: float = 0.0
    """When the simulation began."""

    def _idle_s(self, state: NodeState) -> float:
        """How long a node stays empty before it goes, in seconds."""
        after = self.pool.stopped_after(state.type)
        return inf if after == NEVER else duration_seconds(after) + self.numbers["consolidation"]

    @classmethod
    def of(cls, pool: Pool, numbers: dict[str, float], seed: int) -> SimulatedNodes:
        # Where there are spot nodes first, they are spot nodes: no cloud publishes how often there are none.
        states = [
            NodeState("spot" if type == SPOT_FIRST else type, machine)
            for type, machine in pool.largest_machines()
        ]
        draw = random.Random(f"{seed}/{pool.name}")  # noqa: S311
        return cls(pool, numbers, draw, states)

    @property
    def bought(self) -> bool:
        """Whether Karpenter starts them."""
        return bool(self.pool.capacities)

    def begin(self, now: float) -> None:
        """What is there from the beginning on: nodes that exist, reserved ones that are never stopped, and
        warm ones."""
        self.began = now
        warm = self.pool.warm
        for number, state in enumerate(self.states):
            there = not self.bought or (state.type == RESERVED and self._idle_s(state) == inf)
            if there or warm > 0:
                self._launch(number, now, now)
                warm -= 1

    def take(self, number: int, now: float) -> float:
        """A job is placed there; when the node is ready for it."""
        state = self.states[number]
        if state.since == inf:
            self._launch(number, now, now + self.numbers["batch"] + self.numbers["startup"])
        state.jobs += 1
        return max(now, state.ready)

    def leave(self, number: int, now: float) -> float:
        """A job has left; when the node goes if it stays empty, infinity where it does not."""
        state = self.states[number]
        state.jobs -= 1
        if state.jobs or state.since == inf or not self._may_go(state):
            return inf
        state.empties += 1
        return now + self._idle_s(state)

    def _may_go(self, state: NodeState) -> bool:
        """What exists already and what is warm stays, and what Karpenter never stops."""
        if not self.bought or self._idle_s(state) == inf:
            return False
        return sum(other.since < inf for other in self.states) > self.pool.warm

    def goes(self, number: int, now: float, empties: int) -> bool:
        """Whether the node goes now, because nothing has come to it since it was empty for that time."""
        state = self.states[number]
        if state.empties != empties or state.jobs or state.since == inf or not self._may_go(state):
            return False
        self.stop(number, now)
        return True

    def stop(self, number: int, now: float) -> None:
        """The node is gone."""
        state = self.states[number]
        self._pay(state, now)
        state.since = state.ready = state.lost = inf
        self.on -= state.machine.gpus

    def _launch(self, number: int, now: float, ready: float) -> None:
        state = self.states[number]
        state.since, state.ready = now, ready
        state.number += 1
        self.launches += 1
        self.on += state.machine.gpus
        if state.type == "spot" and 0 < self.numbers["interrupted"] < 1:
            # The band says how many are interrupted in a month; in between it may be at any moment.
            per_hour = -log(1 - self.numbers["interrupted"]) / HOURS_PER_MONTH
            state.lost = now + self.draw.expovariate(per_hour) * 3600

    def _pay(self, state: NodeState, now: float) -> None:
        if state.type != RESERVED:
            self._pay_for(state, now - state.since)

    def _pay_for(self, state: NodeState, seconds: float) -> None:
        prices = {
            "spot": state.machine.spot_usd_per_hour,
            RESERVED: state.machine.reserved_usd_per_hour,
            "on-demand": state.machine.usd_per_hour,
        }
        self.usd += (prices[state.type] or 0.0) * seconds / 3600
        self.gpu_seconds[state.type] += round(seconds * state.machine.gpus)

    def close(self, now: float) -> None:
        """The simulation ends. What is reserved was paid for all the time, on or off."""
        for state in self.states:
            if state.type == RESERVED:
                self._pay_for(state, now - self.began)
            elif state.since < now:
                self._pay(state, now)
                state.since = now

    @property
    def gpus(self) -> int:
        """Of all nodes that the pool may have."""
        return sum(state.machine.gpus for state in self.states)

    def usd_of_all(self, hours: float) -> float:
        """What all of them would cost on demand, kept for so long: the fixed cluster to compare with."""
        prices = (state.machine.usd_per_hour or 0.0 for state in self.states)
        return sum(prices) * hours


def nodes_of(plan: Plan, numbers: dict[str, float], seed: int) -> dict[str, SimulatedNodes]:
    """By pool."""
    return {pool.name: SimulatedNodes.of(pool, numbers, seed) for pool in plan.pools}
