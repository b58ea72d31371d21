"""One attempt after its decision: started, kept alive, ended once, counted, logged."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from gpupool.queue.domain.attempt_end import SPENT, cost_of
from gpupool.queue.domain.state import BudgetUsage
from gpupool.queue.records import JobState, Outcome
from gpupool.queue.store import attempts, dispatch, logs, outbox
from gpupool.queue.store import jobs as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.conftest import Run
from tests.queue.store.samples import (
    NOW,
    cancelled,
    dispatched,
    enacted,
    finished,
    read,
    running,
    sql,
    submitted,
)


def test_a_job_that_succeeds_is_settled_once(database: Run) -> None:
    async def test(db: Database) -> None:
        await enacted(db, dispatch.TenantPolicy("vision", weight=0.5))
        job = await running(db)
        done = await finished(db, job, "succeeded", 60, exit_code=0)
        assert done is not None
        assert (done.state, done.cost_micro, done.exit_code) == (JobState.SUCCEEDED, 6000, 0)
        assert (done.pool, done.hold_micro, done.finished_at) == ("t4", None, NOW + timedelta(seconds=60))
        assert done == await read(db, job.id)
        assert await finished(db, job, "failed") is None
        assert await attempts.record_start(db, job.id, 1, NOW) is False
        entries = await sql(db, "SELECT kind, micro FROM gpu_ledger ORDER BY id")
        assert [tuple(row.values()) for row in entries] == [
            ("hold", 360_000),
            ("settle", 6_000),
            ("release", 354_000),
        ]
        snapshot = await take_snapshot(db, NOW, 1)
        assert snapshot.budget_usage == {"vision": BudgetUsage(6000, 0)}
        # It ran 60 of the 3600 seconds that its clock was charged for, at a quarter of a GPU and weight 1/2.
        assert snapshot.clocks == {("t4", "vision"): max(0, 900_000_000 - 250_000 * 3540 * 2)}
        types = [(event.seq, event.type) for event in await outbox.of_job(db, job.id)]
        assert types == [(1, "enqueued"), (2, "dispatched"), (3, "started"), (4, "succeeded")]

    database(test)


def test_a_reason_is_kept_without_what_the_database_refuses(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        done = await attempts.finish(db, job.id, 1, Outcome("failed", "a\0b", retry=False), NOW, (1, 1))
        assert done is not None
        assert done.reason == "a\ufffdb"

    database(test)


def test_a_job_that_is_queued_again_while_it_is_cancelled_stays_cancelled(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        async with db.transaction() as connection:
            await attempts.finish_within(connection, job.id, 1, Outcome("disrupted"), NOW, (0, 0))
            cancelling = asyncio.create_task(store.cancel(db, job.id, "ada", NOW))
            await asyncio.sleep(0.3)
        assert (await cancelling or job).state is JobState.CANCELLED

    database(test)


def test_two_that_finish_an_attempt_at_once_end_it_once(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        ends = await asyncio.gather(
            *(finished(db, job, kind) for kind in ("succeeded", "failed", "disrupted"))
        )
        assert sum(end is not None for end in ends) == 1
        assert (await sql(db, "SELECT count(*) AS n FROM gpu_ledger"))[0]["n"] == 3

    database(test)


@pytest.mark.parametrize(
    ("outcomes", "state", "counts"),
    [
        (["failed"], "queued", (1, 0)),
        (["failed", "failed"], "failed", (2, 0)),
        (["disrupted", "disrupted", "disrupted"], "queued", (0, 3)),
        (["preempted", "failed", "succeeded"], "succeeded", (1, 1)),
        (["timeout"], "failed", (1, 0)),
        (["cancelled"], "cancelled", (0, 0)),
    ],
)
def test_failures_count_against_retries_and_disruptions_do_not(
    database: Run, outcomes: list[str], state: str, counts: tuple[int, int]
) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        for number, kind in enumerate(outcomes, 1):
            await dispatched(db, now=NOW + timedelta(hours=number))
            job = await read(db, id)
            assert job.attempt == number
            await attempts.take(db, "executor", 1, 30)
            assert await attempts.record_start(db, id, number, NOW + timedelta(hours=number))
            await finished(db, await read(db, id), kind, 1)
        job = await read(db, id)
        assert (job.state, job.failures, job.disruptions) == (JobState(state), *counts)
        assert job.cost_micro == 100 * len(outcomes)
        queued = (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"]
        assert queued == (state == "queued")

    database(test)


def test_what_the_platform_keeps_from_starting_is_no_failure_of_the_jobs_own(database: Run) -> None:
    async def test(db: Database) -> None:
        id, now = await submitted(db, retries=1), NOW
        for kind, starts in (("failed", False), ("failed", False), ("failed", True), ("failed", False)):
            assert await dispatched(db, now=now) == [id]
            job = await read(db, id)
            if starts:
                await attempts.record_start(db, id, job.attempt, now)
            own = {} if starts else {"platform_retries": 3}
            job = await finished(db, job, kind, 0, **own)
            assert job.state is JobState.QUEUED
            now = job.not_before
        await dispatched(db, now=now)
        job = await finished(db, await read(db, id), "failed", 0, platform_retries=3)
        assert job.state is JobState.FAILED, "the platform had its three retries"

    database(test)


def test_a_failure_of_its_own_ends_a_job_that_asks_for_no_retries(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db, retries=0)
        await dispatched(db)
        job = await finished(db, await read(db, id), "failed", 0, platform_retries=3)
        assert job.state is JobState.QUEUED
        await dispatched(db, now=job.not_before)
        assert await attempts.record_start(db, id, 2, job.not_before)
        assert (await finished(db, await read(db, id), "failed")).state is JobState.FAILED

    database(test)


def test_retries_wait_longer_each_time_up_to_a_limit(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db, retries=9)
        now, waits = NOW, []
        for _ in range(8):
            assert await dispatched(db, now=now) == [id]
            job = await finished(db, await read(db, id), "failed", 0)
            assert job is not None
            assert job.not_before is not None
            waits.append((job.not_before - now).total_seconds())
            assert (await take_snapshot(db, job.not_before - timedelta(seconds=1), 1)).queued == ()
            now = job.not_before
        assert waits == [10, 20, 40, 80, 160, 320, 600, 600]

    database(test)


def test_a_failure_that_another_attempt_cannot_help_is_final(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await finished(db, await running(db, retries=5), "failed", retry=False, reason="no such image")
        assert job is not None
        assert (job.state, job.reason) == (JobState.FAILED, "no such image")

    database(test)


def test_a_job_that_never_started_costs_nothing(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        await dispatched(db)
        job = await finished(db, await read(db, id), "failed", 500)
        assert job is not None
        assert (job.state, job.cost_micro, job.pool) == (JobState.QUEUED, 0, None)
        assert (await take_snapshot(db, NOW, 1)).budget_usage == {"vision": BudgetUsage(0, 0)}

    database(test)


def test_a_job_never_costs_more_than_was_held() -> None:
    assert cost_of(360_000, timedelta(seconds=60), 360_000) == 6000
    assert cost_of(360_000, timedelta(hours=5), 360_000) == 360_000
    assert cost_of(1, timedelta(microseconds=1), 5) == 1
    assert cost_of(0, timedelta(hours=5), 5) == 0


def test_what_is_taken_away_again_and_again_before_it_starts_pauses_longer_each_time(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        now, waits = NOW, []
        for _ in range(4):
            await dispatched(db, now=now)
            job = await finished(db, await read(db, id), "preempted", 0)
            assert job is not None
            waits.append((job.not_before - now).total_seconds() if job.not_before else 0)
            now = job.not_before or now
        assert waits == [0, 10, 20, 40]

    database(test)


def test_after_lost_spot_nodes_a_job_wants_on_demand(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        for number, lost in enumerate((False, True, True, True), 1):
            assert (await take_snapshot(db, NOW, 1)).queued[0].on_demand_only is False
            await dispatched(db)
            capacity_type = "spot" if lost else "on-demand"
            await sql(db, f"UPDATE gpu_jobs SET capacity_type = '{capacity_type}' RETURNING 1")
            await attempts.record_start(db, id, number, NOW)
            await finished(db, await read(db, id), "disrupted")
        assert (await take_snapshot(db, NOW, 1)).queued[0].on_demand_only is True

    database(test)


def test_what_never_started_was_not_lost_with_a_spot_node(database: Run) -> None:
    """No launcher may have been there to take it up."""

    async def test(db: Database) -> None:
        id = await submitted(db)
        await dispatched(db)
        await sql(db, "UPDATE gpu_jobs SET capacity_type = 'spot' RETURNING 1")
        await finished(db, await read(db, id), "disrupted")
        assert (await take_snapshot(db, NOW, 1)).queued[0].on_demand_only is False

    database(test)


def test_a_heartbeat_keeps_what_is_still_the_executors(database: Run) -> None:
    async def test(db: Database) -> None:
        first, second = await running(db), await running(db)
        await store.cancel(db, second.id, "ada", NOW)
        beats = await attempts.heartbeat(
            db, "executor", {(first.id, 1): 1, (second.id, 1): 2, (first.id, 2): 3}, 90, NOW
        )
        assert {(beat.job, beat.cancelled) for beat in beats} == {(first.id, False), (second.id, True)}
        assert await attempts.heartbeat(db, "another", {(first.id, 1): 1}, 90, NOW) == []
        assert await attempts.heartbeat(db, "executor", {}, 90, NOW) == []
        leases = await sql(db, "SELECT DISTINCT lease_until FROM gpu_jobs")
        assert leases == [{"lease_until": NOW + timedelta(seconds=90)}]

    database(test)


def test_a_held_job_that_is_cancelled_ends_when_it_stops(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        asked = await store.cancel(db, job.id, "ada", NOW)
        assert asked is not None
        assert (asked.state, asked.cancel_requested, asked.version) == (
            JobState.RUNNING,
            True,
            job.version + 1,
        )
        again = await store.cancel(db, job.id, "bob", NOW)
        assert again == asked
        done = await finished(db, job, "failed")
        assert done is not None
        assert (done.state, done.reason) == (JobState.CANCELLED, "cancelled by ada")
        assert await store.cancel(db, job.id, "ada", NOW) == done

    database(test)


def test_the_answer_of_a_target_is_kept(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        assert await store.result(db, job.id) is None
        await sql(
            db,
            "INSERT INTO gpu_results VALUES (%s, 500, '[]', 'from an earlier release', false) RETURNING 1",
            job.id,
        )
        answer = store.HttpAnswer(200, (("Content-Type", "text/plain"),), b"\x00\xff", truncated=True)
        await attempts.finish(db, job.id, 1, attempts.Outcome("succeeded"), NOW, (1, 2), answer)
        assert await store.result(db, job.id) == answer

    database(test)


def test_an_answer_is_kept_only_of_the_attempt_that_ends_the_job(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        answer = store.HttpAnswer(500, (), b"not now", truncated=False)
        failed = attempts.Outcome("failed")
        again = await attempts.finish(db, job.id, 1, failed, NOW, (0, 0), answer)
        assert again is not None
        assert again.state is JobState.QUEUED
        await dispatched(db)
        await attempts.record_start(db, job.id, 2, NOW)
        done = await attempts.finish(db, job.id, 2, attempts.Outcome("timeout"), NOW, (0, 0))
        assert done is not None
        assert done.state is JobState.FAILED
        assert await store.result(db, job.id) is None

    database(test)


def test_output_is_kept_per_attempt_and_only_of_the_one_that_runs(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        assert await logs.append(db, job.id, 1, ["one", "two\x00"])
        assert await logs.append(db, job.id, 1, ["three"])
        assert not await logs.append(db, job.id, 1, [])
        await finished(db, job, "disrupted")
        assert not await logs.append(db, job.id, 1, ["late"])
        chunks = await logs.page(db, job.id)
        assert [chunk.text for chunk in chunks] == ["one\ntwo\ufffd", "three"]
        assert [chunk.text for chunk in await logs.page(db, job.id, 1, chunks[0].number)] == ["three"]
        assert await logs.page(db, job.id, 2) == []

    database(test)


def test_only_queued_jobs_change_their_priority(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        job = await store.reprioritise(db, id, "high", 2, version=1)
        assert (job.priority, job.level, job.version) == ("high", 2, 2)
        with pytest.raises(store.Conflict, match="version 2 now"):
            await store.reprioritise(db, id, "low", 0, version=1)
        (head,) = (await take_snapshot(db, NOW, 1)).queued
        assert head.level == 2
        await cancelled(db, id)
        with pytest.raises(store.Conflict, match="is cancelled"):
            await store.reprioritise(db, id, "low", 0)
        with pytest.raises(store.Unknown):
            await store.reprioritise(db, "x", "low", 0)
        assert [event.type for event in await outbox.of_job(db, id)][1:] == ["priority_changed", "cancelled"]

    database(test)


def test_a_job_whose_own_budget_is_spent_is_not_tried_again(database) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db, budget_limit_micro=360_000, retries=5)
        await dispatched(db)
        await attempts.record_start(db, id, 1, NOW)
        ended = await attempts.finish(
            db, id, 1, Outcome("preempted"), NOW + timedelta(seconds=3600), (1.0, 1.0)
        )
        assert ended is not None
        assert (ended.state, ended.reason) == (JobState.FAILED, SPENT)

    database(test)
