"""GPUs of the pools' nodes that something beside the operator's device plugin hands out.

What pods get there is in no quota and under no policy: a DRA driver's devices by claim, another device
plugin's by a resource of its own (`gpupool.live.cluster.gpu_publishers`).
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.live.cluster.gpu_publishers import RESOURCE_SLICES, unmodelled_ways
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.pool_nodes import PoolNode


def check(inputs: DriftInput) -> Iterator[Drift]:
    """One difference for each node and publisher."""
    rows: dict[str, PoolNode] = {row.name: row for row in inputs.nodes}
    slices = [thing for kind in RESOURCE_SLICES for thing in inputs.snapshot.of(*kind)]
    for way in unmodelled_ways({name: row.node for name, row in rows.items()}, slices):
        how = "DRA driver {} publishes" if way.by_claim else "a device plugin offers {},"
        takers = "pods that claim them" if way.by_claim else "pods that request it"
        yield Drift(
            layer="slices",
            code="other-publisher",
            object=f"Node {way.node}",
            path="" if way.by_claim else f"status.allocatable[{way.publisher}]",
            found=way.devices,
            what=f"{how.format(way.publisher)} {way.devices} devices: no quota counts {takers} "
            f"(pool {rows[way.node].pool.name})",
            remediation="remove the driver or plugin from the node, or the node from the pool",
        )
