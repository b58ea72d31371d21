"""A queue in the background is the one that is asked for, or is replaced."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gpupool.local import processes
from gpupool.local.job_queue import JobQueue
from gpupool.local.processes import RunningProcess

SLEEP = (sys.executable, "-c", "import time; time.sleep(600)")


@pytest.fixture
def sleeping(tmp_path: Path) -> Iterator[RunningProcess]:
    running = processes.spawn(SLEEP, {}, tmp_path, tmp_path / "log", "")
    yield running
    processes.stop([running.pid], 10)


def recorded(folder: Path, service: RunningProcess, parts: object) -> JobQueue:
    folder.mkdir(exist_ok=True)
    service = replace(service, fingerprint=json.dumps(parts))
    (folder / "serve.json").write_text(json.dumps({"serve": service.as_dict()}))
    return JobQueue(folder)


@pytest.mark.parametrize(
    ("kubeconfig", "works"), [("local/kubeconfig", True), ("other/kubeconfig", False), (None, False)]
)
def test_a_control_plane_that_goes_finds_the_queue_that_works_on_it(
    sleeping: RunningProcess, tmp_path: Path, kubeconfig: str | None, works: bool
) -> None:
    parts = {"port": "8021"} | ({"kubeconfig": str(tmp_path / kubeconfig)} if kubeconfig else {})
    queue = recorded(tmp_path / "queue", sleeping, parts)
    assert queue.works_in(tmp_path / "local") is works
    assert queue.stop()
    assert not queue.works_in(tmp_path / "local"), "it has ended"


def test_a_queue_of_an_earlier_release_works_nowhere_that_is_known(
    sleeping: RunningProcess, tmp_path: Path
) -> None:
    assert not recorded(tmp_path / "queue", sleeping, ["GPUPOOL_NATS_URL", "serve"]).works_in(tmp_path)
