"""Environments of any size, for figures: pools of every sharing mode and tenants with grants on them."""

from __future__ import annotations

import json
from pathlib import Path

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.generators import generate
from tests.environment_files import Data, environment_data

KINDS: tuple[Data, ...] = (
    {"gpu": "t4", "sharing": {"mode": "time-slicing", "replicas": 8}, "type": "g4dn.xlarge"},
    {"gpu": "a100-80gb", "sharing": {"mode": "time-slicing", "replicas": 3}, "type": "p4de.24xlarge"},
    {
        "gpu": "h100-80gb",
        "sharing": {"mode": "mig", "layout": {"3g.40gb": 1, "2g.20gb": 2}},
        "type": "p5.48xlarge",
    },
    {"gpu": "l4", "sharing": {"mode": "mps", "replicas": 4}, "type": "g6.12xlarge"},
    {"gpu": "a10g", "sharing": {"mode": "exclusive"}, "type": "g5.12xlarge"},
)


def environment(name: str, pools: int, tenants: int) -> Data:
    """An environment of so many pools and tenants."""
    return environment_data(
        "eks",
        name=name,
        cluster={"name": "large"},
        gpuOperator={"driver": {"enabled": False}},
        pools=[_pool(index) for index in range(pools)],
        priorities=[{"name": "normal", "value": 100, "level": "medium"}],
        tenants=[_tenant(index, pools) for index in range(tenants)],
    )


def _pool(index: int) -> Data:
    kind = KINDS[index % len(KINDS)]
    return {
        "name": f"pool-{index:03}",
        "description": f"Pool number {index}",
        "gpu": kind["gpu"],
        "sharing": kind["sharing"],
        "overcommit": True,
        "nodes": {"instanceTypes": [kind["type"]], "max": 4, "spotShare": 0.5 if index % 2 else 0},
        "labels": {"workload-type": f"kind-{index % 7}"},
        "maintenance": {"window": "Sat,Sun 02:00-06:00 UTC"},
    }


def _tenant(index: int, pools: int) -> Data:
    chosen = {f"pool-{(index * 3 + step) % pools:03}": {"gpus": 1} for step in range(3)}
    access = {"oidcGroups": [f"group-{index}"]}
    return {"name": f"tenant-{index:03}", "namespace": f"team-{index:03}", "pools": chosen, "access": access}


def write(folder: Path, name: str, pools: int, tenants: int) -> Path:
    """The environment as a file `<name>.yaml` in `folder`, indented as people write it."""
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(environment(name, pools, tenants), indent=2))
    return path


def write_objects(folder: Path, name: str, objects: int) -> Path:
    """An environment file that renders to exactly `objects` objects and releases, or a little more."""
    tenants = 1
    while True:
        path = write(folder, name, max(3, tenants // 2), tenants)
        made = generate(resolve(load(path)))
        missing = objects - len(made.manifests) - len(made.releases)
        if missing <= 0:
            return path
        tenants += max(1, missing // 8)
