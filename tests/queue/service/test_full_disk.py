"""The disk of the embedded PostgreSQL is full: clear answers, nothing is lost, and it goes on by itself."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import psycopg
import pytest

from gpupool.environment import shipped
from gpupool.local.ports import free_port
from gpupool.queue.store.embedded import Embedded

ROOT = Path(__file__).parents[3]
BODY = {"gpu_pool_requested": "t4", "target_url": "http://example/x", "request_json": {"pad": "x" * 20_000}}
PATIENCE_S = 90


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=140m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk can't be mounted here: that takes root with CAP_SYS_ADMIN")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_loses_nothing_and_ends_with_room(disk: Path, tmp_path: Path) -> None:
    port = free_port()
    log, folder, accepted = tmp_path / "serve.log", disk / "queue", []
    address = f"http://127.0.0.1:{port}"
    variables = {
        **os.environ,
        **shipped.variables(),
        "GPUPOOL_QUEUE_DIR": str(folder),
        "GPUPOOL_URL": address,
    }
    variables.pop("GPUPOOL_DATABASE_URL", None)
    serve = ["serve", str(ROOT / "environments/local.yaml"), "--dev", "--echo", "http://example"]
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            shipped.command("gpupool.cli.main", *serve, "--port", str(port)),
            env=variables,
            stdout=stream,
            stderr=stream,
        ) as process,
        httpx2.Client(base_url=address, headers={"X-Tenant-Id": "vision"}, timeout=60) as client,
    ):

        def submitted() -> int:
            answer = client.post("/api/v1/gpu-jobs", json=BODY)
            if answer.status_code == 201:
                accepted.append(answer.json()["id"])
            else:
                assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5"), answer.text
            return answer.status_code

        try:
            _until(lambda: _ready(client), log)
            assert submitted() == 201
            _fill(disk, leave=300_000)
            _until(lambda: submitted() == 503, log)
            submit = ["jobs", "submit", "--pool", "t4", "--tenant", "vision", "--image", "busybox"]
            command = shipped.command("gpupool.cli.main", *submit, "--", "echo", os.urandom(16_000).hex())
            end = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
            assert end.returncode
            assert "the database's disk is full" in end.stderr
            assert "Traceback" not in end.stderr
            (disk / "balloon").unlink()
            _until(lambda: submitted() == 201, log)
            # Without room for its journal PostgreSQL ends, and can't start.
            _fill(disk, leave=0)
            with pytest.raises(psycopg.Error):
                _use_up_journal(Embedded(folder).url())
            _until(lambda: Embedded(folder).server_pid() is None, log)
            assert submitted() == 503
            assert process.poll() is None
            (disk / "balloon").unlink()
            _until(lambda: _ready(client) and submitted() == 201, log)
            _until(lambda: all(_state(client, id) == "succeeded" for id in accepted), log)
        finally:
            process.terminate()
            process.wait(60)
    assert "Traceback" not in log.read_text()


def _fill(disk: Path, leave: int) -> None:
    """A file that takes all room but so many bytes."""
    balloon = os.open(disk / "balloon", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(balloon, bytes(4096))
    except OSError:
        os.truncate(balloon, os.fstat(balloon).st_size - leave)
    finally:
        os.close(balloon)


def _use_up_journal(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(9):
            connection.execute("SELECT pg_logical_emit_message(true, 'a', 'b'), pg_switch_wal()")


def _ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def _state(client: httpx2.Client, id: str) -> str:
    return str(client.get(f"/api/v1/gpu-jobs/{id}").json().get("state"))


def _until(wanted: Callable[[], bool], log: Path) -> None:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if wanted():
            return
        time.sleep(0.2)
    raise AssertionError(log.read_text()[-3000:])
