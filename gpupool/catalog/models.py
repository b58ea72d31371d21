"""The GPU catalog: what each GPU model is, how it can be split, and which instance types carry it.

The facts are data, one file per model in `gpupool/catalog/<key>.yaml`, with the fields of
`gpupool.catalog.gpu_file`; nothing else lists the models, so adding one is adding a file. This module is the
only reader of those files; what a project adds is read by `gpupool.catalog.project`. It must not hold facts
of its own, depend on an environment, or do sharing arithmetic (that is `gpupool.sharing`).

Files are parsed when first asked for: `load_catalog()["t4"]` reads one file, `owner()` and iteration over
values read them all.
"""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

_FOLDER = Path(__file__).parent
_UNUSABLE = Path(__file__).parent / "instances" / "unusable.yaml"

_MPS_CLIENTS = 48
"""Clients of one MPS server from compute capability 7.0 on (NVIDIA Multi-Process Service guide, r570)."""
_MPS_CLIENTS_BEFORE_VOLTA = 16
"""The same, on what came before (same guide)."""

Data = dict[str, Any]


class CatalogError(LookupError):
    """A name that the catalog does not have; `message` says what is wrong and `hint` what would be right."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Profile:
    """One MIG GPU-instance profile of one model, as `nvidia-smi mig -lgip` and `-lgipp` print it."""

    name: str
    """As the device plugin and mig-parted spell it, e.g. `1g.10gb+me`."""
    nvml_id: int | None
    """NVML's number of the profile; the same shape has the same number on every model of a family. None where
    it is not published."""
    size: int
    """Memory slices that one instance occupies, side by side."""
    starts: tuple[int, ...]
    """Memory slices at which an instance may begin."""
    max_count: int
    """Instances of this profile that one GPU can have at most."""
    compute_slices: int
    memory_gib: float | None
    """Memory of one instance in GiB; None where it is not published."""
    sm: int | None
    """Streaming multiprocessors of one instance; None where it is not published."""
    attribute: str | None
    """`+me`, `+me.all`, `-me`, `+gfx`, or None for the plain profile."""
    engines: Mapping[str, int] | None = field(hash=False)
    """Media engines that one instance takes; None where the model has no engine budget."""
    driver_minimum: str | None
    """First driver with this profile, where that is later than the model's own MIG support."""
    aliases: tuple[str, ...]
    """What other driver versions call the same profile."""

    @property
    def resource(self) -> str:
        """The extended resource that the device plugin advertises under the mixed strategy."""
        return mig_resource(self.name)


@dataclass(frozen=True, slots=True)
class Mig:
    """How one GPU of a model can be partitioned."""

    slots: int
    """Memory slices, the axis on which instances are placed."""
    compute_slices: int
    profiles: tuple[Profile, ...]
    driver_minimum: str | None
    """First driver that partitions this model."""
    engine_budget: Mapping[str, int] | None = field(hash=False)
    """Media engines of the whole GPU; None where per-profile maxima say enough."""
    placements_inferred: bool
    """True where no published `-lgipp` output of this model was found and the starts are those of its
    family.
    """

    def profile(self, name: str) -> Profile:
        """The profile called `name`, under any driver. Raises CatalogError with the names there are."""
        for profile in self.profiles:
            if name == profile.name or name in profile.aliases:
                return profile
        names = [profile.name for profile in self.profiles]
        close = difflib.get_close_matches(name, names, n=2, cutoff=0.6)
        hint = f"did you mean {' or '.join(close)}?" if close else "its profiles: " + ", ".join(names)
        raise CatalogError(f"no MIG profile {name!r}", hint)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One machine type of a cloud provider that carries this GPU."""

    name: str
    provider: str
    gpus: int
    gpu_memory_mib: int
    """Memory of one GPU in MiB; differs from the model's own where a family mixes sizes (p3dn)."""
    vcpus: int
    memory_gib: float
    """Main memory of the machine in GiB."""
    arch: str
    """`amd64` or `arm64`, the value of `kubernetes.io/arch`."""
    usd_per_hour: float | None
    """On-demand price of the whole machine, Linux, us-east-1; None where none is published."""
    spot_ratio: float | None
    """Typical spot price as a fraction of the on-demand price: an observation, never a quote."""
    karpenter: bool
    """Whether Karpenter's AWS provider knows the type and can start it."""
    note: str | None

    @property
    def spot_usd_per_hour(self) -> float | None:
        """Typical spot price in USD per hour, None when either factor is unknown."""
        if self.usd_per_hour is None or self.spot_ratio is None:
            return None
        return round(self.usd_per_hour * self.spot_ratio, 4)


