"""Sends many requests through the queue to a model that is already served, and reads the answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gpupool.client import AsyncClient

MODEL = "http://example"
"""An origin of queue.targets; `make up` answers for it with an echo."""
IMAGES = 40


async def classify(client: AsyncClient, number: int) -> dict[str, Any]:
    """The model's answer to one image."""
    job = await client.submit_job(
        job_name=f"image-{number}",
        gpu_pool_requested="2g.20gb",
        target_url=f"{MODEL}/classify",
        request_json={"image": f"s3://photos/{number}.jpg"},
    )
    job = await job.wait(timeout=120)
    answer = await job.result()
    return {"status": answer.status, **json.loads(answer.body)}


async def main() -> None:
    async with AsyncClient(tenant="serving") as client:
        answers = await asyncio.gather(*(classify(client, number) for number in range(IMAGES)))
    print(f"{sum(answer['status'] == 200 for answer in answers)} of {IMAGES} answers")
    for answer in answers[:3]:
        print(f"{answer['echo']['image']} by {answer['method']} {answer['path']}")


asyncio.run(main())
