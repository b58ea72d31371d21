"""Which database this is to the cluster that its jobs run on, and how it stands with that cluster.

This module must not know what a Lease looks like, or decide whose the cluster is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from gpupool.queue.store.database import Database, as_json, run
from gpupool.queue.store.dispatch import fence
from gpupool.queue.store.launches import ROLE
from gpupool.queue.trouble import Trouble

_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Identity:
    database: str
    """On the Jobs and pods of this database."""
    mark: str
    """The latest that it wrote into the cluster's Lease."""
    lease: str | None
    """uid of that Lease."""
    lease_since: datetime | None
    take_over: str | None
    """Whose cluster an administrator lets this database take over."""


async def read(db: Database) -> Identity:
    """As it is at present."""
    (row,) = await db.fetch("identity")
    return Identity(**{name: row[name] for name in Identity.__slots__})


async def marked(db: Database, epoch: int, database: str, mark: str, lease: str, now: datetime) -> Identity:
    """The cluster's Lease has this mark: the cluster is this database's. Raises Deposed."""
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        await run(connection, "identity_marked", database=database, mark=mark, lease=lease, now=now)
    return await read(db)


async def troubled(db: Database, epoch: int, trouble: Trouble | None) -> None:
    """What keeps the leader from working on the cluster; None: nothing does. Raises Deposed."""
    text = as_json(trouble.as_dict()) if trouble else None
    async with db.transaction() as connection:
        await fence(connection, ROLE, epoch)
        await run(connection, "identity_troubled", trouble=text)


async def trouble(db: Database) -> Trouble | None:
    """What the leader wrote last."""
    (row,) = await db.fetch("identity_trouble")
    return Trouble.from_dict(row["trouble"]) if row["trouble"] else None


async def forget_trouble(db: Database) -> None:
    """What an earlier process wrote is true no more, or not known to be."""
    await db.run("identity_troubled", trouble=None)


async def let_take_over(db: Database) -> Trouble | None:
    """Let this database take over the cluster that it keeps off at present; what was in its way, None where
    nothing is."""
    present = await trouble(db)
    if present is None or not present.keeps_off:
        return None
    await db.run("identity_take_over", whose=present.whose)
    return present


async def unknown(db: Database, keys: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
    """Those of the attempts (job, attempt) that this database never had."""
    possible = sorted(key for key in keys if _ID.fullmatch(key[0]) and key[1] < 2**31)
    ids, attempts = ([key[column] for key in possible] for column in range(2))
    rows = await db.fetch("attempts_known", ids=ids, attempts=attempts) if possible else ()
    return set(keys) - {(row["job"], row["attempt"]) for row in rows}
