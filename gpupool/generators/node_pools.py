"""Karpenter NodePools: one per pool and capacity type, bounded, replaced only when the pool allows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.karpenter_pools import KarpenterPool, karpenter_pools
from gpupool.environment.plan.model import Capacity, Plan, Pool, Window
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of, quantities
from gpupool.generators.node_classes import reference

EFA = "gpupool.dev/efa"
"""Annotation `true`: jobs over several nodes ask for EFA. What else says so are their pods alone."""
_WEEK_MINUTES = 7 * 1440


def generate(plan: Plan) -> Iterator[Manifest]:
    for started in karpenter_pools(plan):
        for capacity in started.capacities:
            yield _node_pool(plan, started, capacity)


def _node_pool(plan: Plan, started: KarpenterPool, capacity: Capacity) -> Manifest:
    pool = started.pool
    grace = pool.termination_grace_period
    startup = [taint.as_dict() for taint in pool.startup_taints]
    spec = {
        "weight": capacity.weight,
        "limits": quantities(pool.limits(capacity)),
        "disruption": {
            # Moving a running GPU job to save a node costs more than the node.
            "consolidationPolicy": "WhenEmpty",
            "consolidateAfter": pool.stopped_after(capacity.type),
            "budgets": budgets(pool),
        },
        "template": {
            "metadata": {"labels": dict(pool.labels)},
            "spec": {
                "nodeClassRef": reference(plan, started),
                "requirements": _requirements(started, capacity),
                "taints": [taint.as_dict() for taint in pool.taints],
                **({"startupTaints": startup} if startup else {}),
                "expireAfter": pool.expire_after,
                **({"terminationGracePeriod": grace} if grace is not None else {}),
            },
        },
    }
    noted = {EFA: "true"} if pool.machine.efa else None
    return manifest_of(plan, "NodePool", capacity.name, pool=pool, annotations=noted, spec=spec)


def _requirements(started: KarpenterPool, capacity: Capacity) -> list[dict[str, Any]]:
    pool, types = started.pool, list(started.instance_types)
    arches = sorted({pool.gpu.instance_type(name).arch for name in types})
    wanted = {
        "node.kubernetes.io/instance-type": types,
        "karpenter.sh/capacity-type": list(capacity.types),
        "kubernetes.io/arch": arches,
        "kubernetes.io/os": ["linux"],
    } | ({"topology.kubernetes.io/zone": list(pool.zones)} if pool.zones else {})
    return [{"key": key, "operator": "In", "values": values} for key, values in wanted.items()]


def budgets(pool: Pool) -> list[dict[str, Any]]:
    """Disruption budgets: so many nodes at once, and outside the maintenance window none that is in use.
    Empty nodes may go at any time. Cron in UTC; the most restrictive budget holds."""
    allowed: dict[str, Any] = {"nodes": str(pool.max_unavailable)}
    # Nothing is lost when several empty nodes go at once.
    drifting = {**allowed, "reasons": ["Drifted", "Underutilized"]}
    empty = {"nodes": "100%", "reasons": ["Empty"]}
    frozen = [] if pool.window is None else _closed(pool.window)
    return [drifting, empty, *frozen]


def _closed(window: Window) -> list[dict[str, Any]]:
    """One budget of 0 for each stretch between the end of one opening and the start of the next."""
    openings = sorted(day * 1440 + window.start_minute for day in window.weekdays)
    result = []
    for index, opening in enumerate(openings):
        close = opening + window.minutes
        following = openings[index + 1] if index + 1 < len(openings) else openings[0] + _WEEK_MINUTES
        day, minute = divmod(close % _WEEK_MINUTES, 1440)
        result.append(
            {
                "nodes": "0",
                "reasons": ["Drifted", "Underutilized"],
                "schedule": f"{minute % 60} {minute // 60} * * {day}",
                "duration": f"{following - close}m",
            }
        )
    return result
