"""A database server whose machine has gone, without a word: its connections end, and new ones are made."""

from __future__ import annotations

import asyncio
import ctypes
import socket
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg.conninfo
import pytest

from gpupool.queue.store import database as store
from gpupool.queue.store.database import Database
from gpupool.queue.store.errors import Unavailable
from gpupool.queue.store.wakeup import EVERY, listen

SO_ATTACH_FILTER = 26
"""linux/socket.h (asm-generic)."""


class Instruction(ctypes.Structure):
    """struct sock_filter of linux/filter.h."""

    _fields_ = (
        ("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)
    )  # fmt: skip


class Program(ctypes.Structure):
    """struct sock_fprog of linux/filter.h."""

    _fields_ = (("len", ctypes.c_uint16), ("filter", ctypes.POINTER(Instruction)))


def cut(connection: socket.socket) -> None:
    """From now on the kernel drops every packet that comes for it, and acknowledges none."""
    drop = Instruction(0x06, 0, 0, 0)  # BPF_RET | BPF_K: keep 0 bytes
    connection.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, bytes(Program(1, ctypes.pointer(drop))))


@asynccontextmanager
async def network(url: str) -> AsyncIterator[tuple[str, list[socket.socket]]]:
    """The database over TCP, and the server's ends of all connections."""
    given = psycopg.conninfo.conninfo_to_dict(url)
    behind = str(Path(str(given["host"])) / f".s.PGSQL.{given.get('port', 5432)}")
    ends: list[socket.socket] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(socket.socket(fileno=socket.dup(writer.get_extra_info("socket").fileno())))
        from_server, to_server = await asyncio.open_unix_connection(behind)
        await asyncio.gather(copy(reader, to_server), copy(from_server, writer), return_exceptions=True)

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    yield psycopg.conninfo.make_conninfo(url, host="127.0.0.1", port=port), ends
    server.close()
    for end in ends:
        end.close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    quick: dict[str, Any] = {
        "keepalives_idle": 1, "keepalives_interval": 1, "keepalives_count": 1, "tcp_user_timeout": 1500
    }  # fmt: skip
    for name, value in quick.items():
        assert store.LIVENESS[name] > value
        monkeypatch.setitem(store.LIVENESS, name, value)


def test_a_statement_ends_whose_server_is_gone(database_url: str) -> None:
    async def test() -> None:
        async with network(database_url) as (url, ends), Database.open(url, connections=1) as db:
            assert await db.fetch("depth") == []
            for end in ends:
                cut(end)
            with pytest.raises(Unavailable):
                await asyncio.wait_for(db.fetch("depth"), 15)
            assert await db.fetch("depth") == []

    asyncio.run(test())


def test_who_listens_hears_again_after_its_server_was_gone(database_url: str) -> None:
    async def test() -> None:
        woken: list[Collection[str]] = []
        async with network(database_url) as (url, ends):
            listening = asyncio.create_task(listen(url, woken.append, "me"))
            while woken != [EVERY]:
                await asyncio.sleep(0.02)
            for end in ends:
                cut(end)
            async with asyncio.timeout(60):
                while len(ends) < 2 or len(woken) < 3:
                    await asyncio.sleep(0.02)
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    asyncio.run(test())
