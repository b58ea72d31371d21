"""Whose a cluster is: queues of two databases, of a copy of one, and of one whose cluster goes or changes."""

from __future__ import annotations

import asyncio
import contextlib
import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.environment.plan.pods import DATABASE_LABEL, LEASE
from gpupool.findings import GpupoolError
from gpupool.live.cluster.kube_api import ApiError, UnreachableError
from gpupool.queue.records import JobState
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.store import identity
from gpupool.queue.store.database import Database
from gpupool.queue.trouble import TroubleKind
from tests.queue.kubernetes.fake_cluster import FakeCluster, Object
from tests.queue.kubernetes.launching import World, no_leaders, opened, steps, succeeds

PLACE = ("Lease", SYSTEM_NAMESPACE, LEASE)
Story = Callable[["Two"], Awaitable[None]]


class Queue:
    """One database with its dispatcher and launcher."""

    def __init__(self, db: Database, cluster: FakeCluster | None = None) -> None:
        self.db, self.world = db, World(db)
        if cluster is not None:
            self.world.cluster = cluster
        self.launcher: Launcher = self.world.launcher(db)

    async def looks(self, times: int = 1) -> None:
        """It looks at the Lease so many times."""
        for _ in range(times):
            self.launcher.claim._due = float("-inf")
            await steps(self.launcher, 2)

    async def starts(self) -> str:
        """A job of it runs."""
        id = await self.world.submit()
        while not self.pods(id):
            await self.world.dispatcher.step()
            await steps(self.launcher, 1)
        for pod in self.pods(id):
            self.world.cluster.start(pod)
        while (await self.world.job(id)).state is not JobState.RUNNING:
            await steps(self.launcher, 1)
        return id

    def pods(self, id: str) -> list[Object]:
        return [
            one for one in self.world.cluster.of("Pod") if one["metadata"]["labels"]["gpupool.dev/job"] == id
        ]

    async def trouble(self) -> TroubleKind | None:
        trouble = await identity.trouble(self.db)
        return trouble and trouble.kind

    async def restarts(self) -> None:
        await self.launcher.close()
        await no_leaders(self.db)
        self.launcher = self.world.launcher(self.db)


class Two:
    def __init__(self, first: Queue, second: Queue) -> None:
        self.first, self.second, self.cluster = first, second, first.world.cluster

    def seen(self) -> Any:
        """Everything that a queue could change, but the Lease."""
        things = [thing for kind in ("Job", "Pod", "Service") for thing in self.cluster.of(kind)]
        return copy.deepcopy([(one["metadata"], one.get("status")) for one in things])


@contextlib.asynccontextmanager
async def opened_queue(url: str, cluster: FakeCluster | None = None) -> AsyncIterator[Queue]:
    async with Database.open(url, 4) as db:
        await opened(db)
        await no_leaders(db)
        queue = Queue(db, cluster)
        try:
            yield queue
        finally:
            await queue.launcher.close()


