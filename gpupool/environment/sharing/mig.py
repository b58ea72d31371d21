"""MIG: every GPU of a pool is cut into the same hardware-isolated instances.

The arithmetic of the mode; whether a layout can be had at all is answered by `verdict`, where by `placement`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

from gpupool.environment.catalog.models import GpuModel, mig_resource
from gpupool.environment.sharing.mode import GPU_RESOURCE, Isolation, Sharing, SharingProblem
from gpupool.environment.sharing.verdict import verdict


@dataclass(frozen=True, slots=True)
class MigSharing(Sharing):
    """One layout on every GPU, advertised under the mixed strategy (one resource per profile).

    Resource names follow the layout's own spelling, because a node advertises the name that its driver uses.
    """

    layout: Mapping[str, int] = field(hash=False)
    """Profile name to instances per GPU, e.g. `{"3g.40gb": 1, "2g.20gb": 2}`."""
    mode: ClassVar[str] = "mig"
    isolation: ClassVar[Isolation] = Isolation.full
    grant_field: ClassVar[str] = "profiles"

    @property
    def in_node_pool(self) -> Sharing:
        return SingleMigSharing(self.layout)

    def slices_per_gpu(self, _gpu: GpuModel, /) -> dict[str, int]:
        return {mig_resource(name): count for name, count in self.layout.items()}

    def equivalents(self, gpu: GpuModel, /) -> dict[str, Fraction]:
        """Memory slices of one instance over those of the GPU. Raises CatalogError for a profile that `gpu`
        lacks.
        """
        if gpu.mig is None:
            return {}
        slots = gpu.mig.slots
        return {mig_resource(name): Fraction(gpu.mig.profile(name).size, slots) for name in self.layout}

    def problems(self, gpu: GpuModel, /) -> list[SharingProblem]:
        found = verdict(gpu, self.layout)
        if found.fits:
            return []
        if gpu.mig is None and gpu.own_file is not None:
            return [SharingProblem(found.reason, "use time-slicing or mps, or add its profiles to the file")]
        if gpu.mig is None:
            return [SharingProblem(found.reason, "use time-slicing or mps, or a GPU with MIG")]
        nearest = " or ".join(_spell(layout) for layout in found.nearest[:3])
        remediation = f"nearest layouts that fit: {nearest}" if nearest else f"see gpupool mig {gpu.key}"
        return [SharingProblem(found.reason, remediation, "layout")]


@dataclass(frozen=True, slots=True)
class SingleMigSharing(MigSharing):
    """As a cloud cuts the GPUs of a node pool: into instances of one profile, as many as fit, advertised as
    whole GPUs are (NVIDIA's single strategy; Google Kubernetes Engine, multi-instance GPUs)."""

    one_name: ClassVar[bool] = True

    def slices_per_gpu(self, _gpu: GpuModel, /) -> dict[str, int]:
        return {GPU_RESOURCE: sum(self.layout.values())}

    def equivalents(self, gpu: GpuModel, /) -> dict[str, Fraction]:
        return {GPU_RESOURCE: max(MigSharing.equivalents(self, gpu).values(), default=Fraction(1))}

    def problems(self, gpu: GpuModel, /) -> list[SharingProblem]:
        if problems := MigSharing.problems(self, gpu):
            return problems
        most = gpu.mig.profile(next(iter(self.layout))).max_count if gpu.mig else 1
        if len(self.layout) == 1 and sum(self.layout.values()) == most:
            return []
        profile = next(iter(self.layout))
        message = f"a cloud node pool has one profile, as many times as fits, not {_spell(self.layout)}"
        remediation = f"use {{{profile}: {most}}}, and a separate pool for each other profile"
        return [SharingProblem(message, remediation, "layout")]


def _spell(layout: Mapping[str, int]) -> str:
    return "{" + ", ".join(f"{name}: {count}" for name, count in layout.items()) + "}"
