"""Events for observers of the queue: the envelope of an event, and the bus that carries it.

Events inform. The database is the truth: nothing here may decide what becomes of a job.
"""

from __future__ import annotations

from gpupool.queue.events.bus import Bus, NoBus


def bus_of(url: str | None, prefix: str) -> Bus:
    """The bus at `url` (`queue.nats.url` of the environment file); a NoBus where there is none."""
    if not url:
        return NoBus()
    from gpupool.queue.events.nats_bus import NatsBus

    return NatsBus(url, prefix)
