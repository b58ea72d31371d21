"""Whole GPUs: one pod, one GPU. The default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

from gpupool.catalog.models import GpuModel
from gpupool.sharing.mode import GPU_RESOURCE, Isolation, Problem


@dataclass(frozen=True, slots=True)
class Exclusive:
    """No sharing; works on every model."""

    mode: ClassVar[str] = "exclusive"
    isolation: ClassVar[Isolation] = Isolation.full
    plugin_key: ClassVar[str | None] = None
    grant_field: ClassVar[str] = "slices"
    one_slice: ClassVar[bool] = False
    has_daemon: ClassVar[bool] = False
    may_fall_back: ClassVar[bool] = False
    layout: ClassVar[Mapping[str, int]] = {}

    @classmethod
    def made_of(cls, _replicas: int, _layout: Mapping[str, int], /) -> Self:
        return cls()

    def slices_per_gpu(self, _gpu: GpuModel, /) -> dict[str, int]:
        return {GPU_RESOURCE: 1}

    def equivalents(self, _gpu: GpuModel, /) -> dict[str, Fraction]:
        return {GPU_RESOURCE: Fraction(1)}

    def problems(self, _gpu: GpuModel, /) -> list[Problem]:
        return []
