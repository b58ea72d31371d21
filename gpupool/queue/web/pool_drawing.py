"""Pools as pictures: each node's GPUs with their slices, and which job or pods hold each.

Slices are those that the report draws (`gpupool.environment.drawings`). The queue counts slices of a node, as
many as its largest machine has; which of its GPUs a pod gets is up to the device plugin, so slices are filled
from the left. A node that Karpenter starts is known to be there while something is on it. No database and no
markup here: templates draw what is returned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from gpupool.environment.catalog.models import mig_resource
from gpupool.environment.drawings.gpu import OWN, Block, drawing
from gpupool.environment.plan.model import Pool
from gpupool.queue.domain.state import Held, Snapshot
from gpupool.queue.domain.supply import Node, PoolSupply
from gpupool.queue.web.visitor import Visitor

WIDTH = 76
LONE_WIDTH = 192
"""Of the only GPU of its node."""
NARROWEST_TEXT = 7
"""Narrower slices have no letter."""
MOST_NODES = 12
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
COLOURS = 6
"""Classes c0 to c5 of the style sheet."""


class Holder(NamedTuple):
    """A job, or a tenant's own pods, with slices of a node, as the visitor may see it."""

    letter: str
    """What marks its slices, small for pods; nothing depends on colour."""
    colour: str
    tenant: str
    job: str | None
    """None where it is another tenant's, and for pods."""
    pods: bool
    """Whether it is pods that are not the queue's."""
    said: str
    """What it holds: `2 slices`, `3g.40gb`."""


class SliceBar(NamedTuple):
    """One slice: where it is, and how much of it is held by whom."""

    left: float
    wide: float
    full: float
    colour: str
    letter: str


class _Slice(NamedTuple):
    block: Block
    resource: str
    units: int


def drawn_pool(
    pool: Pool, supply: PoolSupply, seen: Snapshot, colours: Mapping[str, str], visitor: Visitor
) -> dict[str, Any]:
    """The pool with what holds it at this moment. `colours`: tenant -> class."""
    held = [job for job in seen.held if job.pool == pool.name]
    letters = {
        job: LETTERS[index % len(LETTERS)] for index, job in enumerate(dict.fromkeys(one.job for one in held))
    }
    by_node: dict[int, list[tuple[Held, int]]] = {}
    for job in held:
        for number, units in job.placement:
            by_node.setdefault(number, []).append((job, units))

    def holder(job: Held, said: str) -> Holder:
        mine = visitor.principal.acts_for(job.tenant)
        return Holder(
            letters[job.job] if job.of_queue else letters[job.job].lower(),
            colours.get(job.tenant, "other") if mine else "other",
            visitor.name(job.tenant),
            job.job if mine and job.of_queue else None,
            not job.of_queue,
            said,
        )

    used = [node for node in supply.nodes if node.number in by_node]
    idle = [node for node in supply.nodes if node.number not in by_node]
    ready = idle[: max(0, pool.warm - len(used))] if pool.capacities else idle
    there = {node.number for node in (*used, *ready)}
    shown = sorted([*used, *idle[: max(0, MOST_NODES - len(used))]], key=lambda node: node.number)
    slices = _slices(pool)
    nodes = []
    for node in shown:
        on_node = by_node.get(node.number, [])
        said: dict[str, list[str]] = {}
        for job, units in on_node:
            said.setdefault(job.job, []).append(_said(pool, job.resource, units))
        holders = {job.job: holder(job, ", ".join(said[job.job])) for job, _ in on_node}
        started = node.number in there
        nodes.append(
            {
                "number": node.number,
                "capacity_type": node.capacity_type,
                "started": started,
                "gpus": _gpus(pool, node, slices, on_node, holders, started),
                "holders": list(holders.values()),
            }
        )
    return {
        "name": pool.name,
        "kind": drawing(pool.gpu, pool.sharing).title,
        "machines": _machines(pool),
        "karpenter": bool(pool.capacities),
        "free": _free(pool, supply, held),
        "nodes": nodes,
        "more_nodes": len(supply.nodes) - len(shown),
        "reserved": pool.name in seen.reservations,
    }


