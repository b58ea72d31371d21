"""The old shape of nodes that join a pool while it is being repartitioned, for when they have to go back.

They never had it: Karpenter starts them in the new shape, or somebody adds one by hand. What they are to
offer is reckoned from the settings that the journal keeps, as it is from the Plan for the new shape. It must
not be taken from a neighbour, which may itself have been short of a GPU. Pure.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import yaml

from gpupool.catalog import mig_resource
from gpupool.plan import Pool
from gpupool.sharing import GPU_RESOURCE
from operations.repartition import configs
from operations.repartition.configs import Configs
from operations.repartition.journal import Journal
from operations.repartition.shapes import Node, Shape


def old_shape(journal: Journal, pool: Pool, node: Node) -> Shape:
    """What `node` becomes when it goes back: labels as most nodes had them, and the slices that these mean.

    Without slices where nobody knows: settings that are not gpupool's, a machine that the file does not name.
    """
    usual = Counter((shape.plugin, shape.mig) for shape in journal.old.values()).most_common(1)
    plugin, mig = usual[0][0] if usual else (pool.name, pool.mig_config)
    # Nodes that already exist have one kind of machine, whose type the Plan does not know.
    gpus = [kind.gpus for kind in pool.machines if kind.instance_type in (None, node.machine)]
    if not gpus or not journal.before:
        return Shape(plugin, mig, {})
    key = pool.name if plugin == configs.held_key(pool.name) else plugin
    per_gpu = _per_gpu(configs.of_journal(journal.before), key, mig)
    return Shape(plugin, mig, {name: count * gpus[0] for name, count in per_gpu.items()})


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
    """Of time-slicing or MPS, which are written alike; a renamed resource is none of gpupool's."""
    match methods:
        case [{"renameByDefault": False, "resources": [{"name": str(name), "replicas": count}]}]:
            return {name: count}
    return {}


def _parsed(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None
