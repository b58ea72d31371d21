"""What the launcher's copy of the cluster keeps, and what it does where the cluster answers badly."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest
from structlog.testing import capture_logs

from gpupool.environment.plan.pods import ATTEMPT_LABEL, JOB_LABEL
from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.queue.kubernetes import mirror
from gpupool.queue.kubernetes.mirror import NODES, PODS, Mirror
from tests.queue.kubernetes.fake_cluster import FakeCluster

Object = dict[str, Any]
OTHERS = f"!{JOB_LABEL}"


class Kept(dict[str, Any]):
    """An object of which a test can see whether it is still there."""


class Broken(FakeCluster):
    """`lists`, `watches`: what goes wrong there with pods that are not the queue's."""

    lists: BaseException | None = None
    watches: BaseException | None = None
    silent = False
    """A watch stays open and shows nothing."""
    listed = 0
    given: tuple[weakref.ref[Kept], ...] = ()

    async def list_all(self, path: str, query: Mapping[str, str] | None = None) -> tuple[list[Object], str]:
        if (path, (query or {}).get("labelSelector")) == (PODS, OTHERS):
            self.listed += 1
            if self.lists:
                raise self.lists
        found, version = await super().list_all(path, query)
        kept = [Kept(one) for one in found]
        if path == PODS:
            self.given += tuple(map(weakref.ref, kept))
        return list(kept), version

    async def watch(
        self, path: str, version: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        if path == PODS and self.watches:
            raise self.watches
        if self.silent:
            await asyncio.sleep(3600)
        async for event in super().watch(path, version, query):
            yield event


def pod(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": "team-vision", "labels": dict(labels or {})}
    containers = {"containers": [{"name": "main"}]}
    return {
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**containers, **spec},
        "status": {"phase": "Running"},
    }


def gpus(count: int, **more: Any) -> Object:
    return {"name": "gpus", "resources": {"limits": {"nvidia.com/gpu": str(count)}}, **more}


def following(
    cluster: FakeCluster, test: Callable[[Mirror], Awaitable[None]], *, synced: bool = True
) -> None:
    """Runs a test with a mirror that follows the cluster."""

    async def run() -> None:
        mirror = Mirror(cluster, lambda _: None)
        task = asyncio.create_task(mirror.run())
        try:
            if synced:
                await asyncio.wait_for(mirror.synced.wait(), 60)
            await test(mirror)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(run())


def test_a_mistake_in_a_first_list_ends_the_mirror() -> None:
    """And does not leave it waiting for ever."""
    cluster = Broken()
    cluster.lists = KeyError("metadata")

    async def run() -> None:
        with pytest.raises(ExceptionGroup):
            await asyncio.wait_for(Mirror(cluster, lambda _: None).run(), 60)

    asyncio.run(run())


def test_a_watch_that_always_fails_is_said_and_lists_ever_less_often() -> None:
    cluster = Broken()
    cluster.watches = UnreachableError("no watch goes through")

    async def test(mirror: Mirror) -> None:
        await asyncio.sleep(4)

    with capture_logs() as said:
        following(cluster, test)
    assert cluster.listed <= 6
    assert [one["error"] for one in said if one["event"] == "cluster.watch"]


def test_what_a_silent_watch_does_not_show_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of others, which may be all of a large cluster's, more seldom than the queue's own."""
    monkeypatch.setattr(mirror, "RESYNC_S", 0.2)
    monkeypatch.setattr(mirror, "OTHERS_S", 60.0)
    cluster = Broken()
    cluster.silent = True

    async def test(mirror: Mirror) -> None:
        cluster.add(pod("gp-a-1-x", {JOB_LABEL: "a", ATTEMPT_LABEL: "1"}))
        async with asyncio.timeout(60):
            while not mirror.pods:
                await asyncio.sleep(0.05)

    following(cluster, test)
    assert cluster.listed == 1


def test_of_pods_that_are_not_the_queues_little_is_kept() -> None:
    cluster = Broken()
    for number in range(20):
        cluster.add(pod(f"web-{number}", nodeName="n1", volumes=[{"name": "x" * 1000}]))
    cluster.add(pod("notebook", nodeName="n1", initContainers=[gpus(1)]))

    async def test(mirror: Mirror) -> None:
        gc.collect()
        assert [made() for made in cluster.given] == [None] * 21
        assert [one["metadata"]["name"] for one in mirror.foreign.values()] == ["notebook"]
        assert "volumes" not in str(mirror.foreign)
        # What is gone when it is listed again is forgotten.
        cluster.objects.clear()
        cluster.cut()
        async with asyncio.timeout(60):
            while mirror.foreign:
                await asyncio.sleep(0.05)

    following(cluster, test)


def test_nodes_are_forgotten_too() -> None:
    cluster = Broken()
    cluster.add({"kind": "Node", "metadata": {"name": "n1", "labels": {"gpupool.dev/pool": "x"}}, "spec": {}})

    async def test(mirror: Mirror) -> None:
        assert set(mirror.nodes) == {"n1"}
        cluster.objects.clear()
        cluster.cut()
        async with asyncio.timeout(60):
            while mirror.nodes:
                await asyncio.sleep(0.05)

    assert NODES.endswith("/nodes")
    following(cluster, test)


def test_only_pods_of_its_job_are_an_attempts() -> None:
    """Where a policy is switched to `warn`, anybody may write a label."""
    cluster = Broken(namespaces=("team-vision", "team-speech"))
    labels = {JOB_LABEL: "a", ATTEMPT_LABEL: "1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "job"}]}}
    cluster.add(
        {
            "kind": "Job",
            "metadata": {"name": "gp-a-1", "namespace": "team-vision", "labels": labels},
            "spec": {"completions": 1, "parallelism": 1, "template": template},
        }
    )
    (own,) = cluster.of("Pod")
    cluster.add(pod("forged", labels))
    copy = {"name": "copy", "namespace": "team-vision", "labels": labels}
    cluster.add({"kind": "Job", "metadata": copy, "spec": {"completions": 0, "template": template}})
    copied = {**own["metadata"]["labels"]}
    cluster.add(
        {**pod("elsewhere"), "metadata": {**pod("elsewhere", copied)["metadata"], "namespace": "team-speech"}}
    )

    async def test(mirror: Mirror) -> None:
        assert mirror.jobs["a", 1]["metadata"]["name"] == "gp-a-1"
        assert [one["metadata"]["name"] for one in mirror.pods_of(("a", 1))] == [own["metadata"]["name"]]
        assert not await mirror.is_behind(("a", 1))
        mirror.pods.clear()
        assert await mirror.is_behind(("a", 1)), "its own pod is there"
        cluster.objects = {at: thing for at, thing in cluster.objects.items() if thing is not own}
        assert not await mirror.is_behind(("a", 1)), "others do not hold up its end"

    following(cluster, test)
