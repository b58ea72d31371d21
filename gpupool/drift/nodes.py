"""Nodes are there and carry what their pool says: labels, taints, and one pool each.

The labels that steer the GPU Operator are the slices' concern, where their effect is seen too.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.cluster.snapshot import NODEPOOL_LABEL, labels
from gpupool.drift import limits, repair
from gpupool.drift.comparison import Ownership
from gpupool.drift.drift import Drift, Level
from gpupool.drift.foreign_taints import foreign_taints
from gpupool.drift.moments import duration, going
from gpupool.drift.pool_nodes import Phase, PoolNode, selects
from gpupool.drift.sight import Sight
from gpupool.plan.model import POOL_LABEL, Pool
from infra.apply import FIELD_MANAGER

STEERING = ("nvidia.com/device-plugin.config", "nvidia.com/mig.config")


def check(sight: Sight) -> Iterator[Drift]:
    """Labels, taints and presence of the pools' nodes, and nodes that carry a pool's label in vain."""
    for pool in sight.plan.pools:
        yield from _named(sight, pool)
    for row in sight.nodes:
        if row.phase is Phase.absent:
            yield _drift(row, "not-ready", row.why, _absent(row))
        elif row.phase in (Phase.starting, Phase.leaving):
            yield _drift(row, str(row.phase), row.why, f"kubectl get node {row.name}", Level.settling)
        elif row.phase is Phase.outdated:
            yield _waits(sight, row)
        else:
            yield from _labels(sight, row)
            yield from _taints(sight, row)
            yield from foreign_taints(row)
            if (row.node.get("spec") or {}).get("unschedulable"):
                told = "it is cordoned: it takes no new pods"
                yield _drift(row, "cordoned", told, f"kubectl uncordon {row.name}", Level.warning)
    yield from _strangers(sight)


def _drift(row: PoolNode, kind: str, reason: str, command: str, level: Level = Level.drift) -> Drift:
    of = f"{reason} (pool {row.pool.name})"
    return Drift(layer="nodes", kind=kind, object=f"Node {row.name}", reason=of, repair=command, level=level)


def _absent(row: PoolNode) -> str:
    if row.claim is not None:
        return repair.delete("nodeclaim", row.claim["metadata"]["name"])
    return f"kubectl describe node {row.name}"


def _waits(sight: Sight, row: PoolNode) -> Drift:
    """A node that Karpenter is to replace: how long it may take is the pool's own setting."""
    allowed = limits.WINDOW if row.pool.window else limits.REPLACEMENT
    template = sight.snapshot.find("karpenter.sh/v1", "NodePool", labels(row.node).get(NODEPOOL_LABEL, ""))
    changed = Ownership(template).of(("spec",), "")[1] if template else ""
    lasting = sight.since(changed) if changed else sight.age(row.node)
    level = Level.settling if lasting < allowed else Level.drift
    waits = " within its budget" + (" in the maintenance window" if row.pool.window else "")
    told = f"{row.why}{waits}; waiting for {duration(lasting)}"
    return _drift(row, "outdated", told, repair.repartition(sight.env, row.pool.name), level)


def _labels(sight: Sight, row: PoolNode) -> Iterator[Drift]:
    have, owners = labels(row.node), Ownership(row.node)
    for key, value in row.pool.labels.items():
        if key in STEERING or have.get(key) == value:
            continue
        by, _ = owners.of(("metadata", "labels", key), FIELD_MANAGER) if key in have else ("", "")
        told = f'label {key} is "{have[key]}"' if key in have else f"it has no label {key}"
        told += f', the pool\'s nodes have "{value}"' + (f"; set by {by}" if by else "")
        mend = sight.mend() if row.claim is None else repair.label(row.name, key, value)
        yield Drift(
            layer="nodes",
            kind="label",
            object=f"Node {row.name}",
            path=f"metadata.labels[{key}]",
            wanted=value,
            found=have.get(key),
            by=by,
            reason=told if key != POOL_LABEL else f"{told}: no job of the pool finds it",
            repair=mend,
        )


def _taints(sight: Sight, row: PoolNode) -> Iterator[Drift]:
    live = {(t["key"], t["effect"]): t.get("value", "") for t in row.node["spec"].get("taints") or ()}
    for taint in row.pool.taints:
        found = live.get((taint.key, taint.effect))
        if found == taint.value:
            continue
        told = f"it has no taint {taint.key}={taint.value}:{taint.effect}"
        if found is not None:
            told = f'taint {taint.key}:{taint.effect} has the value "{found}" and not "{taint.value}"'
        mend = repair.taint(row.name, taint.key, taint.value, taint.effect)
        yield Drift(
            layer="nodes",
            kind="taint",
            object=f"Node {row.name}",
            path="spec.taints",
            wanted=taint.as_dict(),
            found=found,
            reason=f"{told}: pods of anybody land on it (pool {row.pool.name})",
            repair=sight.mend() if row.claim is None else mend,
        )


def _named(sight: Sight, pool: Pool) -> Iterator[Drift]:
    """Nodes that the file names or selects are there."""
    for name in pool.node_names:
        if name not in sight.snapshot.nodes:
            yield Drift(
                layer="nodes",
                kind="node-missing",
                object=f"Node {name}",
                reason=f"pool {pool.name} names it, and the cluster does not have it",
                repair=f"join {name} to the cluster, or take it out of pool {pool.name} and run "
                f"{sight.apply()}",
            )
    if pool.node_selector and not any(selects(pool, node) for node in sight.snapshot.nodes.values()):
        wanted = ",".join(f"{key}={value}" for key, value in pool.node_selector.items())
        yield Drift(
            layer="nodes",
            kind="node-missing",
            object=f"pool {pool.name}",
            reason=f"no node has the labels {wanted}",
            repair=f"kubectl label node NODE {wanted.replace(',', ' ')}, then {sight.apply()}",
        )


def _strangers(sight: Sight) -> Iterator[Drift]:
    """Nodes with the label of a pool that there is not, of a pool that they are not of, or of two."""
    ours = {row.name: row.pool for row in sight.nodes}
    known = {pool.name for pool in sight.plan.pools}
    for name, node in sight.snapshot.nodes.items():
        label = labels(node).get(POOL_LABEL)
        claiming = [pool.name for pool in sight.plan.pools if name in pool.node_names or selects(pool, node)]
        if len(claiming) > 1:
            told = f"the pools {' and '.join(claiming)} both claim it; a node can be in one only"
            keys = [key for pool in sight.plan.pools if selects(pool, node) for key in pool.node_selector]
            command = repair.label(name, keys[-1], None) if keys else f"name {name} in one pool only"
            yield _stranger(name, "two-pools", told, command)
        elif label is not None and name not in ours and not going(node):
            if label not in known:
                told = f'its label {POOL_LABEL} says "{label}", and there is no such pool'
                yield _stranger(name, "unknown-pool", told, repair.label(name, POOL_LABEL, None))
            else:
                told = f"it carries the label of pool {label} and was not started for it: jobs land on it"
                yield _stranger(name, "stranger", told, repair.label(name, POOL_LABEL, None))


def _stranger(name: str, kind: str, reason: str, command: str) -> Drift:
    return Drift(layer="nodes", kind=kind, object=f"Node {name}", reason=reason, repair=command)
