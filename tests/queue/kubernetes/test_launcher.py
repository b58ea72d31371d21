"""What the launcher does where its view of the cluster is late, or somebody works around it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpupool.environment.plan.model import Taint
from gpupool.environment.plan.pods import RECORDED_FINALIZER
from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.queue.domain.attempt_end import cost_of
from gpupool.queue.domain.current import Current
from gpupool.queue.kubernetes import observe
from gpupool.queue.records import JobState, Waiting, WaitReason
from gpupool.queue.roles import loop
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.roles.leader import Leadership
from gpupool.queue.store import attempts, jobs, launches, logs, outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import Unavailable
from tests.queue.kubernetes.fake_cluster import Object
from tests.queue.kubernetes.launching import World, later, no_leaders, opened, placed, steps, succeeds


def test_a_late_watch_of_pods_ends_nothing(database) -> None:
    """The Job is to end; that a pod of it runs is not known yet."""

    async def test(db) -> None:
        await opened(db)
        world = World(db)
        launcher = world.launcher(db)
        try:
            await steps(launcher)
            world.cluster.held, world.cluster.obeys = {"Pod"}, None
            id = await world.submit()
            while not world.pods("Pending"):
                await world.dispatcher.step()
                await steps(launcher)
            world.cluster.start(world.pods("Pending")[0])
            world.cluster.delete(world.cluster.of("Job")[0], foreground=True)
            await steps(launcher)
            assert await world.outcomes(id) == [None], "its pod still runs"
            world.cluster.resume()
            world.cluster.end(world.cluster.of("Pod")[0], 143)
            await succeeds(world, launcher, id)
            assert await world.outcomes(id) == ["preempted", "succeeded"]
        finally:
            await launcher.close()

    database(test)


def test_an_attempt_of_which_only_the_pod_is_left_goes_on_to_its_end(running) -> None:
    """Somebody has deleted the Job without its pods, and taken our finalizer off it."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        job = world.cluster.of("Job")[0]
        world.cluster.delete(job)
        world.cluster.edit(pod, lambda pod: pod["metadata"].pop("ownerReferences"))
        world.cluster.edit(job, lambda job: job["metadata"].update(finalizers=[]))
        assert world.cluster.of("Job") == []
        await steps(launcher)
        assert await world.outcomes(id) == [None], "its pod still runs"
        await succeeds(world, launcher, id)
        assert await world.outcomes(id) == ["succeeded"]

    running(test)


