"""What an explanation counts in lanes that are longer than a snapshot's.

This module must not decide who goes before whom: `gpupool.queue.domain.order` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import UUID

from gpupool.queue.domain.lower_bound import Line, Places
from gpupool.queue.domain.order import Point, Rival
from gpupool.queue.domain.state import Lane, Queued
from gpupool.queue.store.database import Database

FIRST = datetime(1, 1, 2, tzinfo=UTC)
LAST = datetime(9999, 12, 30, tzinfo=UTC)
DEPTH = 10_000
"""The work of so many jobs is summed up: of what is behind these the sum says nothing, and stays true."""
NO_ID = str(UUID(int=0))


async def line(db: Database, job: Queued, places: Places, now: datetime) -> Line:
    """The jobs before `job` in its lane; it may be one that is not stored."""
    (row,) = await db.fetch(
        "line",
        tenant=job.tenant,
        lane=job.lane,
        enqueued_at=_time(job.enqueued),
        id=job.job,
        patient_s=places.patient_s,
        rate=places.rate_micro,
        beside=places.beside,
        depth=DEPTH,
        now=now,
    )
    return Line(**row)


async def counts(db: Database, rivals: Sequence[Rival], now: datetime) -> dict[Lane, tuple[int, int]]:
    """How many jobs of each lane go before."""
    if not rivals:
        return {}
    rows = await db.fetch(
        "rivals",
        tenants=[rival.lane[0] for rival in rivals],
        lanes=[rival.lane[1] for rival in rivals],
        sure_at=[_time(rival.sure[0]) for rival in rivals],
        sure_id=[_id(rival.sure) for rival in rivals],
        like_at=[_time(rival.like[0]) for rival in rivals],
        like_id=[_id(rival.like) for rival in rivals],
        now=now,
    )
    return {(row["tenant"], row["lane"]): (row["sure"], row["alike"]) for row in rows}


def _time(at: float) -> datetime:
    """For what lies before or after all jobs, a day that PostgreSQL and Python both have."""
    if not FIRST.timestamp() < at < LAST.timestamp():
        return FIRST if at < 0 else LAST
    return datetime.fromtimestamp(at, UTC)


def _id(point: Point) -> str:
    return point[1] or NO_ID