@pytest.fixture
def two(postgres: Any, database_url: str) -> Callable[[Story], None]:
    """Runs a story with two queues on one cluster, each with a database of its own."""
    other = f"{database_url.rpartition('/')[2].partition('?')[0]}_other"

    def run(story: Story) -> None:
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {other} TEMPLATE migrated".encode())
        try:
            with psycopg.connect(postgres.url(other), autocommit=True) as connection:
                connection.execute(
                    "UPDATE gpu_identity SET database = gen_random_uuid(), mark = gen_random_uuid()"
                )

            async def both() -> None:
                async with (
                    opened_queue(database_url) as first,
                    opened_queue(postgres.url(other), first.world.cluster) as second,
                ):
                    await story(Two(first, second))

            asyncio.run(asyncio.wait_for(both(), 120))
        finally:
            with psycopg.connect(postgres.url(), autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {other} WITH (FORCE)".encode())

    return run


def test_another_database_touches_nothing(two) -> None:
    async def story(two: Two) -> None:
        id = await two.first.starts()
        waiting = await two.second.world.submit()
        before = two.seen()
        await two.second.looks(3)
        await two.second.world.dispatcher.step()
        await two.second.looks(3)
        assert two.seen() == before
        assert await two.second.trouble() is TroubleKind.OTHERS
        assert not two.second.pods(waiting)
        assert await two.first.trouble() is None
        await succeeds(two.first.world, two.first.launcher, id)

    two(story)


def test_two_that_begin_at_once_do_not_both_lead(two) -> None:
    async def story(two: Two) -> None:
        hold = two.cluster.hold
        waiting: list[asyncio.Event] = []

        async def both_have_looked(lease: Object) -> Object | None:
            waiting.append(asyncio.Event())
            if len(waiting) == 2:
                for event in waiting:
                    event.set()
            await waiting[min(len(waiting), 2) - 1].wait()
            return await hold(lease)

        two.cluster.hold = both_have_looked  # type: ignore[method-assign]
        await asyncio.gather(two.first.looks(), two.second.looks())
        assert {await two.first.trouble(), await two.second.trouble()} == {None, TroubleKind.OTHERS}

    two(story)


def test_an_administrator_lets_the_second_take_over_and_jobs_of_the_first_go_on(two) -> None:
    async def story(two: Two) -> None:
        id = await two.first.starts()
        assert await identity.let_take_over(two.first.db) is None, "nothing is in its way"
        await two.second.looks(2)
        await identity.let_take_over(two.second.db)
        before = two.seen()
        with capture_logs() as logs:
            await two.second.looks(3)
            assert await two.second.trouble() is None
            assert two.seen() == before, "the job of the first is left alone"
        left = [line for line in logs if line["event"] == "launcher.left"]
        assert [line["job"] for line in left] == [id]
        mine = await two.second.starts()
        await two.first.looks()
        assert await two.first.trouble() is TroubleKind.OTHERS
        for pod in two.first.pods(id):
            two.cluster.end(pod, 0)
        await two.first.looks(2)
        assert (await two.first.world.job(id)).state is JobState.RUNNING, (
            "the first one does nothing any more"
        )
        await succeeds_beside(two, mine)

    two(story)


async def succeeds_beside(two: Two, id: str) -> None:
    for pod in two.second.pods(id):
        two.cluster.end(pod, 0)
    while (await two.second.world.job(id)).state is not JobState.SUCCEEDED:
        await steps(two.second.launcher, 1)


def test_a_copy_of_the_database_keeps_off_and_takes_over_under_an_id_of_its_own(two) -> None:
    async def story(two: Two) -> None:
        id = await two.first.starts()
        await two.first.looks(5)
        async with two.first.db.connection() as connection:
            cursor = await connection.execute("SELECT database FROM gpu_identity")
            row = await cursor.fetchone()
        async with two.second.db.connection() as connection:  # as it was some marks ago
            await connection.execute(
                "UPDATE gpu_identity SET database = %s, mark = gen_random_uuid()", [row and row["database"]]
            )
        before = two.seen()
        await two.second.looks(3)
        assert two.seen() == before
        assert await two.second.trouble() is TroubleKind.RESTORED
        await identity.let_take_over(two.second.db)
        await two.second.looks(3)
        assert await two.second.trouble() is None
        assert two.seen() == before
        assert (await identity.read(two.second.db)).database != str(row and row["database"])
        await two.first.looks()
        assert await two.first.trouble() is TroubleKind.OTHERS
        assert (await two.first.world.job(id)).state is JobState.RUNNING

    two(story)


def test_a_standby_that_is_some_seconds_behind_goes_on(two) -> None:
    async def story(two: Two) -> None:
        id = await two.first.starts()
        behind = (await identity.read(two.first.db)).mark
        await two.first.looks(2)
        async with two.first.db.connection() as connection:
            await connection.execute("UPDATE gpu_identity SET mark = %s", [behind])
        await two.first.restarts()
        await two.first.looks(2)
        assert await two.first.trouble() is None
        await succeeds(two.first.world, two.first.launcher, id)

    two(story)


def test_jobs_of_an_earlier_release_go_on(two) -> None:
    """They have no database's id, and the cluster has no Lease yet."""

    async def story(two: Two) -> None:
        first = two.first
        id, lost = await first.starts(), await first.starts()
        del two.cluster.objects[PLACE]
        for kind in ("Job", "Pod"):
            for thing in two.cluster.of(kind):
                two.cluster.edit(thing, lambda thing: thing["metadata"]["labels"].pop(DATABASE_LABEL))
        async with first.db.connection() as connection:
            await connection.execute("UPDATE gpu_identity SET lease = NULL, lease_since = NULL")
            # Ended while no process led: its Job is a stray of this database's.
            await connection.execute("UPDATE gpu_jobs SET executor = 'other' WHERE id = %s", [lost])
            await connection.execute("UPDATE gpu_jobs SET attempt = attempt + 1 WHERE id = %s", [lost])
        await two.second.looks(2)
        assert await two.second.trouble() is TroubleKind.UNKNOWN_JOBS
        await first.restarts()
        with capture_logs() as logs:
            await first.looks(4)
        assert await first.trouble() is None
        assert (await first.world.job(id)).state is JobState.RUNNING
        discarded = [line["job"] for line in logs if line["event"] == "launcher.discarded"]
        assert set(discarded) == {lost}
        assert not [pod for pod in first.pods(lost) if pod["status"]["phase"] == "Running"]

    two(story)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UnreachableError("https://cluster.example: no route"), TroubleKind.UNREACHABLE),
        (ApiError(401, "Unauthorized", "Unauthorized"), TroubleKind.REFUSED),
        (ApiError(403, "Forbidden", 'leases "gpupool-queue" is forbidden'), TroubleKind.REFUSED),
        (ApiError(503, "", "etcdserver: no leader"), TroubleKind.UNREACHABLE),
    ],
)
def test_a_cluster_that_can_t_be_reached_is_said_with_its_time(
    two, error: GpupoolError, kind: TroubleKind
) -> None:
    async def story(two: Two) -> None:
        id = await two.first.starts()
        two.cluster.down = error
        await two.first.looks(1)
        assert await two.first.trouble() is None, "once is no trouble"
        await two.first.looks(1)
        trouble = await identity.trouble(two.first.db)
        assert trouble is not None
        assert (trouble.kind, trouble.server) == (kind, two.cluster.server)
        await two.first.looks(2)
        assert await identity.trouble(two.first.db) == trouble, "since then, not since the last look"
        assert (await two.first.world.job(id)).state is JobState.RUNNING
        two.cluster.down = None
        await two.first.looks(1)
        assert await two.first.trouble() is None
        await succeeds(two.first.world, two.first.launcher, id)

    two(story)


