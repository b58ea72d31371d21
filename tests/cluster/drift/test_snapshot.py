"""One look is one list for each kind, however many objects there are; large kinds come page by page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpupool.generators import generate
from gpupool.live.cluster import kubeconfig, snapshot
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.cluster.snapshot import Query
from tests.cluster.drift.world import World


class Counting(KubeApi):
    """Notes every list that is asked for."""

    def __init__(self, access: kubeconfig.ClusterAccess) -> None:
        super().__init__(access)
        self.lists: list[str] = []

    def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> tuple[int, Any]:
        if query and "limit" in query:
            self.lists.append(path)
        return super().request(method, path, query, body, content_type)


@pytest.fixture
def counting(world: World) -> Counting:
    return Counting(kubeconfig.load(world.commands.plane.kubeconfig))


def test_lists_are_as_many_as_kinds_and_not_as_objects(world: World, counting: Counting) -> None:
    wanted = snapshot.queries(generate(world.commands.plan))
    before = snapshot.take(counting, wanted)
    asked = sorted(counting.lists)
    assert before.requests == len(asked)
    known = [query for query in wanted if query.of not in before.unknown]
    assert len(asked) == len(known)
    for number in range(40):
        metadata = {"name": f"more-{number}", "namespace": "gpupool-system"}
        world.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    try:
        counting.lists.clear()
        after = snapshot.take(counting, wanted)
        assert sorted(counting.lists) == asked
        maps = ("v1", "ConfigMap")
        assert len(after.objects[maps]) == len(before.objects[maps]) + 40
    finally:
        for number in range(40):
            world.api.delete("v1", "ConfigMap", f"more-{number}", "gpupool-system")


def test_pages_add_up(world: World, counting: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    policies = Query("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy")
    whole = snapshot.take(counting, [policies])
    monkeypatch.setattr(snapshot, "PAGE", 5)
    paged = snapshot.take(counting, [policies])
    assert paged.objects == whole.objects
    assert len(whole.objects[policies.of]) >= 22
    assert (whole.requests, paged.requests > 4) == (1, True)


def test_a_kind_that_the_cluster_does_not_know_is_noted(counting: Counting) -> None:
    seen = snapshot.take(counting, [Query("example.com/v1", "Nothing"), Query("v1", "Namespace")])
    assert seen.unknown == {("example.com/v1", "Nothing")}
    assert seen.find("v1", "Namespace", "gpupool-system") is not None
    assert list(seen.of("example.com/v1", "Nothing")) == []
