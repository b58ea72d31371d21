"""What a cluster behind the launcher's port must do: for the one in memory, and for a real control plane.

A case gets a `World` and asks it and its cluster; the tests that run the cases are beside the two worlds.
Pods have no scheduler, and `play` writes what a kubelet would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, Protocol

import pytest

from gpupool.environment.plan.pods import ATTEMPT_LABEL, JOB_LABEL, LEASE, RECORDED_FINALIZER
from gpupool.live.cluster.async_api import Gone
from gpupool.queue.kubernetes.cluster import Cluster, ObjectRefused
from gpupool.queue.kubernetes.job_manifest import service
from gpupool.queue.kubernetes.lease import holder_of, marked, marks_of
from gpupool.queue.kubernetes.mirror import JOBS, PODS
from gpupool.queue.kubernetes.observe import VERDICT

Object = dict[str, Any]
OTHER = "example.org/other"
NAMESPACE = "team-vision"


class World(Protocol):
    """What the queue does not do, and a test needs."""

    cluster: Cluster

    async def find(self, kind: str, name: str) -> Object | None: ...

    async def finalizers(self, kind: str, name: str, names: list[str]) -> None:
        """Replace those of an object."""

    async def delete(self, kind: str, name: str) -> None:
        """In background, as kubectl does."""

    async def play(self, pod: str, phase: str) -> None:
        """The pod is in this phase now."""

    async def forget(self) -> None:
        """The first version is no longer kept."""


def job(name: str = "gp-a-1", attempt: int = 1, namespace: str = NAMESPACE) -> Object:
    labels = {JOB_LABEL: "a", ATTEMPT_LABEL: str(attempt)}
    container = {"name": "job", "image": "registry.example/work:1"}
    pod = {"restartPolicy": "Never", "schedulerName": "none", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": labels,
            "finalizers": [RECORDED_FINALIZER],
        },
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "podReplacementPolicy": "Failed",
            "template": {"metadata": {"labels": labels, "finalizers": [RECORDED_FINALIZER]}, "spec": pod},
        },
    }


async def found(world: World, kind: str, name: str) -> Object:
    thing = await world.find(kind, name)
    assert thing is not None, f"there is no {kind} {name}"
    return thing


async def until(check: Callable[[], Awaitable[Any]], seconds: float = 60) -> Any:
    """What `check` gives, once it is true; a check that raises AssertionError is not there yet."""
    async with asyncio.timeout(seconds):
        while True:
            try:
                if answer := await check():
                    return answer
            except AssertionError:
                pass
            await asyncio.sleep(0.1)


async def pod_of(world: World, made: Object) -> Object:
    """The pod of a Job, once its controller has made it."""

    async def made_pod() -> Object | None:
        pods, _ = await world.cluster.reader.list_all(PODS, {"labelSelector": f"{JOB_LABEL}=a"})
        owned = [
            pod for pod in pods if pod["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
        ]
        return {**owned[0], "kind": "Pod"} if owned else None

    pod: Object = await until(made_pod)
    return pod


async def gone(world: World, *things: Object) -> None:
    async def all_gone() -> bool:
        return not [one for one in things if await world.find(one["kind"], one["metadata"]["name"])]

    await until(all_gone)


async def creating_twice_gives_the_same_job(world: World) -> None:
    first, second = await world.cluster.create(job()), await world.cluster.create(job())
    assert first["metadata"]["uid"] == second["metadata"]["uid"]
    with pytest.raises(ObjectRefused, match="not the queue's") as error:
        await world.cluster.create(job(attempt=2))
    assert error.value.passing


async def what_is_refused_says_whether_that_may_pass(world: World) -> None:
    with pytest.raises(ObjectRefused) as error:
        await world.cluster.create(job("Not_A_Name"))
    assert not error.value.passing
    with pytest.raises(ObjectRefused, match="nowhere") as error:
        await world.cluster.create(job(namespace="nowhere"))
    assert error.value.passing
    assert await world.find("Job", "gp-a-1") is None


async def stopping_means_this_very_job(world: World) -> None:
    made = await world.cluster.create(job())
    other = {**made, "metadata": {**made["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}}
    await world.cluster.stop(other, "verdict")
    metadata = (await found(world, "Job", "gp-a-1"))["metadata"]
    assert "deletionTimestamp" not in metadata
    assert VERDICT not in metadata.get("annotations", {})


async def stopping_keeps_the_verdict_and_ends_the_pods(world: World) -> None:
    made = await world.cluster.create(job())
    pod = await pod_of(world, made)
    await world.play(pod["metadata"]["name"], "Running")
    for _ in range(2):
        await world.cluster.stop(made, "verdict")

    async def stopping() -> bool:
        left = await found(world, "Pod", pod["metadata"]["name"])
        return "deletionTimestamp" in left["metadata"]

    await until(stopping)
    metadata = (await found(world, "Job", "gp-a-1"))["metadata"]
    assert metadata["annotations"][VERDICT] == "verdict"
    assert "deletionTimestamp" in metadata
    await world.play(pod["metadata"]["name"], "Failed")
    await world.cluster.release([pod, made])
    await gone(world, pod, made)
    await world.cluster.stop(made, "verdict")


async def a_job_deleted_in_background_keeps_its_pods_until_it_is_stopped(world: World) -> None:
    made = await world.cluster.create(job())
    pod = await pod_of(world, made)
    await world.play(pod["metadata"]["name"], "Running")
    await world.delete("Job", "gp-a-1")
    await asyncio.sleep(1)
    assert "deletionTimestamp" in (await found(world, "Job", "gp-a-1"))["metadata"]
    assert "deletionTimestamp" not in (await found(world, "Pod", pod["metadata"]["name"]))["metadata"]
    await world.cluster.stop(made, None)

    async def stopping() -> bool:
        return "deletionTimestamp" in (await found(world, "Pod", pod["metadata"]["name"]))["metadata"]

    await until(stopping)
    await world.play(pod["metadata"]["name"], "Failed")
    await world.cluster.release([pod, made])
    await gone(world, pod, made)


async def releasing_takes_off_our_finalizer_only(world: World) -> None:
    made = await world.cluster.create(job())
    await world.finalizers("Job", "gp-a-1", [OTHER, RECORDED_FINALIZER])
    for _ in range(2):
        await world.cluster.release([made])
        assert (await found(world, "Job", "gp-a-1"))["metadata"]["finalizers"] == [OTHER]
    pod = await pod_of(world, made)
    await world.play(pod["metadata"]["name"], "Succeeded")
    await world.cluster.release([pod])
    await world.finalizers("Job", "gp-a-1", [])
    await world.delete("Job", "gp-a-1")
    await gone(world, pod, made)
    await world.cluster.release([pod, made])


async def releasing_means_this_very_job(world: World) -> None:
    made = await world.cluster.create(job())
    first = await pod_of(world, made)
    await world.play(first["metadata"]["name"], "Succeeded")
    await world.delete("Job", "gp-a-1")
    await world.cluster.release([first, made])
    await gone(world, made)
    again = await world.cluster.create(job())
    await world.cluster.release([made])
    kept = await found(world, "Job", "gp-a-1")
    assert kept["metadata"]["finalizers"] == [RECORDED_FINALIZER]
    second = await pod_of(world, again)
    await world.play(second["metadata"]["name"], "Succeeded")
    await world.delete("Job", "gp-a-1")
    await world.cluster.release([second, again])
    await gone(world, again)


async def a_pod_that_is_deleted_stays_until_it_is_released(world: World) -> None:
    made = await world.cluster.create(job())
    pod = await pod_of(world, made)
    name = pod["metadata"]["name"]
    await world.play(name, "Running")
    await world.play(name, "Failed")
    await world.delete("Pod", name)

    async def failed() -> bool:
        conditions = (await found(world, "Job", "gp-a-1"))["status"].get("conditions", ())
        return "Failed" in {one["type"] for one in conditions if one["status"] == "True"}

    await until(failed)
    left = await found(world, "Pod", name)
    assert left["metadata"]["finalizers"] == [RECORDED_FINALIZER]
    assert left["status"]["phase"] == "Failed"
    await world.cluster.release([pod])
    await gone(world, pod)
    await world.cluster.release([made])
    await world.delete("Job", "gp-a-1")
    await gone(world, made)


async def the_service_of_several_nodes_goes_with_its_job(world: World) -> None:
    wanted = job()
    wanted["spec"] |= {"completions": 2, "parallelism": 2, "completionMode": "Indexed"}
    made = await world.cluster.create(wanted)
    for _ in range(2):
        await world.cluster.create(service(made) or {})
    assert await world.find("Service", "gp-a-1") is not None
    await world.cluster.stop(made, None)

    async def released() -> bool:
        """Its controller may have made one of the pods, or both, or none."""
        pods, _ = await world.cluster.reader.list_all(PODS, {"labelSelector": JOB_LABEL})
        for pod in pods:
            if pod["status"]["phase"] != "Failed":
                await world.play(pod["metadata"]["name"], "Failed")
        await world.cluster.release([*pods, made])
        return not pods and await world.find("Job", "gp-a-1") is None

    await until(released)
    await gone(world, service(made) or {})


async def a_service_that_comes_late_goes_as_well(world: World) -> None:
    made = await world.cluster.create(job())
    made["spec"]["completionMode"] = "Indexed"
    pod = await pod_of(world, made)
    await world.play(pod["metadata"]["name"], "Succeeded")
    await world.delete("Job", "gp-a-1")
    await world.cluster.release([pod, made])
    await gone(world, made)
    await world.cluster.create(service(made) or {})
    await gone(world, service(made) or {})


async def a_watch_says_in_order_what_follows_the_list(world: World) -> None:
    selector = {"labelSelector": JOB_LABEL}
    listed, version = await world.cluster.reader.list_all(JOBS, selector)
    assert listed == []
    made = await world.cluster.create(job())
    await world.finalizers("Job", "gp-a-1", [])
    await world.delete("Job", "gp-a-1")
    seen: list[tuple[str, Object]] = []
    async with asyncio.timeout(60):
        async for type, thing in world.cluster.reader.watch(JOBS, version, selector):
            if type != "BOOKMARK":
                seen.append((type, thing))
            if type == "DELETED":
                break
    assert {thing["metadata"]["uid"] for _, thing in seen} == {made["metadata"]["uid"]}
    types = [type for type, _ in seen]
    assert types == ["ADDED", *["MODIFIED"] * (len(types) - 2), "DELETED"]
    versions = [int(thing["metadata"]["resourceVersion"]) for _, thing in seen]
    assert versions == sorted(set(versions))
    for pod in (await world.cluster.reader.list_all(PODS, selector))[0]:
        await world.cluster.release([pod])


async def what_was_before_a_version_that_is_no_longer_kept_is_gone(world: World) -> None:
    await world.forget()
    with pytest.raises(Gone):
        async for _ in world.cluster.reader.watch(JOBS, "1"):
            pass


async def a_lease_is_replaced_only_as_it_was_seen(world: World) -> None:
    at = datetime(2026, 11, 25, tzinfo=UTC)
    assert await world.cluster.lease() is None
    wanted = marked(None, "one", "m1", "m0", at)
    made = await world.cluster.hold(wanted)
    assert made is not None
    assert await world.cluster.hold(wanted) is None, "there is one by now"
    second = await world.cluster.hold(marked(made, "one", "m2", "m1", at))
    assert second is not None
    assert (holder_of(second), marks_of(second)) == ("one", ["m2", "m1", "m0"])
    assert await world.cluster.hold(marked(made, "two", "m3", "m0", at)) is None, "another version"
    there = await world.cluster.lease()
    assert there is not None
    assert holder_of(there) == "one"
    await world.delete("Lease", LEASE)
    assert await world.cluster.hold(marked(second, "one", "m4", "m2", at)) is None, "it is gone"
    assert await world.cluster.lease() is None
    again = await world.cluster.hold(marked(None, "two", "m1", "m0", at))
    assert again is not None
    assert again["metadata"]["uid"] != made["metadata"]["uid"]
    await world.delete("Lease", LEASE)


CASES = (
    a_lease_is_replaced_only_as_it_was_seen,
    creating_twice_gives_the_same_job,
    what_is_refused_says_whether_that_may_pass,
    stopping_means_this_very_job,
    stopping_keeps_the_verdict_and_ends_the_pods,
    a_job_deleted_in_background_keeps_its_pods_until_it_is_stopped,
    releasing_takes_off_our_finalizer_only,
    releasing_means_this_very_job,
    a_pod_that_is_deleted_stays_until_it_is_released,
    the_service_of_several_nodes_goes_with_its_job,
    a_service_that_comes_late_goes_as_well,
    a_watch_says_in_order_what_follows_the_list,
    what_was_before_a_version_that_is_no_longer_kept_is_gone,
)
