"""The input of every check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.model import Plan, Pool
from gpupool.generators.manifest import Bundle, Part
from gpupool.live.cluster.snapshot import ClusterSnapshot, Object
from gpupool.live.drift import ages, repair
from gpupool.live.drift.pool_nodes import PoolNode, pool_nodes


@dataclass(frozen=True)
class DriftInput:
    """What the file says and what the cluster has."""

    plan: Plan
    bundle: Bundle
    snapshot: ClusterSnapshot
    now: datetime
    env: str
    """How the user names the environment, for commands."""

    @cached_property
    def nodes(self) -> tuple[PoolNode, ...]:
        """The nodes of the plan's pools, by name."""
        return tuple(pool_nodes(self.plan, self.snapshot, self.now))

    @property
    def deliverers(self) -> frozenset[str]:
        """Field managers under which the environment's own objects are applied."""
        return frozenset(self.plan.delivery.by.managers)

    @cached_property
    def policy_parts(self) -> tuple[Part, ...]:
        """What brings the operator's ClusterPolicy: its chart, or the object itself."""
        charts = tuple(release for release in self.bundle.releases if release.chart == "gpu-operator")
        return charts or tuple(m for m in self.bundle if m.kind == "ClusterPolicy")

    def live(self, body: Mapping[str, Any]) -> Object | None:
        """The object in the cluster that a body of the same kind and name is about."""
        metadata = body["metadata"]
        namespace = metadata.get("namespace")
        return self.snapshot.find(body["apiVersion"], body["kind"], metadata["name"], namespace)

    def restore(self, *parts: Part) -> repair.Command:
        """The command that restores everything to what the file says, edits by hand included; `parts` are
        what has to be restored, by default the environment's objects."""
        return repair.restore(self.plan, self.env, parts)

    def apply(self, *options: str, parts: Iterable[Part] = ()) -> str:
        """What applies the file where no object was edited by hand: see `repair.apply`."""
        return repair.apply(self.plan, self.env, *options, parts=parts)

    def from_group(self, pool: Pool) -> str:
        """For the end of a reason: what the pool's node group is to give its nodes, if nothing else does."""
        if not self.plan.labelled_by_group(pool):
            return ""
        return f"; set it on the node group: {wording.node_group(self.plan, pool)}"

    def age(self, thing: Object) -> float:
        """Seconds since the object was created; 0 if unknown."""
        return ages.age(thing, self.now)

    def seconds_since(self, moment: Any) -> float:
        """Seconds since a time as Kubernetes writes it; 0 if there is none."""
        return ages.seconds_since(moment, self.now)
