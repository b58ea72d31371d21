"""Accounts equal the ledger, holds net to zero and counts stay right, whatever happens in whatever order."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpupool.queue.domain.state import Holdings, Snapshot
from gpupool.queue.records import Decision, JobState, Level, Outcome, Preempt, Waiting, WaitReason
from gpupool.queue.store import attempts, dispatch, housekeeping, outbox, snapshot, spending
from gpupool.queue.store import jobs as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.snapshot import Known, take_snapshot
from gpupool.queue.store.spending import Crossed
from tests.queue.conftest import Run
from tests.queue.lanes import in_lanes
from tests.queue.store.samples import (
    NOW,
    dispatched,
    enacted,
    finished,
    leading,
    new,
    read,
    running,
    sql,
    start_all,
    submitted,
)

TABLES = (
    *("gpu_jobs", "gpu_job_history", "gpu_lanes", "gpu_attempts", "tenant_gpu_policies", "gpu_accounts"),
    *("gpu_clocks", "gpu_events", "gpu_leader", "gpu_idempotency"),
)
STEPS = st.one_of(
    st.tuples(st.just("submit"), st.sampled_from(["vision", "speech"]), st.booleans(), st.booleans()),
    st.tuples(st.just("round"), st.integers(1, 3), st.sampled_from([0, 50, 360_000])),
    st.tuples(st.sampled_from(["start", "cancel", "priority", "preempt"]), st.integers(0, 9)),
    st.tuples(
        st.just("finish"),
        st.integers(0, 9),
        st.sampled_from(["succeeded", "failed", "disrupted", "preempted", "cancelled", "timeout"]),
    ),
    st.tuples(st.sampled_from(["leases", "deadlines", "archive", "lanes"])),
    st.tuples(st.just("waits"), st.sampled_from(["0 of 8 free", "1 of 8 free"])),
    st.tuples(st.just("wait"), st.sampled_from([1, 100, 86_400])),
)

WHOLE_LIFE = [
    ("submit", "vision", False, False),
    ("submit", "vision", True, False),
    ("waits", "0 of 8 free"),
    ("round", 1, 50),
    ("start", 0),
    ("preempt", 0),
    ("finish", 0, "failed"),
    ("wait", 1),
    ("wait", 100),
    ("round", 1, 50),
    ("priority", 0),
    ("finish", 0, "succeeded"),
    ("priority", 1),
    ("cancel", 1),
]
"""A job that is preempted, backs off and succeeds, and one that waits for it."""


class World:
    """Jobs that are submitted and moved along, and a clock."""

    def __init__(self, db: Database, epoch: int) -> None:
        self.db, self.epoch = db, epoch
        self.now = NOW
        self.ids: list[str] = []
        self.known = Known()

    async def step(self, kind: str, *values: Any) -> None:
        await getattr(self, f"do_{kind}")(*values)
        kept = await take_snapshot(self.db, self.now, 2, self.known)
        whole = await take_snapshot(self.db, self.now, 2)
        assert ordered(kept) == ordered(whole), "what is kept of snapshots is what is there"

    async def do_submit(self, tenant: str, dependent: bool, hurried: bool) -> None:
        parents = [id for id in self.ids if (await read(self.db, id)).tenant == tenant]
        job = new(
            tenant,
            project=None if hurried else "detector",
            depends_on=parents[-1] if parents and dependent else (),
            deadline_at=self.now + timedelta(seconds=50) if hurried else None,
        )
        self.ids += (await store.submit(self.db, [job], now=self.now)).ids

    async def do_round(self, per_lane: int, hold: int) -> None:
        decision = start_all(await take_snapshot(self.db, self.now, per_lane), hold_micro=hold)
        await dispatch.claim(self.db, self.epoch, decision, "sha256:1", 60, self.now)
        await attempts.take(self.db, "executor", 2, 60, self.now)

    async def do_waits(self, detail: str) -> None:
        heads = (await take_snapshot(self.db, self.now, 2)).queued
        waits = {head.job: Waiting(WaitReason.CAPACITY, detail) for head in heads}
        await dispatch.claim(self.db, self.epoch, Decision(waits=waits), "", 60, self.now)
        self.known.waits.update(waits)

    async def do_preempt(self, number: int) -> None:
        if job := await self.one(number):
            preempts = (Preempt(job.id, job.attempt, job.id, "for another"),)
            await dispatch.claim(self.db, self.epoch, Decision(preempts=preempts), "", 60, self.now)

    async def do_start(self, number: int) -> None:
        if job := await self.one(number):
            await attempts.record_start(self.db, job.id, job.attempt, self.now)

    async def do_cancel(self, number: int) -> None:
        if job := await self.one(number):
            await store.cancel(self.db, job.id, "ada", self.now)

    async def do_priority(self, number: int) -> None:
        if (job := await self.one(number)) and job.state is JobState.QUEUED:
            level = Level.HIGH if job.level is Level.MEDIUM else Level.MEDIUM
            await store.reprioritise(self.db, job.id, level.name.lower(), level)

    async def do_finish(self, number: int, kind: str) -> None:
        if job := await self.one(number):
            await attempts.finish(self.db, job.id, job.attempt, Outcome(kind), self.now, (5, 60))

    async def do_leases(self) -> None:
        over = [lease for lease in await housekeeping.leases(self.db) if lease.until < self.now]
        await housekeeping.expire_leases(self.db, over, (5, 60), self.now)

    async def do_deadlines(self) -> None:
        await housekeeping.expire_queued(self.db, self.now)

    async def do_archive(self) -> None:
        await housekeeping.archive(self.db, self.now, 2)

    async def do_lanes(self) -> None:
        await housekeeping.prune_lanes(self.db)

    async def do_wait(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    async def one(self, number: int) -> Any:
        return await read(self.db, self.ids[number % len(self.ids)]) if self.ids else None


def ordered(snapshot: Snapshot) -> Snapshot:
    """Lanes and held jobs in one order; each lane keeps its own."""
    queued = sorted(snapshot.queued, key=lambda job: (job.tenant, job.lane))
    return replace(
        snapshot, lanes=in_lanes(queued), held=Holdings.of(sorted(snapshot.held, key=lambda held: held.job))
    )


async def balanced(db: Database) -> None:
    """The invariants, each as a statement that finds what breaks it."""
    entries = """
        SELECT 'tenant' AS scope, tenant AS name, period_tenant AS period, kind, micro FROM gpu_ledger
        UNION ALL
        SELECT 'project', tenant || '/' || project, period_project, kind, micro FROM gpu_ledger
        WHERE project IS NOT NULL
    """
    assert not await sql(
        db,
        f"""
        SELECT * FROM (
            SELECT scope, name, period, coalesce(sum(micro) FILTER (WHERE kind = 'settle'), 0) AS spent,
                sum(CASE WHEN kind = 'hold' THEN micro ELSE -micro END) AS held
            FROM ({entries}) e GROUP BY scope, name, period) l
        FULL JOIN gpu_accounts a USING (scope, name, period)
        WHERE (l.spent, l.held) IS DISTINCT FROM (a.spent_micro::numeric, a.held_micro::numeric)
        """,
    ), "accounts are the sums of the ledger"
    assert not await sql(
        db,
        """
        SELECT l.job FROM gpu_ledger l LEFT JOIN gpu_jobs j ON j.id = l.job AND j.attempt = l.attempt
        GROUP BY l.job, l.attempt, j.hold_micro
        HAVING sum(CASE kind WHEN 'hold' THEN micro ELSE -micro END) <> coalesce(j.hold_micro, 0)
        """,
    ), "what is held are the holds of attempts that are not over"
    assert not await sql(
        db,
        """
        SELECT tenant FROM tenant_gpu_policies p WHERE queued <> (
            SELECT count(*) FROM gpu_jobs j WHERE j.tenant = p.tenant AND j.state = 'queued')
        """,
    ), "queued jobs are counted"
    assert not await sql(
        db,
        """
        SELECT j.id FROM gpu_jobs j WHERE j.state = 'queued' AND NOT j.blocked AND NOT EXISTS (
            SELECT FROM gpu_lanes l WHERE l.tenant = j.tenant AND l.lane = j.lane)
        """,
    ), "each job that may start is in a lane"
    assert not await sql(
        db,
        """
        SELECT j.id FROM (SELECT id, seq FROM gpu_jobs UNION ALL SELECT id, seq FROM gpu_job_history) j
        LEFT JOIN gpu_events e ON e.job = j.id
        GROUP BY j.id, j.seq HAVING count(e) <> j.seq OR max(e.seq) <> j.seq OR min(e.seq) <> 1
        """,
    ), "events of a job are numbered without a gap"
    assert not await sql(
        db,
        """
        SELECT j.id FROM gpu_jobs j WHERE j.blocked AND NOT EXISTS (
            SELECT FROM gpu_jobs p
            WHERE p.id = ANY(j.depends_on || j.depends_on_ended) AND p.finished_at IS NULL)
        """,
    ), "a blocked job waits for one that is not over"


@pytest.fixture(scope="module")
def used_url(postgres: Embedded) -> Any:
    """One database for all examples, emptied before each."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE examples TEMPLATE migrated")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(snapshot, "RESYNC", timedelta(days=3650))
        yield postgres.url("examples")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("DROP DATABASE examples WITH (FORCE)")


