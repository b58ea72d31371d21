"""Differences between a cluster and its environment's file, layer by layer, each with reason and remediation.

CHECKS is the only place where a check is registered. Each check is pure: it gets a DriftInput (plan,
manifests, what the server holds, the time) and yields differences. It does not query the server or depend on
another check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from gpupool.environment.plan.model import Plan
from gpupool.findings import Category
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.snapshot import ClusterSnapshot
from gpupool.live.drift import (
    delivery,
    karpenter,
    nodes,
    objects,
    other_managers,
    other_publishers,
    owner,
    releases,
    repartitions,
    reservations,
    slices,
    tenants,
)
from gpupool.live.drift.drift import LAYERS, Drift
from gpupool.live.drift.drift_input import DriftInput

CHECKS: tuple[Callable[[DriftInput], Iterable[Drift]], ...] = (
    objects.check,
    releases.check,
    nodes.check,
    slices.check,
    karpenter.check,
    reservations.check,
    tenants.check,
    other_managers.check,
    other_publishers.check,
    delivery.check,
    repartitions.check,
)

_RANK = {Category.drift: 0, Category.settling: 1, Category.warning: 2}


def examine(
    plan: Plan, bundle: Bundle, snapshot: ClusterSnapshot, now: datetime, env: str = ""
) -> tuple[Drift, ...]:
    """Every difference, layer by layer, what is wrong before what settles.

    `env` is how commands name the environment; by default its name.
    """
    inputs = DriftInput(plan, bundle, snapshot, now, env or plan.environment)
    elsewhere = owner.of_another(inputs)
    if elsewhere is not None:
        return (elsewhere,)
    drifts = list(repartitions.softened(inputs, (drift for check in CHECKS for drift in check(inputs))))
    order = {layer: number for number, layer in enumerate(LAYERS)}
    return tuple(sorted(drifts, key=lambda d: (order[d.layer], _RANK[d.category], d.object, d.code, d.path)))


__all__ = ["CHECKS", "LAYERS", "Drift", "DriftInput", "examine"]
