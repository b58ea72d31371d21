"""What time-slicing and MPS have in common: a GPU advertised several times under one name.

How the pods on one GPU get along is the modes' own; here is only the counting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.sharing.mode import GPU_RESOURCE, SHARED_RESOURCE, Sharing, SharingProblem

MIN_REPLICAS = 2
"""The device plugin's parser refuses fewer (k8s-device-plugin v0.20.0, api/config/v1)."""


@dataclass(frozen=True, slots=True)
class Replicated(Sharing):
    """Each GPU advertised `replicas` times."""

    replicas: int
    rename_by_default: bool = False
    """Whether as nvidia.com/gpu.shared."""
    one_slice: ClassVar[bool] = True

    @property
    def in_node_pool(self) -> Sharing:
        return replace(self, rename_by_default=False)

    @property
    def resource(self) -> str:
        """The name of a slice."""
        return SHARED_RESOURCE if self.rename_by_default else GPU_RESOURCE

    def slices_per_gpu(self, _gpu: GpuModel, /) -> dict[str, int]:
        return {self.resource: self.replicas}

    def equivalents(self, _gpu: GpuModel, /) -> dict[str, Fraction]:
        return {self.resource: Fraction(1, self.replicas)}

    def problems(self, _gpu: GpuModel, /) -> list[SharingProblem]:
        return too_few_replicas(self.replicas)


def too_few_replicas(replicas: int) -> list[SharingProblem]:
    """The problem of a replica count that the device plugin refuses, if it is one."""
    if replicas >= MIN_REPLICAS:
        return []
    return [
        SharingProblem(
            f"{replicas} {'replica' if replicas == 1 else 'replicas'} per GPU",
            f"the device plugin needs {MIN_REPLICAS} or more; for whole GPUs use mode: exclusive",
            "replicas",
        )
    ]
