"""A pool that is being repartitioned is not yet what the file says, on purpose: that is no drift.

`gpupool repartition` notes its beginning and its end in the cluster (infra.under_way). What is told meanwhile
about the pool's nodes, and about the settings that hold both shapes, is settling.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpupool.plan import OPERATOR_NAMESPACE, POOL_LABEL, SYSTEM_NAMESPACE
from infra.under_way import JOURNAL, JOURNAL_KEY
from operations.drift import limits, repair
from operations.drift.drift import Drift, Level
from operations.drift.sight import Sight, duration
from operations.snapshot import Object


def check(sight: Sight) -> Iterator[Drift]:
    """The repartition itself."""
    journal = _journal(sight)
    if journal is None:
        return
    pool, lasting = _pool(journal), sight.age(journal)
    yield Drift(
        layer="others",
        kind="repartition",
        object=f"pool {pool}",
        reason=f"it is being repartitioned since {duration(lasting)}; where nobody is at it any more, go on",
        repair=repair.repartition(sight.env, pool),
        level=Level.settling if lasting < limits.WINDOW else Level.drift,
    )


def softened(sight: Sight, drifts: Iterable[Drift]) -> Iterator[Drift]:
    """`drifts`, those that a repartition under way explains as settling."""
    journal = _journal(sight)
    explained: set[str] = set()
    if journal is not None and sight.age(journal) < limits.WINDOW:
        explained = _explained(sight, _pool(journal))
    for drift in drifts:
        if drift.object in explained and drift.level is Level.drift:
            yield replace(
                drift, level=Level.settling, reason=f"{drift.reason}; the pool is being repartitioned"
            )
        else:
            yield drift


def _explained(sight: Sight, pool: str) -> set[str]:
    """What a repartition of the pool works on, as differences name it."""
    nodes = {f"Node {row.name}" for row in sight.nodes if row.pool.name == pool}
    settings = {
        str(manifest)
        for manifest in sight.bundle
        if manifest.kind == "ClusterPolicy"
        or (manifest.kind == "ConfigMap" and manifest.namespace == OPERATOR_NAMESPACE)
        or (manifest.kind in ("NodePool", "NodeOverlay") and manifest.labels.get(POOL_LABEL) == pool)
    }
    policies = {
        f"ClusterPolicy {row['metadata']['name']}"
        for row in sight.snapshot.of("nvidia.com/v1", "ClusterPolicy")
    }
    return nodes | settings | policies


def _journal(sight: Sight) -> Object | None:
    return sight.snapshot.find("v1", "ConfigMap", JOURNAL, SYSTEM_NAMESPACE)


def _pool(journal: Object) -> str:
    try:
        return str(json.loads((journal.get("data") or {}).get(JOURNAL_KEY) or "{}").get("pool", "?"))
    except (ValueError, AttributeError):
        return "?"
