"""The output of one pod, in two files: each line with its time, as `kubectl logs` wants it, the latest ones.

As a kubelet's container runtime does, it goes on in a fresh file when one is full, and keeps the one before.
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
"""Of each file, as containerLogMaxSize of a kubelet."""
_LINE_BYTES = 16 * 2**10
_POLL_SECONDS = 0.1
Record = tuple[bytes, bytes, bytes]
"""Time, tag, text."""


@dataclass(frozen=True)
class LogOptions:
    """Which part of an output, as PodLogOptions say it."""

    follow: bool = False
    timestamps: bool = False
    tail: int | None = None
    """Only so many records at the end of what is there."""
    since: datetime | None = None
    """Whole seconds; fractions are cut off."""


class PodOutput:
    """The output of one pod: the present file and the one before it. A reader that falls two rotations behind
    loses what lay between."""

    def __init__(self, path: Path, finished: bool = False) -> None:
        self._path = path
        self._older = path.with_name(f"{path.name}.1")
        self._file = 0
        """Number of the present file."""
        self._size = 0
        """Bytes of it."""
        self._rest = b""
        """The beginning of a line that has not ended yet."""
        self._next_time = 0
        """Nanoseconds; no record before has so late a time."""
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
        if not records:
            return
        # Each has a time of its own, so that reading can go on from there.
        first = max(time.time_ns(), self._next_time)
        self._next_time = first + len(records)
        text = b"".join(
            b"%s %s %s\n" % (_stamp(first + number), tag, line) for number, (tag, line) in enumerate(records)
        )
        if self._size and self._size + len(text) > LIMIT_BYTES:
            self._path.replace(self._older)
            self._file, self._size = self._file + 1, 0
        self._size += len(text)
        with self._path.open("ab") as stream:
            stream.write(text)

    async def read(self, options: LogOptions) -> AsyncIterator[bytes]:
        """Pieces of the wanted part; with `follow` until the output is finished."""
        since = _stamp(int(options.since.timestamp()) * 10**9) if options.since else b""
        cursor = (self._file - 1, 0)  # one file back, to include the older file
        tail, fresh_line = options.tail, True
        while True:
            last = self.finished or not options.follow
            records, cursor = self._records(*cursor)
            if tail is not None:
                records = records[len(records) - min(tail, len(records)) :]
                tail = None
            parts: list[bytes] = []
            for stamp, tag, line in records:
                if stamp >= since:
                    parts += (stamp, b" ") if options.timestamps and fresh_line else ()
                    fresh_line = tag == b"F"
                    parts += (line, b"\n") if fresh_line else (line,)
            if parts:
                yield b"".join(parts)
            if last:
                return
            await asyncio.sleep(_POLL_SECONDS)

    def _records(self, file: int, offset: int) -> tuple[list[Record], tuple[int, int]]:
        """The records from a cursor on (number of a file, byte offset), and the cursor of the next ones."""
        records: list[Record] = []
        if file < self._file:
            # Of a file before the older one nothing is left: what is, is all after the cursor.
            records, _ = _read(self._older, offset if file == self._file - 1 else 0)
            offset = 0
        more, offset = _read(self._path, offset)
        return records + more, (self._file, offset)


def _read(path: Path, offset: int) -> tuple[list[Record], int]:
    """The whole records of a file from `offset` on, and where the next one will begin."""
    try:
        with path.open("rb") as stream:
            stream.seek(offset)
            lines = stream.read().split(b"\n")
    except FileNotFoundError:
        return [], offset
    lines.pop()  # empty, or a record that is being written
    records = []
    for line in lines:
        stamp, tag, text = line.split(b" ", 2)
        records.append((stamp, tag, text))
    return records, offset + sum(len(line) + 1 for line in lines)


def _stamp(nanoseconds: int) -> bytes:
    """RFC 3339 in UTC, always with nine decimals, so that stamps sort as text."""
    moment = datetime.fromtimestamp(nanoseconds // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{nanoseconds % 10**9:09}Z".encode()
