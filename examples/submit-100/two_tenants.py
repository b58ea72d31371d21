"""Two tenants submit 50 jobs each at once to one pool, which runs 24 at a time; and what each of them got."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from gpupool.client import AsyncClient, AsyncJob

POOL = "batch-a10g"
JOBS = 50


async def run(client: AsyncClient) -> list[AsyncJob]:
    """Submit 50 jobs and wait for all of them."""
    jobs = await asyncio.gather(
        *(
            client.submit_job(
                job_name=f"one-of-50-{number}",
                gpu_pool_requested=POOL,
                container_image="busybox:1.37",
                container_command=["sleep", "1"],
            )
            for number in range(JOBS)
        )
    )
    return await asyncio.gather(*(job.wait(timeout=600) for job in jobs))


def most_held(jobs: list[AsyncJob]) -> int:
    """The most of them that held a slice at the same time, from the decision on."""
    changes = [(job.dispatched_at, 1) for job in jobs] + [(job.finished_at, -1) for job in jobs]
    running = most = 0
    for _, change in sorted(changes, key=lambda one: (one[0] or datetime.max, one[1])):
        running += change
        most = max(most, running)
    return most


async def main() -> None:
    began = datetime.now(UTC)
    async with AsyncClient(tenant="vision") as vision, AsyncClient(tenant="serving") as serving:
        done = await asyncio.gather(run(vision), run(serving))
        print(f"{'tenant':10}{'succeeded':>10}{'at a time':>10}{'jobs':>6}{'GPU-hours':>11}{'USD':>8}")
        for client, name, jobs in ((vision, "vision", done[0]), (serving, "serving", done[1])):
            usage = await client.usage(name, since=began)
            (on_pool,) = (row for row in usage.usage if row["pool"] == POOL)
            print(
                f"{name:10}{sum(job.succeeded for job in jobs):>10}{most_held(jobs):>10}{on_pool['jobs']:>6}"
                f"{on_pool['gpu_hours']:>11.4f}{on_pool['cost_usd']:>8.4f}"
            )


asyncio.run(main())
