"""One GPU model of the catalog as a file: its fields, and the rules that each file keeps by itself.

The files that ship with gpupool (`gpupool/environment/catalog/`) and those of a project (`catalog/` beside
`environments/`) have the same fields; the published JSON Schema `catalog.schema.json` is made of this module.
It must not read files, hold facts about a model, or depend on another model's file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from gpupool.environment.spec.field_types import Hint, Model, NodeFact, Text

DriverVersion = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]+(\.[0-9]+)*$"),
    Hint('a driver version or branch in quotes, such as "550"'),
]
ProductLabel = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$", max_length=63),
    Hint("a value of nvidia.com/gpu.product such as NVIDIA-GeForce-RTX-4090"),
]
PciId = Annotated[
    str,
    StringConstraints(pattern=r"^0x[0-9A-F]{4}10DE$"),
    Hint("a PCI device id such as 0x27B810DE, in quotes"),
]
ProfileName = Annotated[
    str,
    StringConstraints(pattern=r"^[1-9]g\.[0-9]+gb((\+(me|me\.all|gfx))|-me)?$"),
    Hint("a MIG profile such as 1g.10gb or 1g.10gb+me"),
]
Whole = Annotated[int, Field(ge=1, le=100_000_000)]
Index = Annotated[int, Field(ge=0, le=1000)]
Ratio = Annotated[float, Field(gt=0, le=1)]
Amount = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Engine = Literal["nvdec", "nvenc", "jpeg", "ofa"]


class Driver(Model):
    minimum: DriverVersion
    """Oldest supported driver version or branch."""
    last_branch: Whole | None = None
    """Last driver branch; omit it while current branches support the model."""


class Machine(Model):
    name: NodeFact
    """Name at the provider."""
    provider: Literal["aws"] = "aws"
    """Cloud provider."""
    gpus: Whole
    """GPUs of one machine."""
    gpu_memory_mib: Whole | None = None
    """Memory of one GPU in MiB, where it differs from the model's."""
    vcpus: Whole
    """Virtual CPUs."""
    memory_gib: Amount
    """Main memory in GiB."""
    arch: Literal["amd64", "arm64"] = "amd64"
    """Value of kubernetes.io/arch."""
    usd_per_hour: Amount | None = None
    """On-demand price of the machine in USD per hour, Linux, us-east-1; null where none is published."""
    spot_ratio: Ratio | None = None
    """Typical spot price as a fraction of the on-demand price, where it differs from the model's; null where
    none was observed."""
    efa: Whole | None = None
    """Number of network cards with EFA (`vpc.amazonaws.com/efa`); omit it if there are none or they are
    unknown."""
    karpenter: bool = True
    """Whether Karpenter's AWS provider knows the type."""
    note: Text | None = None
    """What users should know before they choose the type."""


class Profile(Model):
    name: ProfileName
    """Profile name as the device plugin and mig-parted spell it."""
    id: Index | None = None
    """NVML's number of the GPU-instance profile; omit it if it is not published."""
    starts: Annotated[list[Index], Field(min_length=1)]
    """Memory slices at which an instance may begin."""
    size: Whole
    """Memory slices that one instance occupies."""
    max: Whole
    """Maximum number of instances of this profile on one GPU."""
    compute: Whole
    """Compute slices of one instance."""
    gib: Amount | None = None
    """Memory of one instance in GiB; omit it if it is not published."""
    sm: Whole | None = None
    """Streaming multiprocessors of one instance; omit it if they are not published."""
    attribute: Literal["+me", "+me.all", "-me", "+gfx"] | None = None
    """Variant of a plain profile: with, with all, or without media engines, or with graphics."""
    engines: dict[Engine, Index] | None = None
    """Media engines of one instance; required if the model has an engineBudget."""
    driver_minimum: DriverVersion | None = None
    """First driver with this profile, if later than MIG support of the model."""
    aliases: list[ProfileName] = []
    """Names of the profile in other driver versions."""


