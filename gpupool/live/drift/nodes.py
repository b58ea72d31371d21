"""Nodes are there and carry what their pool says: labels, taints, and one pool each.

The slices layer checks the labels that steer the GPU Operator, because their effect is visible there.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.findings import Category
from gpupool.live.cluster.live_objects import STEERING
from gpupool.live.cluster.snapshot import NODEPOOL_LABEL, labels
from gpupool.live.drift import limits, repair
from gpupool.live.drift.ages import duration, is_being_deleted
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.foreign_taints import foreign_taints
from gpupool.live.drift.pool_nodes import Phase, PoolNode, selects
from gpupool.live.objects.owner import FIELD_MANAGER
from gpupool.live.objects.ownership import Ownership


def check(inputs: DriftInput) -> Iterator[Drift]:
    """Labels, taints and presence of the pools' nodes, and nodes that carry a pool's label without belonging
    to it."""
    for pool in inputs.plan.pools:
        yield from _named(inputs, pool)
    for row in inputs.nodes:
        if row.phase is Phase.absent:
            yield _drift(row, "not-ready", row.why, _absent(row))
        elif row.phase in (Phase.starting, Phase.leaving):
            yield _drift(row, str(row.phase), row.why, f"kubectl get node {row.name}", Category.settling)
        elif row.phase is Phase.outdated:
            yield _waits(inputs, row)
        else:
            yield from _labels(inputs, row)
            yield from _taints(inputs, row)
            yield from foreign_taints(row)
            if (row.node.get("spec") or {}).get("unschedulable"):
                reason = "it is cordoned: it takes no new pods"
                yield _drift(row, "cordoned", reason, f"kubectl uncordon {row.name}", Category.warning)
    yield from _unplanned_nodes(inputs)


def _drift(row: PoolNode, kind: str, reason: str, command: str, level: Category = Category.drift) -> Drift:
    of = f"{reason} (pool {row.pool.name})"
    return Drift(
        layer="nodes", code=kind, object=f"Node {row.name}", what=of, remediation=command, category=level
    )


def _absent(row: PoolNode) -> str:
    if row.claim is not None:
        return repair.delete("nodeclaim", row.claim["metadata"]["name"])
    return f"kubectl describe node {row.name}"


def _waits(inputs: DriftInput, row: PoolNode) -> Drift:
    """A node that Karpenter is to replace: how long it may take is the pool's own setting."""
    allowed = limits.WINDOW if row.pool.window else limits.REPLACEMENT
    template = inputs.snapshot.find("karpenter.sh/v1", "NodePool", labels(row.node).get(NODEPOOL_LABEL, ""))
    changed = Ownership(template).of(("spec",), "")[1] if template else ""
    lasting = inputs.seconds_since(changed) if changed else inputs.age(row.node)
    level = Category.settling if lasting < allowed else Category.drift
    waits = " within its budget" + (" in the maintenance window" if row.pool.window else "")
    reason = f"{row.why}{waits}; waiting for {duration(lasting)}"
    return _drift(row, "outdated", reason, repair.repartition(inputs.env, row.pool.name), level)


def _by_hand(inputs: DriftInput, row: PoolNode) -> bool:
    """Whether applying the file again would change nothing on the node."""
    return row.claim is not None or inputs.plan.labelled_by_group(row.pool)


def _labels(inputs: DriftInput, row: PoolNode) -> Iterator[Drift]:
    have, owners = labels(row.node), Ownership(row.node)
    for key, value in row.pool.labels.items():
        if key in STEERING or have.get(key) == value:
            continue
        by, _ = owners.of(("metadata", "labels", key), FIELD_MANAGER) if key in have else ("", "")
        reason = f'label {key} is "{have[key]}"' if key in have else f"it has no label {key}"
        reason += f', the pool\'s nodes have "{value}"' + (f"; set by {by}" if by else "")
        restore = repair.label(row.name, key, value) if _by_hand(inputs, row) else inputs.restore()
        yield Drift(
            layer="nodes",
            code="label",
            object=f"Node {row.name}",
            path=f"metadata.labels[{key}]",
            wanted=value,
            found=have.get(key),
            by=by,
            what=(reason if key != POOL_LABEL else f"{reason}: no job of the pool finds it")
            + inputs.from_group(row.pool),
            remediation=restore,
        )


