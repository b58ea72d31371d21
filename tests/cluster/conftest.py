"""A real control plane for the tests of this folder, and a small way to talk to it.

`control_plane` is started once per session in a folder of its own; `kube` talks to it; `cluster` is `kube`
with nothing left of the test before. Pods, nodes and the operator's settings are built by plain functions
on `kube`, so that a test shows what it is about.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.pods import SHARES_LABEL
from gpupool.local.components import AUDIT_VARIABLE
from gpupool.local.control_plane import ControlPlane
from tests.cluster.kube import Kube, Object
from tests.required_programs import require

os.environ[AUDIT_VARIABLE] = str(Path(__file__).with_name("audit-policy.yaml"))


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
    found = Kube(control_plane)
    yield found
    found.api.close()


@pytest.fixture
def cluster(kube: Kube) -> Iterator[Kube]:
    """The shared control plane with nothing in it, before and after the test."""
    kube.wipe()
    yield kube
    kube.wipe()


@pytest.fixture
def monitored(cluster: Kube) -> Iterator[Kube]:
    """The cluster with the kinds of Prometheus' operator, which does not run there."""
    with cluster.kinds(Path(__file__).with_name("prometheus_operator.yaml")) as known:
        yield known


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
    labels = {"app": name.rstrip("0123456789-"), SHARES_LABEL: "true"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
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
