"""Nodes and pods of the local cluster -> the GPUs that an exporter would show there, with whose they are.

Pods are given GPUs in the order in which they came, as many as they ask for. How much of one a pod uses is
what its container's variable says, or a guess. Asks no server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpupool.environment.catalog.models import mig_resource
from gpupool.environment.plan.model import POOL_LABEL, Plan, Pool
from gpupool.local.monitoring.page import Card, MigInstance, PodUse
from gpupool.local.operator.hardware import of_node

USE = "GPUPOOL_GPU_USE"
"""Variable of a container: the share of the time in which it uses its GPUs, 0 to 1. On a real cluster nothing
reads it."""
_USE = 0.6

Object = Mapping[str, Any]


def cards_of(node: Object, pods: Iterable[Object], plan: Plan) -> tuple[Card, ...]:
    """The GPUs of a node of one of the plan's pools, with the pods that run there; none of other nodes."""
    metadata = node["metadata"]
    name = (metadata.get("labels") or {}).get(POOL_LABEL, "")
    pool = next((pool for pool in plan.pools if pool.name == name), None)
    hardware = of_node(node)
    if pool is None or hardware is None:
        return ()
    here = [pod for pod in pods if _holds(pod, metadata["name"])]
    here.sort(key=lambda pod: (pod["metadata"].get("creationTimestamp") or "", pod["metadata"]["name"]))
    empty = [Card(metadata["name"], number, hardware.model) for number in range(hardware.gpus)]
    if pool.sharing.layout:
        return tuple(_partitioned(empty, pool, here))
    return tuple(_whole(empty, pool, here))


def _holds(pod: Object, node: str) -> bool:
    running = (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
    return running and (pod.get("spec") or {}).get("nodeName") == node


def _asked(pod: Object) -> Iterator[tuple[str, int]]:
    for container in pod["spec"].get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        for resource, count in limits.items():
            if str(resource).startswith("nvidia.com/"):
                yield str(resource), int(count)


def _used(pod: Object) -> PodUse:
    use = _USE
    for container in pod["spec"].get("containers") or ():
        for row in container.get("env") or ():
            if row.get("name") == USE:
                use = _share(row.get("value"))
    return PodUse(str(pod["metadata"].get("namespace", "default")), str(pod["metadata"]["name"]), use)


def _share(value: object) -> float:
    try:
        return min(1.0, max(0.0, float(str(value))))
    except ValueError:
        return _USE


def _whole(empty: list[Card], pool: Pool, pods: Iterable[Object]) -> Iterator[Card]:
    """Slices are GPUs, or shares of them that follow each other."""
    ((name, per_gpu),) = pool.sharing.slices_per_gpu(pool.gpu).items()
    holders: dict[int, list[PodUse]] = defaultdict(list)
    taken = 0
    for pod in pods:
        for resource, count in _asked(pod):
            for _ in range(count if resource == name else 0):
                holders[taken // per_gpu].append(_used(pod))
                taken += 1
    for card in empty:
        yield replace(card, pods=tuple(dict.fromkeys(holders[card.index])))


def _partitioned(empty: list[Card], pool: Pool, pods: Iterable[Object]) -> Iterator[Card]:
    """Each instance is a slice of its profile's resource."""
    waiting: dict[str, list[PodUse]] = defaultdict(list)
    for pod in pods:
        for resource, count in _asked(pod):
            waiting[resource] += [_used(pod)] * count
    layout = pool.sharing.layout or {}
    for card in empty:
        instances = list[MigInstance]()
        for profile in (name for name, count in layout.items() for _ in range(count)):
            line = waiting[mig_resource(profile)]
            holder = (line.pop(0),) if line else ()
            facts = card.model.mig.profile(profile) if card.model.mig else None
            memory = round((facts.memory_gib or 10) * 1024) if facts else 10240
            instances.append(MigInstance(profile, len(instances), memory, holder))
        yield replace(card, instances=tuple(instances))
