"""The nodes of the plan's pools, each with its phase. Judges nothing else.

A pool's nodes are those that Karpenter started for it, and those that the file names or selects. Carrying its
label does not make a node one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from gpupool.environment.plan.model import Machine, Plan, Pool
from gpupool.live.cluster.live_objects import INSTANCE_TYPE_LABEL, condition
from gpupool.live.cluster.snapshot import NODEPOOL_LABEL, ClusterSnapshot, Object, labels, notes
from gpupool.live.drift import limits
from gpupool.live.drift.ages import age, duration, is_being_deleted, seconds_since

_INITIALISED = "karpenter.sh/initialized"
_DISRUPTED = "karpenter.sh/disrupted"
_HASH, _HASH_VERSION = "karpenter.sh/nodepool-hash", "karpenter.sh/nodepool-hash-version"


class Phase(StrEnum):
    """The phase of a node."""

    serving = "serving"
    starting = "starting"
    """Incomplete, and not late."""
    leaving = "leaving"
    """Being drained or deleted."""
    outdated = "outdated"
    """Of an earlier version of the pool; Karpenter replaces it when the budget allows."""
    absent = "absent"
    """Not Ready for longer than Kubernetes waits."""


@dataclass(frozen=True, slots=True)
class PoolNode:
    """A node of a pool."""

    pool: Pool
    node: Object
    claim: Object | None
    phase: Phase
    why: str
    """The reason for the phase; empty for a serving node."""

    @property
    def name(self) -> str:
        return str(self.node["metadata"]["name"])

    @property
    def machine(self) -> Machine | None:
        """The kind of machine that it is; None where the pool has no such machine."""
        kind = labels(self.node).get(INSTANCE_TYPE_LABEL)
        fitting = [m for m in self.pool.machines if m.instance_type in (None, kind)]
        return fitting[0] if fitting else None


def pool_nodes(plan: Plan, snapshot: ClusterSnapshot, now: datetime) -> Iterator[PoolNode]:
    """Every node of every pool, by name."""
    by_node_pool = {capacity.name: pool for pool in plan.pools for capacity in pool.capacities}
    by_name = {name: pool for pool in plan.pools for name in pool.node_names}
    selecting = [pool for pool in plan.pools if pool.node_selector]
    for name, node in snapshot.nodes.items():
        have = labels(node)
        chosen = next((pool for pool in selecting if selects(pool, node)), None)
        pool = by_node_pool.get(have.get(NODEPOOL_LABEL, "")) or by_name.get(name) or chosen
        if pool is not None:
            claim = snapshot.claims.get(name)
            phase, why = _phase(snapshot, now, pool, node, claim)
            yield PoolNode(pool, node, claim, phase, why)


def selects(pool: Pool, node: Object) -> bool:
    """Whether the pool's selector chooses the node."""
    have = labels(node)
    return bool(pool.node_selector) and all(have.get(key) == v for key, v in pool.node_selector.items())


def _phase(
    snapshot: ClusterSnapshot, now: datetime, pool: Pool, node: Object, claim: Object | None
) -> tuple[Phase, str]:
    taints = [taint["key"] for taint in (node.get("spec") or {}).get("taints") or ()]
    if is_being_deleted(node) or (claim is not None and is_being_deleted(claim)) or _DISRUPTED in taints:
        return Phase.leaving, "Karpenter drains it" if claim is not None else "it is being deleted"
    ready = condition(node, "Ready")
    if ready.get("status") != "True":
        lasting = seconds_since(ready.get("lastTransitionTime"), now) if ready else age(node, now)
        reason = ready.get("message") or ready.get("reason") or "its kubelet has not reported yet"
        if lasting < limits.NOT_READY:
            return Phase.starting, f"it has not been Ready for {duration(lasting)}: {reason}"
        return Phase.absent, f"it has not been Ready for {duration(lasting)}: {reason}"
    # A claim knows its node only once Karpenter has registered it; the node's label says it all along.
    if NODEPOOL_LABEL in labels(node) and labels(node).get(_INITIALISED) != "true":
        initialised = condition(claim, "Initialized") if claim else {}
        if age(node, now) < limits.INITIALISATION:
            reason = initialised.get("message") or "not initialised yet"
            return Phase.starting, f"Karpenter started it {duration(age(node, now))} ago: {reason}"
    if claim is not None:
        outdated = _outdated(snapshot, pool, node, claim)
        if outdated:
            return Phase.outdated, outdated
    return Phase.serving, ""


def _outdated(snapshot: ClusterSnapshot, pool: Pool, node: Object, claim: Object) -> str:
    """Why Karpenter is to replace the node; empty where it is not.

    It compares a hash of the template, and the requirements (Karpenter 1.14.1, disruption/drift.go).
    """
    reason = condition(claim, "Drifted")
    if reason.get("status") == "True":
        return f"Karpenter will replace it ({reason.get('reason') or 'Drifted'})"
    template = snapshot.find("karpenter.sh/v1", "NodePool", labels(node).get(NODEPOOL_LABEL, ""))
    mine, now = notes(claim), notes(template) if template else {}
    same_rules = mine.get(_HASH_VERSION) == now.get(_HASH_VERSION)
    if template and same_rules and _HASH in mine and mine[_HASH] != now.get(_HASH, mine[_HASH]):
        return "it was started from an earlier version of its NodePool"
    kind = labels(node).get(INSTANCE_TYPE_LABEL)
    if all(machine.instance_type != kind for machine in pool.machines):
        return f"it is a {kind}, which the pool no longer has"
    return ""
