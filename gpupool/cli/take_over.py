"""`gpupool serve ENV --take-over`: let the queue of this database have a cluster that is another's.

Writes that into the database, for the process that leads; it does not see the cluster itself.
"""

from __future__ import annotations

from gpupool.cli.connections import with_database
from gpupool.findings import UsageError


def take_over(database: str | None) -> str:
    """What follows, in a sentence. Raises UsageError where nothing keeps the queue off its cluster."""
    from gpupool.queue.store import identity

    trouble = with_database(database, identity.let_take_over)
    if trouble is None:
        raise UsageError(
            "nothing keeps this queue off its cluster; if it has just started, wait until it has looked"
        )
    return (
        f"the queue takes over the cluster at {trouble.server} within 15 seconds. Jobs there that it knows "
        "go on; those that it does not know are left as they are, each with a line `launcher.left` in its log"
    )
