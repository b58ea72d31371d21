"""Find out what has to change on the running nodes of a pool, and refuse what can't be done in place.

Reads only. The result is a Journal that has not been written yet, or None where there is nothing to do.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256

from gpupool.environment.plan.model import Pool
from gpupool.findings import GpupoolError
from gpupool.generators.manifest import Bundle
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.repartition import configs, joining_nodes, karpenter
from gpupool.live.repartition.journal import Journal
from gpupool.live.repartition.shapes import LiveNode, Shape, wanted
from gpupool.live.repartition.steps import Task


def journal_for(
    api: KubeApi, bundle: Bundle, pool: Pool, nodes: Sequence[LiveNode], now: datetime
) -> Journal | None:
    """What has to be known to change the pool's nodes, and to change them back; None for nothing to do.

    Raises GpupoolError for a pool that is not in the cluster yet, and for changes that need other machines.
    """
    live, before = configs.read(api, bundle)
    new = configs.of_bundle(bundle)
    if pool.name not in live.plugin:
        raise GpupoolError(
            f"pool {pool.name} does not exist in the cluster yet; apply it first: gpupool up "
            f"{bundle.environment}"
        )
    if pool.capacities:
        beside = karpenter.only_sharing(api, bundle, pool)
        if beside:
            raise GpupoolError(
                f"pool {pool.name} changes more than the sharing of its GPUs ({', '.join(beside)}), which is "
                "not possible on running machines; let Karpenter replace them: gpupool up "
                f"{bundle.environment}"
            )
        before["karpenter"] = karpenter.state(api, pool)
    hold = live.plugin[pool.name] != new.plugin[pool.name]
    if not hold and all(
        node.has_labels_of(wanted(pool, node.machine)) and node.mark is None for node in nodes
    ):
        return None
    old = {node.name: _held(node.shape(), pool, hold) for node in nodes}
    return Journal(
        environment=bundle.environment,
        pool=pool.name,
        started=now.astimezone(UTC).isoformat(timespec="seconds"),
        target=target(bundle, pool),
        hold=hold,
        old=old,
        new={node.name: wanted(pool, node.machine) for node in nodes},
        after={
            "plugin": new.plugin[pool.name],
            "layouts": {pool.mig_config: (new.layouts or {})[pool.mig_config]} if pool.mig_config else None,
        },
        before=before,
    )


def target(bundle: Bundle, pool: Pool) -> str:
    """Digest of the target shape of the pool's nodes."""
    asked = configs.of_bundle(bundle)
    parts = [pool.name, asked.plugin.get(pool.name), pool.mig_config, dict(pool.slices_per_node)]
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def task_for(journal: Journal, pool: Pool, nodes: Sequence[LiveNode], order: Sequence[str]) -> Task:
    """The task that the journal stands for, with nodes that have joined since."""
    names = [*order, *sorted(node.name for node in nodes if node.name not in order)]
    old, new = journal.old, journal.new
    return Task(
        new={node.name: new.get(node.name) or joining_nodes.new_shape(journal, pool, node) for node in nodes},
        old={node.name: old.get(node.name) or joining_nodes.old_shape(journal, pool, node) for node in nodes},
        order=names,
        backwards=journal.backwards,
    )


def _held(shape: Shape, pool: Pool, hold: bool) -> Shape:
    """The shape under the key that keeps its settings where the pool's own key gets new ones."""
    plugin = configs.held_key(pool.name) if hold and shape.plugin == pool.name else shape.plugin
    return Shape(plugin, shape.mig, shape.slices)
