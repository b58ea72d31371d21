"""Helm values of the NVIDIA device plugin's own chart -> ways to share a GPU; and charts beside it, by name.

Chart nvidia-device-plugin v0.20.0. Its configurations are texts in `config.map`, or in the ConfigMap
`config.name`. gpupool does not install this chart: the GPU Operator brings the same plugin. What the texts
say is for `gpupool.adopt.convert.device_plugin`; values of the GPU Operator are
`gpupool.adopt.convert.operator_values`.
"""

from __future__ import annotations

from typing import Any

from gpupool.adopt.convert import node_labels
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.device_plugin import NOT_MIXED
from gpupool.adopt.convert.draft import Draft
from gpupool.adopt.convert.sharing import Sharings
from gpupool.environment.spec.yaml_source import Loc

SECTION = "nvidia-device-plugin"
"""The chart's name, under which a chart that depends on it has the values."""
_CONFIG = {"map", "name", "default", "fallbackStrategies"}
_ITS_OWN = {
    *("migStrategy", "deviceListStrategy", "deviceIDStrategy", "deviceDiscoveryStrategy", "failOnInitError"),
    *("compatWithCPUManager", "legacyDaemonsetAPI", "nvidiaDriverRoot", "mps"),
}
"""Top-level values that the GPU Operator's chart (v26.7.0) does not have."""
_OTHERS: dict[str, set[str]] = {
    "gpu-feature-discovery": {"sleepInterval", "noTimestamp"},
    "node-feature-discovery": {"master", "topologyUpdater", "gc", "enableNodeFeatureApi"},
}
"""Charts that the operator brings too, and top-level values that only they have."""
_FALLBACKS = ("named", "single")
_SWITCHES = (("devicePlugin", "enabled"), ("gfd", "enabled"), ("nfd", "enabled"))
_CHART_TOLERATIONS = (
    {"key": "CriticalAddonsOnly", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
)
_CHART = "gpupool does not install the device plugin's chart: the plugin is part of the GPU Operator"
_ADVICE = "uninstall that release when the operator takes over"


def values_loc(data: Any) -> Loc | None:
    """Where in a document without a kind the values of the device plugin's chart are; None if it has none. An
    empty path means the whole document, so compare with None."""
    if not isinstance(data, dict) or "kind" in data:
        return None
    if isinstance(data.get(SECTION), dict):
        return (SECTION,)
    config = data.get("config")
    has_plugin_config = isinstance(config, dict) and bool(_CONFIG & config.keys())
    return () if has_plugin_config or _ITS_OWN & data.keys() else None


def other_chart(data: Any) -> str | None:
    """The chart, one that the operator brings, whose values these are: by its section or its own values."""
    keys = data.keys() if isinstance(data, dict) and "kind" not in data else set()
    for name, its_own in _OTHERS.items():
        if name in keys or its_own & keys:
            return name
    return None


def choose_config(part: Part, sharings: Sharings) -> None:
    """Tell `sharings` which configuration the plugin uses on nodes that name none: `config.default`, else, by
    the chart's fallbacks, one that is called default, or the only one there is."""
    name = part.at("config", "name")
    if isinstance(name.value, str) and name.value:
        sharings.plugin_map = name.value
        if any(config.config_map == name.value for config in sharings.plugins):
            name.used()
        else:
            name.left("the input has no ConfigMap of that name", "convert it too")
    names = [
        config.name
        for config in sharings.plugins
        if config.config_map == sharings.plugin_map
        and (config.config_map or config.part.document.within is part.document)
    ]
    where = f"the device plugin's chart ({part.document.file})"
    default = part.at("config", "default")
    if default.value:
        if default.value in names:
            default.used()
            sharings.choose(str(default.value), where)
        else:
            default.wrong("unknown device-plugin configuration", "use one of config.map")
        return
    given = part.at("config", "fallbackStrategies")
    strategies = given.value if isinstance(given.value, list) else list(_FALLBACKS)
    given.used()
    if "named" in strategies and "default" in names:
        sharings.choose("default", where)
    elif "single" in strategies and len(names) == 1:
        sharings.choose(names[0], where)


def account_for(part: Part, draft: Draft) -> None:
    """Record what happens to every value of the chart; the pools of `draft` are complete."""
    part.note("assumed", f"{_CHART}, which draws its configuration from the pools", _ADVICE)
    for path in _SWITCHES:
        if not part.mark_derived_if(True, *path):
            part.at(*path).left("gpupool needs it enabled", "remove it")
    strategy = part.at("migStrategy")
    if strategy.value in ("none", "mixed"):
        strategy.derived()
    else:
        strategy.left(*NOT_MIXED)
    node_labels.tolerations(part.at("tolerations"), draft.pools, _CHART_TOLERATIONS)
    for field in ("nodeSelector", "affinity"):
        why = "the operator runs the plugin on every node with a GPU"
        part.at(field).left(why, "for a pool of existing nodes, use nodes.selector")
    for text in dict(part.at("config", "map").items()).values():
        if text.untouched():
            text.left("not a valid device-plugin configuration", "correct it")
    part.rest_left(_CHART)
