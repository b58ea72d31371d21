"""The counts of slots that consumers older than the queue's API read, as environment variables.

`gpupool show --format env` prints them; gpupool itself must not read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpupool.environment.plan.model import Pool
from gpupool.environment.sharing import GPU_RESOURCE, Isolation


def slot_variables(pools: Iterable[Pool]) -> Mapping[str, str]:
    """The counts of slots under the names that older consumers know, sorted.

    `T4_SHARED_SLOTS`: slices of time-sliced and MPS pools with the GPU. `T4_EXCLUSIVE_SLOTS`: whole GPUs that
    one job can have alone: those of exclusive pools, and one on each node of time-sliced pools whose machines
    all have one GPU. `MIG_TOTAL_SLOTS`: instances of all MIG pools.
    """
    counts = {"MIG_TOTAL_SLOTS": 0}
    for pool in pools:
        if pool.sharing.layout:
            counts["MIG_TOTAL_SLOTS"] += sum(pool.slices_max.values())
            continue
        word = pool.gpu.key.upper().replace("-", "_").replace(".", "_")
        shared, exclusive = f"{word}_SHARED_SLOTS", f"{word}_EXCLUSIVE_SLOTS"
        counts.setdefault(shared, 0)
        counts.setdefault(exclusive, 0)
        counts[shared if pool.sharing.one_slice else exclusive] += sum(pool.slices_max.values())
        # A job that is alone on a GPU has all of it where nothing bounds its share.
        unbounded = pool.sharing.isolation is Isolation.nothing
        if unbounded and {machine.gpus for machine in pool.machines} == {1}:
            counts[exclusive] += pool.nodes_max
    found = {name: str(count) for name, count in counts.items()} | {"GPU_RESOURCE_NAME": GPU_RESOURCE}
    return dict(sorted(found.items()))
