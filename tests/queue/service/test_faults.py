"""PostgreSQL restarts, NATS is away or loses its store while the service runs: clear answers, jobs go on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import nats
import psycopg
import pytest

from gpupool.environment import shipped
from gpupool.local.ports import free_port
from gpupool.queue.store.embedded import Embedded
from tests.queue.service.test_killed import UNSENT

ROOT = Path(__file__).parents[3]
HEADERS = {"X-Tenant-Id": "vision"}
AWAY_S = 60
"""NATS is away for at least so long."""
BODY = {"gpu_pool_requested": "t4", "target_url": "http://example/x", "request_json": {}}


@pytest.fixture
def own_postgres() -> Iterator[Embedded]:
    """A server that a test may stop; the other tests of this worker keep theirs."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-queue-"))
    server = Embedded(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def serving(database: str, broker: str, log: Path) -> Iterator[httpx2.Client]:
    """The service, ready; it must still run at the end, and have met nothing that it did not expect."""
    port = free_port()
    arguments = ["serve", str(ROOT / "environments/local.yaml"), "--dev", "--echo", "http://example"]
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            shipped.command("gpupool.cli.main", *arguments, "--port", str(port), "--nats", broker),
            env={**os.environ, **shipped.variables(), "GPUPOOL_DATABASE_URL": database},
            stdout=stream,
            stderr=stream,
        ) as process,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=30) as client,
    ):
        try:
            _until(lambda: _ready(client) == 200, log)
            yield client
            assert process.poll() is None
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()


def test_postgres_restarts_and_nats_is_away(own_postgres: Embedded, nats_server, tmp_path) -> None:
    log = tmp_path / "serve.log"
    with serving(own_postgres.url(), nats_server.url, log) as client:
        accepted = [_submit(client)]
        nats_server.stop()
        back = time.monotonic() + AWAY_S
        accepted.append(_submit(client))
        own_postgres.stop()
        answer = client.post("/api/v1/gpu-jobs", json=BODY)
        assert answer.status_code == 503, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"].endswith("/unavailable")
        assert "Retry-After" in answer.headers
        assert _ready(client) == 503
        assert client.get("/healthz").status_code == 200
        own_postgres.start()
        _until(lambda: _ready(client) == 200, log)
        accepted.append(_submit(client))
        _until(lambda: all(_state(client, id) == "succeeded" for id in accepted), log)
        time.sleep(max(0, back - time.monotonic()))
        accepted.append(_submit(client))
        _until(lambda: _state(client, accepted[-1]) == "succeeded", log)
        assert _unpublished(own_postgres.url()) > 0
        nats_server.start()
        _until(lambda: _unpublished(own_postgres.url()) == 0, log)


WHAT_BREAKS = {
    "garbage": lambda file: file.write_bytes(b"\xff" * 4096),
    "cut short": lambda file: os.truncate(file, file.stat().st_size // 2),
    "gone": lambda file: file.unlink(),
}


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is down"])
@pytest.mark.parametrize("way", WHAT_BREAKS)
def test_the_store_of_nats_is_broken(database_url, nats_server, tmp_path, way: str, running: bool) -> None:
    """Jobs go on, and what happens once the broker has a store again is published, as what it refused."""
    log = tmp_path / "serve.log"
    with serving(database_url, nats_server.url, log) as client:
        _ended(client, [_submit(client) for _ in range(5)], log)
        _until(lambda: _unpublished(database_url) == 0, log)
        if not running:
            nats_server.stop()
        files = [file for file in nats_server.folder.rglob("*") if file.is_file()]
        assert any(file.suffix == ".blk" for file in files), files
        for file in files:
            with contextlib.suppress(FileNotFoundError):
                WHAT_BREAKS[way](file)
        _ended(client, [_submit(client) for _ in range(5)], log)
        assert _ready(client) == 200
        nats_server.stop()
        nats_server.start()
        last = _submit(client)
        _ended(client, [last], log)
        _until(lambda: _unpublished(database_url) == 0, log)
    published = asyncio.run(_published(nats_server.url))
    assert [kind for job, kind in published if job == last] == [
        "enqueued",
        "dispatched",
        "started",
        "succeeded",
    ]


def _ended(client: httpx2.Client, jobs: list[str], log: Path) -> None:
    _until(lambda: all(_state(client, id) == "succeeded" for id in jobs), log)


async def _published(broker: str) -> list[tuple[str, str]]:
    """Job and kind of each event that the broker has."""
    client = await nats.connect(broker)
    try:
        stream = client.jetstream()
        reading = await stream.pull_subscribe("mlops.>", stream="JOBS")
        waiting = (await stream.stream_info("JOBS")).state.messages
        found = []
        while len(found) < waiting:
            for message in await reading.fetch(min(100, waiting - len(found)), timeout=5):
                event = json.loads(message.data)
                found.append((event["subject"], event["type"].removeprefix("mlops.gpu.jobs.").split(".")[0]))
        return found
    finally:
        await client.close()


def _submit(client: httpx2.Client) -> str:
    answer = client.post("/api/v1/gpu-jobs", json=BODY)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _state(client: httpx2.Client, id: str) -> str:
    return str(client.get(f"/api/v1/gpu-jobs/{id}").json().get("state"))


def _ready(client: httpx2.Client) -> int:
    try:
        return int(client.get("/readyz").status_code)
    except httpx2.TransportError:
        return 0


def _unpublished(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(UNSENT).fetchone()
    assert row is not None
    return int(row[0])


def _until(wanted, log: Path, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if wanted():
            return
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])
