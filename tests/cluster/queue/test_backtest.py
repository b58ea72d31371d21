"""A simulation of the queue's own jobs against what the queue did with them on a real control plane."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import yaml

from gpupool.cli.queue.jobs.export import over, trace_of
from gpupool.client import Client
from gpupool.environment.plan.model import Pool
from gpupool.local.control_plane import ControlPlane
from gpupool.queue.simulate.figures import wait_times
from gpupool.queue.simulate.numbers import numbers
from gpupool.queue.simulate.run import Settings, simulate
from tests.cluster.kube import Kube
from tests.cluster.queue.conftest import ENVIRONMENT
from tests.cluster.queue.served import Queue, serving
from tests.selection import LONG

Object = dict[str, Any]
TENANTS = ("vision", "speech")
JOBS = {("notebooks", 1): 30, ("training", 2): 10, ("training", 1): 10}
"""Jobs of each tenant by pool and GPUs, or slices: four lanes and more, since pools are shared."""
if LONG:
    JOBS = {("notebooks", 1): 90, ("training", 2): 30, ("training", 1): 30}
DRAIN_S = 600
APART_S = 2.0
"""Of waits at p50, p95 and p99, where the machine does nothing else; beside other tests a fifth of them."""


@pytest.fixture
def queue(kube: Kube, control_plane: ControlPlane, queue_database: str, tmp_path: Path) -> Iterator[Queue]:
    spec = yaml.safe_load(ENVIRONMENT.read_text(encoding="utf-8"))
    with serving(kube, control_plane, spec, queue_database, tmp_path, simulate=True) as made:
        yield made


def test_a_simulation_of_what_the_queue_did(queue: Queue) -> None:
    _submit_all(queue)
    open_jobs = "SELECT count(*) AS n FROM gpu_jobs WHERE finished_at IS NULL"
    queue.until("every job has ended", lambda: not queue.rows(open_jobs)[0]["n"], DRAIN_S)
    jobs = _history(queue)
    assert len(jobs) == len(TENANTS) * sum(JOBS.values())
    trace = trace_of(jobs)
    assert len(trace.arrivals) == len(jobs)
    first = max(_moment(job["started_at"]) - _moment(job["dispatched_at"]) for job in jobs)
    beyond = _beyond([job for job in jobs if job["pool"] == "notebooks"], queue.plan.pool("notebooks"))
    settings = Settings(numbers([f"pod={beyond:.3f}", f"startup={max(0.0, first - beyond):.3f}", "batch=0"]))
    outcome = simulate(queue.plan, trace, settings)
    simulated = list(outcome.record.jobs.values())
    assert outcome.figures.jobs == len(jobs)
    for name, lane in _lanes(jobs).items():
        real = sorted(lane, key=lambda number: jobs[number]["dispatched_at"])
        expected = sorted(lane, key=lambda number: simulated[number].dispatched)
        assert (real, expected) == (lane, lane), name
    idle = min(trace.measured)  # until the dispatcher was there
    measured, waits = wait_times(wait - idle for wait in trace.measured), outcome.figures.waits
    print(f"measured {measured}; simulated {waits}; a pod {beyond:.2f} s, the first {first:.2f} s")
    for share in ("p50", "p95", "p99"):
        wait = getattr(measured, share)
        apart = APART_S if LONG else max(APART_S, wait / 5)
        assert abs(wait - getattr(waits, share)) <= apart, share


def _beyond(jobs: list[Object], pool: Pool) -> float:
    """For how many seconds slots of a pool are held beyond what the history says of jobs: Kubernetes' times
    are whole seconds, and nothing says when a slot was seen to be free. By the first half of jobs."""
    slots = pool.slices_max["nvidia.com/gpu"]
    dispatched = sorted(_moment(job["dispatched_at"]) for job in jobs)[: len(jobs) // 2]
    ran = mean(_moment(job["finished_at"]) - _moment(job["started_at"]) for job in jobs)
    # The first ones waited for their nodes as well.
    turns = zip(dispatched[slots:], dispatched[2 * slots :], strict=False)
    return mean(after - before for before, after in turns) - ran


def _submit_all(queue: Queue) -> None:
    """While nothing is decided, so that all of them wait together."""
    queue.processes[0].stop()
    accepting = queue.process("api")
    accepting.until_ready()
    for (pool, gpus), count in JOBS.items():
        for tenant in TENANTS:
            with Client(accepting.address, tenant=tenant) as client:
                client.submit_job(
                    gpu_pool_requested=pool,
                    gpu_count=gpus,
                    container_image="busybox:1.37",
                    container_command=["true"],
                    timeout_seconds=60,
                    array=count,
                )
    accepting.stop()
    queue.processes[0].start()
    queue.processes[0].until_ready()


def _history(queue: Queue) -> list[Object]:
    """The jobs of all tenants, as they were submitted."""
    jobs: list[Object] = []
    for tenant in TENANTS:
        with queue.client(tenant) as client:
            jobs += over(client, 1000)
    return sorted(jobs, key=lambda job: str(job["enqueued_at"]))


def _lanes(jobs: list[Object]) -> dict[tuple[str, str, float], list[int]]:
    """Numbers of the jobs of each lane, as they were submitted."""
    lanes = defaultdict[tuple[str, str, float], list[int]](list)
    for number, job in enumerate(jobs):
        lanes[job["tenant"], job["pool"], job["gpus"]].append(number)
    return lanes


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
