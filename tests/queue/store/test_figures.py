"""Figures of the queue from a real database: cost now adds up to the ledger, and counters never fall."""

from __future__ import annotations

from datetime import datetime, timedelta

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gpupool.queue.api.figures import figures
from gpupool.queue.domain.supply import QueueRules, Supply, TenantRule
from gpupool.queue.measures import Measures
from gpupool.queue.store import attempts, dispatch, jobs, outbox, spending
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.conftest import Run
from tests.queue.store.samples import NOW, dispatched, finished, read, running, sql, submitted

SUPPLY = Supply({}, {"vision": TenantRule("vision", 1.0, None, {}, {}, {})}, QueueRules())
HOUR_S = 3600


async def seen(db: Database, now: datetime) -> dict[tuple[str, ...], float]:
    """(metric, values of its labels, sorted by label) -> value."""
    snapshot = await take_snapshot(db, now, 0)
    registry = figures(snapshot, SUPPLY, await jobs.waiting(db, now), await spending.settled(db))
    return {
        (
            sample.name,
            *(value for name, value in sorted(sample.labels.items()) if name != "scope"),
        ): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
    }


def test_cost_now_adds_up_to_what_is_settled(database: Run) -> None:
    """Sampled every ten seconds of a run, as Prometheus would: within one percent of the ledger."""

    async def test(db: Database) -> None:
        job = await running(db)
        total = 0.0
        for second in range(0, HOUR_S // 2, 10):
            values = await seen(db, NOW + timedelta(seconds=second))
            cost = sum(value for key, value in values.items() if key[0] == "gpupool_queue_cost_usd_per_hour")
            total += cost * 10 / HOUR_S
        await finished(db, job, "succeeded", after_s=HOUR_S / 2)
        (row,) = await sql(db, "SELECT sum(micro)::bigint AS micro FROM gpu_ledger WHERE kind = 'settle'")
        assert abs(total - row["micro"] / 1e6) <= 0.01 * row["micro"] / 1e6
        after = await seen(db, NOW + timedelta(seconds=HOUR_S))
        assert after["gpupool_queue_settled_usd_total", "detector", "vision"] == row["micro"] / 1e6
        assert after["gpupool_queue_settled_usd_total", "", "vision"] == 0

    database(test)


def test_a_job_costs_nothing_before_its_container_runs(database: Run) -> None:
    async def test(db: Database) -> None:
        await submitted(db)
        await dispatched(db)
        values = await seen(db, NOW)
        assert [v for k, v in values.items() if k[0] == "gpupool_queue_cost_usd_per_hour"] == [0]
        assert [v for k, v in values.items() if k[0] == "gpupool_queue_gpus_held"] == [0.25]

    database(test)


def test_settled_money_goes_on_where_spent_begins_again(database: Run) -> None:
    """Another period: the budget is new, and what was ever settled is not."""

    async def test(db: Database) -> None:
        await finished(db, await running(db), "succeeded", after_s=HOUR_S)
        before = await seen(db, NOW + timedelta(seconds=HOUR_S))
        later = NOW + timedelta(days=40)
        await finished(db, await running(db, now=later), "failed", after_s=HOUR_S)
        after = await seen(db, later + timedelta(seconds=HOUR_S))
        key = ("gpupool_queue_settled_usd_total", "detector", "vision")
        assert after[key] == 2 * before[key] > 0

    database(test)


def test_ages_and_reasons_of_what_waits(database: Run) -> None:
    async def test(db: Database) -> None:
        await submitted(db)
        await submitted(db, now=NOW + timedelta(seconds=50))
        values = await seen(db, NOW + timedelta(seconds=90))
        assert values["gpupool_queue_jobs_queued", "medium", "vision"] == 2
        assert values["gpupool_queue_oldest_wait_seconds", "medium", "vision"] == 90
        assert values["gpupool_queue_oldest_wait_seconds", "critical", "vision"] == 0
        assert values["gpupool_queue_jobs_waiting", "t4", "queued"] == 2

    database(test)


def test_a_wait_begins_where_an_attempt_or_a_predecessor_ended(database: Run) -> None:
    """However long ago the job was submitted."""

    async def test(db: Database) -> None:
        job = await running(db)
        after = await submitted(db, depends_on=job.id)
        at = NOW + timedelta(seconds=HOUR_S)
        values = await seen(db, at)
        assert values["gpupool_queue_jobs_waiting", "t4", "dependency"] == 1
        assert values["gpupool_queue_oldest_wait_seconds", "medium", "vision"] == 0, "it is not its turn"
        await finished(db, job, "disrupted", after_s=HOUR_S)
        values = await seen(db, at + timedelta(seconds=90))
        assert values["gpupool_queue_pool_oldest_wait_seconds", "t4", "queued"] == 90
        assert await dispatched(db, now=at, only=job.id) == [job.id]
        assert await attempts.take(db, "executor", 100, 30, at)
        again = await read(db, job.id)
        assert await attempts.record_start(db, job.id, again.attempt, at)
        await finished(db, await read(db, job.id), "succeeded", after_s=60)
        values = await seen(db, at + timedelta(seconds=90))
        assert values["gpupool_queue_oldest_wait_seconds", "medium", "vision"] == 30
        assert (await read(db, after)).attempt == 0

    database(test)


def test_each_end_is_counted_once_by_whoever_gives_events_their_place(database: Run) -> None:
    async def test(db: Database) -> None:
        measures = Measures(CollectorRegistry())
        await finished(db, await running(db), "succeeded")
        await finished(db, await running(db), "failed")
        epoch = await dispatch.lead(db, outbox.ROLE, "one", 60)
        assert epoch is not None
        for _ in range(2):
            measures.placed(await outbox.place(db, epoch))
        text = generate_latest(measures.registry).decode()
        assert 'gpupool_queue_attempts_total{outcome="succeeded",pool="t4"} 1.0' in text
        assert 'gpupool_queue_attempts_total{outcome="failed",pool="t4"} 1.0' in text
        assert "_created" not in text

    database(test)
