"""/healthz, /readyz and /metrics of a process without the role api, and what ends readiness."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from pathlib import Path

import httpx2
import pytest

from gpupool import shipped
from gpupool.local.ports import free_port
from gpupool.queue.roles import loop

ROOT = Path(__file__).parents[3]


def test_a_dispatcher_alone_answers_its_checks_and_nothing_else(database_url: str, tmp_path: Path) -> None:
    port = free_port()
    command = shipped.command("gpupool.cli.main", "serve", str(ROOT / "environments/local.yaml"), "--dev")
    command = [*command, "--role", "dispatcher", "--port", str(port)]
    variables = {**os.environ, **shipped.variables(), "GPUPOOL_DATABASE_URL": database_url}
    log = tmp_path / "serve.log"
    with (
        log.open("wb") as stream,
        subprocess.Popen(command, env=variables, stdout=stream, stderr=stream) as process,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        try:
            assert _ready(client), log.read_text()
            assert client.get("/healthz").status_code == 200
            assert "gpupool_queue_decision_seconds_count" in client.get("/metrics").text
            for path in ("/", "/openapi.json", "/api/v1/gpu-jobs"):
                assert client.get(path).status_code == 404, path
            second = subprocess.run(
                command, env=variables, capture_output=True, text=True, check=False, timeout=60
            )
            assert second.returncode
            assert f"can't listen on 127.0.0.1, port {port}" in second.stderr
            assert "Traceback" not in second.stderr
        finally:
            process.terminate()


def _ready(client: httpx2.Client) -> bool:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            if client.get("/readyz").status_code == 200:
                return True
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    return False


def test_a_role_whose_steps_fail_is_late_until_one_succeeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "LATE_S", 0.2)
    broken = True

    async def step() -> bool:
        if broken:
            raise ValueError("broken")
        return False

    async def watched() -> None:
        nonlocal broken
        running = asyncio.create_task(loop.repeat("sample", step, 0.01, asyncio.Event()))
        await asyncio.sleep(0.1)
        assert loop.late(["sample"]) == ["sample"]
        broken = False
        await asyncio.sleep(1.2)
        assert loop.late(["sample"]) == []
        broken = True
        await asyncio.sleep(0.5)
        assert loop.late(["sample"]) == ["sample"]
        running.cancel()

    asyncio.run(watched())
