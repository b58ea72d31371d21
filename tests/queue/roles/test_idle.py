"""Idle jobs are warned of or stopped, by what a real Prometheus says that scrapes DCGM exporter's page.

The windows are of seconds. `IDLE` and `NOT_IDLE` name the cases, of a job and its pod each.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp import web
from prometheus_client import CollectorRegistry
from structlog.testing import capture_logs

from gpupool.environment.plan.model import Plan
from gpupool.queue import prometheus
from gpupool.queue.measures import Measures
from gpupool.queue.records import Job, JobState, Outcome, new_id
from gpupool.queue.roles import gpu_use
from gpupool.queue.roles.alerts import AlertSender, Channels
from gpupool.queue.roles.idle import IdleWatch, judged
from gpupool.queue.store import attempts, jobs, outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.idle import Watched
from gpupool.queue.store.snapshot import take_snapshot
from tests.prometheus import Prometheus
from tests.queue.acting import As
from tests.queue.exporter_page import Exporter, Gpu
from tests.queue.roles.running import SOURCE, Queue, opened, webhook

FOR_S = 6
NAMESPACE = next(tenant.namespace for tenant in SOURCE.plan().tenants if tenant.name == "vision")


def pod(id: str, attempt: int = 1, end: str = "x7k2p") -> str:
    return f"gp-{id.replace('-', '')}-{attempt}-{end}"


@dataclass
class Seen:
    """A Prometheus that has scraped for longer than the window."""

    url: str
    exporter: Exporter
    ids: dict[str, str]


IDLE = (
    "idle",
    "exported",
    "a-minor-use",
    "its-mig-instance",
    "all-of-a-shared-gpu",
    "its-shared-gpu-by-its-own-figures",
    "it-says-that-it-waits",
)
NOT_IDLE = (
    *(
        "busy",
        "busy-by-engine-alone",
        "another-on-its-gpu",
        "its-busy-mig-instance",
        "no-metrics",
        "beside-a-busy-pod",
    ),
    *("metrics-of-another-attempt", "metrics-from-another-namespace", "metrics-of-less-than-the-window"),
)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    ids = {name: new_id() for name in (*IDLE, *NOT_IDLE)}
    of = {name: pod(id) for name, id in ids.items()}

    def gpu(uuid: str, name: str, **given: object) -> Gpu:
        return Gpu(**{"uuid": uuid, "pod": name, "namespace": NAMESPACE, **given})

    exporter = Exporter(
        [
            gpu("GPU-1", of["idle"]),
            gpu("GPU-2", of["exported"], honoured=False),
            gpu("GPU-3", of["a-minor-use"], util=4, active=0.031),
            gpu("GPU-4", of["its-mig-instance"], util=None, instance="7"),
            gpu("GPU-4", of["its-busy-mig-instance"], util=None, instance="8", active=0.9),
            gpu("GPU-5", of["all-of-a-shared-gpu"], vgpu="0"),
            gpu("GPU-5", of["it-says-that-it-waits"], vgpu="1"),
            gpu("GPU-6", of["busy"], util=60, active=0.5),
            gpu("GPU-7", of["busy-by-engine-alone"], util=0, active=0.3),
            gpu("GPU-8", of["another-on-its-gpu"], util=0, active=None, vgpu="0"),
            gpu("GPU-8", "another-pod", util=70, active=None, vgpu="1"),
            # From 4.6.0-4.8.3 on: pods' own figures, beside that of the GPU.
            gpu("GPU-12", of["its-shared-gpu-by-its-own-figures"], active=None, vgpu="0"),
            gpu("GPU-12", "", util=0, active=0.0),
            gpu("GPU-13", of["beside-a-busy-pod"], util=0, active=None, vgpu="0"),
            gpu("GPU-13", "another-busy-pod", util=60, active=None, vgpu="1"),
            gpu("GPU-13", "", util=60, active=0.5),
            gpu("GPU-9", pod(ids["metrics-of-another-attempt"], 2)),
            gpu("GPU-10", of["metrics-from-another-namespace"], namespace="elsewhere"),
        ]
    )
    server = Prometheus(tmp_path_factory.mktemp("prometheus"), exporter.jobs())
    try:
        assert exporter.asked.wait(30)
        time.sleep(FOR_S - 1)
        exporter.gpus.append(gpu("GPU-11", of["metrics-of-less-than-the-window"]))
        time.sleep(FOR_S / 2)
        yield Seen(server.url, exporter, ids)
    finally:
        server.stop()
        exporter.stop()


def _plan(url: str, action: str = "stop") -> Plan:
    rule = {"idle_below": 0.05, "idle_for_s": FOR_S, "idle_action": action, "idle_prometheus": url}
    plan = SOURCE.plan()
    return replace(plan, queue=replace(plan.queue, **rule))


def _idle(queue: Queue, plan: Plan, alerts: bool = False) -> IdleWatch:
    measures = Measures(CollectorRegistry())
    return IdleWatch(
        As(queue.db, "dispatcher"), queue.leads("idle"), lambda: plan, measures, lambda: alerts, queue.now
    )


async def _running(queue: Queue, *ids: str, ago: float = 60, **request: object) -> None:
    """Container jobs that an executor of that name runs since so many seconds."""
    wanted = {"container_image": "a:1", **request}
    for id in ids:
        await queue.submit(id=id, pool="research-a100", request=wanted)
    started = datetime.now(UTC) - timedelta(seconds=ago)
    while await queue.dispatcher.step():
        pass
    taken = await attempts.take(queue.db, "launcher", 100, 60)
    assert {job.id for job in taken} == set(ids)
    for job in taken:
        assert await attempts.record_start(queue.db, job.id, job.attempt, started)


async def _asked_to_stop(queue: Queue, *ids: str) -> dict[str, str]:
    """What the executor learns when it renews its leases."""
    beats = await attempts.heartbeat(queue.db, "launcher", {(id, 1): 0 for id in ids}, 60)
    return {beat.job: beat.preempted for beat in beats if beat.preempted}


async def _events(db: Database, id: str) -> list[dict[str, object]]:
    return [dict(event.data) for event in await outbox.of_job(db, id) if event.type == "idle"]


def test_jobs_are_stopped_whose_gpus_were_unused_for_the_whole_time(database, seen: Seen) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        waits = seen.ids["it-says-that-it-waits"]
        others = [id for name, id in seen.ids.items() if id != waits]
        await _running(queue, waits, may_idle=True)
        await _running(queue, *others)
        idle = _idle(queue, _plan(seen.url))
        await idle.step()
        asked = await _asked_to_stop(queue, *seen.ids.values())
        names = {name for name, id in seen.ids.items() if id in asked}
        assert names == {*IDLE} - {"it-says-that-it-waits"}
        assert asked[seen.ids["idle"]] == "idle: used at most 0.0 % of its GPU for 6 s"
        assert asked[seen.ids["a-minor-use"]] == "idle: used at most 4.0 % of its GPU for 6 s"
        await idle.step()
        assert len(await _events(db, seen.ids["idle"])) == 1

    database(scenario)


def test_a_stopped_attempt_fails_with_the_reason_and_is_not_retried(database, seen: Seen) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        stopped, succeeded, lost = (seen.ids[name] for name in ("idle", "exported", "a-minor-use"))
        await _running(queue, stopped, succeeded, lost)
        await _idle(queue, _plan(seen.url)).step()
        held = (await take_snapshot(db, queue.now(), 1)).held
        assert {one.preempting_for for one in held} == {"stopped"}, "no victim of a preemption any more"
        await _idle(queue, _plan(seen.url, "warn")).step()
        ends = [(stopped, "preempted"), (succeeded, "succeeded"), (lost, "disrupted")]
        for id, kind in ends:
            await attempts.finish(db, id, 1, Outcome(kind, "as asked"), queue.now(), (5, 5))
        found: list[Job] = [await queue.job(id) for id, _ in ends]
        assert [job.state for job in found] == [JobState.FAILED, JobState.SUCCEEDED, JobState.FAILED]
        assert found[0].reason == "idle: used at most 0.0 % of its GPU for 6 s"
        assert (await attempts.of_job(db, stopped))[0].outcome == "failed"

    database(scenario)


def test_a_warning_is_an_event_and_an_alert_once_and_stops_nothing(database, seen: Seen) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = seen.ids["idle"]
        await _running(queue, id)
        plan = _plan(seen.url, "warn")

        async with webhook() as (url, texts):
            channels = Channels(url)
            alerts = AlertSender(
                As(db, "dispatcher"), queue.leads("alerts"), lambda: plan, lambda: channels, queue.now
            )
            idle = _idle(queue, plan, alerts=True)
            for _ in range(2):
                await idle.step()
                await alerts.step()
        said = "used at most 0.0 % of its GPU for 6 s"
        assert texts == [f"local: job job ({id}) of tenant vision {said}"]
        assert await _events(db, id) == [
            {"state": "running", "attempt": 1, "action": "warn", "used": 0, "reason": f"idle: {said}"}
        ]
        assert await _asked_to_stop(queue, id) == {}
        await _idle(queue, _plan(seen.url, "stop")).step()  # the file says otherwise now
        assert await _asked_to_stop(queue, id) == {id: f"idle: {said}"}

    database(scenario)


def test_who_has_just_started_or_was_cancelled_is_left_alone(database, seen: Seen) -> None:
    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        young, cancelled = seen.ids["idle"], seen.ids["exported"]
        await _running(queue, young, ago=FOR_S - 3)
        await _running(queue, cancelled)
        await jobs.cancel(db, cancelled, "ada", queue.now())
        await _idle(queue, _plan(seen.url)).step()
        assert [await _events(db, id) for id in (young, cancelled)] == [[], []]

    database(scenario)


def test_a_job_of_two_nodes_is_idle_when_both_pods_are(seen: Seen) -> None:
    uses = asyncio.run(gpu_use.ask(seen.url, FOR_S))
    assert uses[NAMESPACE, pod(seen.ids["idle"])] == gpu_use.Use(0, throughout=True)
    one = Watched(seen.ids["idle"], 1, 1, "vision", "job", nodes=2)
    plan = _plan(seen.url)
    assert list(judged(plan, [one], uses)) == []
    other = (NAMESPACE, pod(one.job, end="1-b2c3d"))
    assert len(list(judged(plan, [one], {**uses, other: gpu_use.Use(0.01, throughout=True)}))) == 1
    assert list(judged(plan, [one], {**uses, other: gpu_use.Use(0.2, throughout=True)})) == []
    assert list(judged(plan, [one], {**uses, other: gpu_use.Use(0.01, throughout=False)})) == []


def test_nothing_is_called_idle_while_the_exporter_is_away(database, seen: Seen) -> None:
    gpus, seen.exporter.gpus = seen.exporter.gpus, []
    seen.exporter.wait_until_stored()

    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        await _running(queue, seen.ids["idle"])
        await _idle(queue, _plan(seen.url)).step()
        assert await _asked_to_stop(queue, seen.ids["idle"]) == {}

    try:
        database(scenario)
    finally:
        seen.exporter.gpus = gpus


@pytest.mark.parametrize("what", ["down", "slow", "not Prometheus", "not sure", "refusing"])
def test_a_prometheus_that_does_not_say_stops_nothing_and_is_named(
    database, what: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(prometheus, "SECONDS", 0.3)

    async def scenario(db: Database) -> None:
        await opened(db)
        queue = Queue(db)
        id = new_id()
        await _running(queue, id)

        async def answer(_: web.Request) -> web.Response:
            if what == "slow":
                await asyncio.sleep(2)
            bodies = {
                "not Prometheus": "<html>",
                "not sure": '{"status": "success", "warnings": ["no store"], "data": {"result": []}}',
                "refusing": '{"status": "error", "error": "query is too long"}',
            }
            return web.Response(text=bodies.get(what, ""), status=400 if what == "refusing" else 200)

        app = web.Application()
        app.router.add_post("/api/v1/query", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        if what == "down":
            await runner.cleanup()
        registry = CollectorRegistry()
        plan = _plan(url)
        idle = IdleWatch(
            As(db, "dispatcher"),
            queue.leads("idle"),
            lambda: plan,
            Measures(registry),
            lambda: True,
            queue.now,
        )
        with capture_logs() as logs:
            await idle.step()
        await runner.cleanup()
        assert await _asked_to_stop(queue, id) == {}
        assert registry.get_sample_value("gpupool_queue_idle_unknown_total") == 1
        [line] = [line for line in logs if line["event"] == "idle.unknown"]
        assert line["error"].startswith(url)
        said = {"not sure": "no store", "refusing": "400: query is too long", "slow": "within 0.3 s"}
        assert said.get(what, "") in line["error"]

    database(scenario)