def test_a_pod_that_the_garbage_collector_did_not_know_is_stopped_too(running) -> None:
    """Deleted right after its pod was made, a Job may have no dependents that anything waits for."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        stop = world.cluster.stop

        async def overlook(job: Object, verdict: str | None) -> None:
            world.cluster.stop = stop
            world.cluster.delete(job)

        world.cluster.stop = overlook
        await jobs.cancel(world.db, id, "ada", world.now())
        for _ in range(10):
            await steps(launcher)
        assert (await world.job(id)).state.final
        assert await world.outcomes(id) == ["cancelled"]

    running(test)


def test_what_is_gone_takes_no_memory(running) -> None:
    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.cluster.end(pod, 0)
        while not (await world.job(id)).state.final or world.leftovers():
            await steps(launcher)
        world.cluster.delete(world.cluster.of("Job")[0])
        await steps(launcher)
        assert not world.cluster.of("Pod")
        mirror, known = launcher.mirror, launcher.reconciler.attempts
        assert (mirror.jobs, mirror.pods, mirror.gone, known) == ({}, {}, {}, {})

    running(test)


def test_a_watch_that_is_cut_or_too_old_loses_nothing(running) -> None:
    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.cluster.held = {"Pod", "Job"}
        world.cluster.end(pod, 0)
        await steps(launcher)
        assert not (await world.job(id)).state.final
        world.cluster.resume()
        world.cluster.cut(forget=True)
        while not (await world.job(id)).state.final:
            await steps(launcher)
        assert await world.outcomes(id) == ["succeeded"]

    running(test)


def test_a_process_that_loses_the_lead_after_an_error_follows_nothing(
    running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its output would be kept twice, and pods that vanish for ever."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        async def unanswered(*given: Any) -> None:
            raise Unavailable("no answer")

        with monkeypatch.context() as patched:
            patched.setattr(launches, "take", unanswered)
            await steps(launcher, 1)
        await no_leaders(world.db, launches.ROLE)
        second = world.launcher(world.db)
        await steps(second)
        launcher.leadership.clock = lambda: time.monotonic() + 1000
        await steps(launcher)
        assert launcher._following is None
        assert not launcher.mirror.pods
        await second.close()

    running(test)


def test_another_plan_counts_the_pods_of_others_again(running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pool may be new to it, whose nodes and pods were there before."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        counted = []

        async def count(*given: Any) -> None:
            counted.append(world.present.hash)

        await steps(launcher)
        monkeypatch.setattr(launches, "replace_foreign", count)
        await steps(launcher)
        world.present = replace(world.present, hash="another")
        await steps(launcher)
        assert counted == ["another"]

    running(test)


def test_an_attempt_whose_pool_is_gone_when_it_is_launched_is_queued_again(database) -> None:
    async def test(db: Database) -> None:
        await opened(db)
        world = World(db)
        launcher = world.launcher(db)
        id = await world.submit()
        await world.dispatcher.step()
        world.drop_pool("training")
        await steps(launcher)
        assert await world.outcomes(id) == [None], "the leader still decides by the file with the pool"
        assert (
            "launcher has read without"
            in ((await world.job(id)).waiting or Waiting(WaitReason.QUEUED, "")).detail
        )
        assert world.cluster.of("Job") == []
        await world.enact()
        await later(world, launcher, 0)
        world.ahead += timedelta(seconds=3)
        await steps(launcher)
        assert await world.outcomes(id) == ["preempted"]
        (attempt,) = await attempts.of_job(db, id)
        assert "nothing is called 'training'" in (attempt.reason or "")
        job = await world.job(id)
        assert (job.state, job.failures, job.disruptions) == (JobState.QUEUED, 0, 1)
        await launcher.close()

    database(test)


def tainted(world: World) -> Current:
    """The file has a taint on the nodes of the pool."""
    plan = world.present.plan
    pools = [
        replace(pool, taints=(Taint("gpu", "", "NoSchedule"),)) if pool.name == "training" else pool
        for pool in plan.pools
    ]
    return replace(world.present, plan=replace(plan, pools=tuple(pools)), hash="tainted")


def sliced(world: World) -> Current:
    """The file has slices where there were whole GPUs, under the same name of the resource."""
    supply = world.present.supply
    pool = supply.pools["training"]
    pool = replace(pool, gpu_micro={name: micro // 4 for name, micro in pool.gpu_micro.items()})
    return replace(
        world.present, supply=replace(supply, pools={**supply.pools, "training": pool}), hash="cut"
    )


def without_tenant(world: World) -> Current:
    """The file has the tenant no more."""
    tenants = {name: tenant for name, tenant in world.present.tenants.items() if tenant.name != "vision"}
    return replace(world.present, tenants=tenants, hash="tenantless")


@pytest.mark.parametrize("change", [tainted, sliced, without_tenant])
def test_a_pod_without_a_node_whose_plan_is_taken_back_is_no_failure_of_its_job(database, change) -> None:
    async def test(db: Database) -> None:
        await opened(db)
        world = World(db)
        launcher = world.launcher(db)
        try:
            id = await world.submit()
            while not world.pods("Pending"):
                await world.dispatcher.step()
                await steps(launcher)
            before, world.present = world.present, change(world)
            await later(world, launcher, 1)
            assert await world.outcomes(id) == [None], "the leader has not read the file yet"
            await world.enact()
            await later(world, launcher, 1)
            await later(world, launcher, 1)
            assert await world.outcomes(id) == ["preempted"]
            job = await world.job(id)
            assert (job.state, job.failures) == (JobState.QUEUED, 0)
            (attempt,) = await attempts.of_job(db, id)
            assert (attempt.reason or "").startswith("the environment file has changed: ")
            world.present = before
            await world.enact()
            await succeeds(world, launcher, id)
        finally:
            await launcher.close()

    database(test)


def test_what_has_a_node_goes_on_whatever_the_file_says(running) -> None:
    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.present = tainted(world)
        await world.enact()
        await later(world, launcher, 2)
        assert await world.outcomes(id) == [None]

    running(test)


def test_the_next_process_knows_what_was_asked(running) -> None:
    """Its first look may find the attempt ended already."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        await jobs.cancel(world.db, id, "ada", world.now())
        await launcher.leadership.resign()
        await launcher.close()
        world.cluster.delete(world.cluster.of("Job")[0], foreground=True)
        await succeeds(world, world.launcher(world.db), id)
        assert await world.outcomes(id) == ["cancelled"]

    running(test)


