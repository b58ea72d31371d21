"""How the GPUs of a pool are shared: the configurations that its nodes' labels choose.

Follows the device plugin's and the MIG manager's own order: the node's label, then the operator's default,
then nothing. Which configurations there are was read before; which of them no pool uses is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpupool.adopt.convert import mig_parted
from gpupool.adopt.convert.account import Part
from gpupool.adopt.convert.bottlerocket import UserDataSharing
from gpupool.adopt.convert.device_plugin import NamedPluginConfig
from gpupool.adopt.convert.mig_parted import MigConfig
from gpupool.adopt.convert.node_labels import MIG_LABEL, PLUGIN_LABEL
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.sharing import GPU_RESOURCE, Sharing, sharing_modes


@dataclass(slots=True)
class Sharings:
    """Every configuration that was found, and those that the operator is pointed at."""

    plugins: Sequence[NamedPluginConfig]
    layouts: Sequence[MigConfig]
    plugin_map: str = ""
    """ConfigMap that the operator reads device-plugin configurations from; empty: any."""
    mig_map: str = ""
    default: NamedPluginConfig | None = None
    """Configuration of nodes without the label."""
    conflict: str = ""
    """Why the configuration of nodes without the label is unknown; empty where it is known."""
    by_class: dict[str, UserDataSharing] = field(default_factory=dict)
    """What node classes say by themselves, by their name."""
    used: set[int] = field(default_factory=set)
    """`id` of every configuration that a pool uses."""

    def choose(self, name: str, where: str) -> None:
        """Use the configuration called `name` for nodes without the label; `where` is the source of that
        setting."""
        found = _named(self.plugins, name, self.plugin_map)
        if found is not None and self.default is not None and found.sharing != self.default.sharing:
            self.conflict = (
                f"{where} sets {spelled(found.sharing)} for all nodes, but another file "
                f"{spelled(self.default.sharing)}"
            )
        self.default = found

    def of(
        self,
        labels: Mapping[str, Part],
        gpu: GpuModel,
        gpus: Sequence[int],
        node_class: str = "",
        unchosen: str = "whole GPUs were written",
    ) -> tuple[dict[str, Any], list[str], str]:
        """`sharing` of a pool whose nodes have `labels`, `gpu` and so many GPUs; where it comes from; and why
        there can be none (then the first is not to be used). Two sources that disagree are such a reason.
        `unchosen`: what is written where the chosen configuration is not there; empty: nothing."""
        sharing, origin, problem = self._plugin(labels, gpu, unchosen)
        own = self.by_class.get(node_class)
        if own is not None and not problem:
            if origin and sharing != own.sharing:
                both = f"{own.origin} says {spelled(own.sharing)}, but {origin[0]} {spelled(sharing)}"
                return {}, [], f"{both}; correct one of them"
            sharing, origin = own.sharing, [*origin, own.origin]
            problem = problem_of(sharing, gpu)
        if MIG_LABEL in labels:
            partitioned, where, wrong = self._mig(labels[MIG_LABEL], gpu, gpus)
            if wrong:
                return {}, [], wrong
            if partitioned["mode"] == "mig":
                return partitioned, [*where, *origin], ""
        return sharing, origin, problem

    def _plugin(
        self, labels: Mapping[str, Part], gpu: GpuModel, unchosen: str
    ) -> tuple[dict[str, Any], list[str], str]:
        label = labels.get(PLUGIN_LABEL)
        if label is None and self.conflict:
            return {}, [], f"{self.conflict}; correct one of them"
        config = _named(self.plugins, label.value, self.plugin_map) if label else self.default
        if label and config:
            label.used()
        elif label and label.value:
            problem = f"the input has no device-plugin configuration {label.value!r}"
            if not unchosen:
                return {}, [], f"{problem}; also convert its ConfigMap"
            label.wrong(f"{problem}; {unchosen}", "also convert its ConfigMap")
        if config is None:
            return {"mode": "exclusive"}, [], ""
        self.used.add(id(config))
        return config.sharing, [config.described], problem_of(config.sharing, gpu)

    def _mig(self, label: Part, gpu: GpuModel, gpus: Sequence[int]) -> tuple[dict[str, Any], list[str], str]:
        name = str(label.value)
        config = _named(self.layouts, name, self.mig_map)
        if config is not None:
            label.used()
            self.used.add(id(config))
            sharing, problem = mig_parted.layout(config, gpu, gpus)
            return sharing, [config.described], problem
        known = mig_parted.known_layout(name, gpu)
        if known is None:
            label.wrong("the input has no such layout", "also convert its ConfigMap")
            why = f"there is no MIG layout {name!r} for the {gpu.title}; also convert its ConfigMap"
            return {}, [], why
        label.used()
        return known, [f"{name}, a layout of the GPU Operator"], ""


def _named(configs: Sequence[Any], name: str, config_map: str) -> Any:
    """The configuration called `name`: in the ConfigMap that is named, else in any."""
    found = [config for config in configs if config.name == name]
    named = [config for config in found if config_map and config.config_map == config_map]
    return (named or found or [None])[0]


def spelled(sharing: Mapping[str, Any]) -> str:
    """`sharing` of a pool, for people."""
    if "layout" in sharing:
        return ", ".join(f"{count} x {name}" for name, count in sharing["layout"].items())
    return f"{sharing['mode']} with {sharing['replicas']} replicas" if "replicas" in sharing else "whole GPUs"


def leave_out(part: Part, problem: str) -> None:
    """List what no pool can be made of: as wrong, or as left where the file has no place for it."""
    why = f"its pool is left out: {problem}"
    if problem == mig_parted.PER_GPU:
        part.left(why, mig_parted.KEEP)
    else:
        part.wrong(why, "correct it and convert again")


def problem_of(sharing: Mapping[str, Any], gpu: GpuModel) -> str:
    """Why `gpu` can't be shared like that, and what to do; empty where it can."""
    problems = mode_of(sharing).problems(gpu)
    return f"{problems[0].message}; {problems[0].remediation}" if problems else ""


def mode_of(given: Mapping[str, Any]) -> Sharing:
    """`sharing` of a pool as the value that does the arithmetic."""
    (mode,) = (mode for mode in sharing_modes if mode.mode == given["mode"])
    renamed = given.get("renameByDefault", False)
    return mode.made_of(given.get("replicas", 1), given.get("layout", {}), renamed)


def slices(sharing: Mapping[str, Any], gpu: GpuModel, gpus: int) -> dict[str, int]:
    """Extended resource -> count on a node with so many GPUs; whole GPUs as 1 each."""
    per_gpu = mode_of(sharing).slices_per_gpu(gpu)
    return {name: count * gpus for name, count in per_gpu.items()} or {GPU_RESOURCE: gpus}