def test_a_new_and_empty_cluster_runs_its_jobs_again(two) -> None:
    async def story(two: Two) -> None:
        first = two.first
        id = await first.starts()
        empty = FakeCluster(first.world.now, ("queue-vision",))
        for node in two.cluster.of("Node"):
            empty.add(node)
        becomes(two.cluster, empty)
        two.cluster.moved = True
        await first.looks(3)
        assert await first.world.outcomes(id) == ["preempted"]
        await succeeds(first.world, first.launcher, id)

    two(story)


@pytest.mark.parametrize("moved", [True, False])
def test_another_queue_s_cluster_in_the_place_of_its_own_ends_nothing(two, moved: bool) -> None:
    """With a kubeconfig that was written again, or the same name for another server."""

    async def story(two: Two) -> None:
        first, second = two.first, two.second
        id = await first.starts()
        theirs = FakeCluster(first.world.now, ("queue-vision",))
        second.world.cluster = second.launcher.cluster = theirs  # type: ignore[assignment]
        second.launcher.claim.cluster = theirs
        await second.looks(1)
        becomes(two.cluster, theirs)
        two.cluster.moved = moved
        two.cluster.cut()
        await steps(first.launcher, 20)
        await first.looks(2)
        assert await first.trouble() is TroubleKind.OTHERS
        assert await first.world.outcomes(id) == [None]

    two(story)


def becomes(cluster: FakeCluster, other: FakeCluster) -> None:
    """At its address is another one."""
    cluster.cut()
    cluster.objects, cluster._history, cluster._version = other.objects, other._history, other._version
    cluster._counted, cluster.created = other._counted, other.created
