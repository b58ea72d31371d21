"""The bus that carries events: a port, and a bus for environments without a broker. The other is `nats_bus`.

Publishing may be repeated: the broker and consumers recognise an event by its id. A bus keeps nothing of its
own; what it did not accept is still in the database, and the relay publishes it again.
"""

from __future__ import annotations

from typing import Protocol

from gpupool.findings import GpupoolError


class BusUnavailable(GpupoolError):
    """The broker has not accepted the event: publish it again later."""


class Bus(Protocol):
    """Where events go."""

    async def publish(self, subject: str, payload: bytes, id: str) -> None:
        """Return when the broker has stored the event, or had it already. Raises BusUnavailable."""

    async def close(self) -> None:
        """Leave the broker; what was not accepted is not published."""


class NoBus:
    """Where the environment has no broker: events are read from the queue's API alone."""

    async def publish(self, *_: object, **__: object) -> None:
        return None

    async def close(self) -> None:
        return None
