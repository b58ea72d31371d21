"""What every sharing mode answers, so that plan, generators and queue can ask without knowing which mode it
is.

Holds the interface only; a mode's arithmetic is in the module named after it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import fields
from enum import IntEnum
from fractions import Fraction
from typing import ClassVar, NamedTuple, Self

from gpupool.environment.catalog.models import GpuModel

GPU_RESOURCE = "nvidia.com/gpu"
"""What the device plugin advertises for whole GPUs, and for slices of them that it does not rename."""
SHARED_RESOURCE = f"{GPU_RESOURCE}.shared"
"""What it advertises for slices with `renameByDefault` (k8s-device-plugin v0.20.0, README)."""
MIG_RESOURCE = "nvidia.com/mig-"
"""How the names of instances of GPUs begin, with strategy `mixed`."""


class SharingProblem(NamedTuple):
    """Why a GPU can't be shared as asked."""

    message: str
    """What is wrong."""
    remediation: str
    """What would be right."""
    field: str = "mode"
    """The field of `sharing` that would have to change."""


class Isolation(IntEnum):
    """What of a job is kept from those that share its GPU (NVIDIA's MPS documentation; k8s-device-plugin
    v0.20.0's README)."""

    nothing = 0
    memory = 1
    """And a fault of one may end the others."""
    full = 2
    """Memory and faults: a GPU of its own, or hardware partitions."""


class Sharing(ABC):
    """One way of dividing each GPU of a node. A mode says where it differs from whole GPUs."""

    __slots__ = ()
    mode: ClassVar[str]
    """The value of `sharing.mode` in the environment file."""
    isolation: ClassVar[Isolation]
    plugin_key: ClassVar[str | None] = None
    """Under which name the device plugin's configuration has the replicas; None where it has none."""
    grant_field: ClassVar[str] = "slices"
    """In which field of a tenant's grant shares are counted; `gpus` counts whole GPUs of every mode."""
    one_slice: ClassVar[bool] = False
    """Whether a container gets one slice at most, because more would be no more of a GPU."""
    has_daemon: ClassVar[bool] = False
    """Whether pods compute through a daemon on their node, and may not survive its restart."""
    may_fall_back: ClassVar[bool] = False
    """Whether a job of such a pool can move to another pool of the mode."""
    whole: ClassVar[bool] = False
    """Whether a slice is a GPU, so that a job can have several, on several nodes."""
    one_name: ClassVar[bool] = False
    """Whether MIG instances are advertised as whole GPUs are."""

    @property
    def layout(self) -> Mapping[str, int]:
        """MIG profile -> instances per GPU; empty where GPUs are not partitioned."""
        return {}

    @classmethod
    def made_of(cls, replicas: int, layout: Mapping[str, int], rename_by_default: bool = False) -> Self:
        """The mode with that many slices per GPU and that layout, as far as it has them."""
        given = {"replicas": replicas, "layout": layout, "rename_by_default": rename_by_default}
        return cls(**{one.name: given[one.name] for one in fields(cls)})  # type: ignore[arg-type]

    @property
    def in_node_pool(self) -> Sharing:
        """How a cloud shares the GPUs of a node pool that is set to this mode, without the GPU Operator."""
        return self

    @abstractmethod
    def slices_per_gpu(self, gpu: GpuModel, /) -> dict[str, int]:
        """Extended resource to the number of it that one physical GPU contributes."""

    @abstractmethod
    def equivalents(self, gpu: GpuModel, /) -> dict[str, Fraction]:
        """Extended resource to the physical GPUs that one unit of it stands for in quotas, fairness and
        cost.
        """

    def problems(self, _gpu: GpuModel, /) -> list[SharingProblem]:
        """Why this sharing can't be had on a GPU; empty when it can."""
        return []
