"""What a queue costs that has nothing to do, and what its database keeps of jobs that have ended.

Processor time is the service's own, so that other load on the machine matters little.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import psycopg

from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import load
from gpupool.local.ports import free_port
from gpupool.queue.domain.current import Current, current
from gpupool.queue.domain.decide import decide
from gpupool.queue.records import Outcome
from gpupool.queue.roles.policies import policies_of
from gpupool.queue.store import attempts, dispatch, jobs, logs, plans
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from gpupool.queue.store.snapshot import take_snapshot
from tests.perf.queue_figures import Figure, environment, new_job, served

JOBS = 1000
IDLE_S = 60
SETTLED_S = 10
ROLES = ("api", "dispatcher", "relay", "janitor", "executor")
SIZE = """SELECT sum(pg_total_relation_size(oid))::bigint AS bytes
FROM pg_class WHERE relkind = 'r' AND relname ~ '^gpu_'"""


def idle(folder: Path) -> Iterator[Figure]:
    """The service's share of a core while nothing happens, in percent; and the MB that 1,000 jobs leave."""
    data = Path(tempfile.mkdtemp(prefix="gpupool-idle-bench-"))
    server = Embedded(data)
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            for name in ("idle", "growth"):
                connection.execute(f"CREATE DATABASE {name}")
        for name in ("idle", "growth"):
            migrate(server.url(name))
        given = environment(folder)
        with served(given, server.url("idle"), free_port(), *ROLES) as process:
            time.sleep(SETTLED_S)
            before = _seconds(process)
            time.sleep(IDLE_S)
            yield "queue-idle", (_seconds(process) - before) / IDLE_S * 100
        yield "queue-growth", asyncio.run(_grown(server.url("growth"), current(resolve(load(given))))) / 1e6
    finally:
        server.stop()
        shutil.rmtree(data, ignore_errors=True)


def _seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _grown(url: str, present: Current) -> int:
    """Bytes of tables and indexes after jobs that succeeded, each with some output."""
    async with Database.open(url) as db:

        async def size() -> int:
            async with db.connection() as connection:
                row = await (await connection.execute(SIZE.encode())).fetchone()
            return int(row["bytes"]) if row else 0

        now = datetime.now(UTC)
        epoch = await dispatch.lead(db, dispatch.ROLE, "bench", 3600)
        assert epoch is not None
        await plans.enact(db, epoch, present.hash, policies_of(present), "bench", now)
        begin = await size()
        ended = 0
        while ended < JOBS:
            now += timedelta(seconds=1)
            await jobs.submit(db, [new_job("tenant-0", present.hash) for _ in range(20)], now=now)
            decision = decide(await take_snapshot(db, now, 64), present.supply)
            await dispatch.claim(db, epoch, decision, present.hash, 60, now)
            for job in await attempts.take(db, "bench", 64, 60):
                await attempts.record_start(db, job.id, job.attempt, now)
                await logs.append(db, job.id, job.attempt, ["a line of output"] * 3)
                end = now + timedelta(seconds=1)
                await attempts.finish(db, job.id, job.attempt, Outcome("succeeded"), end, (5, 300))
                ended += 1
        return await size() - begin
