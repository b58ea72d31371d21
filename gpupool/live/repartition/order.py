"""Which nodes are taken when, and how long that is expected to take. Pure.

The estimate is made of what is known (deadlines and grace of the jobs, figures of the operator) and says what
it does not know. Durations of the operator are assumptions: NVIDIA publishes none. They follow from its own
time-outs: mig-manager gives the GPU clients 5 minutes to stop (mig-parted issue 485), a plugin restart is a
container start, and a cloud machine with eight GPUs reboots in about 10 minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.live.repartition.shapes import LiveNode, Shape

PLUGIN_SECONDS = 60.0
MIG_SECONDS = 300.0
REBOOT_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class NodeEstimate:
    """One node of the order."""

    node: str
    batch: int
    """From 1 on; nodes of one batch are worked on together."""
    jobs: int
    """GPU pods that run there now."""
    wait_seconds: float | None
    """Until they have ended; None where one of them has no deadline."""
    change_seconds: float
    """Of the operator."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The order with its expected duration."""

    nodes: tuple[NodeEstimate, ...]
    seconds: float
    """The longest node of each batch, one batch after the other; unknown waits count as none."""
    open_end: bool
    """Some job has no deadline, so that it takes at least `seconds`."""


def change_seconds(old: Shape, new: Shape, reboots: bool) -> float:
    """How long the operator is expected to need on one node."""
    if old.mig == new.mig:
        return PLUGIN_SECONDS
    # A machine reboots to enter or leave MIG mode, not to change the layout within it.
    return REBOOT_SECONDS if reboots and (old.mig is None or new.mig is None) else MIG_SECONDS


def order(nodes: Sequence[LiveNode]) -> list[str]:
    """Nodes without jobs first, then those with few; nodes that are down already before all: they cost
    nothing, and every node that succeeds shows more about the next."""
    return [node.name for node in sorted(nodes, key=lambda one: (not one.down, len(one.jobs), one.name))]


def estimate(
    nodes: Sequence[LiveNode], changes: Sequence[tuple[str, float]], size: int, evict: bool
) -> Estimate:
    """The order of `changes` (node and its change in seconds) in batches of `size`."""
    by_name = {node.name: node for node in nodes}
    rows = []
    for place, (name, seconds) in enumerate(changes):
        jobs = by_name[name].jobs
        rows.append(NodeEstimate(name, place // size + 1, len(jobs), _wait(by_name[name], evict), seconds))
    batches = {row.batch for row in rows}
    total = sum(
        max((row.wait_seconds or 0.0) + row.change_seconds for row in rows if row.batch == batch)
        for batch in batches
    )
    return Estimate(tuple(rows), total, any(row.wait_seconds is None for row in rows))


def _wait(node: LiveNode, evict: bool) -> float | None:
    if evict:
        return float(max((job.grace for job in node.jobs), default=0))
    remaining = [job.remaining for job in node.jobs]
    known = [seconds for seconds in remaining if seconds is not None]
    return None if len(known) < len(remaining) else max(known, default=0.0)
