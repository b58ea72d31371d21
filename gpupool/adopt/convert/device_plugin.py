"""Hand-written configurations of the NVIDIA device plugin -> ways to share a GPU.

Schema: k8s-device-plugin v0.20.0, api/config/v1. The plugin silently accepts settings that do nothing:
misspelt keys, `devices` and `rename` of a resource, a second sharing method; here each of them is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.environment.sharing import GPU_RESOURCE
from gpupool.environment.sharing.replicated import MIN_REPLICAS, too_few_replicas

_METHODS = {"mps": "mps", "timeSlicing": "time-slicing"}
"""In the order in which the plugin prefers them: with both, mps wins."""
_STRATEGY = ("flags", "migStrategy")
_FLAGS = {
    *("migStrategy", "failOnInitError", "mpsRoot", "nvidiaDriverRoot", "nvidiaDevRoot", "gdrcopyEnabled"),
    *("gdsEnabled", "mofedEnabled", "useNodeFeatureAPI", "deviceDiscoveryStrategy", "plugin", "gfd"),
}
"""What the section `flags` has (api/config/v1/flags.go)."""
_SHARING = ("renameByDefault", "failRequestsGreaterThanOne", "resources")
"""What a sharing method has."""
NOT_MIXED = (
    "gpupool uses the mixed strategy on partitioned nodes",
    "let pods request nvidia.com/mig-<profile> instead of nvidia.com/gpu",
)
"""Why another MIG strategy is left, and what to do."""
RENAMED = ".shared"
"""What the plugin adds to a shared resource with renameByDefault."""
RENAME = {"renameByDefault": True}
"""In `sharing` of a pool whose slices are called nvidia.com/gpu.shared."""


@dataclass(frozen=True, slots=True)
class NamedPluginConfig:
    """One configuration, as a node's label nvidia.com/device-plugin.config names it."""

    name: str
    """The key in its ConfigMap; of a file its name."""
    config_map: str
    """Name of the ConfigMap, empty where it is a file or in Helm values."""
    part: Part
    sharing: dict[str, Any]
    """As `sharing` of a pool."""

    @property
    def described(self) -> str:
        """What and where it is, for a comment."""
        where = f" of ConfigMap {self.config_map}" if self.config_map else ""
        return f"device-plugin configuration {self.name}{where}"


def read(part: Part, name: str, config_map: str) -> NamedPluginConfig:
    """The configuration at `part`."""
    part.mark_derived_if("v1", "version")
    _strategy(part)
    for key, flag in part.at("flags").items():
        if key in _SHARING:
            remediation = f"move it to sharing.timeSlicing.{key}, or remove it"
            flag.wrong("the plugin ignores it there", remediation)
        elif key not in _FLAGS:
            flag.wrong("the plugin ignores it: unknown flag", "remove it")
    method, section = _method(part)
    sharing: dict[str, Any] = {"mode": "exclusive"}
    if section and method:
        replicas = _replicas(section)
        _behaviour(section)
        renamed = _renamed(section)
        if replicas is not None:
            sharing = {"mode": method, "replicas": replicas} | (RENAME if renamed else {})
    return NamedPluginConfig(name, config_map, part, sharing)


def _strategy(part: Part) -> None:
    strategy = part.at(*_STRATEGY)
    if strategy.value in ("none", "mixed"):
        strategy.derived()
    elif strategy.value == "single":
        strategy.left(*NOT_MIXED)
    else:
        strategy.wrong("not a MIG strategy; the plugin fails at startup", "write none, single or mixed")


def _method(part: Part) -> tuple[str | None, Part | None]:
    found = [(mode, part.at("sharing", key)) for key, mode in _METHODS.items()]
    sections = [(mode, section) for mode, section in found if section]
    for mode, section in sections[1:]:
        section.wrong(f"the plugin ignores {mode} if {sections[0][0]} is set", "remove one of them")
    return sections[0] if sections else (None, None)


def _replicas(section: Part) -> int | None:
    """Replicas per GPU; None where the section shares no whole GPU."""
    result: int | None = None
    resources = section.at("resources")
    for entry in resources.each():
        name = entry.at("name")
        if not isinstance(name.value, str):
            entry.wrong("a resource without a name", f"name it: {GPU_RESOURCE}")
        elif name.value.startswith("nvidia.com/mig-"):
            entry.left("gpupool does not share MIG instances", "use a layout with more and smaller instances")
        elif name.value not in (GPU_RESOURCE, "gpu"):
            entry.wrong("not a resource that the plugin can share", f"write {GPU_RESOURCE}")
        elif result is not None:
            entry.wrong(f"{GPU_RESOURCE} is listed twice", "remove one of them")
        else:
            name.used()
            result = _count(entry)
    if result is None and not resources:
        section.note(
            "wrong", "the section lists no resources, so the plugin rejects it", f"list {GPU_RESOURCE}"
        )
    return result if result is not None and result >= MIN_REPLICAS else None


def _count(entry: Part) -> int | None:
    replicas = entry.whole("replicas")
    part = entry.at("replicas")
    if not part:
        entry.note("wrong", "replicas are missing, so the plugin rejects it", "write replicas: 2 or more")
    elif replicas is not None and replicas < MIN_REPLICAS:
        problem = too_few_replicas(replicas)[0]
        part.wrong(f"{problem.message}; the pool gets whole GPUs", problem.remediation)
    if not entry.mark_derived_if("all", "devices"):
        why = "the plugin shares every GPU of a node and ignores the selection"
        entry.at("devices").wrong(why, "remove it")
    entry.at("rename").wrong("the plugin ignores custom names", "let pods request nvidia.com/gpu")
    return replicas


def _renamed(section: Part) -> bool:
    rename = section.at("renameByDefault")
    if rename.value is True:
        rename.used()
        return True
    rename.mark_derived_if(False)
    return False


def _behaviour(section: Part) -> None:
    strict = section.at("failRequestsGreaterThanOne")
    if strict and not strict.mark_derived_if(True):
        strict.left(
            "gpupool refuses pods that request more than one slice, which gives them no benefit",
            "let each container request 1",
        )
    elif not strict and section.loc[-1] == "timeSlicing":
        section.note(
            "assumed",
            "by default a pod may request several slices; gpupool refuses this, since it gives no benefit",
            "let each container request 1",
            "failRequestsGreaterThanOne",
        )
