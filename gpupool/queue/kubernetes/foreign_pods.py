"""What pods that are not the queue's hold of a pool's slots, in units and logical nodes of decisions. Pure.

Notebooks, inference servers, Jobs that somebody applied: they use slots and count for their tenant, so that
the queue hands out only what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from gpupool.environment.plan.model import POOL_LABEL, Plan
from gpupool.live.cluster.live_objects import requested
from gpupool.queue.domain.supply import Supply
from gpupool.queue.kubernetes.job_manifest import CAPACITY_TYPE
from gpupool.queue.kubernetes.pod_ends import Object
from gpupool.queue.store.launches import ForeignPods


def foreign_pods(
    pods: Iterable[Object], nodes: Mapping[str, Object], plan: Plan, supply: Supply
) -> list[ForeignPods]:
    """Per logical node, resource and tenant. Real nodes take the logical nodes of their capacity type in the
    order of their names; what is on more nodes than the pool may have counts on its last one."""
    tenants = {tenant.namespace: tenant.name for tenant in plan.tenants}
    used = []
    for pod in pods:
        node = nodes.get(pod["spec"]["nodeName"])
        pool = str(node["metadata"]["labels"].get(POOL_LABEL)) if node else ""
        if node is None or pool not in supply.pools or not supply.pools[pool].nodes:
            continue
        namespace = pod["metadata"]["namespace"]
        for resource, count in requested(pod).items():
            if resource in supply.pools[pool].gpu_micro:
                used.append(
                    (pool, node["metadata"]["name"], resource, tenants.get(namespace, namespace), count)
                )
    numbers = _numbers({(pool, node) for pool, node, *_ in used}, nodes, supply)
    total = Counter[tuple[str, str, int, str]]()
    for pool, node_name, resource, tenant, units in used:
        total[pool, resource, numbers[pool, node_name], tenant] += units
    return [
        ForeignPods(
            pool,
            resource,
            number,
            tenant,
            supply.pools[pool].nodes[number].capacity_type,
            units,
            supply.pools[pool].gpu_micro[resource] * units,
        )
        for (pool, resource, number, tenant), units in sorted(total.items())
        if units > 0
    ]


def _numbers(
    places: set[tuple[str, str]], nodes: Mapping[str, Object], supply: Supply
) -> dict[tuple[str, str], int]:
    """(pool, node) -> logical node."""
    taken: dict[str, set[int]] = {}
    numbers = {}
    for pool, name in sorted(places):
        type = nodes[name]["metadata"]["labels"].get(CAPACITY_TYPE, "on-demand")
        free = [node for node in supply.pools[pool].nodes if node.number not in taken.setdefault(pool, set())]
        chosen = next((node for node in free if node.capacity_type == type), free[0] if free else None)
        number = chosen.number if chosen else len(supply.pools[pool].nodes) - 1
        taken[pool].add(number)
        numbers[pool, name] = number
    return numbers
