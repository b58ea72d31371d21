"""Every way to share every card of the catalog, as a pool of an environment that is resolved and rendered.

One environment per card, with a pool for each case, so that configurations and figures are those of users.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from gpupool.environment.catalog.load import load_catalog
from gpupool.environment.catalog.models import GpuModel
from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.operator_releases import load_operator_releases, release_problems
from gpupool.environment.sharing import SHARED_RESOURCE, MigSharing, maximal_layouts
from gpupool.generators import device_plugin, mig_parted
from tests.environment_files import environment_data, plan_of
from tests.nvidia.node import Cards

RELEASE = "v26.3.0"
"""The release of the GPU Operator that brings the device plugin v0.19.0."""
GPUS = 2
"""Of a node: enough to tell what is counted per GPU from what is counted per node."""
_CONFIG = "nvidia.com/device-plugin.config"


@dataclass(frozen=True)
class Case:
    """One pool and what it is rendered to."""

    key: str
    number: int

    @property
    def pool(self) -> Pool:
        return _plan(self.key).pools[self.number]

    @property
    def plugin_config(self) -> str:
        """What the device plugin of the pool's nodes is given."""
        (config_map,) = device_plugin.generate(_plan(self.key))
        return str(config_map.body["data"][self.pool.labels[_CONFIG]])

    @property
    def mig_configs(self) -> str:
        """The file that mig-parted reads, with the layouts of all pools."""
        (config_map,) = mig_parted.generate(_plan(self.key))
        return str(config_map.body["data"]["config.yaml"])

    @property
    def cards(self) -> Cards:
        """The GPUs of one of its nodes, as the MIG manager leaves them."""
        return Cards(self.pool.gpu, (self.pool.sharing.layout or None,) * GPUS)

    def __str__(self) -> str:
        sharing = self.pool.sharing
        what = ",".join(f"{count}x{name}" for name, count in sharing.layout.items())
        renamed = "-renamed" if SHARED_RESOURCE in self.pool.slices_per_node else ""
        return f"{self.key}-{sharing.mode}-{what or getattr(sharing, 'replicas', 1)}{renamed}"


def _sharings(gpu: GpuModel) -> list[dict[str, Any]]:
    release = load_operator_releases().releases[RELEASE]
    layouts = [one for one in maximal_layouts(gpu) if not release_problems(release, gpu, MigSharing(one))]
    return [
        {"mode": "exclusive"},
        *({"mode": "time-slicing", "replicas": replicas} for replicas in (2, 10)),
        *({"mode": "mps", "replicas": replicas} for replicas in (2, gpu.mps_clients)),
        {"mode": "time-slicing", "replicas": 4, "renameByDefault": True},
        {"mode": "mps", "replicas": 4, "renameByDefault": True},
        *({"mode": "mig", "layout": layout} for layout in layouts),
    ]


@functools.cache
def _plan(key: str) -> Plan:
    """The environment of one card."""
    sharings = _sharings(load_catalog()[key])
    pools = [
        {"name": f"p{n}", "gpu": key, "sharing": one, "nodes": {"names": [f"n{n}"], "gpus": GPUS}}
        for n, one in enumerate(sharings)
    ]
    operator = {"driver": {"enabled": False}, "version": RELEASE}
    return plan_of(environment_data("static", gpuOperator=operator, pools=pools))


@functools.cache
def every_case() -> tuple[Case, ...]:
    """All cards, all modes, all layouts to which no instance can be added."""
    return tuple(
        Case(key, number)
        for key, model in load_catalog().models.items()
        for number in range(len(_sharings(model)))
    )
