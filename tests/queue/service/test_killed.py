"""`kill -9` of the service's real processes under load, with real PostgreSQL and NATS.

No accepted job is lost, none is decided twice, each ends once, the ledger balances, and the events of each
job arrive complete and in order.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import random
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import nats
import psycopg
from psycopg.rows import dict_row

from gpupool.client import Client
from gpupool.environment import shipped
from gpupool.local.ports import free_port
from tests.examples import SEED
from tests.selection import LONG

ROOT = Path(__file__).parents[3]
KILLS = 50 if LONG else 3
"""make test-all kills for minutes."""
BETWEEN_S = 1.2
DRAIN_S = 120
UNSENT = """
    SELECT count(*) AS n FROM gpu_events
    WHERE position IS NULL OR position > (SELECT published FROM gpu_event_stream)
"""
ROLES = (
    ("api",),
    ("dispatcher", "relay", "janitor"),
    ("dispatcher", "relay", "janitor"),
    ("executor",),
    ("executor",),
)
"""One process each; two of what must be followed by another when it dies."""


class Processes:
    """`gpupool serve` for each of ROLES, with its own login of the database; started again when killed."""

    def __init__(self, login: Callable[[str], str], broker: str, folder: Path) -> None:
        self._ports = [free_port() for _ in ROLES]
        self.port = self._ports[0]
        self._folder, self._broker = folder, broker
        self._login = login
        self._running = [self._start(number) for number in range(len(ROLES))]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        roles = [part for role in ROLES[number] for part in ("--role", role)]
        dev = [
            "--dev",
            "--echo",
            "http://example",
            "--port",
            str(self._ports[number]),
            "--nats",
            self._broker,
        ]
        with (self._folder / f"serve-{number}.log").open("ab") as log:
            return subprocess.Popen(
                shipped.command(
                    "gpupool.cli.main", "serve", str(ROOT / "environments/local.yaml"), *roles, *dev
                ),
                env={
                    **os.environ,
                    **shipped.variables(),
                    "GPUPOOL_DATABASE_URL": self._login(ROLES[number][0]),
                },
                stdout=log,
                stderr=log,
            )

    def kill(self, number: int) -> None:
        self._running[number].send_signal(signal.SIGKILL)
        self._running[number].wait()
        self._running[number] = self._start(number)

    def stop(self) -> None:
        for process in self._running:
            process.terminate()
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def test_nothing_is_lost_or_done_twice(database_url, login, nats_server, tmp_path) -> None:
    draw = random.Random(SEED)
    processes = Processes(functools.partial(login, database_url), nats_server.url, tmp_path)
    accepted: dict[str, str] = {}
    try:
        _until_ready(processes)
        with Client(processes.address, tenant="vision", timeout=5.0) as client:
            for number in range(KILLS):
                end = time.monotonic() + BETWEEN_S
                while time.monotonic() < end:
                    _submit(client, accepted)
                processes.kill(draw.randrange(1, len(ROLES)) if number % 5 else 0)
                if number % 5 == 0:
                    _until_ready(processes)
            _submit(client, accepted)
        _drained(database_url, len(accepted), tmp_path)
    finally:
        processes.stop()
    _sound(database_url, accepted)
    _published(database_url, nats_server.url)


def _submit(client: Client, accepted: dict[str, str]) -> None:
    """One job, sent again with its key until it is accepted: a crash must not make it two."""
    key = f"load-{len(accepted)}"
    for _ in range(60):
        try:
            job = client.submit_job(
                gpu_pool_requested="t4",
                target_url="http://example/x",
                request_json={"n": len(accepted)},
                retries=3,
                idempotency_key=key,
            )
        except Exception:  # whatever a dying server answers: the same key is sent again
            time.sleep(0.1)
        else:
            accepted[key] = job.id
            return
    raise AssertionError("the API is not coming back")


def _until_ready(processes: Processes) -> None:
    end = time.monotonic() + 180
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", processes.port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the API does not start")


def _drained(url: str, jobs: int, logs: Path) -> None:
    end = time.monotonic() + DRAIN_S
    while time.monotonic() < end:
        open_jobs = _one(url, "SELECT count(*) AS n FROM gpu_jobs WHERE finished_at IS NULL")["n"]
        unsent = _one(url, UNSENT)["n"]
        if not open_jobs and not unsent:
            return
        time.sleep(0.3)
    ends = {path.name: path.read_text()[-1500:] for path in sorted(logs.glob("*.log"))}
    raise AssertionError(f"{open_jobs} of {jobs} jobs and {unsent} events are still open: {ends}")


def _sound(url: str, accepted: dict[str, str]) -> None:
    jobs = {row["id"]: row for row in _rows(url, "SELECT id::text, state, attempt, seq FROM gpu_jobs")}
    assert set(jobs) == set(accepted.values())
    assert {row["state"] for row in jobs.values()} <= {"succeeded", "failed"}
    assert sum(row["state"] == "failed" for row in jobs.values()) == 0
    events: dict[str, list[tuple[int, str]]] = {}
    for row in _rows(url, "SELECT job::text, seq, type FROM gpu_events ORDER BY job, seq"):
        events.setdefault(row["job"], []).append((row["seq"], row["type"]))
    for id, row in jobs.items():
        assert [seq for seq, _ in events[id]] == list(range(1, row["seq"] + 1))
        types = Counter(type for _, type in events[id])
        assert types["succeeded"] == 1
        assert types["dispatched"] == row["attempt"]
    unbalanced = _rows(
        url,
        "SELECT job FROM gpu_ledger GROUP BY job, attempt "
        "HAVING sum(CASE kind WHEN 'hold' THEN micro ELSE -micro END) <> 0",
    )
    assert unbalanced == []
    assert _one(url, "SELECT coalesce(sum(held_micro), 0) AS n FROM gpu_accounts")["n"] == 0


def _published(url: str, broker: str) -> None:
    """The stream has every event, and those of a job in order."""
    known = {row["id"]: row for row in _rows(url, "SELECT id::text, job::text, seq FROM gpu_events")}

    async def read() -> list[dict[str, object]]:
        client = await nats.connect(broker)
        found = []
        subscription = await client.jetstream().subscribe("mlops.gpu.jobs.>", ordered_consumer=True)
        while len({one["id"] for one in found}) < len(known):
            found.append(json.loads((await subscription.next_msg(timeout=10)).data))
        await client.close()
        return found

    found = asyncio.run(read())
    seen: dict[str, int] = {}
    for message in found:
        job, seq = str(message["subject"]), int(str(message["seq"]))
        assert seq <= seen.get(job, 0) + 1
        seen[job] = max(seen.get(job, 0), seq)
    assert {message["id"] for message in found} == set(known)


def _rows(url: str, statement: str) -> list[dict[str, object]]:
    with psycopg.connect(url, row_factory=dict_row) as connection:
        return connection.execute(statement).fetchall()


def _one(url: str, statement: str) -> dict[str, object]:
    (row,) = _rows(url, statement)
    return row
