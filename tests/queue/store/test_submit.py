"""Submitting: idempotent, limited, with dependencies and arrays."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from gpupool.queue.domain.reasons import of_end
from gpupool.queue.records import FailedParent, JobState, new_id
from gpupool.queue.store import jobs as store
from gpupool.queue.store import outbox
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import IdempotencyMismatch, QueueFull, UnknownDependency, Unstorable
from gpupool.queue.store.housekeeping import archive
from gpupool.queue.store.jobs import Key
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.conftest import Run
from tests.queue.store.samples import NOW, cancelled, finished, new, read, running, sql, submitted


def test_a_job_is_read_as_it_was_submitted(database: Run) -> None:
    async def test(db: Database) -> None:
        job = new(budget_limit_micro=5, deadline_at=NOW)
        assert (await store.submit(db, [job], now=NOW)).ids == (job.id,)
        stored = await read(db, job.id)
        for name in job.__slots__:
            assert getattr(stored, name) == getattr(job, name), name
        assert (stored.state, stored.version, stored.attempt) == (JobState.QUEUED, 1, 0)
        assert stored.enqueued_at == NOW
        assert await store.job(db, new_id()) is None
        assert await store.job(db, "no-uuid") is None

    database(test)


def test_the_same_key_and_body_answer_with_the_same_job(database: Run) -> None:
    async def test(db: Database) -> None:
        first = await store.submit(db, [new()], Key("key", b"body"), 10)
        again = await store.submit(db, [new()], Key("key", b"body"), 10)
        assert (again.ids, again.replayed) == (first.ids, True)
        with pytest.raises(IdempotencyMismatch, match="use a new key"):
            await store.submit(db, [new()], Key("key", b"another"), 10)
        other = await store.submit(db, [new("speech")], Key("key", b"another"), 10)
        assert not other.replayed
        assert await store.depth(db) == {("vision", 1): 1, ("speech", 1): 1}
        assert (await sql(db, "SELECT queued FROM tenant_gpu_policies WHERE tenant = 'vision'"))[0][
            "queued"
        ] == 1

    database(test)


def test_of_requests_with_one_key_at_once_one_makes_a_job(database: Run) -> None:
    async def test(db: Database) -> None:
        made = await asyncio.gather(*(store.submit(db, [new()], Key("key", b"body"), 10) for _ in range(8)))
        assert len({one.ids for one in made}) == 1
        assert sorted(one.replayed for one in made) == [False] + [True] * 7
        assert sum((await store.depth(db)).values()) == 1

    database(test)


def test_the_limit_of_queued_jobs_holds_for_requests_at_once(database: Run) -> None:
    async def test(db: Database) -> None:
        made = await asyncio.gather(
            *(store.submit(db, [new()], Key(f"key {n}", b""), 7) for n in range(20)), return_exceptions=True
        )
        refused = [one for one in made if isinstance(one, QueueFull)]
        assert len(refused) == 13
        assert str(refused[0]) == "tenant vision may have 7 queued jobs; wait until some have started"
        assert await store.depth(db) == {("vision", 1): 7}
        # What was refused left no trace: its key may be used again.
        assert (await sql(db, "SELECT count(*) AS n FROM gpu_idempotency"))[0]["n"] == 7
        assert (await sql(db, "SELECT count(*) AS n FROM gpu_events"))[0]["n"] == 7

    database(test)


def test_an_array_is_stored_whole_or_not_at_all(database: Run) -> None:
    async def test(db: Database) -> None:
        group = new_id()
        jobs = [new(group_id=group, group_index=n) for n in range(5)]
        with pytest.raises(QueueFull):
            await store.submit(db, jobs, queued_limit=4)
        assert await store.depth(db) == {}
        await store.submit(db, jobs, queued_limit=5, now=NOW)
        page = await store.jobs(db, store.JobFilter(group=group))
        assert [job.group_index for job in page.jobs] == [4, 3, 2, 1, 0]
        heads = (await take_snapshot(db, NOW, 10)).queued
        assert [head.job for head in heads] == [job.id for job in jobs]

    database(test)


def test_a_dependent_starts_only_after_its_job_has_succeeded(database: Run) -> None:
    async def test(db: Database) -> None:
        first = await running(db)
        second = await submitted(db, depends_on=first.id)
        third = await submitted(db, depends_on=second)
        assert (await read(db, second)).blocked
        assert (await take_snapshot(db, NOW, 10)).queued == ()
        await finished(db, first, "succeeded")
        assert [head.job for head in (await take_snapshot(db, NOW, 10)).queued] == [second]
        assert not (await read(db, second)).blocked
        assert (await read(db, third)).blocked
        assert not (await read(db, await submitted(db, depends_on=first.id))).blocked

    database(test)


def test_dependents_of_a_job_that_fails_are_cancelled_down_the_chain(database: Run) -> None:
    async def test(db: Database) -> None:
        first = await running(db, retries=0)
        second = await submitted(db, depends_on=first.id)
        third = await submitted(db, depends_on=second)
        await finished(db, first, "failed", reason="OOMKilled")
        root = FailedParent(first.id, first.id, JobState.FAILED, "OOMKilled")
        later = [await submitted(db, depends_on=id) for id in (first.id, second, third)]
        await archive(db, NOW + timedelta(days=1))
        later.append(await submitted(db, depends_on=later[-1]))
        for id in (second, third, *later):
            job = await read(db, id)
            cause = replace(root, parent=job.depends_on[0])
            assert (job.state, job.reason, job.cause) == (JobState.CANCELLED, "dependency", cause)
            data = (await outbox.of_job(db, id))[-1].data
            assert (data["depends_on"], data["cause"]) == (cause.parent, cause.as_dict())
        at_root, further = [of_end(await read(db, id)) for id in (second, third)]
        assert at_root == f"job {first.id}, on which it depends, failed (OOMKilled)"
        why = f"was cancelled because job {first.id} failed (OOMKilled)"
        assert further == f"job {second}, on which it depends, {why}"
        assert await store.depth(db) == {}
        assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 0

    database(test)


def test_cancelling_a_job_cancels_its_dependents(database: Run) -> None:
    async def test(db: Database) -> None:
        first = await submitted(db)
        second = await submitted(db, depends_on=first)
        await store.cancel(db, first, "ada", NOW)
        assert (await read(db, second)).state is JobState.CANCELLED
        assert (await read(db, second)).cause == FailedParent(
            first, first, JobState.CANCELLED, "cancelled by ada"
        )
        assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 0

    database(test)


@pytest.mark.parametrize("of", ["nothing", "no-uuid", "another tenant"])
def test_a_dependency_is_a_job_of_the_tenant(database: Run, of: str) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db, tenant="speech") if of == "another tenant" else of
        with pytest.raises(UnknownDependency, match="is no job of this tenant"):
            await submitted(db, depends_on=new_id() if of == "nothing" else id)

    database(test)


def test_a_dependent_submitted_while_its_job_ends_is_not_forgotten(database: Run) -> None:
    async def test(db: Database) -> None:
        for _ in range(10):
            first = await running(db)
            second, _ = await asyncio.gather(
                submitted(db, depends_on=first.id), finished(db, first, "succeeded")
            )
            assert not (await read(db, second)).blocked
            await cancelled(db, second)

    database(test)


@pytest.mark.parametrize("text", ["a\x00b", "\ud800"])
def test_text_that_the_database_cannot_keep_is_refused(database: Run, text: str) -> None:
    async def test(db: Database) -> None:
        for given in ({"request": {"env": text}}, {"name": text}):
            with pytest.raises(Unstorable, match="can't keep this value"):
                await submitted(db, **given)
        await submitted(db, name="Größe 🚀 '; DROP TABLE gpu_jobs --")

    database(test)
