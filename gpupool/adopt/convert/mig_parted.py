"""Hand-written configurations of mig-parted -> MIG layouts for a GPU, and why one can't be a pool's.

Schema: mig-parted v0.15.0; names of the layouts that the GPU Operator knows without a file: gpu-operator
v26.7.0. `gpupool.environment.sharing` decides whether a layout can be placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpupool.adopt.convert.account import Part
from gpupool.environment.catalog.models import CatalogError, GpuModel
from gpupool.environment.catalog.project import catalog_here
from gpupool.environment.sharing import MigSharing
from gpupool.environment.spec.yaml_source import path_text

WHOLE: dict[str, Any] = {"mode": "exclusive"}
PER_GPU = "it applies to single GPUs of a node, by index; the file has one layout for all GPUs of a pool"
"""Why a configuration that is right has no place in the file: mig-parted takes a list of indices as `devices`
(v0.15.0, api/spec/v1)."""
KEEP = "keep its nodes unchanged, or use one layout for all their GPUs"


@dataclass(frozen=True, slots=True)
class MigConfig:
    """One named configuration: the value of a node's label nvidia.com/mig.config."""

    name: str
    config_map: str
    part: Part

    @property
    def described(self) -> str:
        """What and where it is, for a comment."""
        where = f" of ConfigMap {self.config_map}" if self.config_map else ""
        name = path_text(("mig-configs", self.name))
        return f"mig-parted configuration {name}{where} ({self.part.document.file})"

    def models(self) -> list[GpuModel]:
        """The catalog's models that this configuration can be placed on."""
        models = [model for model in catalog_here().models.values() if model.mig is not None]
        return [m for m in models if layout(self, m, None, mark=False)[0].get("mode") == "mig"]

    def disabled(self) -> bool:
        """Whether MIG is off in all of its entries: no layout, but whole GPUs."""
        entries = list(self.part.each())
        return bool(entries) and all(_settings(entry)[0] is False for entry in entries)


def read(part: Part, config_map: str) -> list[MigConfig]:
    """The configurations at `part`, each unmarked: the caller marks those that it uses."""
    part.mark_derived_if("v1", "version")
    return [MigConfig(name, config_map, inner) for name, inner in part.at("mig-configs").items()]


def layout(
    config: MigConfig, gpu: GpuModel, gpus: Sequence[int] | None, mark: bool = True
) -> tuple[dict[str, Any], str]:
    """`sharing` of a pool with that configuration, and why there can be none (then the first is empty).
    `gpus` are the sizes of its nodes, None where they are not known. `mark`: a pool is made of it."""
    entries = [entry for entry in config.part.each() if _concerns(entry, gpu)]
    problem, where = _devices(entries, gpu, gpus)
    sharing: dict[str, Any] = {}
    if not problem:
        sharing, problem, where = _entry(entries[0], gpu)
    if not mark or not entries:
        return sharing, problem
    for entry in entries:
        entry.uses("device-filter", "devices", "mig-enabled", "mig-devices")
    if problem == PER_GPU:
        config.part.left(problem, KEEP)
    elif problem and not where:
        config.part.wrong(problem, "write one layout with devices: all")
    elif problem:
        (entries[0].at(*where) or entries[0]).wrong(problem, "correct the layout and convert again")
    return sharing, problem


def _devices(
    entries: Sequence[Part], gpu: GpuModel, gpus: Sequence[int] | None
) -> tuple[str, tuple[str, ...]]:
    """Why the entries are not one layout for all GPUs of such nodes, and where; empty where they are."""
    if not entries:
        return f"no entry applies to the {gpu.title}", ()
    listed = [entry.at("devices").value for entry in entries]
    if listed == ["all"]:
        return "", ()
    indices = [index for one in listed for index in (one if isinstance(one, list) else ())]
    if not all(one == "all" or (isinstance(one, list) and one) for one in listed) or not all(
        isinstance(index, int) and not isinstance(index, bool) for index in indices
    ):
        return "devices is neither all nor a list of indices of GPUs", ("devices",)
    if "all" in listed or len(indices) != len(set(indices)):
        return f"{len(entries)} entries apply to the {gpu.title}, and several include the same GPU", ()
    same = all(_settings(entry) == _settings(entries[0]) for entry in entries)
    if same and gpus and all(sorted(indices) == list(range(size)) for size in gpus):
        return "", ()
    return PER_GPU, ()


