"""Gives the queue many jobs at once, HTTP and container mixed, and prints throughput and percentiles."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Sequence

from gpupool.client import AsyncClient, AsyncJob


async def one(client: AsyncClient, number: int, containers: int) -> tuple[float, AsyncJob]:
    """Submit one job and wait for its end; with it the seconds that its submission took."""
    began = time.monotonic()
    if number % 100 < containers:
        job = await client.submit_job(
            job_name="load-container",
            gpu_pool_requested="t4",
            container_image="busybox:1.37",
            container_command=["true"],
        )
    else:
        job = await client.submit_job(
            job_name="load-http", gpu_pool_requested="a10g", target_url="http://example", request_json=number
        )
    took = time.monotonic() - began
    return took, await job.wait(timeout=600)


def row(name: str, seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    parts = (ordered[min(len(ordered) - 1, int(len(ordered) * share))] for share in (0.5, 0.95, 0.99))
    return f"{name:32}" + "".join(f"{part:9.3f}" for part in parts)


def seconds(jobs: Sequence[AsyncJob], begin: str, end: str) -> list[float]:
    return [max(0.0, (getattr(job, end) - getattr(job, begin)).total_seconds()) for job in jobs]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--containers", type=int, default=20, help="per cent that are containers")
    options = parser.parse_args()
    async with AsyncClient(tenant="vision") as client:
        began = time.monotonic()
        done = await asyncio.gather(
            *(one(client, number, options.containers) for number in range(options.jobs))
        )
        took = time.monotonic() - began
    jobs = [job for _, job in done]
    states = Counter(str(job.state) for job in jobs)
    print(f"{len(jobs)} jobs: {', '.join(f'{count} {state}' for state, count in states.items())}")
    print(f"{len(jobs) / took:.1f} jobs per second")
    print(f"{'seconds':32}{'p50':>9}{'p95':>9}{'p99':>9}")
    print(row("submission", [submission for submission, _ in done]))
    for kind in ("http", "container"):
        some = [job for job in jobs if job.job_name == f"load-{kind}"]
        if some:
            print(row(f"{kind}: accepted to started", seconds(some, "enqueued_at", "started_at")))
            print(row(f"{kind}: accepted to ended", seconds(some, "enqueued_at", "finished_at")))


asyncio.run(main())
