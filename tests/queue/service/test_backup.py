"""A backup of the queue's database, as docs/backup.md makes it, restored on a server that has nothing."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from gpupool.queue.records import JobState
from gpupool.queue.roles.echo import echo
from gpupool.queue.store import dispatch
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.migrate import migrate
from tests.queue.conftest import UNSAFE
from tests.queue.roles.running import Queue, opened
from tests.queue.service.whole_database import balance, everything, goes_on, rows, run, with_budget

PUBLIC = "(SELECT tablename FROM pg_tables WHERE schemaname = 'public')"
PAGE = Path(__file__).parents[3] / "docs" / "backup.md"
SLEEPS = {
    "container_image": "train:1",
    "container_command": ["sh", "-c", "test $GPUPOOL_ATTEMPT != 1 || sleep 600"],
}


@pytest.fixture
def empty() -> Iterator[Embedded]:
    """Another server: without databases, and without the roles that rights are granted to."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-queue-"))
    server = Embedded(folder, UNSAFE)
    with psycopg.connect(server.start(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE queue")
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


def options(program: str) -> list[str]:
    """Those that the page gives to it."""
    (line,) = re.findall(rf"^    {program} (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert "--no-privileges" in line, "another server has no roles that could be granted something"
    return re.findall(r"--[\w-]+(?:=\w+)?(?= )", line)


def test_a_restored_queue_has_the_same_jobs_and_budgets_and_goes_on(
    database_url: str, empty: Embedded, tmp_path: Path
) -> None:
    source = with_budget(tmp_path)

    async def before() -> list[str]:
        async with Database.open(database_url) as db, echo() as port:
            await opened(db, source)
            queue = Queue(db, port=port, source=source)
            await queue.ended(await queue.submit(source=source, project="detector"))
            running = await queue.submit(source=source, retries=3, request=SLEEPS)
            await queue.until(running, lambda job: job.state is JobState.RUNNING)
            await dispatch.resign(db, dispatch.ROLE, queue.holder)
            return [running, await queue.submit(source=source, project="ocr")]

    waiting = asyncio.run(before())
    file = str(tmp_path / "queue.dump")
    run("pg_dump", *options("pg_dump"), f"--file={file}", database_url)
    restored = empty.url("queue")
    run("pg_restore", *options("pg_restore"), f"--dbname={restored}", file)
    tables = [name for (name,) in rows(database_url, PUBLIC, "tablename")]
    assert {name: rows(restored, name) for name in tables} == {
        name: rows(database_url, name) for name in tables
    }
    money = balance(restored)
    assert min(money) > 0
    migrate(restored)
    kept = everything(restored)

    async def after() -> None:
        async with Database.open(restored) as db:
            await goes_on(db, source, waiting)

    asyncio.run(after())
    assert balance(restored)[0] >= money[0]
    assert balance(restored)[1] == 0
    assert set(kept["gpu_ledger"]) <= set(rows(restored, "gpu_ledger"))
