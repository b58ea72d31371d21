"""A home lab of a few nodes with two pools, applied object by object, and ways to kill a repartition."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.live.cluster import kubeconfig
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.live_objects import MIG_LABEL, MIG_STATE_LABEL, PLUGIN_LABEL
from gpupool.live.objects import static_nodes
from gpupool.live.objects.repartition_mark import MARK
from gpupool.live.objects.resource_values import properties
from gpupool.live.repartition.result import RepartitionResult
from gpupool.live.repartition.run import Pace, RepartitionOptions, repartition
from gpupool.live.repartition.verify import UNDER_WAY
from gpupool.local.control_plane import ControlPlane
from tests.cluster.conftest import pod
from tests.cluster.kube import PATIENCE_SECONDS
from tests.cluster.operator_policy import hand_made_policy
from tests.environment_files import environment_data, write_environment

Object = dict[str, Any]
PACE = Pace(poll=0.05, settle=20.0)
LARGE, SMALL = {"3g.40gb": 2}, {"2g.20gb": 3, "1g.10gb": 1}
LEASE = ("coordination.k8s.io/v1", "Lease", "gpupool-repartition", "gpupool-system")
_KEPT = frozenset({"gpu-operator", "gpupool-system"})
_APPLIED = ("Namespace", "ConfigMap", "ClusterPolicy", "Node", "ResourceQuota")
SPEC: Object = environment_data(
    "static",
    name="lab",
    gpuOperator={"install": False},
    pools=[
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
)


class Killed(BaseException):
    """The process is gone: nothing of it runs any more, clean-up included."""


class MortalApi(KubeApi):
    """A client that dies after its n-th write, and counts how many nodes are down after each write."""

    def __init__(self, access: kubeconfig.ClusterAccess, pool: str, dies_after: int | None = None) -> None:
        super().__init__(access)
        self._pool, self.dies_after = pool, dies_after
        self.writes: list[str] = []
        self.most_down = 0
        self.hurt: list[str] = []
        self._seen: dict[str, tuple[bool, dict[str, int]]] = {}

    def request(self, method: str, path: str, *args: Any, **more: Any) -> tuple[int, Any]:
        if method == "GET":
            return super().request(method, path, *args, **more)
        if self.dies_after is not None and len(self.writes) >= self.dies_after:
            raise Killed
        self._nobody_is_hurt(method, path, *args)
        answer = super().request(method, path, *args, **more)
        self.writes.append(f"{method} {path}")
        self._watch()
        if self.dies_after is not None and len(self.writes) >= self.dies_after:
            raise Killed
        return answer

    def _watch(self) -> None:
        """Count the nodes that are down, and notice those that change while jobs may run there."""
        down = 0
        for node in self.list("v1", "Node"):
            cordoned = bool(node["spec"].get("unschedulable"))
            down += cordoned and _of(node, self._pool)
            name, have = node["metadata"]["name"], slices(node)
            was_cordoned, had = self._seen.get(name, (cordoned, have))
            if have != had and not cordoned and not was_cordoned:
                self.hurt.append(f"{name}: {had} became {have} after {self.writes[-1]}")
            self._seen[name] = (cordoned, have)
        self.most_down = max(self.most_down, down)

    def _nobody_is_hurt(self, method: str, path: str, _: Any = None, body: Any = None, *rest: Any) -> None:
        """Pods are never deleted, and no node gets another shape while a job holds one of its GPUs."""
        assert not (method == "DELETE" and "/pods/" in path), path
        if "eviction" in path:
            assert "deleteOptions" not in body, "the grace is the pod's own"
        labels = ((body or {}).get("metadata") or {}).get("labels") or {}
        held = str(labels.get(PLUGIN_LABEL, "")).endswith(".previous")
        if path.startswith("/api/v1/nodes/") and PLUGIN_LABEL in labels and not held:
            pods = self.request("GET", "/api/v1/pods")[1]["items"]
            node = path.rpartition("/")[2]
            busy = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node]
            assert not busy, f"{node} changes while {busy} run there"


def _of(node: Object, pool: str) -> bool:
    return bool(node["metadata"]["labels"].get("gpupool.dev/pool") == pool)


@dataclass
class Lab:
    """The environment, its cluster, and what a person would do to them."""

    folder: Path
    kube: Any
    access: kubeconfig.ClusterAccess
    spec: Object = field(default_factory=lambda: deepcopy(SPEC))
    _plans: dict[str, Plan] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The environment file, written again from `spec`."""
        return write_environment(self.folder, self.spec)

    @property
    def plan(self) -> Plan:
        text = yaml.safe_dump(self.spec, sort_keys=False)
        if text not in self._plans:
            self._plans[text] = read_plan(str(self.file))
        return self._plans[text]

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

    def repartition(
        self, api: MortalApi | None = None, pool: str = "parted", **options: Any
    ) -> RepartitionResult:
        used = api or self.mortal(pool=pool)
        try:
            return repartition(used, self.plan, pool, RepartitionOptions(**options), self.notify, pace=PACE)
        finally:
            assert not used.hurt, used.hurt

    def notify(self, step: str) -> None:
        """What a repartition says that it does; a test may put its own in place."""

    @contextlib.contextmanager
    def beside(self, said: str, **options: Any) -> Iterator[tuple[MortalApi, list[RepartitionResult]]]:
        """Run it beside the block, from when it has said `said`, and to its end after the block."""
        api, results, heard = self.mortal(), list[RepartitionResult](), threading.Event()
        self.notify = lambda step: heard.set() if said in step else None  # type: ignore[method-assign]
        thread = threading.Thread(
            target=lambda: results.append(self.repartition(api, **options)), daemon=True
        )
        thread.start()
        try:
            self.kube.wait(f"it says {said}", heard.is_set)
            yield api, results
            thread.join(PATIENCE_SECONDS)
            assert results, "it does not come to an end"
        finally:
            api.dies_after = 0

    def dies(self, api: MortalApi, **options: Any) -> bool:
        """Run it with a client that may die on the way; whether it did."""
        try:
            self.repartition(api, **options)
        except Killed:
            return True
        return False

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

    def job(self, name: str, node: str, resource: str, **annotations: str) -> None:
        """A pod that holds a slice of a node until somebody ends it."""
        body = pod(name, {resource: 1}, tolerate=["gpupool.dev/pool"])
        body["metadata"]["annotations"] = {f"gpupool.dev/{key}": text for key, text in annotations.items()}
        body["spec"] |= {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 60,
        }
        self.kube.api.create(body)
        self.kube.wait(f"{name} runs", lambda: name in self.running())

    def running(self) -> list[str]:
        return [one["metadata"]["name"] for one in self.kube.running()]

    def clean(self) -> bool:
        """Nothing of a repartition is left behind: no journal, no lock, no unowned map."""
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
            self.kube.wait(f"the slices of {pool.name}", lambda p=pool, w=wanted: self._offers(p.name, w))

    def _offers(self, pool: str, wanted: dict[str, int]) -> bool:
        found = {name: row[2] for name, row in self.shapes(pool).items()}
        assert all(have == wanted for have in found.values()), found
        states = {name: labels.get(MIG_STATE_LABEL) for name, labels in self.labels(pool).items()}
        assert not set(UNDER_WAY).intersection(states.values()), states
        return True

    def labels(self, pool: str | None = None) -> dict[str, dict[str, str]]:
        """Node -> its labels."""
        nodes = self.kube.nodes(f"gpupool.dev/pool={pool}" if pool else "")
        return {node["metadata"]["name"]: node["metadata"]["labels"] for node in nodes}


def slices(node: Object) -> dict[str, int]:
    found = {
        k: int(v) for k, v in node["status"].get("allocatable", {}).items() if k.startswith("nvidia.com")
    }
    return {name: count for name, count in found.items() if count}


@pytest.fixture
def cluster(kube: Any) -> Iterator[Any]:
    """As elsewhere, but for two namespaces that stay: deleting one takes the server five seconds."""
    kube.wipe(keep=_KEPT)
    yield kube
    kube.wipe(keep=_KEPT)
    kube.api.delete(*LEASE)


@pytest.fixture
def lab(cluster: Any, control_plane: ControlPlane, make_node: Callable[..., str], tmp_path: Path) -> Lab:
    """The environment applied to fresh nodes, every pool in its shape."""
    for name in ("node-0", "node-1", "node-2", "other"):
        annotations = {"simulated.gpupool.dev/gpu": "a100-80gb"}
        make_node(name, labels={"kubernetes.io/hostname": name}, annotations=annotations)
    for name in _KEPT:
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    cluster.apply(hand_made_policy())
    made = Lab(tmp_path, cluster, kubeconfig.load(control_plane.kubeconfig, None))
    made.apply()
    made.settled()
    return made
