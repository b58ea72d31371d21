"""`gpupool assert` of 1,000 objects and 500 nodes against a local API server, from process start.

Objects are applied and nodes made directly: what is measured is the check, not how they came about. The
cluster is what the file says, and a verdict that says otherwise is a missed figure.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gpupool.environment.plan.model import Plan, Pool
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.generators import generate
from gpupool.generators.kinds import KINDS
from gpupool.generators.manifest import Manifest
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.local.control_plane import ControlPlane
from tests.cluster.operator_policy import hand_made_policy
from tests.environment_files import environment_data
from tests.perf.measure import Failed, run

GPUPOOL = Path(sys.executable).with_name("gpupool")
OBJECTS, NODES, POOLS = 1000, 500, 10
_RUNS = 5
_AT_ONCE = 16
Figure = tuple[str, float]


def whole_command(folder: Path) -> Iterator[Figure]:
    """The command's time, and how many lists it asks for, of which there are as many as kinds."""
    environment = _environment(folder)
    plan = resolve(load(environment))
    plane = ControlPlane(folder / "local")
    try:
        plane.up(lambda _: None)
        api = plane.api()
        _fill(api, plan)
        answer = folder / "answer.json"
        command = [GPUPOOL, "assert", environment, "--no-record", "--format", "json"]
        variables = {"KUBECONFIG": str(plane.kubeconfig)}
        taken = [run(command, folder, variables, (0, 1), answer)[0] for _ in range(_RUNS)]
        found = json.loads(answer.read_text())
        if not found["settled"] or found["objects"] < OBJECTS + NODES:
            raise Failed(f"{found['objects']} objects, not what the file says: {found['findings'][:3]}")
        yield "assert", statistics.median(taken)
        yield "assert-lists", float(found["listRequests"])
    finally:
        plane.down()


def _environment(folder: Path) -> Path:
    """Pools of existing nodes, and as many tenants as make so many objects."""
    path, tenants = folder / "racks.yaml", 1
    while True:
        path.write_text(json.dumps(_data(tenants), indent=2))
        missing = OBJECTS - len(generate(resolve(load(path))).manifests)
        if missing <= 0:
            return path
        tenants += max(1, missing // 8)


def _data(tenants: int) -> dict[str, Any]:
    pools = [
        {
            "name": f"rack-{number}",
            "gpu": "l4",
            "sharing": {"mode": "time-slicing", "replicas": 4},
            "nodes": {"selector": {"rack": f"rack-{number}"}, "gpus": 8, "max": NODES // POOLS},
        }
        for number in range(POOLS)
    ]
    given = [
        {
            "name": f"tenant-{number}",
            "namespace": f"team-{number}",
            "pools": {f"rack-{number % POOLS}": {"gpus": 1}},
            "access": {"oidcGroups": [f"group-{number}"]},
        }
        for number in range(tenants)
    ]
    return environment_data(
        "static",
        name="racks",
        gpuOperator={"install": False},
        pools=pools,
        priorities=[{"name": "normal", "value": 100, "level": "medium"}],
        tenants=given,
    )


def _fill(api: KubeApi, plan: Plan) -> None:
    """Everything of the file, kind by kind, and its nodes."""
    api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}, "somebody")
    api.apply(hand_made_policy(), "somebody")
    manifests = list(generate(plan))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for kind in KINDS:
            same = [m for m in manifests if m.kind == kind.name]
            list(pool.map(lambda manifest: _apply(api, manifest), same))
        numbered = [(plan.pools[number % POOLS], number) for number in range(NODES)]
        list(pool.map(lambda row: api.create(_node(*row)), numbered))


def _apply(api: KubeApi, manifest: Manifest) -> None:
    api.apply(dict(manifest.body), "gpupool", force=True)


def _node(pool: Pool, number: int) -> dict[str, Any]:
    """A ready node that offers what its pool promises."""
    slices = {name: str(count) for name, count in pool.machines[0].slices.items()}
    offered = {"cpu": "64", "memory": "256Gi", "pods": "110", **slices}
    labels = {**pool.labels, **pool.node_selector, "nvidia.com/gpu.present": "true"}
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number:03}", "labels": labels},
        "spec": {"taints": [taint.as_dict() for taint in pool.taints]},
        "status": {"capacity": offered, "allocatable": offered, "conditions": [ready]},
    }
