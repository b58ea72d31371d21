"""The launcher's port on a real control plane: what its tests in memory take for granted is so."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import JOB_LABEL, RECORDED_FINALIZER
from gpupool.live.cluster.async_api import AsyncKubeApi
from gpupool.live.cluster.kube_api import MERGE, STRATEGIC, ApiError
from gpupool.queue.kubernetes.cluster import KubernetesCluster
from tests.cluster.kube import Kube
from tests.queue.kubernetes.conformance import CASES, NAMESPACE, OTHER, Object, found, job, pod_of
from tests.required_programs import require

GROUPS = {
    "Job": "apis/batch/v1",
    "Pod": "api/v1",
    "Service": "api/v1",
    "Lease": "apis/coordination.k8s.io/v1",
}


class Real:
    """As administrator, in a tenant's namespace."""

    def __init__(self, api: AsyncKubeApi, kube: Kube) -> None:
        self._api, self._kube = api, kube
        self.cluster = KubernetesCluster(api)

    async def find(self, kind: str, name: str) -> Object | None:
        try:
            return await self._api.request("GET", _path(kind, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def finalizers(self, kind: str, name: str, names: list[str]) -> None:
        await self._api.request("PATCH", _path(kind, name), None, {"metadata": {"finalizers": names}}, MERGE)

    async def delete(self, kind: str, name: str) -> None:
        await self._api.request("DELETE", _path(kind, name), {"propagationPolicy": "Background"})

    async def play(self, pod: str, phase: str) -> None:
        body = {"status": {"phase": phase}}
        await self._api.request("PATCH", f"{_path('Pod', pod)}/status", None, body, MERGE)

    async def forget(self) -> None:
        """A restarted API server has only the changes since then; its first start was at version 1 or so."""
        self._kube.restart("kube-apiserver")


def _path(kind: str, name: str) -> str:
    namespace = SYSTEM_NAMESPACE if kind == "Lease" else NAMESPACE
    return f"/{GROUPS[kind]}/namespaces/{namespace}/{kind.lower()}s/{name}"


@pytest.fixture(scope="module")
def team(kube: Kube) -> Iterator[Kube]:
    """A tenant's namespace for all cases: each removes what it makes, and its deletion takes seconds."""
    kube.wipe()
    for name in (NAMESPACE, SYSTEM_NAMESPACE):
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield kube
    kube.wipe()


@pytest.fixture
def namespace(team: Kube) -> Iterator[None]:
    """What a case leaves is gone before the next one."""
    yield
    kinds = (("batch/v1", "Job"), ("v1", "Pod"), ("v1", "Service"))
    without = {"metadata": {"$deleteFromPrimitiveList/finalizers": [RECORDED_FINALIZER]}}

    def gone() -> bool:
        left = [(kind, one) for kind in kinds for one in team.api.list(*kind, NAMESPACE, JOB_LABEL)]
        for (version, kind), thing in left:
            name = thing["metadata"]["name"]
            if RECORDED_FINALIZER in thing["metadata"].get("finalizers", ()):
                team.api.patch(version, kind, name, without, namespace=NAMESPACE, content_type=STRATEGIC)
            team.api.delete(version, kind, name, NAMESPACE, 0)
        return not left

    team.wait("what a case leaves is gone", gone)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_in_memory(control_plane, kube, namespace, case) -> None:
    async def run() -> None:
        async with AsyncKubeApi.connect(control_plane.kubeconfig) as api:
            await case(Real(api, kube))

    asyncio.run(run())


def test_the_documented_command_takes_off_our_finalizer_alone(control_plane, kube, namespace) -> None:
    """Others are Kubernetes' own: without them the Job's pod is made again."""
    page = (Path(__file__).parents[3] / "docs" / "operate-queue.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"`kubectl (patch job NAME [^`]+)`", page)

    async def run() -> None:
        async with AsyncKubeApi.connect(control_plane.kubeconfig) as api:
            world = Real(api, kube)
            made = await world.cluster.create(job())
            pod = await pod_of(world, made)
            await world.finalizers("Job", "gp-a-1", [OTHER, RECORDED_FINALIZER])
            for kind, name in (("job", "gp-a-1"), ("pod", pod["metadata"]["name"])):
                words = shlex.split(command.replace("NAME", name).replace("patch job", f"patch {kind}"))
                given = ["--kubeconfig", str(control_plane.kubeconfig), "--namespace", NAMESPACE]
                subprocess.run([require("kubectl")["kubectl"], *given, *words], check=True, timeout=60)
            left = [await found(world, "Job", "gp-a-1"), await found(world, "Pod", pod["metadata"]["name"])]
            tracked = "batch.kubernetes.io/job-tracking"
            assert [thing["metadata"]["finalizers"] for thing in left] == [[OTHER], [tracked]]
            await world.finalizers("Job", "gp-a-1", [])

    asyncio.run(run())
