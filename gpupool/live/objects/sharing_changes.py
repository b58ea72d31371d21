"""What `up` would do to running nodes by changing how their GPUs are shared: warn, and name the safer
command.

`up` changes objects without regard to jobs: the labels of existing nodes, or the settings that all
plugins load, change at once. Only reads; a few list calls, and the pods only where something does change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from gpupool.environment.plan.model import POOL_LABEL, Plan, Pool
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import (
    INSTANCE_TYPE_LABEL,
    MIG_LABEL,
    NO_LAYOUT,
    cluster_policy,
    config_name,
    is_gpu_job,
    offered,
)
from gpupool.live.objects.repartition_mark import PLUGIN_PREFIX, maps_of


def notes(api: KubeApi, plan: Plan, bundle: Bundle, unseen: bool = False) -> tuple[str, ...]:
    """A line for each pool whose running nodes would be changed or replaced under running GPU pods.

    `unseen`: what the cluster has is unknown to the state, so `up` leaves it; then a line for each pool whose
    running nodes are not as the file says.
    """
    nodes = api.list("v1", "Node", selector=POOL_LABEL)
    if not nodes:
        return ()
    settings = _live_settings(api, bundle)
    changed = {pool.name: _affected(pool, nodes, settings, bundle) for pool in plan.pools}
    if not any(changed.values()):
        return ()
    if unseen:
        return tuple(_left_alone(plan, changed))
    busy: dict[str, int] = {}
    for pod in api.list("v1", "Pod"):
        if is_gpu_job(pod):
            where = pod["spec"].get("nodeName", "")
            busy[where] = busy.get(where, 0) + 1
    return tuple(_notes(plan, changed, busy))


def _notes(plan: Plan, changed: Mapping[str, list[str]], busy: Mapping[str, int]) -> Iterator[str]:
    for pool in plan.pools:
        names = changed[pool.name]
        jobs = sum(busy.get(name, 0) for name in names)
        if jobs:
            at_once = " at once" if len(names) > 1 else ""
            how = f"`up` changes how GPUs are shared on {_nodes(names)}{at_once}"
            if pool.capacities and pool.mig_config:
                how = f"`up` makes Karpenter replace {_nodes(names)}"
            yield (
                f"pool {pool.name}: {how}, and {jobs} GPU {'pod runs' if jobs == 1 else 'pods run'} there. "
                "To change one node at a time, after its jobs have ended: gpupool "
                f"repartition {plan.environment} {pool.name}"
            )


def _left_alone(plan: Plan, changed: Mapping[str, list[str]]) -> Iterator[str]:
    env = plan.environment
    for pool in plan.pools:
        names = changed[pool.name]
        if names:
            have = "has" if len(names) == 1 else "have"
            yield (
                f"pool {pool.name}: {_nodes(names)} {have} other slices than the file says, by a repartition "
                "since the last `up`. `up` does not change them. To change one node at a time: "
                f"gpupool repartition {env} {pool.name}; all at once: gpupool refresh {env} && "
                f"gpupool up {env}"
            )


def _nodes(names: Sequence[str]) -> str:
    return f"{len(names)} node{'s' if len(names) != 1 else ''}"


def _affected(
    pool: Pool, nodes: list[dict[str, Any]], settings: Mapping[str, str], bundle: Bundle
) -> list[str]:
    """Nodes of the pool whose slices change, or the way in which their GPUs are shared."""
    mine = [node for node in nodes if node["metadata"]["labels"].get(POOL_LABEL) == pool.name]
    maps = (m for m in maps_of(bundle) if m.name.startswith(PLUGIN_PREFIX))
    wanted = next((m.body["data"].get(pool.name) for m in maps), None)
    other = pool.name in settings and settings[pool.name] != wanted
    otherwise_shared = other and _kind(settings[pool.name]) != _kind(wanted or "")

    def changes(node: Mapping[str, Any]) -> bool:
        labels = node["metadata"]["labels"]
        label = labels.get(MIG_LABEL)
        moved = (None if label in ("", NO_LAYOUT) else label) != pool.mig_config
        return otherwise_shared or (
            (other or moved) and offered(node) != asked(pool, labels.get(INSTANCE_TYPE_LABEL))
        )

    return [node["metadata"]["name"] for node in mine if changes(node)]


def _kind(settings: str) -> frozenset[str]:
    """How the plugin shares GPUs: time-slicing and MPS make the same slices in ways that jobs notice."""
    return frozenset((yaml.safe_load(settings) or {}).get("sharing") or ())


def asked(pool: Pool, machine: str | None) -> dict[str, int]:
    """The slices that the file defines for a node of that instance type (the only machine's, where it has
    none)."""
    kinds = [kind.slices for kind in pool.machines if kind.instance_type == machine]
    slices = kinds[0] if kinds else pool.slices_per_node
    return {name: count for name, count in slices.items() if count}


def _live_settings(api: KubeApi, bundle: Bundle) -> Mapping[str, str]:
    """Pool -> the plugin's settings in force; empty where they are not gpupool's."""
    name = config_name(cluster_policy(api), "devicePlugin")
    if not name.startswith(PLUGIN_PREFIX):
        return {}
    live = api.get("v1", "ConfigMap", name, bundle.operator_namespace) or {}
    return live.get("data") or {}
