"""The SDK against the real API over a real PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pytest

from gpupool.client import (
    AsyncClient,
    Client,
    Conflict,
    Forbidden,
    Gone,
    GPUType,
    Invalid,
    Job,
    JobPriority,
    JobState,
    NotFound,
)
from gpupool.queue.store import attempts, logs, outbox
from gpupool.queue.store.dispatch import lead
from tests.queue.client.conftest import Queue
from tests.queue.store.samples import dispatched, finished, read

HTTP_JOB: Any = {"gpu_pool_requested": "t4", "target_url": "http://example", "request_json": {"x": 1}}


def asking(queue: Queue, ask: Callable[[Client], Any], **options: Any) -> Any:
    def run() -> Any:
        with Client(queue.url, **{"tenant": "vision", "retry_for": 0.0, **options}) as client:
            return ask(client)

    return queue.ask(run)


def finetune(client: Client) -> Job:
    """The README's example."""
    return client.submit_job(
        job_name="finetune",
        project_id="detector",
        priority=JobPriority.HIGH,
        gpu_type=GPUType.A100_80GB,
        gpu_count=4,
        container_image="pytorch/pytorch:2.8.0",
        container_command=["python", "train.py"],
        budget_limit_usd=100.0,
        preemptible=True,
        checkpoint_s3_path="s3://...",
    )


