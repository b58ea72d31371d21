"""The n-th call of the launcher to cluster or store fails, before or after it takes effect, for every n.

Either the process dies there and another one takes over, or only the call fails and the process goes on. Each
time every job ends once and as it would have without it, no attempt has had two Jobs, the ledger balances,
and nothing of ours is left on the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from gpupool.environment.plan.pods import ATTEMPT_LABEL
from gpupool.queue.records import JobState
from gpupool.queue.store import idle, jobs
from gpupool.queue.store.database import Database
from tests.queue.kubernetes.launching import Fuse, World, live, no_leaders, one_process, opened, sound

Play = Callable[[], Awaitable[bool]]


class Scenario:
    """A job, and what kubelet and users do in each round, from what they see."""

    expected: tuple[tuple[str, ...], ...] = (("succeeded",),)
    """What may become of its attempts."""
    state = JobState.SUCCEEDED
    given: Mapping[str, Any] = {}
    """What is asked for."""

    def __init__(self, world: World, id: str) -> None:
        self.world, self.id = world, id
        self.done = False
        """Whether what happens once has happened."""

    async def play(self) -> bool:
        job = await self.world.job(self.id)
        if self.done:
            self.kubelet()
        else:
            self.done = await self.once()
        return job.state.final

    async def once(self) -> bool:
        return True

    def kubelet(self) -> None:
        """Starts what waits, and ends what has run since the round before."""
        running = self.world.pods("Running")
        for pod in self.world.pods("Pending"):
            self.world.cluster.start(pod)
        for pod in running:
            code = self.code(pod["metadata"]["labels"][ATTEMPT_LABEL])
            if code is not None:
                self.world.cluster.end(pod, code)

    def code(self, attempt: str) -> int | None:
        """How the container ends; None: not by itself."""
        return 0

    async def cancel(self) -> bool:
        return await jobs.cancel(self.world.db, self.id, "ada", self.world.now()) is not None

    async def started(self) -> dict[str, Any] | None:
        """The pod, once it runs and the queue says so too."""
        for pod in self.world.pods("Pending"):
            self.world.cluster.start(pod)
        running = self.world.pods("Running")
        job = await self.world.job(self.id)
        return running[0] if running and job.state is JobState.RUNNING else None


class Succeeds(Scenario):
    """It runs and ends with 0."""


class FailsOnce(Scenario):
    """Its first attempt ends with 3."""

    expected = (("failed", "succeeded"),)

    def code(self, attempt: str) -> int:
        return 3 if attempt == "1" else 0


class CancelledDispatching(Scenario):
    """The user cancels before it runs."""

    expected, state = (("cancelled",),), JobState.CANCELLED

    async def once(self) -> bool:
        job = await self.world.job(self.id)
        return job.state is JobState.SCHEDULED and await self.cancel()


class CancelledRunning(Scenario):
    """The user cancels while it runs."""

    expected, state = (("cancelled",),), JobState.CANCELLED

    async def once(self) -> bool:
        return bool(await self.started()) and await self.cancel()

    def code(self, attempt: str) -> int | None:
        return None if attempt == "1" else 0


class Preempted(Scenario):
    """It gives way to another job, ends with 0 after SIGTERM, and runs again."""

    expected = (("preempted", "succeeded"),)

    async def once(self) -> bool:
        self.world.cluster.obeys = 0
        if not await self.started():
            return False
        await self.world.preempt(await self.world.job(self.id))
        return True

    def code(self, attempt: str) -> int | None:
        return None if attempt == "1" else 0


class PodDeleted(Scenario):
    """Somebody deletes its pod."""

    expected = (("preempted", "succeeded"),)

    async def once(self) -> bool:
        pod = await self.started()
        if pod is not None:
            self.world.cluster.delete(pod)
        return pod is not None


class JobDeleted(Scenario):
    """Somebody deletes its Job, as kubectl does: in background, and with our finalizer its pod runs on."""

    expected = (("preempted", "succeeded"),)

    async def once(self) -> bool:
        pod = await self.started()
        if pod is not None:
            self.world.cluster.delete(self.world.cluster.of("Job")[0])
        return pod is not None

    def code(self, attempt: str) -> int | None:
        return None if attempt == "1" else 0


class Evicted(Scenario):
    """Its node is drained."""

    expected = (("preempted", "succeeded"),)

    async def once(self) -> bool:
        pod = await self.started()
        if pod is not None:
            self.world.cluster.end(pod, 143, "EvictionByEvictionAPI")
        return pod is not None


class TooLong(Scenario):
    """It runs for longer than it may."""

    expected, state = (("timeout",),), JobState.FAILED

    async def once(self) -> bool:
        if not await self.started():
            return False
        self.world.ahead += timedelta(seconds=700)
        return True

    def code(self, attempt: str) -> None:
        return None


class Idle(Scenario):
    """It uses no GPU, and the file says that such jobs are stopped."""

    expected, state = (("failed",),), JobState.FAILED

    async def once(self) -> bool:
        if not await self.started():
            return False
        db, now = self.world.db, self.world.now()
        found = [
            idle.IdleAttempt(one.job, one.version, 0.0, "idle: no GPU used", "it is idle")
            for one in await idle.watched(db, now, "stop")
        ]
        return bool(await idle.record(db, found, "stop", now, alerts=False))

    def code(self, attempt: str) -> int | None:
        return None


class OnTwoNodes(Scenario):
    """Its second pod starts a round after the first, once the Service is there by which they find each other;
    its first attempt fails on one of them."""

    expected = (("failed", "succeeded"),)
    given = {"gpu_count": 8}

    def kubelet(self) -> None:
        waiting, running = self.world.pods("Pending"), self.world.pods("Running")
        if waiting and self.world.cluster.of("Service"):
            self.world.cluster.start(waiting[0])
        elif not waiting and len(running) == 2:
            code = 3 if running[0]["metadata"]["labels"][ATTEMPT_LABEL] == "1" else 0
            self.world.cluster.end(running[1], code)
            if code == 0:
                self.world.cluster.end(running[0], code)


class CancelledHalfStarted(Scenario):
    """The user cancels when one of two pods runs."""

    expected, state = (("cancelled",),), JobState.CANCELLED
    given = {"gpu_count": 8}

    async def once(self) -> bool:
        for pod in self.world.pods("Pending")[:1]:
            self.world.cluster.start(pod)
        return bool(self.world.pods("Running")) and await self.cancel()


class PoolDropped(Scenario):
    """The environment file has lost its pool when it is to be launched, and gets it back."""

    expected = tuple((*("preempted",) * many, "succeeded") for many in range(1, 10))

    def __init__(self, world: World, id: str) -> None:
        super().__init__(world, id)
        self.before = world.present
        world.drop_pool("training")

    async def once(self) -> bool:
        over = (await self.world.job(self.id)).attempt > 1
        if over:
            self.world.present = self.before
        await self.world.enact()
        return over


SCENARIOS = (
    *(Succeeds, FailsOnce, CancelledDispatching, CancelledRunning, Preempted, PodDeleted, JobDeleted),
    *(Evicted, TooLong, Idle, OnTwoNodes, CancelledHalfStarted, PoolDropped),
)
FAILURES = {
    "dies-before": {"dies": True, "after": False},
    "dies-after": {"dies": True, "after": True},
    "fails-before": {"dies": False, "after": False},
    "fails-after": {"dies": False, "after": True},
}


async def run(url: str, kind: type[Scenario], fuse: Fuse, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Database.open(url, 4) as db:
        await no_leaders(db)
        await opened(db)
        world = World(db)
        id = await world.submit(**kind.given)
        scenario = kind(world, id)
        async with Database.open(url, 4) as own, one_process(world, own, fuse, monkeypatch) as first:
            over = await live(world, [first], scenario.play, fuse=fuse)
        if not over:
            await no_leaders(db, "launcher")
            await live(world, [world.launcher(db)], scenario.play)
        await sound(world, [id])
        assert tuple(await world.outcomes(id)) in kind.expected
        assert (await world.job(id)).state is kind.state
        for job in world.cluster.of("Job"):  # as their time to live would
            world.cluster.delete(job)
        assert {kind for kind, _, _ in world.cluster.objects} == {"Lease", "Node"}


@pytest.mark.parametrize("kind", SCENARIOS, ids=lambda kind: kind.__name__)
def test_a_call_that_fails_changes_no_end(database_url, monkeypatch, kind) -> None:
    def run_with(fuse: Fuse, failure: str) -> Fuse:
        try:
            asyncio.run(asyncio.wait_for(run(database_url, kind, fuse, monkeypatch), 120))
        except (Exception, asyncio.CancelledError) as error:
            error.add_note(f"call {fuse.at}, {fuse.name}: {failure}")
            raise
        return fuse

    calls = run_with(Fuse(), "none").calls
    cases = [(at, failure) for at in range(1, calls + 1) for failure in FAILURES]
    for at, failure in cases:
        run_with(Fuse(at, **FAILURES[failure]), failure)
