"""mig-parted's configurations: every layout of the environment, under a name made of the content.

Config names are made of the layout (`gpupool.environment.plan.pools.mig_config_name`) and are the value of
the node label, so a changed layout is another label and Karpenter replaces the node within the pool's budget.
A node that waits for that keeps its slices; the MIG manager may report `failed` on it meanwhile, since
its layout is no longer listed. Schema: mig-parted v0.15.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpupool.environment.plan.model import Plan
from gpupool.generators.emit import yaml_text
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import content_name, manifest_of


def generate(plan: Plan) -> Iterator[Manifest]:
    name = config_map_name(plan)
    if name is not None:
        data = {"config.yaml": yaml_text(_configs(plan))}
        yield manifest_of(plan, "ConfigMap", name, plan.gpu_operator.namespace, data=data)


def config_map_name(plan: Plan) -> str | None:
    """Name of the ConfigMap with the layouts; None where no pool is partitioned."""
    if not any(pool.mig_config for pool in plan.pools):
        return None
    return content_name("gpupool-mig", _configs(plan))


def _configs(plan: Plan) -> dict[str, Any]:
    layouts = {"all-disabled": [{"devices": "all", "mig-enabled": False}]}
    for pool in sorted(plan.pools, key=lambda pool: pool.mig_config or ""):
        if pool.mig_config:
            entry = {"devices": "all", "mig-enabled": True, "mig-devices": dict(pool.sharing.layout)}
            layouts[pool.mig_config] = [entry]
    return {"version": "v1", "mig-configs": layouts}
