"""The connections to PostgreSQL, and the statements in `queries`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row, tuple_row
from psycopg.types.string import TextLoader
from psycopg_pool import AsyncConnectionPool

from gpupool.queue.store.errors import Forbidden, Full, Unavailable, Unstorable

QUERIES = Path(__file__).parent / "queries"
SESSION = "-c timezone=UTC -c statement_timeout=30s -c idle_in_transaction_session_timeout=30s"
"""A process that stops in the middle of a transaction must not hold its locks."""
LIVENESS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
"""Options of libpq (PostgreSQL 18, 32.1.2; seconds, tcp_user_timeout in milliseconds): a server whose machine
has gone is noticed in half a minute, where Linux alone would wait for a quarter of an hour or two hours."""

Connection = AsyncConnection[DictRow]
Row = dict[str, Any]


class Database:
    """A pool of connections. Each function of the store takes one as its first argument."""

    def __init__(self, pool: AsyncConnectionPool[Connection]) -> None:
        self._pool = pool

    @classmethod
    @asynccontextmanager
    async def open(
        cls, url: str, connections: int = 8, timeout_s: float = 10, role: str | None = None
    ) -> AsyncIterator[Self]:
        """Connect; wait at most `timeout_s` for the database, now and whenever all connections are in use.
        `role`: of the database, which each connection takes on."""
        pool = AsyncConnectionPool[Connection](
            url,
            min_size=1,
            max_size=connections,
            timeout=timeout_s,
            configure=_configure,
            kwargs={
                **LIVENESS,
                "autocommit": True,
                "row_factory": dict_row,
                "options": f"{SESSION} -c role={role}" if role else SESSION,
                "application_name": "gpupool",
            },
            open=False,
        )
        try:
            with translated():
                await pool.open(wait=True, timeout=timeout_s)
            yield cls(pool)
        finally:
            await pool.close()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """A connection on which each statement is a transaction."""
        with translated():
            async with self._pool.connection() as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """A connection within a transaction, which an exception rolls back."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    @asynccontextmanager
    async def pipeline(self) -> AsyncIterator[Connection]:
        """A transaction whose statements go to the server without waiting for the ones before, but where rows
        are read; an error is raised at the next reading, or at the end."""
        async with self.connection() as connection, connection.pipeline(), connection.transaction():
            yield connection

    async def fetch(self, name: str, /, **values: Any) -> list[Row]:
        """Run queries/<name>.sql as a transaction of its own and return its rows."""
        async with self.connection() as connection:
            return await fetch(connection, name, **values)

    async def run(self, name: str, /, **values: Any) -> int:
        """The same, and return how many rows it concerned."""
        async with self.connection() as connection:
            return await run(connection, name, **values)

    @staticmethod
    def query(name: str) -> bytes:
        """The statement queries/<name>.sql."""
        return _query(name)


async def send(
    connection: Connection, name: str, values: Mapping[str, Any] | None = None, *, planned: bool = False
) -> AsyncCursor[DictRow]:
    """Run queries/<name>.sql; in a pipeline its rows come once they are read. `planned`: for these values,
    where PostgreSQL may otherwise have one plan for all after some runs."""
    return await connection.execute(_query(name), values, prepare=False if planned else None)


async def fetch(connection: Connection, name: str, /, **values: Any) -> list[Row]:
    """Run queries/<name>.sql and return its rows."""
    return await (await send(connection, name, values)).fetchall()


async def send_tuples(
    connection: Connection, name: str, values: Mapping[str, Any] | None = None
) -> AsyncCursor[tuple[Any, ...]]:
    """As `send`, for many rows of few columns."""
    return await connection.cursor(row_factory=tuple_row).execute(_query(name), values)


async def run(connection: Connection, name: str, /, **values: Any) -> int:
    """Run queries/<name>.sql and return how many rows it concerned."""
    cursor = await connection.execute(_query(name), values)
    return cursor.rowcount


def as_json(value: Any) -> str:
    """For a parameter that the statement casts to jsonb."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def storable(text: str) -> str:
    """Without the NUL characters that PostgreSQL refuses."""
    return text.replace("\0", "\ufffd")


@contextmanager
def translated() -> Iterator[None]:
    """The driver's errors as the store's."""
    try:
        yield
    except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
        raise Unstorable(error) from error
    except UnicodeEncodeError as error:
        raise Unstorable("the text is not valid Unicode") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise Forbidden(error) from error
    except psycopg.errors.DiskFull as error:
        raise Full(error) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(error) from error


@cache
def _query(name: str) -> bytes:
    return (QUERIES / f"{name}.sql").read_bytes()


async def _configure(connection: Connection) -> None:
    connection.adapters.register_loader("uuid", TextLoader)
