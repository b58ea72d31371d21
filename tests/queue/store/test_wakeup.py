"""Which roles of which process a ring wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from gpupool.queue.store.wakeup import DECIDED, EVERY, SUBMITTED, Bell, listen


def test_a_ring_wakes_its_roles_here_at_once_and_elsewhere_together(database, database_url) -> None:
    async def test(db) -> None:
        here: list[Collection[str]] = []
        there: list[Collection[str]] = []
        own: list[Collection[str]] = []
        bell = Bell(db, here.append)
        listening = [
            asyncio.create_task(listen(database_url, there.append, "another")),
            asyncio.create_task(listen(database_url, own.append, bell.name)),
        ]
        try:
            while not (there and own):
                await asyncio.sleep(0.01)
            assert (there, own) == ([EVERY], [EVERY]), "a ring may have been missed before"
            bell.ring(SUBMITTED)
            bell.ring(SUBMITTED)
            bell.ring(DECIDED)
            assert here == [SUBMITTED, SUBMITTED, DECIDED]
            while set().union(*there[1:]) != {*SUBMITTED, *DECIDED}:
                await asyncio.sleep(0.01)
            assert len(there) <= 3
            assert own == [EVERY], "its own roles are awake already"
        finally:
            for task in listening:
                task.cancel()
            await asyncio.gather(*listening, return_exceptions=True)

    database(test)
