"""What an upgrade or a restore must keep of a database, and a queue that goes on with it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import psycopg

from gpupool.queue.plan_source import PlanSource
from gpupool.queue.records import JobState
from gpupool.queue.roles.echo import echo
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import programs
from tests.queue.roles.running import LOCAL, Queue

KEPT = ("gpu_accounts", "gpu_ledger", "gpu_clocks", "gpu_keys", "gpu_results")
"""Tables of which no row may be another one afterwards."""


def rows(url: str, table: str, columns: str = "to_jsonb(row)::text") -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return sorted(connection.execute(f"SELECT {columns} FROM {table} AS row".encode()))


def everything(url: str) -> dict[str, list[tuple[Any, ...]]]:
    return {table: rows(url, table) for table in KEPT}


def balance(url: str) -> tuple[int, int]:
    """What tenants and projects have spent, and what is held for them, in millionths of a USD."""
    ((spent, held),) = rows(url, "gpu_accounts", "sum(spent_micro)::bigint, sum(held_micro)::bigint")
    return spent, held


def run(program: str, *arguments: str) -> None:
    """One of PostgreSQL's own; `pg_dump` and its like refuse a server that is newer than they are."""
    done = subprocess.run(
        [programs() / program, *arguments], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def with_budget(folder: Path) -> PlanSource:
    """The local environment, where tenant vision has a budget of 100 USD a month."""
    path = folder / "local.yaml"
    path.write_text(
        LOCAL.read_text().replace("    weight: 2\n", "    weight: 2\n    budget: {usd: 100}\n", 1)
    )
    return PlanSource(path)


async def goes_on(db: Database, source: PlanSource, waiting: list[str]) -> None:
    """Other processes than before run the roles: each of these jobs comes to its end."""
    async with echo() as port:
        queue = Queue(db, port=port, source=source)
        await queue.lose_leases()
        for id in waiting:
            ended = await queue.ended(id, seconds=60)
            assert ended.state is JobState.SUCCEEDED, (ended.name, ended.reason)
