"""Nodes that exist already: a patch of their labels and taints, given back when the pool goes.

Only what the pool sets is in the patch. Which nodes a selector chooses is not known here; callers with
access to the cluster call `node_patch` with their names.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import Plan, Pool
from gpupool.generators.manifest import Manifest


def generate(plan: Plan) -> Iterator[Manifest]:
    for pool in plan.pools:
        for name in pool.node_names:
            yield node_patch(pool, name)


def node_patch(pool: Pool, name: str) -> Manifest:
    """The pool's labels and taints on the node called `name`."""
    taints = {"spec": {"taints": [taint.as_dict() for taint in pool.taints]}} if pool.taints else {}
    metadata = {"name": name, "labels": dict(pool.labels)}
    return Manifest({"apiVersion": "v1", "kind": "Node", "metadata": metadata, **taints}, patch=True)