@settings(max_examples=40)
@given(st.lists(STEPS, min_size=5, max_size=40))
@example(WHOLE_LIFE)
def test_money_and_counts_balance_after_every_step(used_url: str, steps: list[tuple[Any, ...]]) -> None:
    async def test() -> None:
        async with Database.open(used_url) as db:
            async with db.connection() as connection:
                await connection.execute(f"TRUNCATE {', '.join(TABLES)}".encode())
                # The trigger refuses to delete entries, which is tested below.
                await connection.execute(b"ALTER TABLE gpu_ledger DISABLE TRIGGER append_only")
                await connection.execute(b"TRUNCATE gpu_ledger")
                await connection.execute(b"ALTER TABLE gpu_ledger ENABLE TRIGGER append_only")
            world = World(db, await leading(db))
            for kind, *values in steps:
                await world.step(kind, *values)
                await balanced(db)

    asyncio.run(test())


def test_the_ledger_only_grows(database: Run) -> None:
    async def test(db: Database) -> None:
        await finished(db, await running(db), "succeeded")
        for statement in ("UPDATE gpu_ledger SET micro = 0", "DELETE FROM gpu_ledger", "TRUNCATE gpu_ledger"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                await sql(db, statement)

    database(test)


BROKEN = [
    "state = 'lost'",
    "state = 'succeeded'",
    "state = 'scheduled'",
    "state = 'running', started_at = now()",
    "hold_micro = 1",
    "pool = 't4'",
    "attempt = -1",
    "failures = 1",
    "level = 4",
    "finished_at = now()",
    "executor = 'one'",
    "cancel_requested = true",
    "preempt_reason = '{}'",
    "blocked = true",
    "offers = '[]'",
    "group_id = id",
    "seq = -1",
    "cost_micro = -1",
]


@pytest.mark.parametrize("change", BROKEN)
def test_no_statement_breaks_a_rule_of_state(database: Run, change: str) -> None:
    async def test(db: Database) -> None:
        await submitted(db)
        with pytest.raises(psycopg.errors.CheckViolation):
            await sql(db, f"UPDATE gpu_jobs SET {change}")

    database(test)


BROKEN_ELSEWHERE = [
    "gpu_attempts SET outcome = 'lost', finished_at = now()",
    "gpu_attempts SET finished_at = now()",
    "gpu_attempts SET cost_micro = 1",
    "gpu_attempts SET gpu_micro = 0",
    "gpu_attempts SET capacity_type = 'rented'",
    "gpu_accounts SET held_micro = -1",
    "gpu_event_stream SET published = position + 1",
    "tenant_gpu_policies SET queued_limit = -1",
    "tenant_gpu_policies SET weight = 0",
]


@pytest.mark.parametrize("change", BROKEN_ELSEWHERE)
def test_no_statement_breaks_a_rule_of_attempts_accounts_and_policies(database: Run, change: str) -> None:
    async def test(db: Database) -> None:
        await enacted(db, dispatch.TenantPolicy("vision"))
        await submitted(db)
        await dispatched(db)
        with pytest.raises(psycopg.errors.CheckViolation):
            await sql(db, f"UPDATE {change}")

    database(test)


def test_positions_have_no_gap_and_only_the_leader_gives_them(database: Run) -> None:
    async def test(db: Database) -> None:
        epoch = await dispatch.lead(db, outbox.ROLE, "one", 60) or 0
        await asyncio.gather(*(submitted(db, tenant=f"t{n % 3}") for n in range(20)))
        placed = [event for _ in range(5) for event in await outbox.place(db, epoch, 7)]
        assert [event.position for event in placed] == list(range(1, 21))
        assert await outbox.unpublished(db, 100) == placed
        await outbox.published(db, placed[4])
        await outbox.published(db, placed[2])  # a former leader, late
        assert await outbox.unpublished(db, 100) == placed[5:]
        assert await outbox.after(db, 18) == placed[18:]
        assert await outbox.after(db, 0, ["t1"]) == [event for event in placed if event.tenant == "t1"]
        assert await outbox.bounds(db) == (1, 20)
        await submitted(db)
        await dispatch.resign(db, outbox.ROLE, "one")
        with pytest.raises(dispatch.Deposed):
            await outbox.place(db, epoch)

    database(test)


def test_pruned_events_are_the_oldest_and_positions_go_on(database: Run) -> None:
    async def test(db: Database) -> None:
        epoch = await dispatch.lead(db, outbox.ROLE, "one", 60) or 0
        for day in (0, 2, 1, 3):
            await submitted(db, now=NOW + timedelta(days=day))
            await outbox.published(db, (await outbox.place(db, epoch))[0])
        await submitted(db)
        # The third is old enough, and stays: the second is before it in the stream.
        assert await housekeeping.prune(db, "events", NOW + timedelta(days=1, hours=1)) == 1
        assert await outbox.bounds(db) == (2, 4)
        assert await housekeeping.prune(db, "events", NOW + timedelta(days=9)) == 3
        assert await outbox.bounds(db) == (5, 4)
        assert [event.position for event in await outbox.place(db, epoch)] == [5]
        assert await housekeeping.prune(db, "events", NOW + timedelta(days=9)) == 0  # not published

    database(test)


def test_usage_is_by_project_and_pool(database: Run) -> None:
    async def test(db: Database) -> None:
        for day, project in ((0, "detector"), (0, "detector"), (1, None)):
            now = NOW + timedelta(days=day)
            await finished(db, await running(db, now=now, project=project), "succeeded", 60)
        await finished(db, await running(db, tenant="speech"), "succeeded", 60)
        since, until = NOW, NOW + timedelta(days=3)
        assert await spending.usage(db, "vision", since, until) == [
            spending.Usage(None, "t4", 1, 6000, 15.0),
            spending.Usage("detector", "t4", 2, 12000, 30.0),
        ]
        assert (await spending.totals(db, NOW))["vision"].spent_micro == 18000
        assert await spending.usage(db, "vision", until, until) == []

    database(test)


def test_an_alert_is_due_once_per_threshold_and_again_after_a_failure(database: Run) -> None:
    async def test(db: Database) -> None:
        crossed = [Crossed("tenant", "vision", date(2026, 11, 1), percent, 80, 100) for percent in (50, 80)]
        for _ in range(2):
            await spending.raise_alerts(db, crossed, NOW)
        later = NOW + timedelta(minutes=3)
        half, most = [await spending.take_alert(db, NOW, later) for _ in range(2)]
        assert half
        assert most
        assert (half.threshold, half.period.isoformat(), half.tries) == (50, "2026-11-01", 0)
        await spending.alert_tried(db, half, NOW, None)
        await spending.alert_tried(db, most, NOW, NOW + timedelta(minutes=1))
        assert await spending.take_alert(db, NOW, later) is None
        again = await spending.take_alert(db, NOW + timedelta(minutes=1), later)
        assert again
        assert (again.threshold, again.tries) == (80, 1)

    database(test)
