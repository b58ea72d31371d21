"""NodeOverlays: they make Karpenter count slices as the device plugin will.

Without one a pool of 4 slices per GPU starts 4 nodes for 4 one-slice pods. Capacity is absolute, so a
pool with machines of several sizes has one overlay per size. Karpenter 1.14.1, karpenter.sh/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, quantities
from gpupool.plan.model import Machine, Plan, Pool
from gpupool.sharing import GPU_RESOURCE

_WEIGHT = 100
"""Two overlays of one weight conflict only where both match one type in one NodePool; ours never do."""


def generate(plan: Plan) -> Iterator[Manifest]:
    if plan.karpenter is None:
        return
    for pool in plan.pools:
        sizes = sorted({machine.gpus for machine in pool.machines})
        for gpus in sizes:
            machines = [machine for machine in pool.machines if machine.gpus == gpus]
            if machines[0].slices != {GPU_RESOURCE: gpus}:
                # A dot can't stand in a pool's name, so the name is no other pool's.
                name = pool.name if len(sizes) == 1 else f"{pool.name}.{gpus}gpu"
                yield _overlay(plan, pool, name, machines)


def _overlay(plan: Plan, pool: Pool, name: str, machines: list[Machine]) -> Manifest:
    # A partitioned node has no whole GPU left to offer, whatever its instance type says.
    capacity = {GPU_RESOURCE: 0} | dict(machines[0].slices)
    types = [machine.instance_type for machine in machines]
    pools = [capacity.name for capacity in pool.capacities]
    spec = {
        "weight": _WEIGHT,
        "requirements": [
            {"key": "karpenter.sh/nodepool", "operator": "In", "values": pools},
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": types},
        ],
        "capacity": quantities(capacity),
    }
    return manifest_of(plan, "NodeOverlay", name, pool=pool, spec=spec)
