"""The operator's configurations while old and new shapes live side by side on the nodes of one pool.

Pure but for `read` and `point`. The operator notices a new name of a ConfigMap and not a new content, and
every change of the name restarts the operand on all nodes (gpu-operator v26.7.0). So what a node gets must
not depend on when its operand was restarted: at every moment each node's labels mean the same in the old map
and in the new one.

    layouts     a node asks for its layout by name, so one map with the layouts of both shapes will do
    replicas    stand under the pool's name, before and after. Nodes are first held under a key of their own
                with the old settings (`held`), then the pool's key gets the new settings (`both`), and each
                node comes over by getting its usual label back
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from gpupool.environment.plan import mig_strategy
from gpupool.environment.plan.helm_values import merged
from gpupool.environment.plan.model import ENVIRONMENT_LABEL, MANAGED_BY
from gpupool.environment.spec.environment import CLUSTER_POLICY
from gpupool.findings import GpupoolError
from gpupool.generators.emit import yaml_text
from gpupool.generators.manifest import Bundle
from gpupool.generators.metadata import content_name
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import NO_LAYOUT, cluster_policy, config_name
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.repartition_mark import MIG_PREFIX, PLUGIN_PREFIX, maps_of
from gpupool.live.objects.resource_values import properties
from gpupool.live.repartition.journal import MANAGER

TEMPORARY = "gpupool.dev/temporary"
"""Label of ConfigMaps that exist only while a repartition is under way."""

_MIG_KEY = "config.yaml"
_OFF = {NO_LAYOUT: [{"devices": "all", "mig-enabled": False}]}


@dataclass(frozen=True, slots=True)
class Configs:
    """The configurations of device plugin and MIG manager."""

    plugin: Mapping[str, str]
    """Key -> settings, as text."""
    layouts: Mapping[str, Any] | None
    """Name -> layout; None where no layouts are given."""

    def held(self, pool: str) -> Configs:
        """The same, and the pool's settings under the key of nodes that are held back as well."""
        return Configs({**self.plugin, held_key(pool): self.plugin[pool]}, self.layouts)

    def both(self, new: Configs, pool: str, hold: bool) -> Configs:
        """Old and new side by side."""
        held = {held_key(pool): self.plugin[pool]} if hold else {}
        layouts = {**_OFF, **(self.layouts or {}), **(new.layouts or {})}
        wanted = layouts if self.layouts or new.layouts else None
        return Configs({**self.plugin, pool: new.plugin[pool], **held}, wanted)

    def after(self, new: Configs, pool: str, used: Collection[str]) -> Configs:
        """Only `pool` changed: other pools keep what they have, though the file may say otherwise by now.

        `used` are the layouts that other pools' nodes have.
        """
        kept = {name: entry for name, entry in (self.layouts or {}).items() if name in used}
        layouts = {**kept, **(new.layouts or {})} if kept or new.layouts else None
        if layouts is not None:
            layouts = {**_OFF, **layouts}
        return Configs({**self.plugin, pool: new.plugin[pool]}, layouts)

    def plugin_name(self) -> str:
        return content_name(PLUGIN_PREFIX, dict(self.plugin))

    def mig_name(self) -> str | None:
        if self.layouts is None:
            return None
        return content_name(MIG_PREFIX, {"version": "v1", "mig-configs": dict(self.layouts)})


def held_key(pool: str) -> str:
    """The key of nodes that keep the old settings. No pool's name has a dot, so it is no other pool's."""
    return f"{pool}.previous"


def of_bundle(bundle: Bundle) -> Configs:
    """What the file asks for."""
    plugin: Mapping[str, str] = {}
    layouts = None
    for manifest in maps_of(bundle):
        if manifest.name.startswith(PLUGIN_PREFIX):
            plugin = manifest.body["data"]
        elif manifest.name.startswith(MIG_PREFIX):
            layouts = _layouts(manifest.body["data"])
    return Configs(plugin, layouts)


def read(api: KubeApi, bundle: Bundle) -> tuple[Configs, dict[str, Any]]:
    """What the operands are given now, and the names and data of the maps for the journal.

    Raises GpupoolError where the operator is not configured by gpupool.
    """
    policy = cluster_policy(api)
    plugin = _map(api, bundle, policy, "devicePlugin")
    if plugin is None:
        raise GpupoolError(
            "the GPU Operator's ClusterPolicy does not name gpupool's configuration yet; apply the "
            "environment first: gpupool up"
        )
    mig = _map(api, bundle, policy, "migManager")
    return Configs(plugin["data"], _layouts(mig["data"]) if mig else None), {"plugin": plugin, "mig": mig}


