"""The whole queue in its order: who is ahead of each job, why it waits, when it may start.

As `gpupool.queue.domain.explain` for many jobs at once: one simulated run of rounds serves all of them. This
module must not decide anything.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from gpupool.queue.domain.decide import decide
from gpupool.queue.domain.explain import advance
from gpupool.queue.domain.round import Round
from gpupool.queue.domain.state import Queued, Snapshot
from gpupool.queue.domain.supply import Supply
from gpupool.queue.records import Waiting

MOST_ROUNDS = 30
"""A projection looks at so many ends of running jobs and no further."""


@dataclass(frozen=True, slots=True)
class Prospect:
    """One waiting job and what is before it."""

    job: Queued
    ahead: int
    """Heads of other lanes that go before it, and jobs before it in its own."""
    waiting: Waiting | None
    """None where it would start now, and behind other jobs of its lane."""
    projected_start: float | None
    """Epoch seconds; None where it is not within reach."""


def outlook(snapshot: Snapshot, supply: Supply, most: int) -> tuple[Prospect, ...]:
    """The first `most` jobs that wait, in order."""
    opened = Round.of(snapshot, supply)
    heads = sorted(opened.key(lane[0]) for lane in opened.lanes.values())
    ordered = []
    for lane in opened.lanes.values():
        first = opened.key(lane[0])
        for index, job in enumerate(lane):
            key = opened.key(job)
            ordered.append((index + bisect_left(heads, key) - (first < key), key, job))
    ordered.sort(key=lambda one: one[:2])
    shown = ordered[:most]
    waits = decide(snapshot, supply).waits
    starts = _starts(snapshot, supply, {job.job for _, _, job in shown})
    return tuple(Prospect(job, ahead, waits.get(job.job), starts.get(job.job)) for ahead, _, job in shown)


def _starts(snapshot: Snapshot, supply: Supply, wanted: set[str]) -> dict[str, float]:
    """When jobs start if each running job takes as long as it may."""
    found: dict[str, float] = {}
    state: Snapshot | None = snapshot
    for _ in range(MOST_ROUNDS):
        if state is None or wanted <= found.keys():
            break
        decision = decide(state, supply)
        found.update((start.job, state.now) for start in decision.starts)
        state = advance(state, decision)
    return found
