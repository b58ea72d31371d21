"""The cluster in memory does what a real one does, as far as the launcher depends on it."""

from __future__ import annotations

import asyncio

import pytest

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from tests.queue.kubernetes.conformance import CASES, NAMESPACE
from tests.queue.kubernetes.fake_cluster import FakeCluster, Object


class InMemory:
    def __init__(self) -> None:
        self.cluster = FakeCluster(namespaces=(NAMESPACE,))
        self.cluster.obeys = None

    async def find(self, kind: str, name: str) -> Object | None:
        return self.cluster.objects.get((kind, NAMESPACE, name))

    async def finalizers(self, kind: str, name: str, names: list[str]) -> None:
        thing = self.cluster.objects[kind, NAMESPACE, name]
        self.cluster.edit(thing, lambda thing: thing["metadata"].update(finalizers=names))

    async def delete(self, kind: str, name: str) -> None:
        namespace = SYSTEM_NAMESPACE if kind == "Lease" else NAMESPACE
        self.cluster.delete(self.cluster.objects[kind, namespace, name])

    async def play(self, pod: str, phase: str) -> None:
        thing = self.cluster.objects["Pod", NAMESPACE, pod]
        if thing["status"]["phase"] == "Pending":
            self.cluster.start(thing)
        if phase != "Running":
            self.cluster.end(thing, 0 if phase == "Succeeded" else 1)

    async def forget(self) -> None:
        self.cluster.add({"kind": "Node", "metadata": {"name": "later"}, "spec": {}})
        self.cluster.add({"kind": "Node", "metadata": {"name": "latest"}, "spec": {}})
        self.cluster.cut(forget=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_as_a_cluster(case) -> None:
    asyncio.run(case(InMemory()))
