"""Slices, computed again from the manifests: device plugin, layout, NodeOverlay, NodePool and Plan agree.

Nothing here reads a count from the Plan but to compare it. Instance types' GPUs are the catalog's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.catalog.models import CatalogError, mig_resource
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.plan.model import POOL_LABEL
from gpupool.environment.sharing import sharing_modes
from gpupool.policy.rules.bundle import BundleObject, ObjectSet
from gpupool.policy.rules.fields import at, count, items, labels, mapping, text
from gpupool.policy.rules.operator_configs import MIG_LABEL, PLUGIN_LABEL, mig_layouts, plugin_settings
from gpupool.policy.rules.rule import RuleViolation
from vapcheck import read_selector

_GPU = "nvidia.com/gpu"
_TYPE = "node.kubernetes.io/instance-type"
_NODE_POOL = "karpenter.sh/nodepool"

Counts = Mapping[str, int]
"""Extended resource -> count."""


@dataclass(frozen=True, slots=True, eq=False)
class _NodePoolSlices:
    """A NodePool and the slices that its nodes will advertise."""

    manifest: BundleObject
    labels: Mapping[str, str]
    """Labels of its nodes."""
    instance_types: tuple[str, ...]
    """Instance types that it may start; empty where its requirements name none."""
    per_gpu: Counts | None
    """Slices of one GPU; None where the configurations do not say."""

    @property
    def pool(self) -> str:
        """Name of the environment's pool that it belongs to."""
        return self.labels.get(POOL_LABEL, "")

    def advertised(self, instance_type: str) -> Counts | None:
        """What one node of that type has; None where that can't be known."""
        gpus = _gpus_of(instance_type)
        if gpus is None or self.per_gpu is None:
            return None
        return {name: number * gpus for name, number in self.per_gpu.items()}


@functools.cache
def _gpus_of(instance_type: str) -> int | None:
    """GPUs of an instance type, None for one that the catalog doesn't know."""
    model = catalog_here().owner(instance_type)
    try:
        return model.instance_type(instance_type).gpus if model else None
    except CatalogError:
        return None


def _pool_node_pools(bundle: ObjectSet) -> list[_NodePoolSlices]:
    """The NodePools that have a pool's label."""
    settings, layouts = plugin_settings(bundle), mig_layouts(bundle)
    result = []
    for item in bundle.of_kind("NodePool"):
        node_labels = labels(item.body, "spec", "template", "metadata", "labels")
        if POOL_LABEL in node_labels:
            per_gpu = _per_gpu(node_labels, settings, layouts)
            result.append(_NodePoolSlices(item, node_labels, _instance_types(item), per_gpu))
    return result


def _instance_types(node_pool: BundleObject) -> tuple[str, ...]:
    for row in items(node_pool.body, "spec", "template", "spec", "requirements"):
        if text(row, "key") == _TYPE and text(row, "operator") == "In":
            return tuple(value for value in items(row, "values") if isinstance(value, str))
    return ()


def _per_gpu(
    node_labels: Mapping[str, str],
    settings: Mapping[str, Mapping[str, Any]],
    layouts: Mapping[str, list[Any]],
) -> Counts | None:
    """Slices of one GPU, from the device-plugin configuration that the labels choose (k8s-device-plugin
    v0.20.0) and the layout that the GPU is partitioned by (mig-parted v0.15.0)."""
    config = settings.get(node_labels.get(PLUGIN_LABEL, ""))
    devices = _mig_devices(layouts.get(node_labels.get(MIG_LABEL, ""), []))
    if config is None or devices is None:
        return None
    strategy = text(config, "flags", "migStrategy")
    if devices:
        if strategy == "mixed":
            return {mig_resource(profile): number for profile, number in devices.items()}
        # With `single` every instance is called nvidia.com/gpu; with `none` a partitioned GPU offers nothing.
        return {_GPU: sum(devices.values()) if strategy == "single" else 0}
    for plugin_key in filter(None, (mode.plugin_key for mode in sharing_modes)):
        for row in items(config, "sharing", plugin_key, "resources"):
            replicas = at(row, "replicas")
            if text(row, "name") == _GPU and isinstance(replicas, int):
                renamed = at(config, "sharing", plugin_key, "renameByDefault") is True
                return {f"{_GPU}.shared" if renamed else _GPU: replicas}
    return {_GPU: 1}


def _mig_devices(entries: list[Any]) -> Mapping[str, int] | None:
    """Profile -> count per GPU, empty where nothing is partitioned; None for a layout that differs from GPU
    to GPU or from model to model, which has no single number."""
    enabled = [entry for entry in entries if at(entry, "mig-enabled") is True]
    if not enabled:
        return {}
    if len(enabled) > 1 or at(enabled[0], "devices") != "all" or at(enabled[0], "device-filter"):
        return None
    devices = at(enabled[0], "mig-devices")
    pairs = devices.items() if isinstance(devices, Mapping) else ()
    return {str(name): number for name, number in pairs if isinstance(number, int)}


