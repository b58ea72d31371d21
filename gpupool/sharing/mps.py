"""MPS: pods run on a GPU at the same time, each with an equal, enforced share of memory and compute."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from gpupool.catalog import GpuModel
from gpupool.sharing.mode import GPU_RESOURCE, Problem
from gpupool.sharing.time_slicing import too_few_replicas


@dataclass(frozen=True, slots=True)
class Mps:
    """Each GPU advertised `replicas` times, served by one MPS daemon.

    The device plugin shares whole GPUs only, never MIG instances, and divides memory and compute equally
    (v0.20.0).
    """

    replicas: int
    mode: ClassVar[str] = "mps"

    @property
    def product_suffix(self) -> str:
        return "-SHARED"

    def slices_per_gpu(self, _gpu: GpuModel, /) -> dict[str, int]:
        return {GPU_RESOURCE: self.replicas}

    def equivalents(self, _gpu: GpuModel, /) -> dict[str, Fraction]:
        return {GPU_RESOURCE: Fraction(1, self.replicas)}

    def problems(self, gpu: GpuModel, /) -> list[Problem]:
        problems = too_few_replicas(self.replicas)
        if self.replicas > gpu.mps_clients:
            problems.append(
                Problem(
                    f"{self.replicas} replicas per GPU with MPS",
                    f"an MPS server on the {gpu.title} serves {gpu.mps_clients} clients at most",
                )
            )
        return problems