def test_the_next_process_takes_back_what_the_last_one_showed(running) -> None:
    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        (node,) = world.cluster.of("Node")
        taint = {"key": observe.UNREACHABLE, "effect": "NoExecute"}
        world.cluster.edit(node, lambda node: node["spec"].update(taints=[taint]))
        await steps(launcher)
        waiting = (await world.job(id)).waiting
        assert waiting is not None
        assert waiting.reason is WaitReason.NODE_UNREACHABLE
        await launcher.leadership.resign()
        await launcher.close()
        world.cluster.edit(node, lambda node: node["spec"].update(taints=[]))
        second = world.launcher(world.db)
        await steps(second)
        assert (await world.job(id)).waiting is None
        await second.close()

    running(test)


def test_an_attempt_without_a_run_limit_of_its_own_is_stopped_after_its_timeout(running) -> None:
    """The reason names the limit that was exceeded."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        (known,) = launcher.reconciler.attempts.values()
        known.job = replace(known.job, run_limit_s=None, timeout_s=120)
        await later(world, launcher, 1)
        assert await world.outcomes(id) == [None]
        for _ in range(5):
            await later(world, launcher, 1)
        (attempt,) = await attempts.of_job(world.db, id)
        assert (attempt.outcome, attempt.reason) == ("timeout", "it ran for longer than 120 s")

    running(test)


def test_a_node_where_nothing_starts_is_avoided(dispatched) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        placed(world, world.pods("Pending")[0], "node-0")
        await steps(launcher)
        await later(world, launcher, 16)
        (attempt,) = await attempts.of_job(world.db, id)
        assert (attempt.outcome, attempt.node, attempt.started_at) == ("failed", "node-0", None)
        assert "not started after 900 s: ErrImagePull" in (attempt.reason or "")
        await succeeds(world, launcher, id)
        again = next(job for job in world.cluster.of("Job") if job["metadata"]["name"].endswith("-2"))
        assert "'values': ['node-0']" in str(again["spec"]["template"]["spec"]["affinity"]["nodeAffinity"])

    dispatched(test)


@pytest.mark.parametrize("minutes", [16, -16])
def test_a_clock_that_differs_from_the_api_servers_fails_nothing(dispatched, minutes: int) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        world.cluster.now = lambda: world.now() - timedelta(minutes=minutes)
        second = await world.submit()
        for _ in range(20):
            await world.dispatcher.step()
            await steps(launcher)
        assert len(world.cluster.of("Job")) == 2
        assert await world.outcomes(second) == [None]
        await later(world, launcher, 14)
        assert await world.outcomes(second) == [None]
        await later(world, launcher, 2)
        assert await world.outcomes(second) == ["failed"]

    dispatched(test)


def test_several_pods_of_which_one_does_not_start_fail_after_their_time(dispatched) -> None:
    """It is said why meanwhile, the output of the first is read, and what ran is charged."""

    async def test(world: World, launcher: Launcher, id: str) -> None:
        first, second = sorted(world.pods("Pending"), key=lambda pod: pod["metadata"]["name"])
        world.cluster.lines = [b"2026-11-22T12:00:00.000000001Z up"]
        world.cluster.start(first, "node-0")
        placed(world, second, "node-1")
        await steps(launcher)
        world.ahead += timedelta(seconds=10)
        await steps(launcher)
        job = await world.job(id)
        assert job.state is JobState.SCHEDULED
        assert job.waiting is not None
        assert "ErrImagePull" in job.waiting.detail
        assert [chunk.text for chunk in await logs.page(world.db, id)] == ["up"]
        await later(world, launcher, 16)
        (attempt,) = await attempts.of_job(world.db, id)
        assert (attempt.outcome, attempt.node) == ("failed", "node-1")
        assert attempt.cost_micro > 0

    dispatched(test, gpu_count=8)


def test_several_pods_of_which_one_is_refused_say_so(dispatched) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        (first,) = world.pods("Pending")
        world.cluster.start(first)
        world.cluster.warned = ["exceeded quota: none"]
        for _ in range(10):
            world.ahead += timedelta(seconds=2)
            await steps(launcher)
            await asyncio.sleep(0.05)
        waiting = (await world.job(id)).waiting
        assert waiting is not None
        assert (waiting.reason, waiting.detail) == (
            WaitReason.REFUSED,
            "its pod can't be created: exceeded quota: none",
        )
        await later(world, launcher, 16)
        assert await world.outcomes(id) == ["failed"]

    dispatched(test, most_pods=1, gpu_count=8)


def test_a_pod_that_does_not_end_is_shown(running) -> None:
    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        world.cluster.obeys = None
        await jobs.cancel(world.db, id, "ada", world.now())
        await steps(launcher)
        assert (await world.job(id)).waiting is None
        await later(world, launcher, 1)
        waiting = (await world.job(id)).waiting
        assert waiting is not None
        assert (waiting.reason, pod["metadata"]["name"] in waiting.detail) == (WaitReason.TERMINATING, True)
        world.cluster.end(pod, 137)
        await succeeds(world, launcher, id)
        assert await world.outcomes(id) == ["cancelled"]

    running(test)


def test_a_process_that_has_not_read_the_cluster_is_not_ready(database, monkeypatch) -> None:
    """Though it leads, and waits for the first answer."""

    async def test(db) -> None:
        await opened(db)
        world = World(db)
        list_all = world.cluster.list_all
        monkeypatch.setattr(world.cluster, "list_all", lambda *_: asyncio.Future())
        loop._stepped.pop(launches.ROLE, None)
        leadership = Leadership(db, launches.ROLE, "one", 0.6)
        launcher = Launcher(db, leadership, world.cluster, lambda: world.present, world.now)
        launcher.interval_s = 0.1
        running = asyncio.create_task(launcher.run(asyncio.Event()))
        await asyncio.sleep(2)
        assert leadership.epoch is not None
        assert loop.late([launches.ROLE]) == [launches.ROLE]
        monkeypatch.setattr(world.cluster, "list_all", list_all)
        await launcher.close()
        async with asyncio.timeout(60):
            while loop.late([launches.ROLE]):
                await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    database(test)


def test_a_job_of_several_nodes_whose_service_is_refused_waits_and_says_so(dispatched) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        for _ in range(5):
            await later(world, launcher, 1)
        job = await world.job(id)
        assert job.waiting is not None
        assert job.waiting.detail == "the cluster refuses its Service: exceeded quota: no services"
        assert job.waiting.reason is WaitReason.REFUSED
        world.cluster.refuses_services = False
        await later(world, launcher, 1)
        assert len(world.cluster.of("Service")) == 1
        await succeeds(world, launcher, id)
        assert await world.outcomes(id) == ["succeeded"]

    dispatched(test, refuses_services=True, gpu_count=8, retries=0)


def test_a_service_that_is_refused_for_too_long_ends_the_attempt(dispatched) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        await later(world, launcher, 16)
        for _ in range(10):
            await steps(launcher)
        (attempt,) = await attempts.of_job(world.db, id)
        assert attempt.outcome == "failed"
        assert attempt.reason == "the cluster refuses its Service: exceeded quota: no services"
        assert world.leftovers() == []

    dispatched(test, refuses_services=True, gpu_count=8, retries=0)


def test_what_a_kubelet_refuses_is_tried_again_without_retries_of_the_jobs_own(dispatched) -> None:
    async def test(world: World, launcher: Launcher, id: str) -> None:
        refusal = {
            "phase": "Failed",
            "reason": "OutOfcpu",
            "message": "Node didn't have enough resource: cpu",
        }
        (pod,) = world.pods("Pending")
        world.cluster.edit(pod, lambda pod: pod["status"].update(refusal))
        await steps(launcher, 5)
        job = await world.job(id)
        assert (job.state, job.failures, job.disruptions) == (JobState.QUEUED, 0, 1), job.reason

    dispatched(test, retries=0)


@pytest.mark.parametrize("whole", [True, False])
def test_a_job_whose_finalizer_was_taken_off_by_hand_is_not_run_again(running, whole: bool) -> None:
    """Of Job and pod, or of the Job alone."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        for thing in (pod, *world.cluster.of("Job")) if whole else world.cluster.of("Job"):
            world.cluster.edit(
                thing, lambda thing: thing["metadata"]["finalizers"].remove(RECORDED_FINALIZER)
            )
        await steps(launcher)
        assert await world.outcomes(id) == [None], "it still runs"
        world.cluster.delete(world.cluster.of("Job")[0])
        for _ in range(5):
            await steps(launcher)
        job = await world.job(id)
        assert (job.state, job.attempt) == (JobState.FAILED, 1)
        assert job.reason == "its Job was deleted by hand, and the queue's finalizer taken off it"
        assert world.leftovers() == []

    running(test)


