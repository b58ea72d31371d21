"""A PostgreSQL for the tests of the queue: one server per worker, and a database of its own for each test."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gpupool.queue.store import rights
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import ROLE, Embedded
from gpupool.queue.store.migrate import migrate
from tests.queue.nats_server import NatsServer
from tests.required_programs import require

UNSAFE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
"""Nothing here has to survive a power cut."""
NUMBERS = count()

Run = Callable[[Callable[[Database], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Embedded]:
    """A server whose database `migrated` has the queue's tables."""
    folder = Path(tempfile.mkdtemp(prefix="gpupool-queue-"))
    server = Embedded(folder, UNSAFE)
    try:
        with psycopg.connect(server.start(), autocommit=True) as connection:
            connection.execute("CREATE DATABASE migrated")
        migrate(server.url("migrated"))
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database_url(postgres: Embedded) -> Iterator[str]:
    """A fresh database with the queue's tables."""
    name = f"test_{next(NUMBERS)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE migrated")
    yield postgres.url(name)
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def login(postgres: Embedded) -> Callable[[str, str], str]:
    """The URL of a database, for a login that has the role of a part of the queue alone."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        for role in rights.roles():
            connection.execute(f"CREATE ROLE login_{role} LOGIN IN ROLE {role}".encode())
    return lambda url, part: url.replace(f"//{ROLE}@", f"//login_{rights.role_of(part)}@")


@pytest.fixture
def database(database_url: str) -> Run:
    """Runs `async def test(db)` on a fresh database: `database(test)`."""

    def run(test: Callable[[Database], Coroutine[Any, Any, Any]]) -> Any:
        async def opened() -> Any:
            async with Database.open(database_url) as db:
                return await test(db)

        return asyncio.run(opened())

    return run


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A server with JetStream; a test may stop and start it."""
    server = NatsServer(require("nats-server")["nats-server"], tmp_path / "jetstream")
    server.folder.mkdir()
    server.start()
    yield server
    server.stop()
