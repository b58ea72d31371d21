"""What every sharing mode answers, so that plan, generators and queue can ask without knowing which mode it
is.

Holds the interface only; a mode's arithmetic is in the module named after it.
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, NamedTuple, Protocol

from gpupool.catalog.models import GpuModel

GPU_RESOURCE = "nvidia.com/gpu"
"""What the device plugin advertises for whole, time-sliced (not renamed) and MPS-shared GPUs."""


class Problem(NamedTuple):
    """Why a GPU can't be shared as asked."""

    message: str
    """What is wrong."""
    hint: str
    """What would be right."""


class Sharing(Protocol):
    """One way of dividing each GPU of a node."""

    mode: ClassVar[str]
    """The value of `sharing.mode` in the environment file."""

    def slices_per_gpu(self, gpu: GpuModel, /) -> dict[str, int]:
        """Extended resource to the number of it that one physical GPU contributes."""

    def equivalents(self, gpu: GpuModel, /) -> dict[str, Fraction]:
        """Extended resource to the physical GPUs that one unit of it stands for in quotas, fairness and
        cost.
        """

    def problems(self, gpu: GpuModel, /) -> list[Problem]:
        """Why this sharing can't be had on `gpu`; empty when it can."""