def _settings(entry: Part) -> list[Any]:
    return [entry.at(name).value for name in ("mig-enabled", "mig-devices")]


def _entry(entry: Part, gpu: GpuModel) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """`sharing`, or what is wrong with it and where."""
    enabled, wanted = _settings(entry)
    if not isinstance(enabled, bool):
        return {}, "it does not say whether MIG is enabled", ("mig-enabled",)
    if not enabled:
        return dict(WHOLE), "", ()
    counts = wanted if isinstance(wanted, dict) else {}
    if not counts:
        return {}, "MIG is enabled without instances: such a node offers no resources", ("mig-devices",)
    if not all(
        isinstance(count, int) and not isinstance(count, bool) and count > 0 for count in counts.values()
    ):
        return {}, "not all counts are whole numbers of 1 or more", ("mig-devices",)
    for problem in MigSharing(counts).problems(gpu):
        return {}, f"{problem.message}; {problem.remediation}", ("mig-devices",)
    return {"mode": "mig", "layout": dict(counts)}, "", ()


def has_profiles(config: MigConfig, gpu: GpuModel) -> bool:
    """Whether the GPU can be the intended one: some entry is for it, by its device filter, and it has
    every profile that those entries name."""
    entries = [entry for entry in config.part.each() if _concerns(entry, gpu)]
    names = {name for entry in entries for name, _ in entry.at("mig-devices").items()}
    try:
        return gpu.mig is not None and bool(entries) and all(gpu.mig.profile(name) for name in names)
    except CatalogError:
        return False


def _concerns(entry: Part, gpu: GpuModel) -> bool:
    """Whether the entry's device filter accepts the GPU; without a filter, it accepts every GPU."""
    filters = entry.at("device-filter").value
    if filters in (None, "", []):
        return True
    wanted = filters if isinstance(filters, list) else [filters]
    ours = {pci.upper() for pci in gpu.pci_ids}
    return any(isinstance(one, str) and one.partition(":")[0].upper() in ours for one in wanted)


def known_layout(name: str, gpu: GpuModel) -> dict[str, Any] | None:
    """`sharing` of a configuration that the operator knows by name: all-disabled, all-<profile> with as many
    as fit, all-balanced. None if this GPU has no configuration of that name."""
    if name == "all-disabled":
        return dict(WHOLE)
    mig = gpu.mig
    if mig is None or not name.startswith("all-"):
        return None
    if name == "all-balanced":
        return _balanced(gpu)
    wanted = name.removeprefix("all-")
    for profile in mig.profiles:
        if wanted in (profile.name, profile.name.replace("+", ".")):
            return {"mode": "mig", "layout": {profile.name: profile.max_count}}
    try:
        profile = mig.profile(wanted)
    except CatalogError:
        return None
    return {"mode": "mig", "layout": {wanted: profile.max_count}}


def _balanced(gpu: GpuModel) -> dict[str, Any] | None:
    """Two 1g, one 2g and, of seven compute slices, one 3g (gpu-operator v26.7.0)."""
    assert gpu.mig is not None
    wanted = {1: 2, 2: 1} | ({3: 1} if gpu.mig.compute_slices == 7 else {})
    counts: dict[str, int] = {}
    for compute, count in wanted.items():
        plain = [p for p in gpu.mig.profiles if p.compute_slices == compute and p.attribute is None]
        if not plain:
            return None
        counts[min(plain, key=lambda p: p.size).name] = count
    return {"mode": "mig", "layout": counts}


def unused(config: MigConfig, reason: str) -> None:
    """List the configuration as one that no pool is made of, but for what gpupool derives anyway."""
    if config.name == "all-disabled" and config.part.mark_derived_if(
        [{"devices": "all", "mig-enabled": False}]
    ):
        return
    if config.disabled():
        config.part.left("it disables MIG, as gpupool does for every pool of whole GPUs", "")
        return
    config.part.left(reason, f"label nodes with nvidia.com/mig.config={config.name}, or remove it")
