"""The input of every check, and helpers about time and state that several checks use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from generators.manifest import Bundle, Part
from gpupool.cluster.snapshot import Object, Snapshot
from gpupool.drift import repair
from gpupool.plan.model import Plan
from infra import delivered
from infra.apply import FIELD_MANAGER

if TYPE_CHECKING:
    from gpupool.drift.pool_nodes import PoolNode


@dataclass(frozen=True)
class DriftInput:
    """What the file says and what the cluster has."""

    plan: Plan
    bundle: Bundle
    snapshot: Snapshot
    now: datetime
    env: str
    """How the user names the environment, for commands."""

    @cached_property
    def nodes(self) -> tuple[PoolNode, ...]:
        """The nodes of the plan's pools, by name."""
        from gpupool.drift.pool_nodes import pool_nodes

        return tuple(pool_nodes(self))

    @property
    def deliverers(self) -> frozenset[str]:
        """Field managers under which the environment's own objects are applied."""
        return delivered.MANAGERS.get(self.plan.delivery.engine, frozenset({FIELD_MANAGER}))

    @cached_property
    def policy_parts(self) -> tuple[Part, ...]:
        """What brings the operator's ClusterPolicy: its chart, or the object itself."""
        charts = tuple(release for release in self.bundle.releases if release.chart == "gpu-operator")
        return charts or tuple(m for m in self.bundle if m.kind == "ClusterPolicy")

    def restore(self, *parts: Part) -> str:
        """The command that restores everything to what the file says, edits by hand included; `parts` are
        what has to be restored, by default the environment's objects."""
        return repair.restore(self.plan, self.env, parts)

    def apply(self, *options: str, parts: Iterable[Part] = ()) -> str:
        """The command that applies the file where no object was edited by hand."""
        return repair.apply(self.plan, self.env, *options, parts=parts)

    def age(self, thing: Object) -> float:
        """Seconds since the object was made."""
        return self.since(thing["metadata"].get("creationTimestamp"))

    def since(self, moment: Any) -> float:
        """Seconds since a time as Kubernetes writes it; 0 where there is none."""
        if not isinstance(moment, str):
            return 0.0
        try:
            then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
        except ValueError:
            return 0.0
        return max(0.0, (self.now - then.astimezone(UTC)).total_seconds())


def going(thing: Object) -> bool:
    """Whether the object is being deleted."""
    return bool(thing["metadata"].get("deletionTimestamp"))


def condition(thing: Object, kind: str) -> Mapping[str, Any]:
    """One entry of status.conditions by its type; empty where it is not there."""
    rows = (thing.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row.get("type") == kind), {})


def duration(seconds: float) -> str:
    """Seconds in a readable form: 40 s, 12 min, 5 h, 3 days."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
