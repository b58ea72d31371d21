"""Attempts that hold GPUs and do not use them: which are old enough to judge, and what was found.

This module must not know who measures the use of GPUs, or how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from gpupool.queue.store.database import Database, as_json


@dataclass(frozen=True, slots=True)
class Watched:
    """An attempt that has run for long enough."""

    job: str
    attempt: int
    version: int
    """Of the job: what is found is recorded only while it is the same."""
    tenant: str
    name: str
    nodes: int
    """On how many it runs, with a pod each."""


@dataclass(frozen=True, slots=True)
class IdleAttempt:
    """An idle attempt."""

    job: str
    version: int
    """Of the job, as it was watched."""
    used: float
    """The highest share of a GPU's time that was in use."""
    reason: str
    alert: str
    """The sentence for people who do not look at the job."""


async def watched(db: Database, before: datetime, action: str) -> list[Watched]:
    """Attempts that run since then or longer, except of jobs that may be idle, and those of which the same
    action is recorded."""
    rows = await db.fetch("idle_watched", before=before, action=action)
    return [Watched(**row) for row in rows]


async def record(
    db: Database, found: Sequence[IdleAttempt], action: str, now: datetime, alerts: bool
) -> list[tuple[str, int]]:
    """Make an event of each, and with `stop` ask the attempt to stop; it then fails and is not retried.

    The (job, attempt) pairs that were still as they were seen. `alerts`: an alert goes out too.
    """
    given = [asdict(one) for one in found]
    rows = await db.fetch("idle_found", found=as_json(given), action=action, now=now, alerts=alerts)
    return [(row["id"], row["attempt"]) for row in rows]
