"""Tests of one launcher with one job, on a fake cluster and a real database."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gpupool.queue.records import JobState
from gpupool.queue.roles.launcher import Launcher
from tests.queue.kubernetes.fake_cluster import Object
from tests.queue.kubernetes.launching import World, opened, steps

Test = Callable[[World, Launcher, str, Object], Awaitable[None]]


@pytest.fixture
def running(database) -> Callable[[Test], None]:
    """Runs a test with a job whose pod runs, and the launcher that started it."""

    def run(test: Test) -> None:
        async def begun(db) -> None:
            await opened(db)
            world = World(db)
            id = await world.submit()
            launcher = world.launcher(db)

            async def play() -> bool:
                for pod in world.pods("Pending"):
                    world.cluster.start(pod)
                return (await world.job(id)).state is JobState.RUNNING

            try:
                while not await play():
                    await world.dispatcher.step()
                    await steps(launcher)
                await test(world, launcher, id, world.cluster.of("Pod")[0])
            finally:
                await launcher.close()

        database(begun)

    return run


@pytest.fixture
def dispatched(database) -> Callable[..., None]:
    """Runs a test with a job whose pods have been made, and the launcher that made its Job."""

    def run(
        test: Callable[[World, Launcher, str], Awaitable[None]],
        most_pods: int = 9,
        refuses_services: bool = False,
        **given: Any,
    ) -> None:
        async def begun(db) -> None:
            await opened(db)
            world = World(db)
            world.cluster.most_pods, world.cluster.refuses_services = most_pods, refuses_services
            id = await world.submit(**given)
            launcher = world.launcher(db)
            try:
                for _ in range(100):
                    await world.dispatcher.step()
                    await steps(launcher)
                    if world.pods("Pending"):
                        break
                await test(world, launcher, id)
            finally:
                await launcher.close()

        database(begun)

    return run
