"""How a cloud's node pool shares GPUs, read from the labels of its nodes, against what the plan says.

For platforms where the cloud shares GPUs itself: there gpupool sets nothing, and compares. Source: Google
Kubernetes Engine documentation, GPU time-sharing, MPS and multi-instance GPUs (2026-08).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.model import Pool
from gpupool.live.cluster.live_objects import offered
from gpupool.live.cluster.snapshot import labels
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.pool_nodes import Phase, PoolNode

_GKE = "cloud.google.com/gke-"
ACCELERATOR = f"{_GKE}accelerator"
STRATEGY, CLIENTS = f"{_GKE}gpu-sharing-strategy", f"{_GKE}max-shared-clients-per-gpu"
PARTITION = f"{_GKE}gpu-partition-size"
ACCELERATORS: Mapping[str, tuple[str, ...]] = {
    "t4": ("nvidia-tesla-t4",),
    "l4": ("nvidia-l4",),
    "v100": ("nvidia-tesla-v100",),
    "p100": ("nvidia-tesla-p100",),
    "p4": ("nvidia-tesla-p4",),
    "a100-40gb": ("nvidia-tesla-a100",),
    "a100-80gb": ("nvidia-a100-80gb",),
    "h100-80gb": ("nvidia-h100-80gb", "nvidia-h100-mega-80gb"),
    "h200": ("nvidia-h200-141gb",),
    "b200": ("nvidia-b200",),
}
"""Key of the catalog -> what Google calls the GPU."""


def planned_labels(pool: Pool) -> dict[str, tuple[str, ...]]:
    """Label -> the values that nodes of the pool may have; empty where they have no such label."""
    shared = {"time-slicing": "time-sharing", "mps": "mps"}.get(pool.sharing.mode)
    clients = str(sum(pool.sharing.slices_per_gpu(pool.gpu).values()))
    return {
        **({ACCELERATOR: names} if (names := ACCELERATORS.get(pool.gpu.key)) else {}),
        STRATEGY: (shared,) if shared else (),
        CLIENTS: (clients,) if shared else (),
        PARTITION: tuple(pool.sharing.layout),
    }


def settings(pool: Pool) -> str:
    """What `gcloud container node-pools create --accelerator` is given besides the type and number of
    GPUs."""
    words = {
        "gpu-sharing-strategy": STRATEGY, "max-shared-clients-per-gpu": CLIENTS, "gpu-partition-size":
        PARTITION
    }  # fmt: skip
    values = planned_labels(pool)
    return ",".join(f"{word}={values[label][0]}" for word, label in words.items() if values[label])


def check(inputs: DriftInput) -> Iterator[Drift]:
    for row in inputs.nodes:
        if row.phase is not Phase.serving:
            continue
        wrong = list(_labels(row))
        yield from wrong
        if not wrong:
            yield from _slices(row)


def _labels(row: PoolNode) -> Iterator[Drift]:
    have = labels(row.node)
    for label, values in planned_labels(row.pool).items():
        live = have.get(label)
        if live in values or (live is None and not values):
            continue
        planned = " or ".join(values) or "none"
        how = settings(row.pool) or "neither sharing nor a partition size"
        yield Drift(
            layer="slices",
            code="node-pool-setting",
            object=f"Node {row.name}",
            path=f"metadata.labels[{label}]",
            wanted=planned,
            found=live,
            what=f"its node pool has {label.removeprefix(_GKE)} {live or 'none'}, planned is {planned}"
            f" (pool {row.pool.name})",
            remediation="create another node pool: gcloud container node-pools create --accelerator "
            f"...,{how}; it can't be changed afterwards",
        )


def _slices(row: PoolNode) -> Iterator[Drift]:
    live = offered(row.node)
    planned = dict(row.machine.slices) if row.machine else {}
    if live != planned:
        yield Drift(
            layer="slices",
            code="slices-differ",
            object=f"Node {row.name}",
            path="status.allocatable",
            wanted=planned,
            found=dict(live),
            what=f"it offers {dict(live)}, planned are {planned} (pool {row.pool.name})",
            remediation="correct nodes.gpus in the file, or use machines with that number of GPUs",
        )
