"""/healthz, /readyz and /metrics of a process without the role api, and what ends readiness."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from gpupool.environment import shipped
from gpupool.local.ports import free_port
from gpupool.queue.roles import loop

ROOT = Path(__file__).parents[3]


Served = tuple[list[str], dict[str, str], httpx2.Client, Path]
"""The command of a process, its environment, a client of it and its log."""


@contextlib.contextmanager
def serving(
    database: str, folder: Path, *arguments: str, environment: Path = ROOT / "environments/local.yaml"
) -> Iterator[Served]:
    """`gpupool serve` of the local environment."""
    port = free_port()
    command = shipped.command("gpupool.cli.main", "serve", str(environment), "--dev")
    command = [*command, "--port", str(port), *arguments]
    variables = {**os.environ, **shipped.variables(), "GPUPOOL_DATABASE_URL": database}
    log = folder / "serve.log"
    with (
        log.open("wb") as stream,
        subprocess.Popen(command, env=variables, stdout=stream, stderr=stream) as process,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        try:
            yield command, variables, client, log
        finally:
            process.terminate()


def test_a_dispatcher_alone_answers_its_checks_and_nothing_else(database_url: str, tmp_path: Path) -> None:
    with serving(database_url, tmp_path, "--role", "dispatcher") as (command, variables, client, log):
        assert _readiness(client, log) == 200
        assert client.get("/healthz").status_code == 200
        assert "gpupool_queue_decision_seconds_count" in client.get("/metrics").text
        for path in ("/", "/openapi.json", "/api/v1/gpu-jobs"):
            assert client.get(path).status_code == 404, path
        second = subprocess.run(
            command, env=variables, capture_output=True, text=True, check=False, timeout=60
        )
        assert second.returncode
        assert f"can't listen on 127.0.0.1, port {client.base_url.port}" in second.stderr
        assert "Traceback" not in second.stderr


def test_an_executor_that_has_not_read_its_cluster_is_not_ready(database_url: str, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    nowhere = {"server": f"https://127.0.0.1:{free_port()}"}
    kubeconfig.write_text(
        json.dumps(
            {
                "current-context": "nowhere",
                "contexts": [{"name": "nowhere", "context": {"cluster": "nowhere", "user": "nobody"}}],
                "clusters": [{"name": "nowhere", "cluster": nowhere}],
                "users": [{"name": "nobody", "user": {"token": "none"}}],
            }
        )
    )
    arguments = ("--role", "executor", "--kubeconfig", str(kubeconfig))
    with serving(database_url, tmp_path, *arguments) as (_, _, client, log):
        assert _readiness(client, log) == 503


def _readiness(client: httpx2.Client, log: Path) -> int:
    """The status of /readyz once the process is ready, or waits for its launcher alone."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            answer = client.get("/readyz")
            waits = ("no recent step of launcher has succeeded", "can't be reached since")
            if answer.status_code == 200 or any(text in answer.text for text in waits):
                return answer.status_code
        except httpx2.TransportError:
            pass
        time.sleep(0.1)
    raise AssertionError(log.read_text())


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
