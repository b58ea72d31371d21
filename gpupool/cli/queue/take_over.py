"""`gpupool serve ENV --take-over`: lets this database's queue take over a cluster from another database's
queue.

Writes that into the database, for the process that leads; it does not see the cluster itself.
"""

from __future__ import annotations

from gpupool.cli.queue.connections import with_database
from gpupool.findings import UsageError


def take_over(database: str | None) -> str:
    """What follows, in a sentence. Raises UsageError where nothing keeps the queue off its cluster."""
    from gpupool.queue.store import identity

    trouble = with_database(database, identity.let_take_over)
    if trouble is None:
        raise UsageError(
            "no other queue holds this queue's cluster; if the queue has just started, wait a moment"
        )
    return (
        f"the queue takes over the cluster at {trouble.server} within 15 seconds. Jobs there that it knows "
        "continue; jobs that it does not know are left unchanged, each with a line `launcher.left` in its log"
    )
