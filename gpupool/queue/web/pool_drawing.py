"""Pools as pictures: each node's GPUs with their slices, and which job holds each.

Slices are those that the report draws (`gpupool.drawings`). The queue counts slices of a node; which of its
GPUs a pod gets is up to the device plugin, so slices are filled from the left. No database here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Protocol

from markupsafe import Markup

from gpupool.catalog.models import mig_resource
from gpupool.drawings.gpu import OWN, Block, drawing
from gpupool.plan.model import Pool
from gpupool.queue.domain.state import Held, Snapshot
from gpupool.queue.domain.supply import Node, PoolSupply

WIDTH, HEIGHT = 76, 24
LONE_WIDTH = 192
"""Of the only GPU of its node."""
MOST_NODES = 12
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
COLOURS = 6
"""Classes c0 to c5 of the style sheet."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds slices of a node."""

    letter: str
    """What marks its slices; nothing depends on colour."""
    colour: str
    tenant: str
    job: str | None
    """None where it is another tenant's."""
    said: str
    """What it holds: `2 slices`, `3g.40gb`."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    number: int
    capacity_type: str
    gpus: tuple[Markup, ...]
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class DrawnPool:
    name: str
    description: str
    kind: str
    """The GPU and how it is shared."""
    free: str
    nodes: tuple[DrawnNode, ...]
    more_nodes: int
    """Idle nodes that are not drawn."""
    reserved: bool


@dataclass(frozen=True, slots=True)
class _Slice:
    block: Block
    resource: str
    units: int


def drawn_pool(
    pool: Pool, supply: PoolSupply, seen: Snapshot, colours: Mapping[str, str], names: Names
) -> DrawnPool:
    """The pool with what holds it at this moment. `colours`: tenant -> class."""
    held = [job for job in seen.held if job.pool == pool.name]
    letters = {job.job: LETTERS[index % len(LETTERS)] for index, job in enumerate(held)}
    by_node: dict[int, list[tuple[Held, int]]] = {}
    for job in held:
        for number, units in job.placement:
            by_node.setdefault(number, []).append((job, units))
    shown = [node for node in supply.nodes if node.number in by_node]
    idle = [node for node in supply.nodes if node.number not in by_node]
    shown = sorted([*shown, *idle[: max(0, MOST_NODES - len(shown))]], key=lambda node: node.number)
    slices = _slices(pool)
    nodes = []
    for node in shown:
        on_node = by_node.get(node.number, [])
        holders = {
            job.job: Holder(
                letters[job.job],
                colours.get(job.tenant, "other"),
                names.tenant(job.tenant),
                names.job(job),
                _said(pool, job.resource, units),
            )
            for job, units in on_node
        }
        gpus = _gpus(pool, node, slices, on_node, holders)
        nodes.append(DrawnNode(node.number, node.capacity_type, gpus, tuple(holders.values())))
    return DrawnPool(
        pool.name,
        pool.description,
        drawing(pool.gpu, pool.sharing).title,
        _free(pool, supply, held),
        tuple(nodes),
        len(supply.nodes) - len(shown),
        pool.name in seen.reservations,
    )


class Names(Protocol):
    """How tenants and jobs of a picture may be called."""

    def tenant(self, tenant: str) -> str: ...

    def job(self, held: Held) -> str | None: ...


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
) -> tuple[Markup, ...]:
    waiting: dict[str, list[str]] = {}
    for job, units in held:
        waiting.setdefault(job.resource, []).extend([job.job] * units)
    drawn = []
    width = LONE_WIDTH if pool.gpus_per_node == 1 else WIDTH
    for number in range(pool.gpus_per_node):
        parts, said = [], []
        for slice in slices:
            queue = waiting.get(slice.resource, [])
            taken, queue[: slice.units] = queue[: slice.units], []
            parts.append(_block(slice, taken, holders, width))
            said += [f"{holders[job].letter}" for job in dict.fromkeys(taken)]
        label = f"GPU {number} of node {node.number}: "
        label += f"held by {', '.join(dict.fromkeys(said))}" if said else "free"
        drawn.append(
            f'<svg class="slices" role="img" width="{width}" height="{HEIGHT}" '
            f'viewBox="0 0 {width} {HEIGHT}" aria-label="{escape(label)}">{"".join(parts)}</svg>'
        )
    return tuple(Markup(one) for one in drawn)  # noqa: S704 - letters and numbers


def _block(slice: _Slice, taken: Sequence[str], holders: Mapping[str, Holder], width: int) -> str:
    left = 1 + float(slice.block.start) * (width - 2)
    wide = float(slice.block.end - slice.block.start) * (width - 2)
    holder = holders[taken[0]] if taken else None
    style = f"held {holder.colour}" if holder else "free"
    full = wide * len(taken) / slice.units if holder else wide
    text = ""
    if holder and full >= 7:
        text = (
            f'<text x="{left + full / 2:.1f}" y="{HEIGHT / 2 + 4:.1f}" text-anchor="middle">'
            f"{holder.letter}</text>"
        )
    outline = f'<rect class="free" x="{left:.2f}" y="1" width="{wide:.2f}" height="{HEIGHT - 2}"/>'
    fill = f'<rect class="{style}" x="{left:.2f}" y="1" width="{full:.2f}" height="{HEIGHT - 2}"/>'
    return (outline + fill if holder and full < wide else fill) + text


def _said(pool: Pool, resource: str, units: int) -> str:
    profile = resource.rpartition("/mig-")[2] if "/mig-" in resource else ""
    if profile:
        return f"{units} of {profile}"
    whole = pool.equivalents[resource] == 1 if resource in pool.equivalents else False
    noun = "GPU" if whole else "slice"
    return f"{units} {noun}" + ("" if units == 1 else "s")


def _free(pool: Pool, supply: PoolSupply, held: Sequence[Held]) -> str:
    said = []
    for resource in supply.gpu_micro:
        total = supply.slots(resource)
        used = sum(job.units for job in held if job.resource == resource)
        said.append(f"{max(0, total - used)} of {_said(pool, resource, total)} free")
    return ", ".join(said)
