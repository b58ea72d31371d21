"""`gpupool serve` whose environment file is broken, or is another one than that of the process that leads."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from gpupool.environment import shipped
from tests.queue.service.test_checks import ROOT, serving

TEXT = (ROOT / "environments" / "local.yaml").read_text()
BROKEN = TEXT.replace("weight: 2", "weight: heavy")


def test_a_file_that_breaks_while_serving_is_said_by_all_that_answers(
    database_url: str, tmp_path: Path
) -> None:
    file = tmp_path / "local.yaml"
    file.write_text(TEXT)
    with serving(database_url, tmp_path, environment=file) as (_, _, client, log):
        ready = _until(client, log, lambda ready: ready["details"] == [])
        plan = ready["plan"]["hash"]
        file.write_text(BROKEN)
        broken = _until(client, log, lambda ready: ready["details"])
        (detail,) = broken["details"]
        assert (broken["ready"], broken["plan"]) == (True, ready["plan"])
        assert f"{file}:" in detail
        assert "weight" in detail
        assert plan in detail
        figures = client.get("/metrics").text
        assert "gpupool_queue_environment_file_refused 1.0" in figures
        assert f'gpupool_queue_plan_since_timestamp_seconds{{plan="{plan}"}}' in figures
        assert "is refused since" in client.get("/").text
        for answer in (client.get("/api/v1/gpu-jobs"), client.get("/api/v1/gpu-jobs/none")):
            assert answer.headers["gpupool-notice"] == detail
        listed = subprocess.run(
            [*shipped.command("gpupool.cli.main", "jobs", "list"), "--server", str(client.base_url)],
            env={**os.environ, **shipped.variables()},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (listed.returncode, listed.stderr) == (0, f"gpupool: {detail}\n")
        file.write_text(TEXT.replace("weight: 2", "weight: 3"))
        right = _until(client, log, lambda ready: not ready["details"])
        assert right["plan"]["hash"] != plan
        assert "gpupool-notice" not in client.get("/api/v1/gpu-jobs").headers


def test_two_services_with_other_files_say_so_and_the_leaders_grants_hold(
    database_url: str, tmp_path: Path
) -> None:
    files = [tmp_path / name / "local.yaml" for name in ("first", "second")]
    less = TEXT.replace("      training-a100: {gpus: 8}\n", "")
    for file, text in zip(files, (less, TEXT), strict=True):
        file.parent.mkdir()
        file.write_text(text)
    with serving(database_url, files[0].parent, environment=files[0]) as (_, _, first, log):
        _until(first, log, lambda ready: ready["details"] == [])
        roles = ("--role", "api")
        with serving(database_url, files[1].parent, *roles, environment=files[1]) as (_, _, second, other):
            said = _until(second, other, lambda ready: ready["details"])
            leads = first.get("/readyz").json()["plan"]["hash"]
            assert leads in said["details"][0]
            assert "another" not in first.get("/readyz").text
            assert "gpupool_queue_plan_differs 1.0" in second.get("/metrics").text
            body = {
                "gpu_pool_requested": "training-a100", "target_url": "http://example/x", "request_json": {}
            }  # fmt: skip
            made = second.post("/api/v1/gpu-jobs", json=body, headers={"X-Tenant-Id": "vision"})
            assert made.status_code == 201, made.text
            end = time.monotonic() + 30
            job = made.json()
            while not (job["waiting"] and job["waiting"]["reason"] == "unschedulable"):
                assert job["state"] == "queued"
                assert time.monotonic() < end, job
                job = second.get(f"/api/v1/gpu-jobs/{job['id']}").json()
            assert "tenants[vision].pools" in job["waiting"]["detail"]
            assert job["plan_hash"] == leads


def _until(client: httpx2.Client, log: Path, holds: Callable[[dict], object]) -> dict:  # type: ignore[type-arg]
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            answer = client.get("/readyz")
        except httpx2.HTTPError:
            answer = None
        if answer is not None and answer.status_code == 200 and holds(answer.json()):
            found: dict = answer.json()  # type: ignore[type-arg]
            return found
        time.sleep(0.2)
    raise AssertionError(f"{answer and answer.text}\n{log.read_text()}")
