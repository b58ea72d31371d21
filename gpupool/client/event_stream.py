"""Streams: bytes -> lines, and lines of server-sent events -> frames, as the HTML standard has them but for
the end of a line: that is a line feed alone, as the queue sends it. What people write has every other one.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

END = "end"
"""Kind of the frame after which nothing follows; a stream without it has broken off."""


class Lines:
    """Bytes in pieces of any size -> lines of text. An unfinished one is kept for the next piece."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[str]:
        """The lines that `piece` completes, without their ends."""
        first, *more = piece.split(b"\n")
        self._rest.append(first)
        for part in more:
            yield self.rest()
            self._rest = [part]

    def rest(self) -> str:
        """What there is of a line that has not ended."""
        text = b"".join(self._rest).decode("utf-8", "replace")
        self._rest = []
        return text


@dataclass(frozen=True)
class Frame:
    """One event of a stream."""

    kind: str
    data: Any
    """Its JSON."""
    position: int | None
    """Where to go on after it."""


class FrameReader:
    """Reads one stream; `position` is where the next stream goes on."""

    def __init__(self, position: int | None = None) -> None:
        self.position = position
        self._id = position
        self._kind = ""
        self._data: list[str] = []

    def feed(self, line: str) -> Frame | None:
        """The frame that `line`, without its end, completes."""
        if not line:
            # Only now: of an event that breaks off, the position is not passed.
            self.position = self._id
            data, self._data = "\n".join(self._data), []
            kind, self._kind = self._kind, ""
            return Frame(kind, json.loads(data), self.position) if data else None
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and value.isascii() and value.isdigit():
            self._id = int(value)
        return None
