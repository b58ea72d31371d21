"""Which drawing belongs to a pool of a report: from what the model says of it back to GPU and mode."""

from __future__ import annotations

from gpupool.catalog.models import GpuModel
from gpupool.catalog.project import catalog_here
from gpupool.plan.changes.model import PoolState
from gpupool.sharing import Exclusive, MigSharing, Mps, Sharing, TimeSlicing, verdict


def drawable(state: PoolState | None) -> tuple[GpuModel, Sharing] | None:
    """What `characters_before_and_after` and `svg` take; None without a pool, or for one that can't be drawn.

    A report may be of a state whose GPU or layout this version's catalog doesn't have.
    """
    if state is None or state.gpu not in catalog_here().models:
        return None
    gpu = catalog_here()[state.gpu]
    sharing = _sharing(state)
    if isinstance(sharing, MigSharing) and not verdict(gpu, sharing.layout).fits:
        return None
    return None if sharing is None else (gpu, sharing)


def _sharing(state: PoolState) -> Sharing | None:
    if state.mode == MigSharing.mode:
        return MigSharing(state.layout)
    if state.mode == Exclusive.mode:
        return Exclusive()
    replicas = sum(state.slices_per_node.values()) // max(state.gpus_per_node, 1)
    for mode in (TimeSlicing, Mps):
        if state.mode == mode.mode:
            return mode(replicas)
    return None