@dataclass(frozen=True, slots=True)
class Source:
    """Where facts of a file come from."""

    facts: tuple[str, ...]
    """The fields that the source backs."""
    origin: str
    inferred: bool
    """True when the value was concluded from other facts instead of read."""


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One GPU model: the unit that a pool names in `gpu:`."""

    key: str
    title: str
    architecture: str
    """NVIDIA's architecture name in lower case, the value of `nvidia.com/gpu.family`."""
    compute_capability: str
    memory_mib: int
    """Memory of one GPU in MiB, as `karpenter.k8s.aws/instance-gpu-memory` or `nvidia.com/gpu.memory` gives
    it.
    """
    product_labels: tuple[str, ...]
    """Values of `nvidia.com/gpu.product`, without suffixes for sharing or MIG."""
    pci_ids: tuple[str, ...]
    """`0x<device>10DE`, as mig-parted's device filter wants them."""
    karpenter_gpu_name: str | None
    """Value of `karpenter.k8s.aws/instance-gpu-name`; None where no AWS type that Karpenter knows has it."""
    driver_minimum: str | None
    """First driver that supports the model; None where the file does not say."""
    driver_last_branch: int | None
    """Last driver branch that supports the model; None while current branches do."""
    mps_clients: int
    """Clients that one MPS server serves at most."""
    mig: Mig | None
    """None where the GPU can't be partitioned, or where the project does not describe its profiles."""
    instance_types: tuple[InstanceType, ...]
    sources: tuple[Source, ...]
    own_file: str | None = None
    """The text of the project's file that describes the model; None for one that ships with gpupool."""

    @property
    def reboots_into_mig(self) -> bool:
        """Whether a virtual machine that the GPU is passed through to enters MIG mode only by a reboot
        (gpu-operator issues 668 and 1606, MIG user guide)."""
        return self.architecture == "ampere"

    def instance_type(self, name: str) -> InstanceType:
        """The instance type called `name` of this model. Raises CatalogError naming the ones there are."""
        for candidate in self.instance_types:
            if candidate.name == name:
                return candidate
        names = [candidate.name for candidate in self.instance_types]
        raise CatalogError(
            f"{name} does not carry the {self.title}",
            "types that do: " + ", ".join(names) if names else "no instance type in the catalog does",
        )


class _Models(Mapping[str, GpuModel]):
    """The catalog's files as a mapping from key to model, each parsed when first read."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
        self._read: dict[str, GpuModel] = {}

    def __getitem__(self, key: str) -> GpuModel:
        if key not in self._read:
            self._read[key] = model(key, _read_yaml(self._files[key]))
        return self._read[key]

    def __contains__(self, key: object) -> bool:
        return key in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every GPU model there is a file for."""

    models: Mapping[str, GpuModel]
    unusable: Mapping[str, str]
    """Instance types, families and Karpenter's GPU names that no pool can use, and why."""
    broken: frozenset[str] = frozenset()
    """Keys of models whose file can't be used, which a finding says."""

    def __getitem__(self, key: str) -> GpuModel:
        """The model of that key. Raises CatalogError with the closest keys."""
        if key in self.broken:
            raise CatalogError(f"the file of GPU {key!r} can't be used", "correct it")
        if key in self.models:
            return self.models[key]
        close = [other for other in self.models if other.startswith(f"{key.lower()}-")]
        close = close or self._like(key)
        hint = f"did you mean {' or '.join(close)}?" if close else "gpupool catalog lists those there are"
        raise CatalogError(f"no GPU {key!r} in the catalog", hint)

    def against(self, name: str) -> str:
        """Why no pool can use an instance type, a family or a GPU name; empty where one may."""
        return self.unusable.get(name) or self.unusable.get(name.partition(".")[0], "")

    def _like(self, key: str) -> list[str]:
        """Keys that differ from `key` by hyphens or a typing error; MI300X is too far from B300 to be one."""
        plain = {other.replace("-", ""): other for other in self.models}
        wanted = re.sub(r"[^a-z0-9]", "", key.lower())
        return [plain[name] for name in difflib.get_close_matches(wanted, plain, n=3, cutoff=0.72)]

    def owner(self, instance_type: str) -> GpuModel | None:
        """The model whose GPU an instance type carries; None for a type that the catalog doesn't know."""
        for model in self.models.values():
            if any(candidate.name == instance_type for candidate in model.instance_types):
                return model
        return None


