"""What the ClusterPolicy asks of the operands: the parts that the simulation acts on. Pure, no I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.local.operator import names

_DEFAULT_TOLERATIONS = ({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},)
"""Of the operator's DaemonSets when the policy names none."""
_DEFAULT_DRIVER = "595.91.07"
"""What gpu-operator v26.7.0 installs."""
# Every DaemonSet pod tolerates these by itself (Kubernetes documentation, DaemonSet, taints and tolerations).
_DAEMONSET_TAINTS = (
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/network-unavailable",
)


@dataclass(frozen=True)
class Policy:
    """One reading of the ClusterPolicy."""

    name: str
    plugin_enabled: bool
    plugin_config_map: str
    """Empty: no configuration, every GPU exclusive."""
    plugin_default: str
    plugin_generation: str
    """Changes when the plugin's DaemonSet would be rolled out again."""
    discovery_enabled: bool
    mig_enabled: bool
    mig_config_map: str
    """Empty: the configurations that the MIG manager generates from the hardware."""
    mig_default: str
    mig_generation: str
    mig_strategy: str | None
    """In the environment of feature discovery, where it beats the node's configuration."""
    plugin_strategy: str | None
    """In that of the device plugin, unless its arguments take it out again."""
    tolerations: tuple[Mapping[str, Any], ...]
    driver: str
    namespace: str = names.NAMESPACE
    """Where the operator runs, and what its operands mount is."""

    @property
    def config_maps(self) -> set[str]:
        """Names of the ConfigMaps that operands mount."""
        return {self.plugin_config_map, self.mig_config_map} - {""}


def read(thing: Mapping[str, Any]) -> Policy:
    """The policy in one ClusterPolicy object, with the defaults of the operator."""
    spec = thing.get("spec") or {}
    plugin, manager = spec.get("devicePlugin") or {}, spec.get("migManager") or {}
    daemonsets, mig, driver = spec.get("daemonsets") or {}, spec.get("mig") or {}, spec.get("driver") or {}
    plugin_config, mig_config = plugin.get("config") or {}, manager.get("config") or {}
    return Policy(
        name=thing["metadata"]["name"],
        plugin_enabled=plugin.get("enabled", True),
        plugin_config_map=plugin_config.get("name", ""),
        plugin_default=plugin_config.get("default", ""),
        plugin_generation=_digest(plugin, daemonsets, mig),
        discovery_enabled=(spec.get("gfd") or {}).get("enabled", True),
        mig_enabled=manager.get("enabled", True),
        mig_config_map=mig_config.get("name", ""),
        mig_default=mig_config.get("default", ""),
        mig_generation=_digest(manager, daemonsets),
        mig_strategy=mig.get("strategy") or None,
        plugin_strategy=None if _takes_strategy_out(plugin) else mig.get("strategy") or None,
        tolerations=tuple(daemonsets.get("tolerations") or _DEFAULT_TOLERATIONS),
        driver=driver.get("version") or _DEFAULT_DRIVER,
        namespace=(thing["metadata"].get("annotations") or {}).get(names.NAMESPACE_ANNOTATION)
        or names.NAMESPACE,
    )


def _takes_strategy_out(plugin: Mapping[str, Any]) -> bool:
    """Whether the plugin's container runs a script (`args` of the operand) that unsets the variable."""
    return any("unset MIG_STRATEGY" in str(word) for word in plugin.get("args") or ())


def _digest(*parts: Any) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def tolerated(
    taints: Sequence[Mapping[str, Any]], tolerations: Sequence[Mapping[str, Any]], running: bool
) -> Mapping[str, Any] | None:
    """The first taint that keeps the operands off a node, None when nothing does.

    Operands that are `running` already are only driven off by NoExecute.
    """
    for taint in taints:
        effect = taint.get("effect")
        if effect == "PreferNoSchedule" or (running and effect == "NoSchedule"):
            continue
        if taint.get("key") in _DAEMONSET_TAINTS:
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    """Kubernetes' rule; no key with Exists tolerates all, no effect means every effect."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("operator") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint.get("key")
    return bool(
        toleration.get("key") == taint.get("key")
        and (toleration.get("value") or "") == (taint.get("value") or "")
    )
