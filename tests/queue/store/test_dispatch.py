"""Leading, the snapshot, and what a round writes: guarded by epoch, attempt and state."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from gpupool.queue.domain.state import BudgetUsage
from gpupool.queue.records import Decision, JobState, Level, Offer, Preempt, Waiting, WaitReason
from gpupool.queue.store import attempts, dispatch, outbox
from gpupool.queue.store import jobs as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.dispatch import ProjectPolicy, TenantPolicy
from gpupool.queue.store.errors import Deposed
from gpupool.queue.store.snapshot import Known, take_snapshot
from tests.queue.conftest import Run
from tests.queue.store.samples import (
    NOW,
    OFFER,
    cancelled,
    dispatched,
    enacted,
    finished,
    leading,
    read,
    running,
    sql,
    start_all,
    submitted,
)


def test_one_leads_until_its_time_is_over(database: Run) -> None:
    async def test(db: Database) -> None:
        assert await dispatch.lead(db, "relay", "one", 0.3) == 1
        assert await dispatch.lead(db, "relay", "two", 60) is None
        assert await dispatch.lead(db, "dispatcher", "two", 60) == 1
        assert await dispatch.lead(db, "relay", "one", 0.3) == 1
        await asyncio.sleep(0.35)
        assert await dispatch.lead(db, "relay", "two", 60) == 2
        assert await dispatch.lead(db, "relay", "one", 60) is None
        await dispatch.resign(db, "relay", "two")
        assert await dispatch.lead(db, "relay", "one", 60) == 4

    database(test)


def test_who_led_before_and_came_back_too_late_has_a_new_epoch(database: Run) -> None:
    async def test(db: Database) -> None:
        assert await dispatch.lead(db, "relay", "one", 0) == 1
        assert await dispatch.lead(db, "relay", "one", 60) == 2

    database(test)


def test_of_many_that_want_to_lead_one_does(database: Run) -> None:
    async def test(db: Database) -> None:
        made = await asyncio.gather(*(dispatch.lead(db, "relay", f"holder {n}", 60) for n in range(8)))
        assert sorted(epoch for epoch in made if epoch) == [1]

    database(test)


def test_a_deposed_leader_writes_nothing(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        held = await running(db, tenant="speech")
        old = await leading(db)
        snapshot = await take_snapshot(db, NOW, 10)
        await dispatch.resign(db, dispatch.ROLE, "one")
        new = await leading(db, "two")
        await submitted(db, tenant="late")
        decision = replace(
            start_all(await take_snapshot(db, NOW, 10)),
            preempts=(Preempt(held.id, 1, id, "for it"),),
            reservations={"t4": id},
        )
        before = await state_of_all(db)
        with pytest.raises(Deposed, match="nothing was written"):
            await dispatch.claim(db, old, decision, "sha256:1", 30, NOW)
        assert await state_of_all(db) == before
        assert await dispatch.claim(db, new, start_all(snapshot), "sha256:1", 30, NOW) == [id]

    database(test)


async def state_of_all(db: Database) -> list[object]:
    tables = ("gpu_jobs", "gpu_attempts", "gpu_ledger", "gpu_accounts", "gpu_clocks", "gpu_reservations")
    return [await sql(db, f"SELECT * FROM {table} ORDER BY 1, 2") for table in (*tables, "gpu_events")]


def test_a_takeover_waits_for_a_write_that_holds_the_epoch(database: Run) -> None:
    async def test(db: Database) -> None:
        assert await dispatch.lead(db, dispatch.ROLE, "one", 0) == 1
        async with db.transaction() as connection:
            await dispatch.fence(connection, dispatch.ROLE, 1)
            takeover = asyncio.create_task(dispatch.lead(db, dispatch.ROLE, "two", 60))
            await asyncio.sleep(0.1)
            assert not takeover.done()
        assert await takeover == 2

    database(test)


def test_a_clock_that_an_end_moved_back_since_the_snapshot_stays_back(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        await submitted(db)
        decision = start_all(await take_snapshot(db, NOW, 10))
        await finished(db, job, "succeeded", after_s=3600 * 0.01)
        assert await dispatch.claim(db, await leading(db), decision, "sha256:1", 30, NOW)
        assert (await take_snapshot(db, NOW, 10)).clocks == {("t4", "vision"): 9_000_000 + 900_000_000}

    database(test)


def test_a_claim_writes_the_job_its_attempt_its_hold_and_its_event(database: Run) -> None:
    async def test(db: Database) -> None:
        policy = TenantPolicy("vision", period="week", projects={"detector": ProjectPolicy(5, "day")})
        await enacted(db, policy)
        id = await submitted(db)
        assert await dispatched(db) == [id]
        job = await read(db, id)
        assert (job.state, job.attempt, job.version, job.pool) == (JobState.SCHEDULED, 1, 2, "t4")
        assert (job.placement, job.rate_micro, job.hold_micro) == (((0, 1),), 360_000, 360_000)
        assert (job.dispatched_at, job.run_limit_s, job.gpu_micro) == (NOW, 3600, 250_000)
        accounts = await sql(db, "SELECT name, period::text, held_micro FROM gpu_accounts ORDER BY 1")
        assert [tuple(row.values()) for row in accounts] == [
            ("vision", "2026-11-16", 360_000),
            ("vision/detector", "2026-11-18", 360_000),
        ]
        snapshot = await take_snapshot(db, NOW, 10)
        assert snapshot.queued == ()
        (held,) = snapshot.held
        assert (held.job, held.units, held.hold_micro, held.since) == (id, 1, 360_000, NOW.timestamp())
        assert snapshot.budget_usage == {
            "vision": BudgetUsage(0, 360_000),
            "vision/detector": BudgetUsage(0, 360_000),
        }
        assert snapshot.clocks == {("t4", "vision"): 900_000_000}
        event = (await outbox.of_job(db, id))[-1]
        assert (event.type, event.seq, event.pool) == ("dispatched", 2, "t4")
        assert (event.data["key"], event.data["isolation"]) == ("t4", "shared")
        later = await take_snapshot(db, NOW + timedelta(days=7), 10)
        assert later.budget_usage == {}

    database(test)


def test_a_claim_leaves_out_what_changed_since_the_round(database: Run) -> None:
    async def test(db: Database) -> None:
        gone, stays = await submitted(db), await submitted(db)
        epoch = await leading(db)
        decision = start_all(await take_snapshot(db, NOW, 10))
        await cancelled(db, gone)
        assert await dispatch.claim(db, epoch, decision, "sha256:1", 30, NOW) == [stays]
        assert await dispatch.claim(db, epoch, decision, "sha256:1", 30, NOW) == []
        job = await read(db, stays)
        await finished(db, job, "disrupted")
        # The same decision again: the job is queued, but its attempt is another.
        assert await dispatch.claim(db, epoch, decision, "sha256:1", 30, NOW) == []
        assert (await sql(db, "SELECT sum(held_micro)::int AS held FROM gpu_accounts"))[0]["held"] == 0
        assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 1

    database(test)


def test_two_claims_at_once_start_a_job_once(database: Run) -> None:
    async def test(db: Database) -> None:
        ids = {await submitted(db) for _ in range(20)}
        epoch = await leading(db)
        decision = start_all(await take_snapshot(db, NOW, 100))
        claims = (dispatch.claim(db, epoch, decision, "sha256:1", 30, NOW) for _ in range(4))
        claimed = [id for made in await asyncio.gather(*claims) for id in made]
        assert sorted(claimed) == sorted(ids)

    database(test)


def test_heads_are_the_oldest_of_each_lane_that_may_start(database: Run) -> None:
    async def test(db: Database) -> None:
        other = OFFER._replace(pool="a100")
        failing = await running(db, tenant="speech", retries=5)
        await finished(db, failing, "failed", after_s=1)
        first = [await submitted(db, now=NOW + timedelta(seconds=n)) for n in range(3)]
        different = [{"offers": (other,)}, {"level": Level.HIGH}, {"project": None}, {"project": "ocr"}]
        second = [await submitted(db, **given) for given in different]
        heads = (await take_snapshot(db, NOW + timedelta(seconds=5), 2)).queued
        lanes: dict[str, list[str]] = {}
        for head in heads:
            lanes.setdefault(head.lane, []).append(head.job)
        assert sorted(lanes.values()) == sorted([first[:2], *([one] for one in second)])
        assert {head.offers for head in heads} == {(OFFER,), (other,)}
        heads = (await take_snapshot(db, NOW + timedelta(seconds=12), 2)).queued
        assert failing.id in {head.job for head in heads}

    database(test)


def test_waits_reservations_and_preemptions_are_written(database: Run) -> None:
    async def test(db: Database) -> None:
        held = await running(db)
        id = await submitted(db)
        epoch = await leading(db)
        waiting = Waiting(WaitReason.CAPACITY, "1 of 1 GPUs in use by vision")
        decision = Decision(
            preempts=(Preempt(held.id, 1, id, f"for job {id}"),), waits={id: waiting}, reservations={"t4": id}
        )
        for _ in range(2):
            await dispatch.claim(db, epoch, decision, "sha256:1", 30, NOW)
        assert (await read(db, id)).waiting == waiting
        assert (await read(db, id)).version == 1
        assert (await read(db, held.id)).preempt_reason == f"for job {id}"
        snapshot = await take_snapshot(db, NOW, 10)
        assert snapshot.reservations == {"t4": id}
        assert [held.preempting_for for held in snapshot.held] == [id]
        events = [event.type for event in await outbox.of_job(db, held.id)]
        assert events == ["enqueued", "dispatched", "started", "preempted"]
        await dispatch.claim(db, epoch, Decision(), "sha256:1", 30, NOW)
        assert (await take_snapshot(db, NOW, 10)).reservations == {}

    database(test)


def test_policies_are_copied_and_the_count_stays(database: Run) -> None:
    async def test(db: Database) -> None:
        await submitted(db)
        policies = [TenantPolicy("vision", weight=2.5, queued_limit=9), TenantPolicy("speech")]
        for _ in range(2):
            await enacted(db, *policies, plan_hash="sha256:2")
        rows = await sql(db, "SELECT tenant, weight, queued, plan_hash FROM tenant_gpu_policies ORDER BY 1")
        assert [tuple(row.values()) for row in rows] == [
            ("speech", 1.0, 0, "sha256:2"),
            ("vision", 2.5, 1, "sha256:2"),
        ]

    database(test)


def test_heads_come_from_the_index_of_lanes_without_sorting(database: Run) -> None:
    """At 100 lanes and 20,000 jobs, most of them over: no scan of the table, and no sort of a lane."""

    async def test(db: Database) -> None:
        await submitted(db)
        await sql(
            db,
            """
            WITH model AS (SELECT * FROM gpu_jobs), added AS (
                INSERT INTO gpu_jobs
                SELECT (m.j).* FROM (
                    SELECT jsonb_populate_record(NULL::gpu_jobs, to_jsonb(model) || jsonb_build_object(
                        'id', gen_random_uuid(), 'tenant', 't' || mod(n, 100), 'seq', 1,
                        'enqueued_at', model.enqueued_at + n * interval '1 second',
                        'state', CASE WHEN mod(n, 4) = 0 THEN 'queued' ELSE 'cancelled' END,
                        'finished_at', CASE WHEN mod(n, 4) > 0 THEN model.enqueued_at END)) AS j
                    FROM model, generate_series(1, 20000) n) m
                RETURNING tenant, lane, offers, level)
            INSERT INTO gpu_lanes SELECT DISTINCT ON (tenant, lane) * FROM added RETURNING 1
            """,
        )
        async with db.connection() as connection:
            await connection.execute(b"ANALYZE gpu_jobs, gpu_lanes")
            statement = b"EXPLAIN (FORMAT TEXT) " + db.query("snapshot_heads").split(b"\n", 1)[1]
            values = {"now": NOW, "per_lane": 4, "tenants": None, "lanes": None}
            rows = await (await connection.execute(statement, values)).fetchall()
        plan = "\n".join(row["QUERY PLAN"] for row in rows)
        assert "Index Scan using gpu_jobs_lane" in plan, plan
        assert "Sort" not in plan, plan
        assert "Seq Scan on gpu_jobs" not in plan, plan

    database(test)


def test_a_change_that_is_committed_after_later_ones_is_seen(database: Run) -> None:
    """Transactions end in another order than they begin in: the last number seen is not enough."""

    async def test(db: Database) -> None:
        slow, fast = await submitted(db), await submitted(db, tenant="speech")
        known = Known()
        async with db.transaction() as connection:
            statement = b"UPDATE gpu_jobs SET level = 3, version = 2 WHERE id = %s RETURNING 1"
            await connection.execute(statement, (slow,))
            await sql(db, statement.decode(), fast)
            heads = (await take_snapshot(db, NOW, 1, known)).queued
            assert {head.job: head.level for head in heads} == {slow: Level.MEDIUM, fast: Level.CRITICAL}
        for _ in range(2):
            heads = (await take_snapshot(db, NOW, 1, known)).queued
            assert {head.level for head in heads} == {Level.CRITICAL}

    database(test)


def test_an_offer_keeps_all_its_fields(database: Run) -> None:
    async def test(db: Database) -> None:
        offer = Offer("h100", "nvidia.com/mig-1g.10gb", 2, 2, 285_714, 1_000_000, 400_000, "mig")
        await submitted(db, offers=(offer, OFFER))
        (head,) = (await take_snapshot(db, NOW, 1)).queued
        assert head.offers == (offer, OFFER)

    database(test)


def test_dispatched_jobs_are_taken_once(database: Run) -> None:
    async def test(db: Database) -> None:
        ids = {await submitted(db) for _ in range(10)}
        await dispatched(db)
        takes = (attempts.take(db, f"executor {n}", 4, 30, NOW) for n in range(4))
        taken = [job.id for jobs in await asyncio.gather(*takes) for job in jobs]
        assert sorted(taken) == sorted(ids)
        page = await store.jobs(db, store.JobFilter(states=frozenset({JobState.SCHEDULED})))
        assert len(page.jobs) == 10

    database(test)
