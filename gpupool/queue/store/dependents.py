"""What follows for other jobs and for the tenant's count when a job leaves the queue for good.

Called within the transaction that ends the job, after it. This module must not end the job itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from gpupool.queue.store.database import Connection, fetch, run


async def cancel_dependents(connection: Connection, job: str, now: datetime) -> list[str]:
    """Cancel the jobs that depend on one that did not succeed, and what depends on them.

    Returns their tenants, one entry for each job: they are queued no longer.
    """
    tenants: list[str] = []
    ids = [job]
    while ids:
        rows = await fetch(connection, "cancel_dependents", ids=ids, now=now)
        ids = [row["id"] for row in rows]
        tenants += [row["tenant"] for row in rows]
    return tenants


async def uncount(connection: Connection, tenants: Iterable[str]) -> None:
    """Jobs that are queued no longer, by their tenants: one entry for each. A transaction's last write."""
    counted = Counter(tenants)
    if counted:
        await run(connection, "uncount_queued", tenants=list(counted), jobs=list(counted.values()))