def mig_resource(profile_name: str) -> str:
    """The extended resource of a MIG profile; `+` is not allowed in resource names and becomes `.`
    (k8s-device-plugin v0.20.0, mixed strategy).
    """
    return "nvidia.com/mig-" + profile_name.replace("+", ".")


@functools.cache
def load_catalog(folder: Path = _FOLDER) -> Catalog:
    """The catalog that ships with gpupool, or that of another folder. Cached: files are read once per
    process.
    """
    return Catalog(models=_Models(folder), unusable=_read_unusable())


def shipped_file(key: str) -> str:
    """The text of the file of a model that ships with gpupool. Raises FileNotFoundError for another key."""
    return (_FOLDER / f"{key}.yaml").read_text(encoding="utf-8")


@functools.cache
def _read_unusable() -> Mapping[str, str]:
    groups = cast(Sequence[Data], _read_yaml(_UNUSABLE)["unusable"])
    kinds = ("instanceTypes", "families", "gpuNames")
    return {name: str(group["reason"]) for group in groups for kind in kinds for name in group.get(kind, ())}


def _read_yaml(path: Path) -> Data:
    return cast(Data, yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader))


def model(key: str, data: Data, own_file: str | None = None) -> GpuModel:
    """The model that the fields of one file describe; they are those of `gpupool.catalog.gpu_file` and
    sound."""
    driver = data.get("driver") or {}
    volta_or_newer = int(data["computeCapability"].partition(".")[0]) >= 7
    return GpuModel(
        key=key,
        title=data["title"],
        architecture=data["architecture"],
        compute_capability=data["computeCapability"],
        memory_mib=data["memoryMib"],
        product_labels=tuple(data["productLabels"]),
        pci_ids=tuple(data.get("pciIds", ())),
        karpenter_gpu_name=data.get("karpenterGpuName"),
        driver_minimum=driver.get("minimum"),
        driver_last_branch=driver.get("lastBranch"),
        mps_clients=data.get("mpsClients") or (_MPS_CLIENTS if volta_or_newer else _MPS_CLIENTS_BEFORE_VOLTA),
        mig=_mig(data["mig"]) if data.get("mig") else None,
        instance_types=tuple(_instance_type(row, data) for row in data.get("instanceTypes", ())),
        sources=tuple(
            Source(tuple(row["facts"]), row["origin"], row.get("inferred", False))
            for row in data.get("sources", ())
        ),
        own_file=own_file,
    )


def _mig(data: Data) -> Mig:
    return Mig(
        slots=data["slots"],
        compute_slices=data["computeSlices"],
        profiles=tuple(_profile(row) for row in data["profiles"]),
        driver_minimum=data.get("driverMinimum"),
        engine_budget=data.get("engineBudget"),
        placements_inferred=data.get("placementsInferred", False),
    )


def _profile(row: Data) -> Profile:
    return Profile(
        name=row["name"],
        nvml_id=row.get("id"),
        size=row["size"],
        starts=tuple(row["starts"]),
        max_count=row["max"],
        compute_slices=row["compute"],
        memory_gib=row.get("gib"),
        sm=row.get("sm"),
        attribute=row.get("attribute"),
        engines=row.get("engines"),
        driver_minimum=row.get("driverMinimum"),
        aliases=tuple(row.get("aliases", ())),
    )


def _instance_type(row: Data, model: Data) -> InstanceType:
    return InstanceType(
        name=row["name"],
        provider=row.get("provider", "aws"),
        gpus=row["gpus"],
        gpu_memory_mib=row.get("gpuMemoryMib") or model["memoryMib"],
        vcpus=row["vcpus"],
        memory_gib=row["memoryGib"],
        arch=row.get("arch", "amd64"),
        usd_per_hour=row.get("usdPerHour"),
        spot_ratio=row.get("spotRatio", model.get("spotRatio")),
        karpenter=row.get("karpenter", True),
        note=row.get("note"),
    )
