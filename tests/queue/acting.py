"""The database as a part of the queue sees it, over the connections of its owner."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gpupool.queue.store.database import Connection, Database
from gpupool.queue.store.rights import role_of


class As(Database):
    """Every statement is run by the role of a part."""

    def __init__(self, db: Database, part: str) -> None:
        super().__init__(db._pool)
        self.role = role_of(part)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        async with super().connection() as connection:
            try:
                await connection.execute(f"SET ROLE {self.role}".encode())
                yield connection
            finally:
                try:
                    await connection.execute(b"RESET ROLE")
                except BaseException:  # the task is cancelled, or the server has gone
                    await connection.close()
                    raise
