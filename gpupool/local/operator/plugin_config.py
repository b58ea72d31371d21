"""One entry of the device plugin's ConfigMap, read strictly (k8s-device-plugin v0.20.0, api/config/v1)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from gpupool.local.operator import strict_yaml
from gpupool.local.operator.strict_yaml import ConfigError

STRATEGIES = ("none", "single", "mixed")
_TOP = {"version", "flags", "resources", "sharing", "imex"}
_FLAGS = {
    "migStrategy",
    "failOnInitError",
    "mpsRoot",
    "nvidiaDriverRoot",
    "nvidiaDevRoot",
    "gdrcopyEnabled",
    "gdsEnabled",
    "mofedEnabled",
    "useNodeFeatureAPI",
    "deviceDiscoveryStrategy",
    "plugin",
    "gfd",
}
_SHARING = {"timeSlicing", "mps"}
_METHOD = {"renameByDefault", "failRequestsGreaterThanOne", "resources"}
_RESOURCE = {"name", "replicas"}
# `devices` and `rename` are known upstream but ignored with a warning there, so they are never useful.
_SHAREABLE = re.compile(r"nvidia\.com/(gpu|mig-[a-z0-9.-]+)")


@dataclass(frozen=True)
class PluginConfig:
    """What the plugin does with the GPUs of a node."""

    mig_strategy: str | None = None
    """None where the file leaves it to the operator."""
    sharing: str = "none"
    """none, time-slicing or mps."""
    replicas: dict[str, int] = field(default_factory=dict)
    """Clients per device, by the resource that is shared."""
    rename: bool = False


def parse(text: str) -> PluginConfig:
    """The meaning of one configuration. Raises ConfigError where upstream would fail, or lose something."""
    value = strict_yaml.parse(text)
    strict_yaml.only(value, _TOP, "the file")
    strict_yaml.version(value)
    flags = strict_yaml.mapping(value.get("flags") or {}, "flags")
    strict_yaml.only(flags, _FLAGS, "flags")
    strategy = flags.get("migStrategy")
    if strategy is not None and strategy not in STRATEGIES:
        raise ConfigError(f"flags.migStrategy: {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    sharing = strict_yaml.mapping(value.get("sharing") or {}, "sharing")
    strict_yaml.only(sharing, _SHARING, "sharing")
    if len(sharing) > 1:
        raise ConfigError("sharing: timeSlicing and mps exclude each other")
    if not sharing:
        return PluginConfig(strategy)
    (method, settings), *_ = sharing.items()
    return _shared(method, strict_yaml.mapping(settings, f"sharing.{method}"), strategy)


def _shared(method: str, settings: dict[str, Any], strategy: str | None) -> PluginConfig:
    place = f"sharing.{method}"
    strict_yaml.only(settings, _METHOD, place)
    for key in ("renameByDefault", "failRequestsGreaterThanOne"):
        if not isinstance(settings.get(key, False), bool):
            raise ConfigError(f"{place}.{key}: {settings[key]!r}; expected true or false")
    resources = settings.get("resources")
    if not isinstance(resources, list) or not resources:
        raise ConfigError(f"{place}.resources: expected at least one resource")
    replicas: dict[str, int] = {}
    for index, entry in enumerate(resources):
        name, count = _resource(
            strict_yaml.mapping(entry, f"{place}.resources[{index}]"), f"{place}.resources[{index}]"
        )
        if name in replicas:
            raise ConfigError(f"{place}.resources[{index}].name: {name} appears twice")
        if method == "mps" and name != "nvidia.com/gpu":
            raise ConfigError(
                f"{place}.resources[{index}].name: MPS shares whole nvidia.com/gpu only, not {name}"
            )
        replicas[name] = count
    kind = "time-slicing" if method == "timeSlicing" else "mps"
    return PluginConfig(strategy, kind, replicas, settings.get("renameByDefault", False))


def _resource(entry: dict[str, Any], place: str) -> tuple[str, int]:
    strict_yaml.only(entry, _RESOURCE, place)
    name, count = entry.get("name"), entry.get("replicas")
    if not isinstance(name, str) or not _SHAREABLE.fullmatch(name):
        raise ConfigError(f"{place}.name: {name!r}; expected nvidia.com/gpu or nvidia.com/mig-<profile>")
    if isinstance(count, bool) or not isinstance(count, int) or count < 2:
        raise ConfigError(f"{place}.replicas: {count!r}; expected a number of 2 or more")
    return name, count
