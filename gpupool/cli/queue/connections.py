"""Addresses of PostgreSQL and NATS from options and the environment, for every command that takes them.

Every account of a machine can read a process's arguments, but only the process's own account its environment.
Addresses with a secret therefore come from the environment.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from gpupool.environment import project
from gpupool.findings import UsageError
from gpupool.findings.address_secrets import DATABASE, NATS, secret_in

if TYPE_CHECKING:
    from gpupool.queue.store.database import Database

T = TypeVar("T")


def database_url(option: str | None) -> str | None:
    """The value of --database, or of the environment. Raises UsageError where the option holds a secret."""
    from gpupool.queue.store.conninfo import Unreadable, secret_in_conninfo

    address = option if option is not None else os.environ.get(DATABASE)
    if not address:
        return None
    source = DATABASE if option is None else "--database"
    try:
        secret = secret_in_conninfo(address)
    except Unreadable as error:
        # Not by the library, which repeats what it can't read.
        raise UsageError(f"{source}: {error}; write postgresql://USER@HOST/DATABASE") from None
    if option is not None:
        _refuse("--database", secret, DATABASE)
    return address


def nats_url(option: str | None) -> str | None:
    """The value of --nats, or of the environment. Raises UsageError where the option holds a secret."""
    if option is None:
        return os.environ.get(NATS) or None
    _refuse("--nats", secret_in(option), NATS)
    return option


def with_database(url: str | None, work: Callable[[Database], Awaitable[T]]) -> T:
    """What `work` gives on the queue's database: that of `url` or the environment, or the embedded one of the
    service that runs in this project. Raises UsageError where none does."""
    from gpupool.queue.store.database import Database

    address = database_url(url) or _embedded()

    async def run() -> T:
        async with Database.open(address, connections=1) as db:
            return await work(db)

    return asyncio.run(run())


def _embedded() -> str:
    from gpupool.queue.store.embedded import Embedded

    embedded = Embedded(queue_folder())
    if not embedded.server_pid():
        raise UsageError("no queue runs in this project; start `gpupool serve ENV`, or give --database URL")
    return embedded.url()


def _refuse(option: str, secret: str | None, variable: str) -> None:
    if secret:
        raise UsageError(
            f"{option} contains a secret ({secret}), which every account of this machine can see in the "
            f"process list; set {variable} to the whole address instead"
        )


def monitoring_folder() -> Path:
    """Where the Prometheus beside the local control plane keeps its data."""
    given = os.environ.get("GPUPOOL_MONITORING_DIR")
    return Path(given).expanduser().absolute() if given else project.root() / project.OWN / "monitoring"


def queue_folder() -> Path:
    """Where an embedded PostgreSQL keeps its data: GPUPOOL_QUEUE_DIR, or .gpupool/queue in the project."""
    given = os.environ.get("GPUPOOL_QUEUE_DIR")
    return Path(given).expanduser().absolute() if given else project.root() / project.OWN / "queue"
