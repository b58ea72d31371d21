"""A real control plane for the tests of this folder, and a small way to talk to it.

`control_plane` is started once per session in a folder of its own; `kube` talks to it; `cluster` is `kube`
with nothing left of the test before. Pods, nodes and the operator's settings are built by plain functions
on `kube`, so that a test shows what it is about.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.kube_api import ApiError, KubeApi
from infra.local.control_plane import ControlPlane
from tests.programs import require

Object = dict[str, Any]
POLL_SECONDS = 0.1
_SYSTEM_NAMESPACES = {"default", "kube-system", "kube-public", "kube-node-lease"}


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    """Skip where the programs can't be had (a machine without Go); fail instead in CI, where they must be."""
    require()


@pytest.fixture
def data_folder() -> Iterator[Path]:
    """A fresh folder for one more control plane; whatever still runs in it is stopped after the test."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-test-"))
    yield folder / "local"
    ControlPlane(folder / "local").down()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The control plane that the tests of a session share."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-tests-"))
    plane = ControlPlane(folder / "local")
    try:
        plane.up(lambda step: print(step, flush=True))
        yield plane
    finally:
        plane.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def kube(control_plane: ControlPlane) -> Iterator[Kube]:
    """The shared control plane's API, as it is; the test cleans up what it makes."""
    api = control_plane.api()
    karpenter = next(part.pid for part in control_plane.status().components if part.name == "karpenter")
    assert karpenter is not None
    yield Kube(api, karpenter)
    api.close()


@pytest.fixture
def cluster(kube: Kube) -> Iterator[Kube]:
    """The shared control plane with nothing in it, before and after the test."""
    kube.wipe()
    yield kube
    kube.wipe()


