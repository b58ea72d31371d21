"""The output of one pod, in a file: each line with its time, as `kubectl logs` wants it, up to a size.

A record is `TIME F text` for a whole line and `TIME P text` for the beginning of one, as container runtimes
write them (CRI logging format); so output that does not end with a newline is returned as it came.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

LIMIT_BYTES = 10 * 2**20
_LINE_BYTES = 16 * 2**10
_POLL_SECONDS = 0.1
_FULL = f"gpupool: the output is longer than {LIMIT_BYTES // 2**20} MiB; what follows is not kept\n"


@dataclass(frozen=True)
class Wanted:
    """Which part of an output, as PodLogOptions say it."""

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    since: datetime | None = None


class Output:
    """The file of one pod."""

    def __init__(self, path: Path, finished: bool = False) -> None:
        self._path = path
        self._rest = b""
        self._size = 0
        self._latest = 0
        self.finished = finished
        """Whether nothing more will come."""

    def write(self, chunk: bytes) -> None:
        """Add what the process wrote."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        self._add([(b"F", line) for line in lines])
        if len(self._rest) > _LINE_BYTES:
            self._flush()

    def finish(self) -> None:
        """Nothing more will come."""
        self._flush()
        self.finished = True

    def _flush(self) -> None:
        if self._rest:
            self._add([(b"P", self._rest)])
        self._rest = b""

    def _add(self, records: list[tuple[bytes, bytes]]) -> None:
        if not records or self._size > LIMIT_BYTES:
            return
        # Each has a time of its own, so that reading can go on from there.
        first = max(time.time_ns(), self._latest + 1)
        self._latest = first + len(records)
        text = b"".join(
            b"%s %s %s\n" % (_stamp(first + number), tag, line) for number, (tag, line) in enumerate(records)
        )
        self._size += len(text)
        if self._size > LIMIT_BYTES:
            text = _stamp(first) + b" F " + _FULL.encode()
        with self._path.open("ab") as stream:
            stream.write(text)

    async def read(self, wanted: Wanted) -> AsyncIterator[bytes]:
        """Pieces of the wanted part; with `follow` until the output is finished."""
        since = _stamp(int(wanted.since.timestamp()) * 10**9) if wanted.since else b""
        offset, tail, fresh_line = 0, wanted.tail, True
        while True:
            last = self.finished or not wanted.follow
            records, offset = self._records(offset)
            if tail is not None:
                records = records[len(records) - min(tail, len(records)) :]
                tail = None
            parts: list[bytes] = []
            for stamp, tag, line in records:
                if stamp >= since:
                    parts += (stamp, b" ") if wanted.timestamps and fresh_line else ()
                    fresh_line = tag == b"F"
                    parts += (line, b"\n") if fresh_line else (line,)
            if parts:
                yield b"".join(parts)
            if last:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _records(self, offset: int) -> tuple[list[tuple[bytes, bytes, bytes]], int]:
        """The records from `offset` on, and where the next ones will begin."""
        try:
            with self._path.open("rb") as stream:
                stream.seek(offset)
                lines = stream.read().split(b"\n")
        except FileNotFoundError:
            return [], offset
        lines.pop()  # empty, or a record that is being written
        found = []
        for line in lines:
            stamp, tag, text = line.split(b" ", 2)
            found.append((stamp, tag, text))
        return found, offset + sum(len(line) + 1 for line in lines)


def _stamp(nanoseconds: int) -> bytes:
    """RFC 3339 in UTC, always with nine decimals, so that stamps sort as text."""
    moment = datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{nanoseconds % 10**9:09}Z".encode()
