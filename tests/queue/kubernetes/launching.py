"""A launcher on a fake cluster and a real database, stepped with the dispatcher and what users do."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.pods import RECORDED_FINALIZER
from gpupool.live.cluster.kube_api import UnreachableError
from gpupool.queue.plan_source import PlanSource
from gpupool.queue.records import Decision, Job, JobState, Preempt, new_id
from gpupool.queue.roles.dispatcher import Dispatcher
from gpupool.queue.roles.launcher import Launcher
from gpupool.queue.roles.leader import Leadership
from gpupool.queue.store import attempts, dispatch, identity, jobs, launches, logs, outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError, Unavailable
from tests.queue.acting import As
from tests.queue.kubernetes.fake_cluster import FakeCluster, Object
from tests.queue.roles import running

SOURCE = PlanSource(Path(__file__).parents[2] / "cluster" / "queue" / "queue.yaml")
CONTAINER = {"container_image": "registry.example/work:1", "container_command": ["train"]}
STORE = {
    dispatch: ("lead",),
    attempts: ("record_start", "record_starts"),
    logs: ("append",),
    launches: (
        *("take", "held", "is_held", "asked", "record_launches", "record_waits", "failed_nodes"),
        *("finish", "logged_until", "replace_foreign"),
    ),
    identity: ("read", "marked", "trouble", "troubled", "unknown"),
}
"""What the launcher calls, by module."""
TTL_S = 60
FAILED_PULL = {"reason": "ErrImagePull", "message": "no such host"}


class Died(BaseException):
    """The process is gone at this point: nothing of it runs any more."""


@dataclass
class Fuse:
    """Counts the calls of one process; the n-th one, or the first of a name, fails before or after it takes
    effect, once (`dies`: and so does every later one). With a `gate` it and later ones wait there instead:
    the process stands still."""

    at: int | str | None = None
    after: bool = False
    dies: bool = True
    calls: int = 0
    blown: bool = False
    name: str = ""
    gate: asyncio.Event | None = None
    paused: asyncio.Event = field(default_factory=asyncio.Event)
    stood: set[str] = field(default_factory=set)
    """Calls that had not taken effect when the process stood still."""

    def wrap(self, name: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @functools.wraps(call)
        async def counted(*args: Any, **kwargs: Any) -> Any:
            if self.blown and self.gate is None and self.dies:
                raise Died(name)
            self.calls += 1
            mine = not self.blown and self.at in (self.calls, name)
            if mine:
                self.blown, self.name = True, name
            if self.blown and not (mine and self.after):
                self.stood.add(name)
                await self._pause()
            failing = mine and self.gate is None
            answer = await call(*args, **kwargs) if self.after or not failing else None
            if mine and self.after:
                await self._pause()
            if failing:
                raise self._failure(name)
            return answer

        return counted

    async def _pause(self) -> None:
        if self.gate is not None:
            self.paused.set()
            await self.gate.wait()

    def _failure(self, name: str) -> BaseException:
        if self.dies:
            return Died(name)
        return UnreachableError(name) if name.startswith("cluster.") else Unavailable(name)


class Fused:
    """A cluster whose calls go through a fuse."""

    def __init__(self, cluster: FakeCluster, fuse: Fuse) -> None:
        self.reader, self.output = _FusedReader(cluster, fuse), cluster.output
        self.server, self.changed, self.renew = cluster.server, cluster.changed, cluster.renew
        self.now = cluster.now
        for name in ("create", "stop", "release", "warnings", "lease", "hold"):
            setattr(self, name, fuse.wrap(f"cluster.{name}", getattr(cluster, name)))


class _FusedReader:
    """Each list, and each change that a watch shows, goes through a fuse."""

    def __init__(self, cluster: FakeCluster, fuse: Fuse) -> None:
        self._watch = cluster.watch
        self.list_all = fuse.wrap("cluster.list", cluster.list_all)
        self._shown = fuse.wrap("cluster.watch", _as_it_is)

    async def watch(
        self, path: str, version: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[tuple[str, Object]]:
        async for change in self._watch(path, version, query):
            yield change if change[0] == "BOOKMARK" else await self._shown(change)


async def _as_it_is(change: tuple[str, Object]) -> tuple[str, Object]:
    return change


class World:
    """What outlives a launcher: the database, the cluster, time, the dispatcher, the environment file."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.ahead = timedelta()
        self.cluster = FakeCluster(self.now, ("queue-vision",))
        for pool in SOURCE.plan().pools:
            labels = {"gpupool.dev/pool": pool.name}
            self.cluster.add({"kind": "Node", "metadata": {"name": "node-0", "labels": labels}, "spec": {}})
        self.present = SOURCE.current
        deciding = As(db, "dispatcher")
        leads = Leadership(deciding, "dispatcher", new_id(), 3600)
        self.dispatcher = Dispatcher(deciding, leads, SOURCE.supply, now=self.now)

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def launcher(
        self, db: Database, cluster: Any = None, clock: Callable[[], float] | None = None
    ) -> Launcher:
        """A process that would lead."""
        more = {"clock": clock} if clock else {}
        db = As(db, "executor")
        leads = Leadership(db, launches.ROLE, new_id(), TTL_S, **more)
        return Launcher(db, leads, cluster or self.cluster, lambda: self.present, self.now, self.now)

    async def submit(self, **given: Any) -> str:
        wanted = {"pool": "training", "request": CONTAINER, "isolation": "exclusive", **given}
        return (await jobs.submit(self.db, [running.new(source=SOURCE, **wanted)], now=self.now())).ids[0]

    async def job(self, id: str) -> Job:
        found = await jobs.job(self.db, id)
        assert found is not None
        return found

    async def outcomes(self, id: str) -> list[str | None]:
        return [one.outcome for one in await attempts.of_job(self.db, id)]

    async def preempt(self, job: Job) -> None:
        """The dispatcher decides that the attempt gives way."""
        epoch = await self.dispatcher.leadership.seek()
        assert epoch is not None
        given = Preempt(job.id, job.attempt, new_id(), "a test needs its slots")
        await dispatch.claim(self.db, epoch, Decision(preempts=(given,)), "x", 30, self.now())

    def drop_pool(self, name: str) -> None:
        """The environment file no longer has it, as this process sees it."""
        plan, supply = self.present.plan, self.present.supply
        plan = replace(plan, pools=tuple(pool for pool in plan.pools if pool.name != name))
        pools = {key: pool for key, pool in supply.pools.items() if key != name}
        supply = replace(supply, pools=pools)
        self.present = replace(self.present, plan=plan, supply=supply, hash="without")

    async def enact(self) -> None:
        """The leader has read the file too."""
        async with self.db.connection() as connection:
            await connection.execute("UPDATE gpu_plans SET hash = %s", [self.present.hash])

    def pods(self, phase: str) -> list[Object]:
        """Those that are not to end."""
        return [
            pod
            for pod in self.cluster.of("Pod")
            if pod["status"]["phase"] == phase and "deletionTimestamp" not in pod["metadata"]
        ]

    def leftovers(self) -> list[str]:
        """What may not be there once every attempt is recorded."""
        left = []
        for kind, _, name in self.cluster.objects:
            thing = next(one for one in self.cluster.of(kind) if one["metadata"]["name"] == name)
            if RECORDED_FINALIZER in thing["metadata"].get("finalizers", ()):
                left.append(f"{kind} {name} has our finalizer")
            if kind == "Pod" and thing["status"]["phase"] in ("Pending", "Running"):
                left.append(f"pod {name} is {thing['status']['phase']}")
        return left


