"""An environment before it is written: the fields of its file, and where they came from.

Between the readers, one per kind of input, and `gpupool.adopt.convert.write`. Values only; nothing is derived
or checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpupool.adopt.convert.leftovers import Kind, Leftover
from gpupool.findings import Category

Values = dict[str, Any]


@dataclass(slots=True)
class DraftPool:
    """One pool as the file will have it. Fields are those of `gpupool.environment.spec.Pool` and `Nodes`."""

    name: str
    gpu: str
    sharing: Values = field(default_factory=lambda: {"mode": "exclusive"})
    instance_types: list[str] = field(default_factory=list)
    max: int | None = None
    max_gpus: int | None = None
    warm: int = 0
    spot_share: float = 0.0
    capacity: list[str] = field(default_factory=list)
    reserved: list[Values] = field(default_factory=list)
    details: Values = field(default_factory=dict)
    """Fields of `nodes` about what machines are made of, beside their image."""
    image: Values | None = None
    zones: list[str] = field(default_factory=list)
    consolidate_after: str | None = None
    reserved_consolidate_after: str | None = None
    expire_after: str | None = None
    termination_grace_period: str | None = None
    names: list[str] = field(default_factory=list)
    selector: dict[str, str] = field(default_factory=dict)
    gpus: int | None = None
    overcommit: bool = False
    jobs_only: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    taints: list[dict[str, str]] | None = None
    max_unavailable: int | None = None
    window: str | None = None
    origin: list[str] = field(default_factory=list)
    """Lines of comment that say where the pool came from."""


@dataclass(slots=True)
class Draft:
    """A whole environment as the file will have it."""

    name: str
    platform: str = "eks"
    cluster_name: str | None = None
    region: str | None = None
    kubernetes_version: str | None = None
    kube_context: str | None = None
    operator: Values = field(default_factory=dict)
    """The section `gpuOperator` as it is written."""
    karpenter: Values = field(default_factory=dict)
    """The section `karpenter` as it is written."""
    monitoring: Values = field(default_factory=dict)
    pools: list[DraftPool] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    """Lines of comment about pools that are not in the file, and why."""
    priorities: list[Values] = field(default_factory=list)
    tenants: list[Values] = field(default_factory=list)
    policies: Values = field(default_factory=dict)
    policies_origin: list[str] = field(default_factory=list)
    """Lines of comment above them."""
    origin: list[str] = field(default_factory=list)
    """Lines of comment for the head of the file."""

    @property
    def partitioned(self) -> list[DraftPool]:
        """The pools whose GPUs are partitioned by MIG."""
        return [pool for pool in self.pools if pool.sharing["mode"] == "mig"]

    @property
    def shared(self) -> list[DraftPool]:
        """The pools whose GPUs are time-sliced, or shared by MPS."""
        return [pool for pool in self.pools if pool.sharing["mode"] in ("time-slicing", "mps")]

    def add(self, pool: DraftPool) -> None:
        """Add a pool, with a number to its name where that is taken."""
        taken = {one.name for one in self.pools}
        name, number = pool.name, 1
        while pool.name in taken:
            number += 1
            pool.name = f"{name[:48]}-{number}"
        self.pools.append(pool)


@dataclass(frozen=True, slots=True)
class Choices:
    """What the caller provides because no input does."""

    name: str = "converted"
    platform: str | None = None
    """None: eks where there is Karpenter for AWS, local where there is its simulation, else static."""
    region: str | None = None
    cluster: str | None = None
    kube_context: str | None = None
    likely_cluster: str | None = None
    """The cluster's name where no input has a better one."""
    kubernetes_version: str | None = None
    sources: tuple[str, ...] = ()
    """What the input is called, for the head of the file."""
    max: int = 1
    """Nodes of a pool that nothing bounds."""
    operator_namespace: str | None = None
    """Where the GPU Operator runs, for a caller that has seen it; None: as the inputs show it."""
    gpus: Mapping[str, str] = field(default_factory=dict)
    """GPU model by name of a configuration or pool; under "" the model of all others."""


def about(draft: Draft, path: str, what: str, remediation: str, kind: Kind = "assumed") -> Leftover:
    """An entry of the list about what the written file says at `path` and no input did."""
    return Leftover(
        category=Category[kind],
        file=f"{draft.name}.yaml",
        object="the written file",
        path=path,
        what=what,
        remediation=remediation,
    )
