"""Which drawing belongs to a pool of a report: from what the model says of it back to GPU and mode."""

from __future__ import annotations

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.plan.changes.model import PoolState
from gpupool.environment.sharing import Sharing, sharing_modes, verdict


def drawable(state: PoolState | None) -> tuple[GpuModel, Sharing] | None:
    """What `characters_before_and_after` and `svg` take; None without a pool, or for one that can't be drawn.

    A report may be of a state whose GPU or layout this version's catalog doesn't have.
    """
    if state is None or state.gpu not in catalog_here().models:
        return None
    gpu = catalog_here()[state.gpu]
    sharing = _sharing(state)
    if sharing is None or (sharing.layout and not verdict(gpu, sharing.layout).fits):
        return None
    return gpu, sharing


def _sharing(state: PoolState) -> Sharing | None:
    replicas = sum(state.slices_per_node.values()) // max(state.gpus_per_node, 1)
    modes = (mode.made_of(replicas, state.layout) for mode in sharing_modes if mode.mode == state.mode)
    return next(modes, None)