def _machines(pool: Pool) -> str:
    """`1 GPU (g5.xlarge) or 4 GPUs (g5.12xlarge)`; empty where each machine has the same number."""
    types: dict[int, list[str]] = {}
    for machine in pool.machines:
        types.setdefault(machine.gpus, []).append(machine.instance_type or "existing nodes")
    if len(types) == 1:
        return ""
    return " or ".join(
        f"{gpus} GPU{'' if gpus == 1 else 's'} ({', '.join(types[gpus])})" for gpus in sorted(types)
    )


def _slices(pool: Pool) -> tuple[_Slice, ...]:
    """The slices of one GPU, from left to right."""
    what = drawing(pool.gpu, pool.sharing)
    row = what.memory if what.memory_slices else what.compute
    own = [block for block in row if block.kind == OWN]
    if what.memory_slices:
        return tuple(_Slice(block, mig_resource(block.label), 1) for block in own)
    ((resource, units),) = pool.slices_per_node.items()
    per_gpu = max(1, units // pool.gpus_per_node)
    return tuple(_Slice(block, resource, per_gpu // len(own)) for block in own)


def _gpus(
    pool: Pool,
    node: Node,
    slices: Sequence[_Slice],
    held: Sequence[tuple[Held, int]],
    holders: Mapping[str, Holder],
    started: bool,
) -> list[dict[str, Any]]:
    surely = min(machine.gpus for machine in pool.machines) if started else 0
    waiting: dict[str, list[str]] = {}
    for job, units in held:
        waiting.setdefault(job.resource, []).extend([job.job] * units)
    width = LONE_WIDTH if pool.gpus_per_node == 1 else WIDTH
    drawn = []
    for number in range(pool.gpus_per_node):
        bars, said = [], dict[str, None]()
        for slice in slices:
            queue = waiting.get(slice.resource, [])
            taken, queue[: slice.units] = queue[: slice.units], []
            bars.append(_bar(slice, taken, holders, width))
            said |= dict.fromkeys(_mark(holders[job]) for job in taken)
        there = number < surely or bool(said)
        absent = "only on a larger machine" if started else "started when needed"
        label = f"held by {', '.join(said)}" if said else "free" if there else absent
        label = f"GPU {number} of node {node.number}: {label}"
        drawn.append({"label": label, "width": width, "bars": bars, "there": there})
    return drawn


def _mark(holder: Holder) -> str:
    return f"{holder.letter} (pods, no job)" if holder.pods else holder.letter


def _bar(slice: _Slice, taken: Sequence[str], holders: Mapping[str, Holder], width: int) -> SliceBar:
    left = round(1 + float(slice.block.start) * (width - 2), 2)
    wide = float(slice.block.end - slice.block.start) * (width - 2)
    if not taken:
        return SliceBar(left, round(wide, 2), 0, "", "")
    full = wide * len(taken) / slice.units
    holder = holders[taken[0]]
    letter = holder.letter if full >= NARROWEST_TEXT else ""
    return SliceBar(
        left, round(wide, 2), round(full, 2), f"{holder.colour}{' pods' if holder.pods else ''}", letter
    )


def _said(pool: Pool, resource: str, units: int) -> str:
    profile = resource.rpartition("/mig-")[2] if "/mig-" in resource else ""
    if profile:
        return f"{units} of {profile}"
    noun = "GPU" if pool.equivalents.get(resource) == 1 else "slice"
    return f"{units} {noun}" + ("" if units == 1 else "s")


def _free(pool: Pool, supply: PoolSupply, held: Sequence[Held]) -> str:
    said, upto = [], "up to " if _machines(pool) else ""
    for resource in supply.gpu_micro:
        total = supply.slots(resource)
        used = sum(job.units for job in held if job.resource == resource)
        said.append(f"{upto}{max(0, total - used)} of {_said(pool, resource, total)} free")
    return ", ".join(said)
