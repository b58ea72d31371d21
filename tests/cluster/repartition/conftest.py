"""A home lab of a few nodes with two pools, applied object by object, and ways to kill a repartition of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from generators import generate
from gpupool.plan import Plan
from gpupool.resolve import read_plan
from infra import kubeconfig, static_nodes
from infra.apply import properties
from infra.kube_api import KubeApi
from infra.local.control_plane import ControlPlane
from operations.repartition.result import Result
from operations.repartition.run import Options, Pace, repartition
from operations.repartition.shapes import MARK, MIG_LABEL, PLUGIN_LABEL
from tests.cluster.operator_policy import hand_made_policy

Object = dict[str, Any]
PACE = Pace(poll=0.05, settle=1.0)
LARGE, SMALL = {"3g.40gb": 2}, {"2g.20gb": 3, "1g.10gb": 1}
_APPLIED = ("Namespace", "ConfigMap", "ClusterPolicy", "Node", "ResourceQuota")
SPEC: Object = {
    "apiVersion": "gpupool.dev/v1alpha1",
    "kind": "Environment",
    "metadata": {"name": "lab"},
    "cluster": {"platform": "static", "name": "lab"},
    "gpuOperator": {"install": False},
    "pools": [
        {
            "name": "parted",
            "gpu": "a100-80gb",
            "sharing": {"mode": "mig", "layout": LARGE},
            "nodes": {"names": ["node-0", "node-1", "node-2"]},
        },
        {
            "name": "desk",
            "gpu": "a100-80gb",
            "sharing": {"mode": "time-slicing", "replicas": 2},
            "nodes": {"names": ["other"]},
        },
    ],
}


class Killed(BaseException):
    """The process is gone: nothing of it runs any more, clean-up included."""


class MortalApi(KubeApi):
    """A client that dies after its n-th write, and counts how many nodes are down after each write."""

    def __init__(self, access: kubeconfig.Access, pool: str, dies_after: int | None = None) -> None:
        super().__init__(access)
        self._pool, self._dies_after = pool, dies_after
        self.writes: list[str] = []
        self.most_down = 0

    def request(self, method: str, path: str, *args: Any, **more: Any) -> tuple[int, Any]:
        if method == "GET":
            return super().request(method, path, *args, **more)
        if self._dies_after is not None and len(self.writes) >= self._dies_after:
            raise Killed
        answer = super().request(method, path, *args, **more)
        self.writes.append(f"{method} {path}")
        down = [n for n in self.list("v1", "Node") if n["spec"].get("unschedulable") and _of(n, self._pool)]
        self.most_down = max(self.most_down, len(down))
        if self._dies_after is not None and len(self.writes) >= self._dies_after:
            raise Killed
        return answer


def _of(node: Object, pool: str) -> bool:
    return bool(node["metadata"]["labels"].get("gpupool.dev/pool") == pool)


@dataclass
class Lab:
    """The environment, its cluster, and what a person would do to them."""

    folder: Path
    kube: Any
    access: kubeconfig.Access
    spec: Object = field(default_factory=lambda: deepcopy(SPEC))

    @property
    def file(self) -> Path:
        """The environment file, written anew from `spec`."""
        path = self.folder / "lab.yaml"
        path.write_text(yaml.safe_dump(self.spec, sort_keys=False))
        return path

    @property
    def plan(self) -> Plan:
        return read_plan(str(self.file))

    def share(self, pool: int, **sharing: Any) -> None:
        self.spec["pools"][pool]["sharing"] = sharing

    def apply(self) -> None:
        """What `gpupool up` sends, without what repartition has nothing to do with."""
        plan = self.plan
        for manifest in static_nodes.resolve(plan, generate(plan), self.kube.api):
            if manifest.kind in _APPLIED:
                self.kube.api.apply(properties(manifest), "gpupool", force=True)

    def mortal(self, dies_after: int | None = None, pool: str = "parted") -> MortalApi:
        return MortalApi(self.access, pool, dies_after)

    def repartition(self, api: KubeApi | None = None, pool: str = "parted", **options: Any) -> Result:
        told: list[str] = []
        return repartition(api or self.kube.api, self.plan, pool, Options(**options), told.append, pace=PACE)

    def killed(self, dies_after: int, pool: str = "parted", **options: Any) -> MortalApi:
        """Run it until it dies after so many writes."""
        api = self.mortal(dies_after, pool)
        with pytest.raises(Killed):
            self.repartition(api, pool, **options)
        return api

    def shapes(self, pool: str = "parted") -> dict[str, tuple[Any, ...]]:
        """Node -> steering labels, slices, cordon and mark."""
        return {
            node["metadata"]["name"]: (
                node["metadata"]["labels"].get(PLUGIN_LABEL),
                node["metadata"]["labels"].get(MIG_LABEL),
                slices(node),
                bool(node["spec"].get("unschedulable")),
                node["metadata"].get("annotations", {}).get(MARK),
            )
            for node in self.kube.nodes(f"gpupool.dev/pool={pool}")
        }

    def clean(self) -> bool:
        """Nothing of a repartition is left behind: no journal, no lock, no map that is nobody's."""
        api = self.kube.api
        assert api.get("v1", "ConfigMap", "gpupool-repartition", "gpupool-system") is None
        assert api.get("coordination.k8s.io/v1", "Lease", "gpupool-repartition", "gpupool-system") is None
        left = api.list("v1", "ConfigMap", "gpu-operator", "gpupool.dev/temporary=true")
        assert not left, [one["metadata"]["name"] for one in left]
        return True

    def settled(self) -> None:
        """Wait until the operator has done all that it can be seen to have to do."""
        for pool in self.plan.pools:
            wanted = {name: count for name, count in pool.slices_per_node.items() if count}
            self.kube.wait(f"the slices of {pool.name}", lambda p=pool, w=wanted: self._offers(p.name, w), 60)

    def _offers(self, pool: str, wanted: dict[str, int]) -> bool:
        found = {name: row[2] for name, row in self.shapes(pool).items()}
        assert found and all(have == wanted for have in found.values()), found
        return True


def slices(node: Object) -> dict[str, int]:
    found = {
        k: int(v) for k, v in node["status"].get("allocatable", {}).items() if k.startswith("nvidia.com")
    }
    return {name: count for name, count in found.items() if count}


@pytest.fixture
def lab(
    cluster: Any, control_plane: ControlPlane, make_node: Callable[..., str], tmp_path: Path
) -> Iterator[Lab]:
    """The environment applied to fresh nodes, every pool in its shape."""
    for name in ("node-0", "node-1", "node-2", "other"):
        make_node(name, annotations={"simulated.gpupool.dev/gpu": "a100-80gb"})
    cluster.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}})
    cluster.apply(hand_made_policy())
    made = Lab(tmp_path, cluster, kubeconfig.load(control_plane.kubeconfig, None))
    made.apply()
    made.settled()
    yield made