def test_a_job_whose_creation_was_not_answered_was_launched(database) -> None:
    """Another process, or the watch, sees that it is there; also when it has ended by then."""

    async def test(db: Database) -> None:
        await opened(db)
        world = World(db)
        create = world.cluster.create

        async def unanswered(thing: Object) -> Object:
            await create(thing)
            if thing["kind"] == "Job":
                for pod in world.pods("Pending") if ends else ():
                    world.cluster.start(pod)
                    world.cluster.end(world.cluster.of("Pod")[-1], 0)
                raise UnreachableError("no answer")
            return thing

        world.cluster.create = unanswered  # type: ignore[method-assign]
        launcher = world.launcher(db)
        try:
            for ends in (False, True):
                id = await world.submit()
                for _ in range(40):
                    await world.dispatcher.step()
                    await steps(launcher, 1)
                    (attempt, *_) = [*await attempts.of_job(db, id), None]
                    if attempt is not None and attempt.launched_at is not None:
                        break
                    await asyncio.sleep(0.02)
                types = [event.type for event in await outbox.of_job(db, id)]
                assert types.count("launched") == 1, types
                assert (
                    types.index("launched") < types.index("succeeded") if ends else "succeeded" not in types
                )
                await succeeds(world, launcher, id)
                assert [event.type for event in await outbox.of_job(db, id)].count("launched") == 1
        finally:
            await launcher.close()

    database(test)


@pytest.mark.parametrize("hours", [-30, 30])
def test_a_wall_clock_that_is_set_ends_and_charges_nothing(running, hours: int) -> None:
    """That of this process; the cluster has its own."""

    async def test(world: World, launcher: Launcher, id: str, pod: Object) -> None:
        launcher.reconciler.now = lambda: world.now() + timedelta(hours=hours)
        world.ahead += timedelta(seconds=40)
        await steps(launcher)
        assert await world.outcomes(id) == [None]
        world.cluster.end(pod, 0)
        for _ in range(100):
            await steps(launcher)
            if (await world.job(id)).state.final:
                break
        (attempt,) = await attempts.of_job(world.db, id)
        assert attempt.outcome == "succeeded"
        assert attempt.started_at is not None
        assert attempt.finished_at is not None
        ran = attempt.finished_at - attempt.started_at
        assert timedelta(seconds=40) <= ran <= timedelta(seconds=60)
        rate = (await world.job(id)).rate_micro or 0
        assert attempt.cost_micro == cost_of(rate, ran, 10**12)

    running(test)