class Kube:
    """Get, apply, delete and wait, with messages that say what was there instead."""

    def __init__(self, api: KubeApi, karpenter: int) -> None:
        self.api = api
        self._karpenter = karpenter

    @contextlib.contextmanager
    def at_once(self) -> Iterator[None]:
        """Karpenter stands still meanwhile, and then sees all pods made in the block together.

        It knows the slices of a node only once the node offers them: for pods that arrive while their node
        starts it starts another one, so counts of nodes hold for pods of one batch (Karpenter 1.14.1).
        """
        os.kill(self._karpenter, signal.SIGSTOP)
        try:
            yield
            self.wait("the scheduler has seen every pod", self._every_pod_judged)
        finally:
            os.kill(self._karpenter, signal.SIGCONT)

    def _every_pod_judged(self) -> bool:
        fresh = [
            pod["metadata"]["name"]
            for pod in self.api.list("v1", "Pod")
            if not pod["status"].get("conditions")
        ]
        assert not fresh, f"not judged yet: {fresh}"
        return True

    def apply(self, *things: Object) -> None:
        """Server-side apply of each; one without a namespace goes to `default` if its kind wants one."""
        for thing in things:
            self.api.apply(thing, "tests", force=True)

    def get(self, api_version: str, kind: str, name: str, namespace: str | None = None) -> Object:
        """The object; fails the test when there is none."""
        found = self.api.get(api_version, kind, name, namespace)
        assert found is not None, f"there is no {kind} {namespace or ''}/{name}"
        return found

    def node(self, name: str) -> Object:
        return self.get("v1", "Node", name)

    def nodes(self, selector: str = "") -> list[Object]:
        return self.api.list("v1", "Node", selector=selector)

    def pods(self, namespace: str = "default", selector: str = "") -> list[Object]:
        return self.api.list("v1", "Pod", namespace, selector)

    def running(self, namespace: str = "default", selector: str = "") -> list[Object]:
        return [pod for pod in self.pods(namespace, selector) if pod["status"].get("phase") == "Running"]

    def events(self, name: str, namespace: str | None = None) -> list[str]:
        """`reason: message` of every event about an object of that name."""
        found = self.api.list("v1", "Event", namespace)
        return [
            f"{event['reason']}: {event.get('message', '')}"
            for event in found
            if event["involvedObject"].get("name") == name
        ]

    def label(self, node: str, **labels: str | None) -> None:
        """Set or (None) remove labels of a node; `__` in a key stands for `/` and `_` for `-`."""
        fixed = {key.replace("__", "/").replace("_", "-"): value for key, value in labels.items()}
        self.patch_node(node, {"metadata": {"labels": fixed}})

    def patch_node(self, node: str, body: Object) -> None:
        self.api.patch("v1", "Node", node, body)

    def wait(self, what: str, check: Callable[[], Any], timeout: float = 30.0) -> Any:
        """Wait until `check` gives something true, and return it.

        A check that raises AssertionError is not there yet; what it said last is in the failure.
        """
        deadline = time.monotonic() + timeout
        said: object = None
        while True:
            try:
                outcome = check()
                if outcome:
                    return outcome
                said = outcome
            except AssertionError as error:
                said = error
            if time.monotonic() > deadline:
                pytest.fail(f"after {timeout:.0f} s still not: {what}; last seen: {said}\n{self.summary()}")
            time.sleep(POLL_SECONDS)

    def stays(self, what: str, check: Callable[[], Any], seconds: float = 2.0) -> None:
        """Fail as soon as `check` gives something false within `seconds`."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            assert check(), f"no longer: {what}\n{self.summary()}"
            time.sleep(POLL_SECONDS)

    def summary(self) -> str:
        """Nodes, claims and pods in a few lines, for failure messages."""
        lines = []
        for node in self.nodes():
            notes = node["metadata"].get("annotations", {})
            gpus = {k: v for k, v in node["status"].get("allocatable", {}).items() if "nvidia" in k}
            error = notes.get("simulated.gpupool.dev/error", "")
            taints = [taint["key"] for taint in node["spec"].get("taints", [])]
            lines.append(f"node {node['metadata']['name']} {json.dumps(gpus)} taints={taints} {error}")
        for claim in self._list("karpenter.sh/v1", "NodeClaim"):
            conditions = {row["type"]: row["status"] for row in claim.get("status", {}).get("conditions", [])}
            lines.append(f"claim {claim['metadata']['name']} {conditions}")
        for pod in self.api.list("v1", "Pod"):
            said = [row["message"] for row in pod["status"].get("conditions", []) if row.get("message")]
            where = pod["spec"].get("nodeName", "-")
            lines.append(f"pod {pod['metadata']['name']} {pod['status'].get('phase')} {where} {said}")
        return "\n".join(lines[:60])

    def wipe(self, keep: frozenset[str] = frozenset()) -> None:
        """Remove everything that a test may have made, without waiting for graceful ends.

        Namespaces in `keep` are emptied of ConfigMaps only: deleting one takes the server five seconds.
        """
        for version, kind in (
            ("apps/v1", "Deployment"),
            ("batch/v1", "Job"),
            ("karpenter.sh/v1", "NodePool"),
            ("karpenter.sh/v1alpha1", "NodeOverlay"),
            ("nvidia.com/v1", "ClusterPolicy"),
        ):
            self._delete_all(version, kind)
        self._delete_all("v1", "Pod", grace=0)
        self._delete_all("karpenter.sh/v1", "NodeClaim", unblock=True)
        self._delete_all("v1", "Node", unblock=True)
        self._delete_all("karpenter.kwok.sh/v1alpha1", "KWOKNodeClass", unblock=True)
        for name in self._namespaces() - _SYSTEM_NAMESPACES - keep:
            self.api.delete("v1", "Namespace", name)
        for name in keep & self._namespaces():
            self._delete_all("v1", "ConfigMap", namespace=name)
        self.wait("everything of the test is gone", lambda: self._is_empty(keep), timeout=60)

    def _namespaces(self) -> set[str]:
        return {item["metadata"]["name"] for item in self.api.list("v1", "Namespace")}

    def _is_empty(self, keep: frozenset[str]) -> bool:
        rest = [*self.api.list("v1", "Pod"), *self.nodes(), *self._list("karpenter.sh/v1", "NodeClaim")]
        names = [thing["metadata"]["name"] for thing in rest]
        assert not names, f"still there: {names}"
        left = self._namespaces() - _SYSTEM_NAMESPACES - keep
        assert not left, f"namespaces still there: {sorted(left)}"
        return True

    def _list(self, version: str, kind: str, namespace: str | None = None) -> list[Object]:
        try:
            return self.api.list(version, kind, namespace)
        except ApiError:
            return []

    def _delete_all(
        self,
        version: str,
        kind: str,
        grace: int | None = None,
        unblock: bool = False,
        namespace: str | None = None,
    ) -> None:
        """Delete every object of a kind; `unblock` takes finalizers away that nobody shall act on."""
        for thing in self._list(version, kind, namespace):
            meta = thing["metadata"]
            self.api.delete(version, kind, meta["name"], meta.get("namespace"), grace)
            if unblock and meta.get("finalizers"):
                with contextlib.suppress(ApiError):  # it may have gone by itself meanwhile
                    self.api.patch(version, kind, meta["name"], {"metadata": {"finalizers": None}})


def pod(
    name: str,
    resources: dict[str, int] | None = None,
    *,
    selector: dict[str, str] | None = None,
    tolerate: Iterable[str] = (),
    namespace: str = "default",
) -> Object:
    """A pod that asks for extended resources; `tolerate` are taint keys."""
    limits = {key: str(count) for key, count in (resources or {}).items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": name.rstrip("0123456789-")}},
        "spec": {
            "nodeSelector": selector or {},
            "tolerations": [{"key": key, "operator": "Exists"} for key in tolerate],
            "containers": [
                {"name": "work", "image": "registry.example/work:1", "resources": {"limits": limits}}
            ],
        },
    }


@pytest.fixture
def make_pods(cluster: Kube) -> Callable[..., list[str]]:
    """Make `count` pods `<prefix>-<n>` with the arguments of `pod`; returns their names."""

    def make(prefix: str, count: int, resources: dict[str, int], **more: Any) -> list[str]:
        names = [f"{prefix}-{number}" for number in range(count)]
        for name in names:
            cluster.api.create(pod(name, resources, **more))
        return names

    return make


@pytest.fixture
def make_node(cluster: Kube) -> Callable[..., str]:
    """Make a node by hand, as a home lab has it, and wait until it is ready."""

    def make(
        name: str,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        taints: list[Object] | None = None,
    ) -> str:
        thing = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
            "spec": {"taints": taints or []},
        }
        cluster.api.create(thing)
        cluster.wait(
            f"node {name} is ready",
            lambda: any(
                row["type"] == "Ready" and row["status"] == "True"
                for row in cluster.node(name)["status"].get("conditions", [])
            ),
        )
        return name

    return make