class _Overlays:
    """NodeOverlays by the NodePools that they name, since an environment has as many of the one as of the
    other."""

    def __init__(self, bundle: ObjectSet) -> None:
        self._named: dict[str, list[BundleObject]] = {}
        self._any: list[BundleObject] = []
        for overlay in bundle.of_kind("NodeOverlay"):
            rows = items(overlay.body, "spec", "requirements")
            named = [row for row in rows if text(row, "key") == _NODE_POOL and text(row, "operator") == "In"]
            for name in items(named[0], "values") if named else ():
                self._named.setdefault(str(name), []).append(overlay)
            if not named:
                self._any.append(overlay)

    def for_pool(self, name: str) -> list[BundleObject]:
        """Those that may be about the NodePool of that name."""
        return self._named.get(name, []) + self._any


def agree(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """What nodes will advertise, against what Karpenter's objects say and what the Plan counts on."""
    overlays = _Overlays(bundle)
    for node_pool in _pool_node_pools(bundle):
        for instance_type in node_pool.instance_types:
            expected = node_pool.advertised(instance_type)
            if expected is not None:
                yield from _overlaid(
                    node_pool, instance_type, expected, overlays.for_pool(node_pool.manifest.name)
                )
                yield from _as_planned(bundle, node_pool, instance_type, expected)
        yield from _limits(node_pool)


def _overlaid(
    node_pool: _NodePoolSlices, instance_type: str, expected: Counts, overlays: list[BundleObject]
) -> Iterator[RuleViolation]:
    """The capacity that Karpenter believes in: the instance type's own, and the heaviest overlay over it."""
    gpus = _gpus_of(instance_type)
    chosen = [(overlay, _chooses(overlay, node_pool, instance_type)) for overlay in overlays]
    if any(verdict is None for _, verdict in chosen):
        return
    fitting = [overlay for overlay, verdict in chosen if verdict]
    overlay = max(fitting, key=lambda item: count(at(item.body, "spec", "weight")) or 0, default=None)
    capacity = {_GPU: gpus} | {
        key: count(value)
        for key, value in (mapping(overlay.body, "spec", "capacity") if overlay else {}).items()
    }
    for resource in sorted({*capacity, *expected}):
        advertised, believed = expected.get(resource, 0), capacity.get(resource, 0)
        if advertised != believed and resource.startswith("nvidia.com/"):
            source = overlay or node_pool.manifest
            said = f"{overlay.name} says" if overlay else "no NodeOverlay says so, hence"
            node = f"a {instance_type} of {node_pool.manifest.name}"
            message = f"{node} has {advertised} x {resource} ({gpus} GPUs); to Karpenter {said} {believed}"
            path = f"spec.capacity[{resource}]" if overlay else ""
            values = {"advertised": advertised, "overlay": believed, "gpus": gpus}
            yield RuleViolation(message, source, path, values)


def _chooses(overlay: BundleObject, node_pool: _NodePoolSlices, instance_type: str) -> bool | None:
    """Whether an overlay is about that type in that NodePool; None where it asks for the unknown."""
    rows = items(overlay.body, "spec", "requirements")
    known = {**node_pool.labels, _NODE_POOL: node_pool.manifest.name, _TYPE: instance_type}
    sure = [row for row in rows if text(row, "key") in known]
    selector, problems = read_selector({"matchExpressions": sure})
    if problems:
        return None
    if not selector.matches(known):
        return False
    return True if len(sure) == len(rows) else None


def _as_planned(
    bundle: ObjectSet, node_pool: _NodePoolSlices, instance_type: str, expected: Counts
) -> Iterator[RuleViolation]:
    for pool in bundle.plan.pools if bundle.plan else ():
        for machine in pool.machines if pool.name == node_pool.pool else ():
            if machine.instance_type == instance_type and dict(machine.slices) != dict(expected):
                planned = f"the plan counts on {_list(machine.slices)}"
                message = f"a {instance_type} will have {_list(expected)}; {planned}"
                values = {"advertised": dict(expected), "planned": dict(machine.slices)}
                yield RuleViolation(
                    message, node_pool.manifest, f"spec.template.metadata.labels[{PLUGIN_LABEL}]", values
                )


def _list(counts: Counts) -> str:
    return ", ".join(f"{number} x {name}" for name, number in counts.items())


def _limits(node_pool: _NodePoolSlices) -> Iterator[RuleViolation]:
    """A NodePool's limit of slices is what its limit of nodes amounts to on its largest machine: a lower one
    keeps nodes from starting, a higher one means nothing."""
    limits = mapping(node_pool.manifest.body, "spec", "limits")
    nodes = count(limits.get("nodes"))
    machines = [node_pool.advertised(instance_type) for instance_type in node_pool.instance_types]
    if nodes is None or not machines:
        return
    sure = [machine for machine in machines if machine is not None]
    if len(sure) < len(machines):
        return
    for resource in sorted({name for machine in sure for name in machine}):
        expected = nodes * max(machine.get(resource, 0) for machine in sure)
        limit = count(limits.get(resource))
        if limit is not None and limit != expected:
            message = f"limited to {limit} x {resource}; its {nodes} nodes have {expected}"
            values = {"limit": limit, "nodes": nodes, "slices": expected}
            yield RuleViolation(message, node_pool.manifest, f"spec.limits[{resource}]", values)