async def opened(db: Database) -> None:
    """The tenants of this environment into a fresh database."""
    await running.opened(db, SOURCE)


async def live(
    world: World,
    launchers: Sequence[Launcher],
    play: Callable[[], Awaitable[bool]],
    *,
    fuse: Fuse | None = None,
    seconds: float = 30,
    close: bool = True,
) -> bool:
    """All processes and users, round by round, until `play` says that its piece is over and nothing is left
    over; False where the fuse's process died before."""
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await world.dispatcher.step()
            for launcher in launchers:
                await one_round(launcher)
            if fuse is not None and fuse.dies and fuse.blown:
                return False
            over = await play()
            await asyncio.sleep(0.005)
            if over and not world.leftovers():
                return True
            world.ahead += timedelta(seconds=0 if over else 3)
    finally:
        for launcher in launchers if close else ():
            await launcher.close()
    raise AssertionError(f"not over after {seconds} s; left over: {world.leftovers()}")


async def steps(launcher: Launcher, count: int = 5) -> None:
    for _ in range(count):
        await one_round(launcher)
        await asyncio.sleep(0.01)


async def succeeds(world: World, launcher: Launcher, id: str) -> None:
    """Whatever runs or waits to run ends well."""

    async def play() -> bool:
        running = world.pods("Running")
        for pod in world.pods("Pending"):
            world.cluster.start(pod)
        for pod in running:
            world.cluster.end(pod, 0)
        return (await world.job(id)).state.final

    await live(world, [launcher], play)
    await sound(world, [id])


