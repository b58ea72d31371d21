"""Whether the cluster has the configurations that a node's planned steering labels name.

A label only names a configuration. Where the file was edited and not yet applied the cluster has no such
configuration, or has another one of that name, and a node that is switched to it loses what it offers.
Judges the cluster's settings, not nodes.
"""

from __future__ import annotations

from enum import StrEnum

from gpupool.live.cluster.live_objects import MIG_LABEL
from gpupool.live.cluster.snapshot import NODEPOOL_LABEL, labels
from gpupool.live.drift import repair
from gpupool.live.drift.drift_input import DriftInput
from gpupool.live.drift.operator_view import OperatorView
from gpupool.live.drift.pool_nodes import PoolNode
from gpupool.live.objects.repartition_mark import maps_of


class Prepared(StrEnum):
    """How far the settings of a pool in the cluster are those of the file."""

    ready = "ready"
    """The label means what the file says."""
    edited = "edited"
    """The file was applied, and somebody has changed the settings since."""
    unapplied = "unapplied"
    """The file says something that was never applied."""


def prepared(inputs: DriftInput, view: OperatorView, row: PoolNode, key: str) -> Prepared:
    """What a node of the pool would get for its planned label `key`."""
    value = row.pool.labels[key]
    meant = view.configured(key, value, live=True)
    planned = view.configured(key, value, live=False)
    if _template(inputs, row).get(key, value) != value:
        return Prepared.unapplied
    if meant is not None and meant == planned:
        return Prepared.ready
    return Prepared.edited if view.map_of(key) else Prepared.unapplied


def label_repair(inputs: DriftInput, view: OperatorView, row: PoolNode, key: str) -> repair.Command:
    """Give a node its planned label, after the configuration that the label names."""
    bare = repair.label(row.name, key, row.pool.labels[key])
    how = prepared(inputs, view, row, key)
    if how is Prepared.unapplied:
        return repair.repartition(inputs.env, row.pool.name)
    return bare if how is Prepared.ready else repair.all_of(_restore(inputs, view), bare)


def failed_repair(
    inputs: DriftInput, view: OperatorView, row: PoolNode, retry: repair.Command
) -> tuple[str, repair.Command]:
    """Why a node can't have its planned layout (empty: the cluster has it), and the command that fixes it.
    `retry` makes the MIG manager try again.

    Where the layout was never applied the node first gets the label back that its pool has in the cluster:
    that is what its GPUs are parted by, so no job loses its slice.
    """
    layout = row.pool.labels[MIG_LABEL]
    how = prepared(inputs, view, row, MIG_LABEL)
    if how is Prepared.ready:
        return "", retry
    there = view.configured(MIG_LABEL, layout, live=True) is not None
    which = "another" if there else "no"
    why = f'the configuration in the cluster has {which} layout "{layout}", fix that first'
    if how is Prepared.edited:
        return why, repair.all_of(_restore(inputs, view), retry)
    before = _template(inputs, row).get(MIG_LABEL)
    if before is None or view.configured(MIG_LABEL, before, live=True) is None:
        return why, repair.all_of(_restore(inputs, view), retry)
    back = repair.label(row.name, MIG_LABEL, before)
    return why, repair.all_of(back, repair.repartition(inputs.env, row.pool.name))


def _restore(inputs: DriftInput, view: OperatorView) -> repair.Command:
    """Restore the operator's configurations, and the references to them."""
    return inputs.restore(*maps_of(inputs.bundle), *(inputs.policy_parts if view.foreign_config() else ()))


def _template(inputs: DriftInput, row: PoolNode) -> dict[str, str]:
    """The labels that Karpenter gives to new nodes of the node's NodePool; empty where there is none."""
    name = labels(row.node).get(NODEPOOL_LABEL, "")
    found = inputs.snapshot.find("karpenter.sh/v1", "NodePool", name) or {}
    template = ((found.get("spec") or {}).get("template") or {}).get("metadata") or {}
    return dict(template.get("labels") or {})
