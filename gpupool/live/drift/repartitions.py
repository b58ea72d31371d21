"""A pool that is being repartitioned differs from the file on purpose: that is not drift.

`gpupool repartition` notes its beginning and its end in the cluster (infra.under_way). Until it ends,
differences of the pool's nodes, and of the settings that hold both shapes, are settling.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpupool.environment.plan.model import POOL_LABEL, SYSTEM_NAMESPACE
from gpupool.findings import Category
from gpupool.live.cluster.snapshot import Object, notes
from gpupool.live.drift import limits, repair
from gpupool.live.drift.ages import duration
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.objects.repartition_mark import JOURNAL, MARK, maps_of, noted

_BESIDE = frozenset({"label", "taint", "foreign-taint", "not-ready", "driver-too-old", "device-unhealthy"})
"""Kinds that a repartition does not fix, though it may explain them."""
_REFUSED = ("gpupool refresh ", "gpupool up ")


def check(inputs: DriftInput) -> Iterator[Drift]:
    """The repartition itself."""
    journal = _journal(inputs)
    if journal is None:
        return
    pool, lasting = noted(journal).pool, inputs.age(journal)
    yield Drift(
        layer="others",
        code="repartition",
        object=f"pool {pool}",
        what=f"it has been in repartition for {duration(lasting)}; if no run is active, continue it",
        remediation=repair.repartition(inputs.env, pool),
        category=Category.settling if lasting < limits.WINDOW else Category.drift,
    )


def softened(inputs: DriftInput, drifts: Iterable[Drift]) -> Iterator[Drift]:
    """`drifts`, settling where a running repartition explains them, with repairs that work during it."""
    journal = _journal(inputs)
    if journal is None:
        yield from drifts
        return
    pool = noted(journal).pool
    explained = _explained(inputs, pool) if inputs.age(journal) < limits.WINDOW else set()
    for drift in drifts:
        if drift.object in explained and not _own_cordon(inputs, drift):
            yield _part_of_it(inputs, pool, drift)
        else:
            yield replace(drift, remediation=_after_it(inputs, pool, drift.remediation))


def _part_of_it(inputs: DriftInput, pool: str, drift: Drift) -> Drift:
    """What the repartition causes, and ends itself."""
    reason = f"{drift.what}; the pool is being repartitioned"
    if drift.code == "outdated":
        # Its own message is about Karpenter, which is paused during the repartition.
        reason = f"it is of an earlier version of its pool and stays until the repartition ends (pool {pool})"
    go_on = repair.repartition(inputs.env, pool)
    restore = _after_it(inputs, pool, drift.remediation) if drift.code in _BESIDE else go_on
    return replace(drift, category=Category.settling, what=reason, remediation=restore)


def _after_it(inputs: DriftInput, pool: str, command: str) -> str:
    """The repair, the repartition first where it needs `up` or `refresh`: those are refused until it ends."""
    go_on = repair.repartition(inputs.env, pool)
    if command.startswith(_REFUSED):
        return repair.all_of(go_on, repair.Command(command))
    refused = any(name in command for name in _REFUSED)
    return f"{go_on}, then {command}" if refused else command


def _own_cordon(inputs: DriftInput, drift: Drift) -> bool:
    """Whether somebody, and not the repartition, has cordoned the node."""
    node = inputs.snapshot.nodes.get(drift.object.removeprefix("Node "))
    return drift.code == "cordoned" and node is not None and MARK not in notes(node)


def _explained(inputs: DriftInput, pool: str) -> set[str]:
    """What a repartition of the pool works on, as differences name it."""
    nodes = {f"Node {row.name}" for row in inputs.nodes if row.pool.name == pool}
    settings = {str(manifest) for manifest in maps_of(inputs.bundle)} | {
        str(manifest)
        for manifest in inputs.bundle
        if manifest.kind == "ClusterPolicy"
        or (manifest.kind in ("NodePool", "NodeOverlay") and manifest.labels.get(POOL_LABEL) == pool)
    }
    policies = {
        f"ClusterPolicy {row['metadata']['name']}"
        for row in inputs.snapshot.of("nvidia.com/v1", "ClusterPolicy")
    }
    return nodes | settings | policies


def _journal(inputs: DriftInput) -> Object | None:
    return inputs.snapshot.find("v1", "ConfigMap", JOURNAL, SYSTEM_NAMESPACE)
