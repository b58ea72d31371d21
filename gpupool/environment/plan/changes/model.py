"""The vocabulary of changes: what a pool, a tenant or a cost was before and is after.

Flat, frozen values, fit to be printed; `before` is None for what is added, `after` for what is removed.
Nothing is computed here but what follows from one value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

T = TypeVar("T")

Change = Literal["added", "removed", "changed", "renamed", "unchanged"]
"""`renamed`: everything but the name and what follows from it is the same. To Kubernetes and Karpenter it is
still another pool, so its nodes are not carried over."""


@dataclass(frozen=True, slots=True)
class BeforeAfter(Generic[T]):
    """One value in two states."""

    before: T
    after: T

    @property
    def changed(self) -> bool:
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class Cost:
    """USD a month of 730 hours."""

    floor: float
    """With the warm nodes alone."""
    ceiling: float
    """With every pool at its maximum, on the most expensive of its machines."""


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting as people write it, before and after."""

    name: str
    """As in the environment file, relative to what it belongs to: `sharing.replicas`, `nodes.max`."""
    before: str | None
    """None where it was not set."""
    after: str | None


@dataclass(frozen=True, slots=True)
class PoolState:
    """A pool in one state: its settings and capacity."""

    name: str
    gpu: str
    """Key in the catalog, e.g. `a100-80gb`."""
    gpu_title: str
    """What NVIDIA calls it."""
    mode: str
    """exclusive, time-slicing, mps or mig."""
    sharing: str
    """The mode and its number in words: `time-slicing x3`, `mig 1x3g.40gb + 2x2g.20gb`, `exclusive`."""
    layout: Mapping[str, int]
    """MIG profile -> instances per GPU; empty without MIG. Draw it with `gpu`."""
    instance_types: tuple[str, ...]
    """Empty for nodes that exist already."""
    nodes_max: int
    warm: int
    gpus_per_node: int
    slices_per_node: Mapping[str, int]
    slices_max: Mapping[str, int]
    """Extended resource -> count with all nodes there."""
    gpus_max: int
    """Physical GPUs with all nodes there."""
    cost: Cost | None
    """None where a price is unknown."""


@dataclass(frozen=True, slots=True)
class PoolChange:
    """A pool before and after; at least one is set."""

    name: str
    """Its name after the change, or before where it is removed."""
    change: Change
    renamed_from: str | None
    before: PoolState | None
    after: PoolState | None
    fields: tuple[SettingChange, ...]
    """What differs, where the pool is in both states."""

    @property
    def layout_changed(self) -> bool:
        """Whether the MIG layout differs: one came, went or became another."""
        before = (self.before.gpu, dict(self.before.layout)) if self.before and self.before.layout else None
        after = (self.after.gpu, dict(self.after.layout)) if self.after and self.after.layout else None
        return before != after


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """How much of one extended resource a tenant may use, or all pools at their maximum have."""

    resource: str
    before: int
    """0 if there was none of it, or no such tenant."""
    after: int


@dataclass(frozen=True, slots=True)
class TenantChange:
    """A tenant before and after; at least one is set."""

    name: str
    namespace: str
    change: Change
    renamed_from: str | None
    quota: tuple[ResourceChange, ...]
    """Every resource that the tenant has in one of the states, the unchanged ones too."""
    budget: BeforeAfter[str | None]
    """In words, as `$20,000 a month (onExhausted: wait)`; None without one."""
    fields: tuple[SettingChange, ...]
    """What else differs, where the tenant is in both states."""
