"""The PostgreSQL of the wheel: one owner, and nothing lost when it is killed."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg
import pytest
from alembic.util import CommandError
from structlog.testing import capture_logs

from gpupool.queue.store import jobs as store
from gpupool.queue.store import migrate as migration
from gpupool.queue.store.database import Database
from gpupool.queue.store.embedded import Embedded
from gpupool.queue.store.errors import StoreError, Unavailable
from gpupool.queue.store.migrate import migrate
from tests.queue.store.samples import new

OWNER = """
import sys, time
from pathlib import Path
from gpupool.queue.store.embedded import Embedded
print(Embedded(Path(sys.argv[1])).start(), flush=True)
time.sleep(600)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="gpupool-embedded-"))
    yield path
    killed(Embedded(path).server_pid())
    shutil.rmtree(path, ignore_errors=True)


def killed(server: int | None) -> None:
    """The server without its children, which end by themselves."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(server) if server else None
        if process:
            process.kill()
            process.wait(10)


def test_the_folder_has_one_owner_and_survives_it(folder: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        url = owner.stdout.readline().strip()
        with pytest.raises(StoreError, match=f"process {owner.pid} runs the database"):
            Embedded(folder).start()
        migrate(url)
        migrate(url)
        with psycopg.connect(url) as connection:
            connection.execute("INSERT INTO gpu_leader VALUES ('relay', 'one', 7, now())")
            version = connection.execute("SHOW server_version").fetchone()
            assert version is not None
            assert version[0].startswith("18")
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
        server = Embedded(folder).server_pid()
        assert server is not None
    finally:
        owner.kill()
        owner.wait()
    # The server still runs: the next owner uses it.
    following = Embedded(folder)
    assert following.start() == url
    assert following.server_pid() == server
    # Killed as well, it leaves postmaster.pid; the data is whole.
    killed(server)
    following.stop()
    again = Embedded(folder)
    with psycopg.connect(again.start()) as connection:
        assert connection.execute("SELECT epoch FROM gpu_leader").fetchone() == (7,)
    again.stop()
    assert again.server_pid() is None
    assert not (folder / "data" / "postmaster.pid").exists()


def test_after_a_restart_of_the_server_work_goes_on(folder: Path) -> None:
    async def test(url: str) -> None:
        async with Database.open(url, connections=3, timeout_s=1) as db:
            first = (await asyncio.gather(*(store.submit(db, [new()]) for _ in range(6))))[0]
            server.stop()
            for _ in range(5):
                with pytest.raises(Unavailable, match="try again"):
                    await store.job(db, first.ids[0])
            server.start()
            for _ in range(20):
                with suppress(Unavailable):
                    assert await store.job(db, first.ids[0]) is not None
                    break
                await asyncio.sleep(0.2)
            assert (await store.submit(db, [new()])).ids

    server = Embedded(folder)
    migrate(server.start())
    asyncio.run(test(server.url()))
    server.stop()


def test_only_the_servers_account_opens_its_folder(postgres: Embedded) -> None:
    assert (postgres.data.stat().st_mode & 0o777) == 0o700
    server = psutil.Process(postgres.server_pid())
    assert server.uids().real == os.geteuid()
    assert not server.net_connections("inet")
    assert not any("password" in argument for argument in server.cmdline())


def test_another_program_with_the_servers_process_id_is_not_the_server(tmp_path: Path) -> None:
    server = Embedded(tmp_path)
    server.data.mkdir()
    (server.data / "postmaster.pid").write_text(f"{2**22 - 1}\n/data\n1\n")
    assert server.server_pid() is None
    assert (server.data / "postmaster.pid").exists()
    for text in (f"{os.getpid()}\n/data\n1\n", "", "x"):
        (server.data / "postmaster.pid").write_text(text)
        assert server.server_pid() is None
        assert not (server.data / "postmaster.pid").exists()


def test_a_long_path_has_its_socket_elsewhere(tmp_path: Path) -> None:
    assert "gpupool-" in Embedded(tmp_path / ("x" * 100)).url()
    assert Embedded(Path("/x")).url() == "postgresql://gpupool@/postgres?host=%2Fx%2Fdata"


def test_what_is_no_database_is_named() -> None:
    async def reached(url: str) -> None:
        async with Database.open(url, timeout_s=0.5):
            pass

    with pytest.raises(Unavailable, match=r"does not answer: .+ try again"):
        asyncio.run(reached("postgresql://gpupool@127.0.0.1:1/none"))
    with pytest.raises(Unavailable, match="try again"):
        migrate("postgresql://gpupool@127.0.0.1:1/none")
    for url in ("", "mysql://localhost/x", "localhost"):
        with pytest.raises(StoreError, match="set GPUPOOL_DATABASE_URL"):
            migrate(url)


def test_a_database_of_a_newer_release_is_taken_as_it_is(postgres: Embedded) -> None:
    """As after `helm rollback`; what is not a later revision is still refused."""
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE newer TEMPLATE migrated")
    with psycopg.connect(postgres.url("newer"), autocommit=True) as connection:
        connection.execute("UPDATE gpu_schema_version SET version_num = '0099'")
        with capture_logs() as said:
            migrate(postgres.url("newer"))
        assert [one["revision"] for one in said if one["event"] == "database.newer"] == ["0099"]
        connection.execute("UPDATE gpu_schema_version SET version_num = 'another'")
        with pytest.raises(CommandError):
            migrate(postgres.url("newer"))


@pytest.mark.parametrize("where", ["checkout", "elsewhere"])
def test_alembic_itself_migrates(postgres: Embedded, tmp_path: Path, where: str) -> None:
    name = f"alembic_{where}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    root = Path(__file__).parents[3]
    environment = {**os.environ, migration.VARIABLE: postgres.url(name), "PYTHONPATH": str(root)}
    if where == "elsewhere":
        environment["ALEMBIC_CONFIG"] = str(migration.CONFIG)
    subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"],
        cwd=root if where == "checkout" else tmp_path,
        env=environment,
        check=True,
    )

    async def test() -> None:
        async with Database.open(postgres.url(name)) as db:
            await store.submit(db, [new()])

    asyncio.run(test())