def placed(world: World, pod: Object, node: str) -> None:
    """It has a node, on which its image can't be pulled."""

    def change(pod: Object) -> None:
        pod["spec"]["nodeName"] = node
        pod["status"]["containerStatuses"] = [{"name": "job", "state": {"waiting": FAILED_PULL}}]

    world.cluster.edit(pod, change)


async def later(world: World, launcher: Launcher, minutes: int) -> None:
    world.ahead += timedelta(minutes=minutes)
    await steps(launcher)


async def one_round(launcher: Launcher) -> None:
    """What its loop would do now."""
    try:
        while await launcher.step():
            """Once more at once, as its loop would."""
        await launcher.reconciler.work.idle()
    except* (StoreError, Died):
        pass


@contextlib.asynccontextmanager
async def one_process(
    world: World,
    own: Database,
    fuse: Fuse,
    monkeypatch: pytest.MonkeyPatch,
    clock: Callable[[], float] | None = None,
) -> AsyncIterator[Launcher]:
    """A launcher whose calls of cluster and store, with a database of its own, go through a fuse."""
    launcher = world.launcher(own, Fused(world.cluster, fuse), clock)

    def fused(call: Any, counted: Any) -> Any:
        return lambda db, *args, **given: (counted if db is launcher.db else call)(db, *args, **given)

    with monkeypatch.context() as patched:
        for module, names in STORE.items():
            for name in names:
                call = getattr(module, name)
                patched.setattr(module, name, fused(call, fuse.wrap(name, call)))
        yield launcher


async def no_leaders(db: Database, role: str = "%") -> None:
    """The leases of processes that are gone have ended."""
    async with db.connection() as connection:
        await connection.execute(
            "UPDATE gpu_leader SET expires_at = now() - interval '1 hour' WHERE role LIKE %s", [role]
        )


async def sound(world: World, ids: Sequence[str], twice: Collection[str] = ()) -> None:
    """What must hold whatever happened on the way. `twice`: kinds whose objects may have come back."""
    again = {place: count for place, count in world.cluster.created.items() if count > 1}
    assert {place for place in again if place[0] not in ("Node", *twice)} == set()
    for id in ids:
        events = [event.type for event in await outbox.of_job(world.db, id)]
        job = await world.job(id)
        assert job.state.final, job
        assert sum(JobState(type).final for type in events if type in set(JobState)) == 1, events
        assert events.count("dispatched") == job.attempt
        assert events.count("started") <= job.attempt
    async with world.db.connection() as connection:
        cursor = await connection.execute(
            "SELECT job, attempt FROM gpu_ledger GROUP BY job, attempt "
            "HAVING sum(CASE kind WHEN 'hold' THEN micro ELSE -micro END) <> 0 OR count(*) <> 3"
        )
        assert await cursor.fetchall() == []
        cursor = await connection.execute("SELECT count(*) AS n FROM gpu_accounts WHERE held_micro <> 0")
        assert (await cursor.fetchone()) == {"n": 0}
