"""Whole GPUs: one pod, one GPU. The default."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.sharing.mode import GPU_RESOURCE, Isolation, Sharing


@dataclass(frozen=True, slots=True)
class Exclusive(Sharing):
    """No sharing; works on every model."""

    mode: ClassVar[str] = "exclusive"
    isolation: ClassVar[Isolation] = Isolation.full
    whole: ClassVar[bool] = True

    def slices_per_gpu(self, _gpu: GpuModel, /) -> dict[str, int]:
        return {GPU_RESOURCE: 1}

    def equivalents(self, _gpu: GpuModel, /) -> dict[str, Fraction]:
        return {GPU_RESOURCE: Fraction(1)}
