"""What the database counts in a lane is what is counted of the same jobs in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gpupool.queue.domain.lower_bound import Places
from gpupool.queue.domain.order import BEGIN, END, Rival
from gpupool.queue.store import order
from gpupool.queue.store.database import Database
from gpupool.queue.store.snapshot import take_snapshot
from tests.queue.store.samples import NOW, submitted

LATER = NOW + timedelta(hours=1)


@pytest.mark.parametrize(("patient_s", "beside"), [(None, 0), (None, 2), (300, 1), (59, 50)])
def test_a_line_is_summed_up_as_it_is_in_memory(database: Any, patient_s: int | None, beside: int) -> None:
    async def test(db: Database) -> None:
        for number, (timeout_s, budget) in enumerate(
            [(60, None), (3600, None), (600, 100_000), (600, 0), (300, None), (60, None), (7200, 10**9)]
        ):
            at = NOW + timedelta(seconds=number)
            await submitted(db, now=at, timeout_s=timeout_s, budget_limit_micro=budget)
        await submitted(db, tenant="speech")
        waits = [job for job in (await take_snapshot(db, LATER, 100)).queued if job.tenant == "vision"]
        async with db.connection() as connection:
            sql = (
                "UPDATE gpu_jobs SET spot_losses = 3, disruptions = 3, attempt = 3, retries = 0 WHERE id = %s"
            )
            await connection.execute(sql.encode(), [waits[5].job])
            sql = "UPDATE gpu_jobs SET not_before = %s WHERE id = %s"
            await connection.execute(sql.encode(), [LATER + timedelta(minutes=1), waits[0].job])
        waits = [job for job in (await take_snapshot(db, LATER, 100)).queued if job.tenant == "vision"]
        assert len(waits) == 6
        places = Places(((0, 1),), beside, 1_000_000, patient_s)
        for index, job in enumerate(waits):
            assert await order.line(db, job, places, LATER) == places.line(waits[:index])
        new = replace(waits[-1], job="ffffffff-ffff-7fff-bfff-ffffffffffff", enqueued=LATER.timestamp())
        assert await order.line(db, new, places, LATER) == places.line(waits)
        middle = (waits[3].enqueued, waits[3].job)
        lane = waits[0].tenant, waits[0].lane
        for sure, like, counts in ((BEGIN, END, (0, 6)), (middle, END, (3, 6)), (middle, middle, (3, 3))):
            assert await order.counts(db, [Rival(lane, sure, like)], LATER) == {lane: counts}

    database(test)