class Mig(Model):
    slots: Annotated[int, Field(ge=1, le=16)]
    """Memory slices of the GPU, on which instances are placed."""
    compute_slices: Annotated[int, Field(ge=1, le=16)]
    """Compute slices of the GPU."""
    driver_minimum: DriverVersion | None = None
    """First driver that partitions the model."""
    placements_inferred: bool = False
    """True if the starts are those of the GPU family, because none are published for the model."""
    engine_budget: dict[Engine, Index] | None = None
    """Media engines of the whole GPU, if they limit layouts."""
    profiles: Annotated[list[Profile], Field(min_length=1)]
    """GPU-instance profiles, smallest first."""

    @model_validator(mode="after")
    def _placeable(self) -> Mig:
        """Refuses profiles that no instance could ever have: the MIG solver counts on these rules."""
        for problem in self._problems():
            raise PydanticCustomError("mig_profiles", "{problem}", {"problem": problem})
        return self

    def _problems(self) -> Iterator[str]:
        names: list[str] = []
        for profile in self.profiles:
            if profile.starts != sorted(set(profile.starts)):
                yield f"{profile.name}: the starts are not in ascending order or not unique"
            last = max(profile.starts) + profile.size
            if last > self.slots:
                yield f"{profile.name} ends at memory slice {last}, and the GPU has {self.slots}"
            if profile.compute > self.compute_slices:
                taken = f"{profile.name} takes {profile.compute} compute slices"
                yield f"{taken}, and the GPU has {self.compute_slices}"
            if profile.max > len(profile.starts):
                yield f"{profile.name} has max {profile.max}, and only {len(profile.starts)} starts"
            if (profile.engines is None) != (self.engine_budget is None):
                rule = "with an engineBudget every profile needs engines, without it none may have them"
                yield f"{profile.name}: {rule}"
            names += [profile.name, *profile.aliases]
        yield from (f"{name} appears twice" for name in names if names.count(name) > 1)


class Source(Model):
    facts: Annotated[list[Text], Field(min_length=1)]
    """Fields that the source supports."""
    inferred: bool = False
    """True if inferred from other facts."""
    origin: Text
    """Document, repository and version, or the reasoning."""


class GpuFile(Model):
    """One GPU model of the gpupool catalog; the file's name is its key."""

    title: Text
    """Name for people."""
    architecture: Literal[
        "maxwell", "pascal", "volta", "turing", "ampere", "ada-lovelace", "hopper", "blackwell"
    ]
    """NVIDIA's architecture name in lower case, the value of nvidia.com/gpu.family."""
    compute_capability: Annotated[
        str,
        StringConstraints(pattern=r"^[1-9][0-9]*\.[0-9]$"),
        Hint('a compute capability in quotes, such as "8.9"'),
    ]
    """CUDA compute capability, such as "9.0"."""
    memory_mib: Whole
    """Memory of one GPU in MiB, as karpenter.k8s.aws/instance-gpu-memory or nvidia.com/gpu.memory gives
    it."""
    product_labels: Annotated[list[ProductLabel], Field(min_length=1)]
    """Values of nvidia.com/gpu.product without suffixes for sharing or MIG."""
    pci_ids: list[PciId] = []
    """PCI device ids as mig-parted's device filter wants them."""
    karpenter_gpu_name: Text | None = None
    """Value of karpenter.k8s.aws/instance-gpu-name; omit it if no type that Karpenter knows has this GPU."""
    driver: Driver | None = None
    """NVIDIA drivers that support the model; default: any."""
    mps_clients: Annotated[int, Field(ge=2, le=10_000)] | None = None
    """Maximum number of clients of one MPS server; default: 48 from compute capability 7.5 on, 16 before."""
    profiling: bool = True
    """Whether DCGM can profile the GPU (engines, pipes and buses); requires compute capability 7.0 or
    later."""
    spot_ratio: Ratio | None = None
    """Typical spot price as a fraction of the on-demand price; an observation, never a quote; null where none
    was found."""
    instance_types: list[Machine] = []
    """Machine types that carry the GPU."""
    mig: Mig | None = None
    """How the GPU can be partitioned; omit it if it can't be, or if its profiles are unknown."""
    sources: list[Source] = []
    """Sources of the facts; required for all facts in files that ship with gpupool."""