def _taints(inputs: DriftInput, row: PoolNode) -> Iterator[Drift]:
    live = {(t["key"], t["effect"]): t.get("value", "") for t in row.node["spec"].get("taints") or ()}
    for taint in row.pool.taints:
        found = live.get((taint.key, taint.effect))
        if found == taint.value:
            continue
        reason = f"it has no taint {taint.key}={taint.value}:{taint.effect}"
        if found is not None:
            reason = f'taint {taint.key}:{taint.effect} has the value "{found}" and not "{taint.value}"'
        restore = repair.taint(row.name, taint.key, taint.value, taint.effect)
        yield Drift(
            layer="nodes",
            code="taint",
            object=f"Node {row.name}",
            path="spec.taints",
            wanted=taint.as_dict(),
            found=found,
            what=f"{reason}: any pod can run on it (pool {row.pool.name}){inputs.from_group(row.pool)}",
            remediation=restore if _by_hand(inputs, row) else inputs.restore(),
        )


def _named(inputs: DriftInput, pool: Pool) -> Iterator[Drift]:
    """Nodes that the file names or selects are there."""
    for name in pool.node_names:
        if name not in inputs.snapshot.nodes:
            yield Drift(
                layer="nodes",
                code="node-missing",
                object=f"Node {name}",
                what=f"pool {pool.name} names it, but the cluster does not have it",
                remediation=f"join {name} to the cluster, or remove it from pool {pool.name} and run "
                f"{inputs.apply()}",
            )
    if pool.node_selector and not any(selects(pool, node) for node in inputs.snapshot.nodes.values()):
        wanted = ",".join(f"{key}={value}" for key, value in pool.node_selector.items())
        yield Drift(
            layer="nodes",
            code="node-missing",
            object=f"pool {pool.name}",
            what=f"no node has the labels {wanted}",
            remediation=f"kubectl label node NODE {wanted.replace(',', ' ')}"
            + ("" if inputs.plan.labelled_by_group(pool) else f", then {inputs.apply()}"),
        )


def _unplanned_nodes(inputs: DriftInput) -> Iterator[Drift]:
    """Nodes with the label of an unknown pool, of a pool that they don't belong to, or of two."""
    ours = {row.name: row.pool for row in inputs.nodes}
    known = {pool.name for pool in inputs.plan.pools}
    for name, node in inputs.snapshot.nodes.items():
        label = labels(node).get(POOL_LABEL)
        claiming = [pool.name for pool in inputs.plan.pools if name in pool.node_names or selects(pool, node)]
        if len(claiming) > 1:
            reason = f"the pools {' and '.join(claiming)} both claim it; a node can be in only one"
            keys = [key for pool in inputs.plan.pools if selects(pool, node) for key in pool.node_selector]
            command = repair.label(name, keys[-1], None) if keys else f"name {name} in one pool only"
            yield _unplanned(name, "two-pools", reason, command)
        elif label is not None and name not in ours and not is_being_deleted(node):
            if label not in known:
                reason = f'its label {POOL_LABEL} says "{label}", but there is no such pool'
                yield _unplanned(name, "unknown-pool", reason, repair.label(name, POOL_LABEL, None))
            else:
                reason = (
                    f"it has the label of pool {label} but was not started for it: jobs are scheduled on it"
                )
                yield _unplanned(name, "foreign-node", reason, repair.label(name, POOL_LABEL, None))


def _unplanned(name: str, kind: str, reason: str, command: str) -> Drift:
    return Drift(layer="nodes", code=kind, object=f"Node {name}", what=reason, remediation=command)
