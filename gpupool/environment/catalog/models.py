"""What a GPU model is: how it can be split, and which instance types carry it.

The facts are data (`gpupool.environment.catalog.load`). This module must not hold facts of its own, depend on
an environment, or do sharing arithmetic (that is `gpupool.environment.sharing`).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field


class CatalogError(LookupError):
    """A name that the catalog does not have; `message` and `remediation` say what is wrong and right."""

    def __init__(self, message: str, remediation: str) -> None:
        super().__init__(f"{message}; {remediation}")
        self.message = message
        self.remediation = remediation


class OtherVendorError(CatalogError):
    """The GPU of another vendor than NVIDIA: no file makes it one that a pool can have."""


PRICE_REGION = "us-east-1"
"""The region of AWS whose on-demand prices the catalog has (`usd_per_hour`)."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One MIG GPU-instance profile of one model, as `nvidia-smi mig -lgip` and `-lgipp` print it."""

    name: str
    """As the device plugin and mig-parted spell it, e.g. `1g.10gb+me`."""
    size: int
    """Memory slices that one instance occupies, side by side."""
    starts: tuple[int, ...]
    """Memory slices at which an instance may begin."""
    max_count: int
    """Instances of this profile that one GPU can have at most."""
    compute_slices: int
    nvml_id: int | None = None
    """NVML's number of the profile; the same shape has the same number on every model of a family. None where
    it is not published."""
    memory_gib: float | None = None
    """Memory of one instance in GiB; None where it is not published."""
    sm: int | None = None
    """Streaming multiprocessors of one instance; None where it is not published."""
    attribute: str | None = None
    """`+me`, `+me.all`, `-me`, `+gfx`, or None for the plain profile."""
    engines: Mapping[str, int] | None = field(default=None, hash=False)
    """Media engines that one instance takes; None where the model has no engine budget."""
    driver_minimum: str | None = None
    """First driver with this profile, where that is later than the model's own MIG support."""
    aliases: tuple[str, ...] = ()
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
    driver_minimum: str | None = None
    """First driver that partitions this model."""
    engine_budget: Mapping[str, int] | None = field(default=None, hash=False)
    """Media engines of the whole GPU; None where per-profile maxima say enough."""
    placements_inferred: bool = False
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
        remediation = f"did you mean {' or '.join(close)}?" if close else "profiles: " + ", ".join(names)
        raise CatalogError(f"no MIG profile {name!r}", remediation)


@dataclass(frozen=True, slots=True)
class InstanceType:
    """One machine type of a cloud provider that carries this GPU."""

    name: str
    gpus: int
    gpu_memory_mib: int
    """Memory of one GPU in MiB; differs from the model's own where a family mixes sizes (p3dn)."""
    vcpus: int
    memory_gib: float
    """Main memory of the machine in GiB."""
    provider: str = "aws"
    arch: str = "amd64"
    """`amd64` or `arm64`, the value of `kubernetes.io/arch`."""
    usd_per_hour: float | None = None
    """On-demand price of the whole machine, Linux, us-east-1; None where none is published."""
    spot_ratio: float | None = None
    """Typical spot price as a fraction of the on-demand price: an observation, never a quote."""
    efa: int | None = None
    """Network cards with EFA; None where it has none or they are not known."""
    karpenter: bool = True
    """Whether Karpenter's AWS provider knows the type and can start it."""
    note: str | None = None

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
    inferred: bool = False
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
    pci_ids: tuple[str, ...] = ()
    """`0x<device>10DE`, as mig-parted's device filter wants them."""
    karpenter_gpu_name: str | None = None
    """Value of `karpenter.k8s.aws/instance-gpu-name`; None where no AWS type that Karpenter knows has it."""
    profiling: bool = True
    """Whether DCGM can profile it: what engines, pipes and buses do, beside how long they were in use."""
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
            f"{name} does not have the {self.title}",
            "types that have it: " + ", ".join(names) if names else "no instance type in the catalog has it",
        )


def mig_resource(profile_name: str) -> str:
    """The extended resource of a MIG profile; `+` is not allowed in resource names and becomes `.`
    (k8s-device-plugin v0.20.0, mixed strategy).
    """
    return "nvidia.com/mig-" + profile_name.replace("+", ".")
