"""PostgreSQL restarts and NATS is away while the service runs: clear answers, and nothing is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from gpupool import shipped
from gpupool.local.ports import free_port
from gpupool.queue.store.embedded import Embedded
from tests import sampling
from tests.queue.service.test_killed import UNSENT

ROOT = Path(__file__).parents[3]
HEADERS = {"X-Tenant-Id": "vision"}
AWAY_S = 60 if "queue" in sampling.WHOLE else 0
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


def test_postgres_restarts_and_nats_is_away(own_postgres: Embedded, nats_server, tmp_path) -> None:
    port = free_port()
    arguments = ["serve", str(ROOT / "environments/local.yaml"), "--dev", "--echo", "http://example"]
    log = tmp_path / "serve.log"
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            shipped.command("gpupool.cli.main", *arguments, "--port", str(port), "--nats", nats_server.url),
            env={**os.environ, **shipped.variables(), "GPUPOOL_DATABASE_URL": own_postgres.url()},
            stdout=stream,
            stderr=stream,
        ) as process,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, timeout=30) as client,
    ):
        try:
            _until(lambda: _ready(client) == 200, log)
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
            assert process.poll() is None
        finally:
            process.terminate()
    assert "Traceback" not in log.read_text()


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
