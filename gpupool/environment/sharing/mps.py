"""MPS: pods run on a GPU at the same time, each with an equal, enforced share of memory and compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.sharing.mode import Isolation, SharingProblem
from gpupool.environment.sharing.replicated import Replicated, too_few_replicas


@dataclass(frozen=True, slots=True)
class Mps(Replicated):
    """Each GPU advertised `replicas` times, served by one MPS daemon.

    The device plugin shares whole GPUs only, never MIG instances, and divides memory and compute equally
    (v0.20.0).
    """

    mode: ClassVar[str] = "mps"
    isolation: ClassVar[Isolation] = Isolation.memory
    plugin_key: ClassVar[str | None] = "mps"
    has_daemon: ClassVar[bool] = True

    def problems(self, gpu: GpuModel, /) -> list[SharingProblem]:
        problems = too_few_replicas(self.replicas)
        if self.replicas > gpu.mps_clients:
            message = f"{self.replicas} replicas per GPU with MPS"
            remediation = f"an MPS server on the {gpu.title} serves at most {gpu.mps_clients} clients"
            problems.append(SharingProblem(message, remediation, "replicas"))
        return problems