def test_the_example_of_the_readme(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        job = await asking(queue, finetune)
        assert (job.state, job.tenant, job.project_id, job.priority) == (
            JobState.QUEUED,
            "vision",
            "detector",
            "high",
        )
        assert (job.gpu_type, job.gpu_count, job.isolation_level) == ("a100-80gb", 4, "exclusive")
        assert 0 < job.estimate_usd <= 100
        stored = await read(queue.db, job.id)
        assert [offer.pool for offer in stored.offers] == ["training-a100"]

    queue(test)


def test_the_same_key_is_the_same_job(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def twice(client: Client) -> list[str]:
            return [client.submit_job(idempotency_key="k", **HTTP_JOB).id for _ in range(2)]

        first, second = await asking(queue, twice)
        assert first == second

    queue(test)


def test_what_can_be_asked_of_a_queued_job(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def steps(client: Client) -> None:
            job = client.submit_job(project_id="ocr", **HTTP_JOB)
            assert client.job(job.id) == job.refresh()
            why = job.why()
            assert (why.id, why.state) == (job.id, "queued")
            assert why.offers[0].pool == "notebooks"
            assert [event.type for event in job.history()] == ["mlops.gpu.jobs.enqueued"]
            assert list(job.logs()) == []
            with pytest.raises(NotFound) as nothing:
                job.result()
            assert nothing.value.type == "no-result"
            changed = job.set_priority(JobPriority.LOW)
            assert (changed.priority, changed.version) == ("low", job.version + 1)
            with pytest.raises(Conflict) as conflict:
                job.set_priority(JobPriority.HIGH)
            assert conflict.value.status == 412
            gone = job.cancel()
            assert (gone.state, gone.ended) == (JobState.CANCELLED, True)
            assert job.wait(timeout=5) == gone.refresh()
            with pytest.raises(Conflict):
                client.set_priority(job.id, "low")

        await asking(queue, steps)

    queue(test)


def test_a_job_that_runs_has_logs_and_an_end(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        now = datetime.now(UTC)
        job = await asking(queue, lambda client: client.submit_job(**HTTP_JOB))
        assert await dispatched(queue.db, now=now) == [job.id]
        await attempts.take(queue.db, "executor", 10, 30, now)
        assert await attempts.record_start(queue.db, job.id, 1, now)
        await logs.append(queue.db, job.id, 1, ["one", "two"])
        await finished(queue.db, await read(queue.db, job.id), "succeeded", exit_code=0)

        def steps(client: Client) -> None:
            ended = client.job(job.id).wait(timeout=5)
            assert (ended.state, ended.succeeded, ended.exit_code) == (JobState.SUCCEEDED, True, 0)
            assert ended.finished_at is not None
            assert ended.cost_usd > 0
            assert list(ended.logs(follow=True)) == ["one", "two"]
            assert [event.seq for event in ended.history()] == [1, 2, 3, 4]

        await asking(queue, steps)

    queue(test)


def test_lists_are_read_to_their_end(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def steps(client: Client) -> None:
            made = client.submit_job(array=7, **HTTP_JOB)
            assert len(made.job_ids) == 7
            found = [job.id for job in client.jobs("queued", group=made.group_id, page_size=3)]
            assert sorted(found) == sorted(made.job_ids)
            assert list(client.jobs("running")) == []

        await asking(queue, steps)

    queue(test)


def test_events_are_followed_from_a_position(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        made = await asking(queue, lambda client: client.submit_job(array=3, **HTTP_JOB))
        epoch = await lead(queue.db, outbox.ROLE, "test", 60)
        assert epoch is not None
        assert len(await outbox.place(queue.db, epoch)) == 3
        found = await asking(queue, lambda client: list(islice(client.events(after=1), 2)))
        assert [event.position for event in found] == [2, 3]
        assert {event.job for event in found} <= set(made.job_ids)
        assert found[0].tenant == "vision"
        with pytest.raises(Gone):
            await asking(queue, lambda client: next(client.events(after=9)))

    queue(test)


def test_pools_forecasts_usage_and_recommendations(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def steps(client: Client) -> None:
            names = {pool.name: pool for pool in client.pools()}
            assert {"notebooks", "training-a100"} <= set(names)
            assert "inference-mig" not in names
            assert names["notebooks"].slots[0]["total"] == 24
            forecast = client.validate_job(**HTTP_JOB)
            assert (forecast.fits, forecast.offers[0].pool) == (True, "notebooks")
            assert forecast.estimate_usd > 0
            assert client.usage("vision").tenant == "vision"
            assert client.recommendations(10)[0].usd_per_hour > 0
            cluster = client.create_ray_cluster("training", min_workers=1, max_workers=2, gpu_count=4)
            assert json.loads(cluster.yaml) == cluster
            assert cluster["spec"]["workerGroupSpecs"][0]["rayStartParams"] == {"num-gpus": "4"}

        await asking(queue, steps)

    queue(test)


def test_problems_are_errors(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        def steps(client: Client) -> None:
            with pytest.raises(NotFound, match="there is no job nothing"):
                client.job("nothing")
            with pytest.raises(Invalid) as invalid:
                client.submit_job(gpu_count=-1, **HTTP_JOB)
            assert invalid.value.errors[0]["pointer"] == "#/gpu_count"
            for field, value, words in (
                ("job_name", "a\nb", "write text in one line"),
                ("depends_on", "x", "write a whole id"),
                ("callback_url", "gopher://x", "write an http or https address"),
                ("env", {"1A": "x"}, "write a variable's name"),
                ("gpu_type", "-", "write letters, digits"),
            ):
                with pytest.raises(Invalid) as wrong:
                    client.submit_job(**{**HTTP_JOB, field: value})
                assert words in wrong.value.errors[0]["detail"]
                assert "^" not in str(wrong.value.problem)
            with pytest.raises(Forbidden):
                client.submit_job(priority="critical", **HTTP_JOB)

        await asking(queue, steps)

        def without_tenant(client: Client) -> None:
            with pytest.raises(Invalid) as required:
                client.submit_job(**HTTP_JOB)
            assert required.value.type == "tenant-required"

        await asking(queue, without_tenant, tenant=None)

    queue(test)


def test_the_same_from_asyncio(queue: Any) -> None:
    async def test(queue: Queue) -> None:
        async with AsyncClient(queue.url, tenant="vision", retry_for=0) as client:
            job = await client.submit_job(project_id="ocr", **HTTP_JOB)
            assert (await job.refresh()).id == job.id
            assert [one.id async for one in client.jobs(project="ocr")] == [job.id]
            assert (await job.why()).state == "queued"
            assert [line async for line in job.logs()] == []
            assert (await job.cancel()).ended
            assert (await job.wait(timeout=5)).state == JobState.CANCELLED

    queue(test)
