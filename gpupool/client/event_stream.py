"""Server-sent events: lines of text -> events, as the HTML standard has it.

Pure. This module must not read from a connection.
"""

from __future__ import annotations

import json

from gpupool.client.values import Event, event_of


class EventReader:
    """Reads one stream; `position` is where the next stream goes on."""

    def __init__(self, position: int | None = None) -> None:
        self.position = position
        self._id = position
        self._data: list[str] = []

    def feed(self, line: str) -> Event | None:
        """The event that `line`, without its end, completes."""
        if not line:
            # Only now: of an event that breaks off, the position is not passed.
            self.position = self._id
            data, self._data = "\n".join(self._data), []
            return event_of(json.loads(data), self.position) if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and value.isdigit():
            self._id = int(value)
        return None