def _map(
    api: KubeApi, bundle: Bundle, policy: Mapping[str, Any] | None, operand: str
) -> dict[str, Any] | None:
    name = config_name(policy, operand)
    ours = name.startswith("gpupool-")
    live = api.get("v1", "ConfigMap", name, bundle.operator_namespace) if ours else None
    return {"name": name, "data": live.get("data") or {}} if live else None


def _layouts(data: Mapping[str, str]) -> dict[str, Any]:
    value = yaml.safe_load(data.get(_MIG_KEY, "")) or {}
    return dict(value.get("mig-configs") or {})


def of_new(after: Mapping[str, Any], pool: str) -> Configs:
    """What the labels of a journal's new shape mean, and nothing else."""
    return Configs({pool: after["plugin"]}, after["layouts"])


def of_journal(before: Mapping[str, Any]) -> Configs:
    """What the operands were given when the change began."""
    mig = before["mig"]
    return Configs(before["plugin"]["data"], _layouts(mig["data"]) if mig else None)


def point(api: KubeApi, bundle: Bundle, configs: Configs, temporary: bool) -> None:
    """Put the maps there, then let the operator's ClusterPolicy name them."""
    known = {manifest.name: manifest for manifest in bundle if manifest.kind == "ConfigMap"}
    mig_name = configs.mig_name()
    texts = {configs.plugin_name(): dict(configs.plugin)}
    if mig_name is not None:
        layouts = {"version": "v1", "mig-configs": dict(configs.layouts or {})}
        texts[mig_name] = {_MIG_KEY: yaml_text(layouts)}
    for name, data in texts.items():
        if api.get("v1", "ConfigMap", name, bundle.operator_namespace) is not None:
            continue  # its name says what is in it
        if name in known:
            api.apply(properties(known[name]), FIELD_MANAGER, force=True)
        else:
            api.apply(_body(bundle, name, data, temporary), MANAGER, force=True)
    body, manager = _policy(bundle)
    spec = {key: dict(value) if isinstance(value, dict) else value for key, value in body["spec"].items()}
    names = {"devicePlugin": configs.plugin_name(), "migManager": mig_name}
    for operand, wanted in names.items():
        config = (spec.get(operand) or {}).get("config")
        if wanted is not None or config is not None:
            spec[operand] = {**(spec.get(operand) or {}), "config": {**(config or {}), "name": wanted or ""}}
    api.apply({**body, "spec": spec}, manager, force=True)


def _policy(bundle: Bundle) -> tuple[dict[str, Any], str]:
    """The ClusterPolicy as `up` applies it; where Helm makes it, the few fields that are ours to change, and
    a strategy that is right for nodes of both shapes."""
    for manifest in bundle:
        if manifest.kind == "ClusterPolicy":
            return properties(manifest), FIELD_MANAGER
    spec = merged(mig_strategy.PER_NODE, {"devicePlugin": {"config": {}}, "migManager": {"config": {}}})
    body = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": CLUSTER_POLICY}}
    return {**body, "spec": spec}, MANAGER


def _body(bundle: Bundle, name: str, data: Mapping[str, str], temporary: bool) -> dict[str, Any]:
    labels = {MANAGED_BY: "gpupool", ENVIRONMENT_LABEL: bundle.environment}
    labels |= {TEMPORARY: "true"} if temporary else {}
    meta = {"name": name, "namespace": bundle.operator_namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


def clear(api: KubeApi, bundle: Bundle, keep: Collection[str | None]) -> None:
    """Delete the maps that were there for the change only."""
    for live in api.list("v1", "ConfigMap", bundle.operator_namespace, f"{TEMPORARY}=true"):
        name = live["metadata"]["name"]
        if name not in keep:
            api.delete("v1", "ConfigMap", name, bundle.operator_namespace)


def in_line(configs: Configs, wanted: Configs) -> bool:
    """Whether the operands are given exactly what the file asks for, so that `up` has nothing to change."""
    return (configs.plugin_name(), configs.mig_name()) == (wanted.plugin_name(), wanted.mig_name())
