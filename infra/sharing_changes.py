"""What `up` would do to running nodes by changing how their GPUs are shared: warn, and name the gentle way.

`up` brings objects in line and looks at no job: the labels of existing nodes, or the settings that all
plugins load, change at once. Only looks; a few list calls, and the pods only where something does change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from generators.manifest import Bundle
from gpupool.plan import OPERATOR_NAMESPACE, POOL_LABEL, Plan, Pool
from infra.kube_api import KubeApi

_PLUGIN_PREFIX = "gpupool-device-plugin"
_MIG_LABEL = "nvidia.com/mig.config"
_OFF = ("", "all-disabled")
_GPU = re.compile(r"nvidia\.com/(gpu(\.shared)?|mig-.+)")


def notes(api: KubeApi, plan: Plan, bundle: Bundle) -> tuple[str, ...]:
    """A line for each pool whose running nodes would be changed or replaced under running GPU pods."""
    nodes = api.list("v1", "Node", selector=POOL_LABEL)
    if not nodes:
        return ()
    settings = _live_settings(api)
    changed = {pool.name: _affected(pool, nodes, settings, bundle) for pool in plan.pools}
    if not any(changed.values()):
        return ()
    busy: dict[str, int] = {}
    for pod in api.list("v1", "Pod"):
        if _holds_gpu(pod):
            where = pod["spec"].get("nodeName", "")
            busy[where] = busy.get(where, 0) + 1
    return tuple(_told(plan, changed, busy))


def _told(plan: Plan, changed: Mapping[str, list[str]], busy: Mapping[str, int]) -> Iterator[str]:
    for pool in plan.pools:
        names = changed[pool.name]
        jobs = sum(busy.get(name, 0) for name in names)
        if jobs:
            how = "are replaced by Karpenter" if pool.capacities and pool.mig_config else "change at once"
            yield (
                f"pool {pool.name}: {len(names)} node{'s' if len(names) != 1 else ''} {how} while {jobs} GPU "
                f"pod{'s' if jobs != 1 else ''} run there; node by node, jobs waited for: "
                f"gpupool repartition {plan.environment} {pool.name}"
            )


def _affected(
    pool: Pool, nodes: list[dict[str, Any]], settings: Mapping[str, str], bundle: Bundle
) -> list[str]:
    """Nodes of the pool that get other settings or another layout."""
    mine = [node for node in nodes if node["metadata"]["labels"].get(POOL_LABEL) == pool.name]
    wanted = next(
        (m.body["data"].get(pool.name) for m in bundle if _is_plugin_map(m.name, m.namespace)), None
    )
    if pool.name in settings and settings[pool.name] != wanted:
        return [node["metadata"]["name"] for node in mine]
    return [
        node["metadata"]["name"]
        for node in mine
        if _layout(node["metadata"]["labels"].get(_MIG_LABEL, "")) != (pool.mig_config or "")
    ]


def _layout(label: str) -> str:
    return "" if label in _OFF else label


def _is_plugin_map(name: str, namespace: str | None) -> bool:
    return namespace == OPERATOR_NAMESPACE and name.startswith(_PLUGIN_PREFIX)


def _live_settings(api: KubeApi) -> Mapping[str, str]:
    """Pool -> the plugin's settings that are in force; empty where nothing of ours is."""
    policy = api.get("nvidia.com/v1", "ClusterPolicy", "cluster-policy") or {}
    name = str((((policy.get("spec") or {}).get("devicePlugin") or {}).get("config") or {}).get("name", ""))
    if not name.startswith(_PLUGIN_PREFIX):
        return {}
    live = api.get("v1", "ConfigMap", name, OPERATOR_NAMESPACE) or {}
    return live.get("data") or {}


def _holds_gpu(pod: Mapping[str, Any]) -> bool:
    if (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    if any(owner.get("kind") == "DaemonSet" for owner in pod["metadata"].get("ownerReferences") or ()):
        return False
    return any(
        _GPU.fullmatch(resource)
        for container in pod["spec"]["containers"]
        for resource in (container.get("resources") or {}).get("limits") or {}
    )
