"""What is kept of an attempt's output: its first part and its last one. Nothing else cuts it.

Each part is half of what is kept. The first is written as it comes. After it chunks form a ring: each takes
the place of the oldest ones, and none is written again. An attempt that writes faster than is stored has
chunks less often, and loses lines between them. Each chunk says where in the output it begins: readers see
what is left out.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gpupool.queue.store import logs
from gpupool.queue.store.database import Database

TOGETHER_S = 0.25
"""Lines that come within so long are written together."""
RATE = 2**20
"""Bytes of an attempt's last part that are stored in a second at most: later ones take their place anyway."""
LONGEST = 64 * 2**10
"""Bytes of a line, or of several in one chunk; what is longer is cut into pieces."""


@dataclass
class KeptOutput:
    """Collects the lines of one attempt and stores them together. `keep`: bytes that are kept at most."""

    db: Database
    job: str
    attempt: int
    keep: Callable[[], int]
    until: str | None = None
    """How far what is stored was read; None where that is not certain."""
    clock: Callable[[], float] = time.monotonic
    over: bool = field(default=False, init=False)
    """Whether the attempt is: what comes now is not kept."""
    _lines: deque[tuple[str, int, str | None]] = field(default_factory=deque, init=False)
    """With their bytes, and how far each one has been read."""
    _bytes: int = field(default=0, init=False)
    _skipped: int = field(default=0, init=False)
    _length: int = field(default=0, init=False)
    """Of the whole output, as stored last."""
    _due: float = field(default=0.0, init=False)

    async def add(self, lines: Sequence[str], until: str | None = None) -> None:
        """More output, or none: what is due is stored. `until`: how far it has been read. Raises StoreError:
        what was not stored before is left out then, as it may have been stored."""
        for line in lines:
            for piece in _pieces(line):
                size = len(piece.encode("utf-8", "replace")) + 1
                self._lines.append((piece, size, until))
                self._bytes += size
        tail = self.keep() // 2
        while self._in_last_part and self._lines and self._bytes - self._lines[0][1] >= tail:
            _, size, _ = self._lines.popleft()
            self._bytes -= size
            self._skipped += size
        full = self._bytes >= LONGEST and not self._in_last_part
        if self._lines and (full or self.clock() >= self._due):
            await self.flush()

    async def flush(self) -> None:
        """Store everything. Raises StoreError."""
        written = self._bytes
        try:
            while self._lines and not self.over:
                await self._store()
        except BaseException:
            self.until = None
            raise
        finally:  # nothing is left but after an error, or where the attempt is over
            self._skipped += self._bytes
            self._lines.clear()
            self._bytes = 0
            pause = written / RATE if self._in_last_part else 0
            self._due = self.clock() + max(TOGETHER_S, pause)

    @property
    def _in_last_part(self) -> bool:
        keep = self.keep()
        return self._length >= keep - keep // 2

    async def _store(self) -> None:
        keep = self.keep()
        most = max(1, min(LONGEST, keep // 16))
        chunk, size = [self._lines[0]], self._lines[0][1]
        for line in islice(self._lines, 1, None):
            if size + line[1] > most:
                break
            chunk.append(line)
            size += line[1]
        texts = [text for text, _, _ in chunk]
        length = await logs.append(
            self.db, self.job, self.attempt, texts, keep=keep, skipped=self._skipped, until=chunk[-1][2]
        )
        for _ in chunk:
            self._lines.popleft()
        self._bytes -= size
        self._skipped, self.until = 0, chunk[-1][2]
        self.over = length is None
        self._length = length or self._length


def _pieces(line: str) -> list[str]:
    return [line[at : at + LONGEST] for at in range(0, len(line), LONGEST)] or [""]
