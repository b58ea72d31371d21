"""The shapes of nodes that join a pool while it is being repartitioned, old and new.

They never had the old one: Karpenter starts them in the new shape, or somebody adds one by hand. What they
should offer is computed from the settings in the journal, as it is otherwise computed from the Plan. It must
not come from a neighbour, which may itself lack a GPU, or from a file that has changed
since. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import yaml

from gpupool.environment.catalog.models import mig_resource
from gpupool.environment.plan.model import Pool
from gpupool.environment.sharing import GPU_RESOURCE, SHARED_RESOURCE
from gpupool.live.cluster.live_objects import MIG_LABEL
from gpupool.live.repartition import configs
from gpupool.live.repartition.configs import Configs
from gpupool.live.repartition.journal import Journal
from gpupool.live.repartition.shapes import LiveNode, Shape, wanted


def old_shape(journal: Journal, pool: Pool, node: LiveNode) -> Shape:
    """What `node` becomes when it goes back: labels as most nodes had them, and the slices that these mean.

    Without slices where they are unknown: settings that are not gpupool's, a machine that the file does not
    name.
    """
    plugin, mig = _old_labels(journal, pool)
    if not journal.before:
        return Shape(plugin, mig, {})
    key = pool.name if plugin == configs.held_key(pool.name) else plugin
    return Shape(plugin, mig, _slices(configs.of_journal(journal.before), key, mig, pool, node))


def new_shape(journal: Journal, pool: Pool, node: LiveNode) -> Shape:
    """What `node` had when it joined, or is to get."""
    if not journal.backwards or not journal.after:
        return wanted(pool, node.machine)
    mig = next(iter(journal.after["layouts"] or ()), None)
    return Shape(
        pool.name, mig, _slices(configs.of_new(journal.after, pool.name), pool.name, mig, pool, node)
    )


def _old_labels(journal: Journal, pool: Pool) -> tuple[str, str | None]:
    known = Counter((shape.plugin, shape.mig) for shape in journal.old.values()).most_common(1)
    if known:
        return known[0][0]
    # No node was there: Karpenter would have given it the labels of its template.
    pools = (journal.before.get("karpenter") or {}).get("pools", {}).values()
    templates = [body["spec"]["template"].get("metadata", {}).get("labels", {}) for body in pools]
    mig = templates[0].get(MIG_LABEL) if templates else pool.mig_config
    return configs.held_key(pool.name) if journal.hold else pool.name, mig


def _slices(settings: Configs, key: str, layout: str | None, pool: Pool, node: LiveNode) -> dict[str, int]:
    # Nodes that already exist have one kind of machine, whose type the Plan does not know.
    gpus = [kind.gpus for kind in pool.machines if kind.instance_type in (None, node.machine)]
    per_gpu = _per_gpu(settings, key, layout) if gpus else {}
    return {name: count * gpus[0] for name, count in per_gpu.items()}


def _per_gpu(settings: Configs, key: str, layout: str | None) -> dict[str, int]:
    """Extended resource -> count that one GPU gives; empty for settings that gpupool does not write."""
    counts: dict[str, Any] = {}
    if layout is not None:
        match (settings.layouts or {}).get(layout):
            case [{"devices": "all", "mig-enabled": True, "mig-devices": {**instances}}]:
                counts = {mig_resource(str(profile)): count for profile, count in instances.items()}
    else:
        match _parsed(settings.plugin.get(key, "")):
            case {"sharing": {**methods}}:
                counts = _replicas(list(methods.values()))
            case {"version": "v1"}:
                counts = {GPU_RESOURCE: 1}
    return counts if all(isinstance(count, int) for count in counts.values()) else {}


def _replicas(methods: list[Any]) -> dict[str, Any]:
    """Of time-slicing or MPS, which are written alike."""
    match methods:
        case [{"renameByDefault": bool(renamed), "resources": [{"replicas": count}]}]:
            return {SHARED_RESOURCE if renamed else GPU_RESOURCE: count}
    return {}


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
