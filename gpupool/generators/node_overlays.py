"""NodeOverlays: they make Karpenter count slices as the device plugin will.

Without one a pool of 4 slices per GPU starts 4 nodes for 4 one-slice pods. Capacity is absolute, so a
pool with machines of several sizes has one overlay per size. Karpenter 1.14.1, karpenter.sh/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.karpenter_pools import KarpenterPool, karpenter_pools
from gpupool.environment.plan.model import Plan
from gpupool.environment.sharing import GPU_RESOURCE
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, quantities

OVERLAY_WEIGHT = 100
"""Weight of every overlay. Overlays of one weight conflict only where both match one instance type in one
NodePool, and no two of gpupool's do: each names its pool's NodePools and machines of one size."""


def generate(plan: Plan) -> Iterator[Manifest]:
    for started in karpenter_pools(plan):
        sizes = sorted({machine.gpus for machine in started.instance_types.values()})
        for gpus in sizes:
            machines = {name: row for name, row in started.instance_types.items() if row.gpus == gpus}
            slices = next(iter(machines.values())).slices
            if slices != {GPU_RESOURCE: gpus}:
                # A dot can't stand in a pool's name, so the name is no other pool's.
                name = started.pool.name if len(sizes) == 1 else f"{started.pool.name}.{gpus}gpu"
                yield _overlay(plan, started, name, list(machines), slices)


def _overlay(
    plan: Plan, started: KarpenterPool, name: str, instance_types: list[str], slices: Mapping[str, int]
) -> Manifest:
    # A partitioned node has no whole GPU left to offer, whatever its instance type says.
    capacity = {GPU_RESOURCE: 0} | dict(slices)
    spec = {
        "weight": OVERLAY_WEIGHT,
        "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": started.node_pools},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": instance_types},
        ],
        "capacity": quantities(capacity),
    }
    return manifest_of(plan, "NodeOverlay", name, pool=started.pool, spec=spec)
