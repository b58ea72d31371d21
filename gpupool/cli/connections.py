"""Addresses of PostgreSQL and NATS from options and the environment, for every command that takes them.

The arguments of a process are seen by every account of its machine, its environment by its own alone: what
has a secret in it comes by the environment.
"""

from __future__ import annotations

import os

from gpupool.address_secrets import DATABASE, NATS, secret_in
from gpupool.findings import UsageError


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


def _refuse(option: str, secret: str | None, variable: str) -> None:
    if secret:
        raise UsageError(
            f"{option} has a secret in it ({secret}), which every account of this machine sees in the list "
            f"of processes; set {variable} to the whole address instead"
        )
