"""Lists by cursor over present and archived jobs, what time does, and keys."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from gpupool.queue.domain.attempt_end import cost_of
from gpupool.queue.records import Job, JobState, Outcome, new_id
from gpupool.queue.store import attempts, housekeeping, keys, logs, outbox
from gpupool.queue.store import jobs as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import StoreError
from gpupool.queue.store.jobs import JobFilter, Key
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.conftest import Run
from tests.queue.store.samples import NOW, cancelled, dispatched, finished, new, read, running, sql, submitted

VISION = JobFilter(tenants=frozenset({"vision"}))


async def all_pages(db: Database, filter: JobFilter, limit: int) -> list[Job]:
    listed: list[Job] = []
    cursor: str | None = None
    while True:
        page = await store.jobs(db, filter, cursor, limit)
        assert len(page.jobs) <= limit
        listed += page.jobs
        cursor = page.next
        if cursor is None:
            return listed


def test_a_list_goes_over_present_and_archived_jobs(database: Run) -> None:
    async def test(db: Database) -> None:
        ids = [await submitted(db, now=NOW + timedelta(seconds=n // 3)) for n in range(20)]
        await submitted(db, tenant="speech")
        for id in random.sample(ids, 8):
            await cancelled(db, id)
        assert await housekeeping.archive(db, NOW + timedelta(days=1)) == 8
        assert await housekeeping.archive(db, NOW + timedelta(days=1)) == 0
        for limit in (1, 7, 20, 50):
            listed = await all_pages(db, VISION, limit)
            assert [job.id for job in listed] == [
                job.id for job in sorted(listed, key=lambda job: (job.enqueued_at, job.id), reverse=True)
            ]
            assert sorted(job.id for job in listed) == sorted(ids)
        assert len(await all_pages(db, JobFilter(), 6)) == 21
        both = JobFilter(tenants=frozenset({"vision", "speech", "unknown"}))
        assert len(await all_pages(db, both, 6)) == 21
        final = JobFilter(tenants=frozenset({"vision"}), states=frozenset({JobState.CANCELLED}))
        assert len(await all_pages(db, final, 3)) == 8
        assert (await store.jobs(db, JobFilter(tenants=frozenset()))).jobs == ()

    database(test)


def test_archived_jobs_are_read_by_id_and_keep_their_state(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await finished(db, await running(db), "succeeded")
        assert job is not None
        await housekeeping.archive(db, NOW + timedelta(days=1))
        assert await store.job(db, job.id) == job
        assert await store.cancel(db, job.id, "ada", NOW) == job
        with pytest.raises(store.Conflict, match="is succeeded"):
            await store.reprioritise(db, job.id, "high", 2)
        assert not (await read(db, await submitted(db, depends_on=job.id))).blocked

    database(test)


def test_a_cursor_stays_in_its_place_while_jobs_come_and_are_archived(database: Run) -> None:
    async def test(db: Database) -> None:
        ids = [await submitted(db, now=NOW + timedelta(seconds=n)) for n in range(9)]
        page = await store.jobs(db, VISION, None, 4)
        await submitted(db, now=NOW + timedelta(seconds=100))
        await cancelled(db, ids[2])
        await housekeeping.archive(db, NOW + timedelta(days=1))
        rest = await store.jobs(db, VISION, page.next, 10)
        assert [job.id for job in (*page.jobs, *rest.jobs)] == ids[::-1]

    database(test)


@pytest.mark.parametrize("cursor", ["x", "", "AAAA", "MjAyNg", "ü", "MjAyNi0xMS0xOCBh", "a" * 9000])
def test_a_cursor_that_no_page_returned_is_refused(database: Run, cursor: str) -> None:
    async def test(db: Database) -> None:
        if cursor:
            with pytest.raises(StoreError, match="take the one that the last page returned"):
                await store.jobs(db, VISION, cursor)

    database(test)


def test_filters_select(database: Run) -> None:
    async def test(db: Database) -> None:
        group = new_id()
        ids = {
            "project": await submitted(db, project="other"),
            "user": await submitted(db, user="bob"),
            "group": await submitted(db, group_id=group, group_index=0),
            "pool": (await running(db)).id,
        }
        chosen = {"project": "other", "user": "bob", "group": group, "pool": "t4"}
        for field, id in ids.items():
            for tenants in (None, frozenset({"vision"})):
                page = await store.jobs(db, JobFilter(tenants=tenants, **{field: chosen[field]}))
                assert [job.id for job in page.jobs] == [id]
        assert (await store.jobs(db, JobFilter(group="no-uuid"))).jobs == ()

    database(test)


def test_pages_of_large_jobs_are_short_and_leave_none_out(
    database: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "PAGE_BYTES", 3000)

    async def test(db: Database) -> None:
        large = {"request_json": "x" * 1000}
        ids = [await submitted(db, now=NOW + timedelta(seconds=n), request=large) for n in range(7)]
        for tenants in (None, frozenset({"vision"})):
            page = await store.jobs(db, JobFilter(tenants=tenants), None, 5)
            assert [job.id for job in page.jobs] == ids[:3:-1]
            assert [job.id for job in await all_pages(db, JobFilter(tenants=tenants), 5)] == ids[::-1]
        monkeypatch.setattr(store, "PAGE_BYTES", 1)
        assert len(await all_pages(db, VISION, 5)) == 7, "one is always shown"

    database(test)


@pytest.mark.parametrize("by", [None, "user", "project"])
def test_a_page_reads_no_more_than_a_page_of_each_table(database: Run, by: str | None) -> None:
    """By user and project, of the history: there are few present jobs."""

    async def test(db: Database) -> None:
        await store.submit(db, [new() for _ in range(300)], now=NOW)
        await submitted(db, tenant="speech")
        await submitted(db, user="bob", project="bob")
        await sql(
            db, "UPDATE gpu_jobs SET state = 'cancelled', finished_at = now() WHERE seq = 1 RETURNING 1"
        )
        await housekeeping.archive(db, datetime.now(UTC) + timedelta(days=1))
        async with db.connection() as connection:
            await connection.execute(b"ANALYZE gpu_jobs, gpu_job_history")
            await connection.execute(b"SET enable_seqscan = off")
            values = dict.fromkeys(("states", "project", "pool", "user", "group", "name"))
            values |= {"before": store.NEWEST[0], "before_id": store.NEWEST[1], "limit": 5, "bytes": 9000}
            values |= {by: "bob"} if by else {}
            for name, index in (("jobs_of_all", "list"), ("jobs_of_tenants", "list_of_tenant")):
                statement = b"EXPLAIN " + db.query(name).split(b"\n", 1)[1]
                given = {**values, "tenants": ["vision"]}
                rows = await (await connection.execute(statement, given, prepare=False)).fetchall()
                plan = "\n".join(row["QUERY PLAN"] for row in rows)
                assert f"using gpu_jobs_{index} on" in plan, plan
                assert f"using gpu_job_history_{index}{f'_by_{by}' if by else ''} on" in plan, plan

    database(test)


def test_attempts_without_an_executor_are_disrupted_when_their_lease_is_over(database: Run) -> None:
    async def test(db: Database) -> None:
        lost, waiting = await running(db), await submitted(db)
        await dispatched(db)
        seen = await housekeeping.leases(db)
        assert {(lease.job, lease.taken) for lease in seen} == {(lost.id, True), (waiting, False)}
        await attempts.heartbeat(db, "executor", {(lost.id, 1): 7.5}, 30, NOW + timedelta(1))
        ended = await housekeeping.expire_leases(db, seen, (5, 60), NOW + timedelta(seconds=31))
        assert [job.id for job in ended] == [waiting], "the other one has been renewed"
        ended += await housekeeping.expire_leases(db, await housekeeping.leases(db), (5, 60), NOW)
        (attempt,) = await attempts.of_job(db, lost.id)
        assert attempt.cost_micro == cost_of(lost.rate_micro or 0, timedelta(seconds=7.5), 10**9)
        assert attempt.finished_at == NOW + timedelta(seconds=7.5), "the outage after it is no run time"
        assert {job.id for job in ended} == {lost.id, waiting}
        assert {(job.state, job.disruptions, job.failures) for job in ended} == {(JobState.QUEUED, 1, 0)}
        assert (await read(db, lost.id)).reason == "its executor has not answered"
        assert {head.job for head in (await take_snapshot(db, NOW, 9)).queued} == {lost.id, waiting}

    database(test)


def test_queued_jobs_expire_at_their_deadline(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db, deadline_at=NOW + timedelta(seconds=5))
        dependent, other = await submitted(db, depends_on=id), await submitted(db)
        assert await housekeeping.expire_queued(db, NOW + timedelta(seconds=4)) == []
        (job,) = await housekeeping.expire_queued(db, NOW + timedelta(seconds=5))
        assert (job.id, job.state, job.reason) == (id, JobState.EXPIRED, "deadline")
        assert (await read(db, dependent)).state is JobState.CANCELLED
        assert (await read(db, other)).state is JobState.QUEUED
        assert (await outbox.of_job(db, id))[-1].type == "expired"
        assert (await sql(db, "SELECT queued FROM tenant_gpu_policies"))[0]["queued"] == 1

    database(test)


def test_what_no_executor_takes_is_dispatched_again_after_longer_and_longer_pauses(database: Run) -> None:
    async def test(db: Database) -> None:
        id, now, pauses = await submitted(db), NOW, []
        for _ in range(4):
            assert await dispatched(db, now=now) == [id]
            now += timedelta(seconds=31)
            (job,) = await housekeeping.expire_leases(db, await housekeeping.leases(db), (5, 15), now)
            pauses.append((job.not_before - now).total_seconds() if job.not_before else 0)
            now = job.not_before or now
        assert pauses == [0, 5, 10, 15]

    database(test)


def test_a_job_that_has_run_does_not_expire_when_it_is_queued_again(database: Run) -> None:
    async def test(db: Database) -> None:
        ran = await running(db, deadline_at=NOW + timedelta(seconds=5))
        lost = await submitted(db, deadline_at=NOW + timedelta(seconds=5))
        await dispatched(db)
        await housekeeping.expire_leases(db, await housekeeping.leases(db), (5, 60), NOW)
        assert [job.id for job in await housekeeping.expire_queued(db, NOW + timedelta(seconds=31))] == [lost]
        assert (await read(db, ran.id)).state is JobState.QUEUED

    database(test)


def test_lanes_stay_while_they_have_jobs(database: Run) -> None:
    async def test(db: Database) -> None:
        id = await submitted(db)
        await submitted(db, tenant="speech")
        await cancelled(db, id)
        assert await housekeeping.prune_lanes(db) == 1
        assert [head.tenant for head in (await take_snapshot(db, NOW, 1)).queued] == ["speech"]

    database(test)


def test_a_job_that_may_start_again_has_its_lane_again(database: Run) -> None:
    async def test(db: Database) -> None:
        first, again = await running(db), await running(db, tenant="speech")
        second = await submitted(db, depends_on=first.id)
        assert await housekeeping.prune_lanes(db) == 2
        await finished(db, first, "succeeded")
        assert [head.job for head in (await take_snapshot(db, NOW, 9)).queued] == [second]
        await finished(db, again, "disrupted")
        assert {head.job for head in (await take_snapshot(db, NOW, 9)).queued} == {second, again.id}

    database(test)


def test_old_keys_of_requests_and_old_output_are_deleted(database: Run) -> None:
    async def test(db: Database) -> None:
        await store.submit(db, [new()], Key("key", b""), now=NOW)
        assert await housekeeping.prune(db, "idempotency", NOW) == 0
        assert await housekeeping.prune(db, "idempotency", NOW + timedelta(seconds=1)) == 1
        assert not (await store.submit(db, [new()], Key("key", b"other"), now=NOW)).replayed
        assert await housekeeping.prune(db, "results", NOW) == 0

    database(test)


def test_logs_are_kept_from_the_end_of_their_job(database: Run) -> None:
    async def test(db: Database) -> None:
        job = await running(db)
        assert await logs.append(db, job.id, 1, ["first"], NOW)
        late = NOW + timedelta(days=9)
        assert await housekeeping.prune(db, "logs", late) == 0
        await attempts.finish(db, job.id, 1, Outcome("succeeded"), late, (1, 1))
        assert await housekeeping.prune(db, "logs", late) == 0
        assert await housekeeping.prune(db, "logs", late + timedelta(seconds=1)) == 1

    database(test)


def test_a_list_of_present_states_does_not_read_the_history(database: Run) -> None:
    async def test(db: Database) -> None:
        await submitted(db)
        async with db.connection() as connection:  # a history that can't be read
            await connection.execute("DROP TABLE gpu_job_history CASCADE")
            await connection.execute(
                "CREATE VIEW gpu_job_history AS SELECT * FROM gpu_jobs WHERE 1 / (random() * 0)::int = 1"
            )
        for tenants in (None, frozenset({"vision"})):
            held = JobFilter(tenants, frozenset({JobState.RUNNING, JobState.QUEUED}))
            assert len((await store.jobs(db, held)).jobs) == 1

    database(test)


def test_a_key_is_found_by_its_text_and_only_a_hash_is_stored(database: Run) -> None:
    async def test(db: Database) -> None:
        key, text = await keys.create(db, "ci", ["vision"], ["jobs:write", "jobs:read"], None)
        assert text.startswith(f"gpk_{key.id}_")
        found = await keys.find(db, text)
        assert found == key
        assert (await keys.listed(db))[0].last_used_at is not None
        stored = str(await sql(db, "SELECT * FROM gpu_keys"))
        assert text not in stored
        assert text.split("_", 2)[2] not in stored
        other, _ = await keys.create(db, "other", ["*"], ["admin"], None)
        wrong = (text[:-1] + ("A" if text[-1] != "A" else "B"), text.replace(key.id, other.id))
        for presented in (*wrong, "", "gpk_", f"gpk_{'a' * 12}_{'b' * 43}", text + "\n", "ü"):
            assert await keys.find(db, presented) is None

    database(test)


def test_expired_and_revoked_keys_are_not_found(database: Run) -> None:
    async def test(db: Database) -> None:
        until = datetime.now(UTC) + timedelta(hours=1)
        key, text = await keys.create(db, "ci", ["vision"], ["jobs:read"], until)
        assert await keys.find(db, text, until - timedelta(seconds=1)) is not None
        assert await keys.find(db, text, until) is None
        assert await keys.revoke(db, key.id)
        assert not await keys.revoke(db, key.id)
        assert await keys.find(db, text) is None
        assert (await keys.listed(db))[0].revoked_at is not None

    database(test)
