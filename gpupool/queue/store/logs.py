"""The output of attempts, as far as it is kept (`kept_output`): chunks of whole lines, in order.

Each chunk says where in the output of its attempt it begins, and so what is left out before it. This module
must not cut anything itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from gpupool.queue.store.database import Database, storable

MOST_LINES = 10_000
MOST_BYTES = 16 * 2**20
"""Of the end of an output that is read at a time."""


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Lines of one attempt's output."""

    number: int
    """Grows within a job; where to go on reading."""
    attempt: int
    at: datetime
    text: str
    left_out: int
    """Bytes of the output between it and the chunk before, which are not kept."""

    @property
    def shown(self) -> str:
        """Its lines, each with its end, after one that says what is left out."""
        mark = f"[gpupool: {self.left_out:,} bytes of the output are left out here]\n"
        return f"{mark if self.left_out else ''}{self.text}\n"


async def append(
    db: Database,
    job: str,
    attempt: int,
    lines: Sequence[str],
    now: datetime | None = None,
    *,
    keep: int = 10 * 2**20,
    skipped: int = 0,
    until: str | None = None,
) -> int | None:
    """Keep lines of an attempt's output, of which the first and the last `keep` / 2 bytes stay; how many
    bytes it has by then. `skipped`: bytes before these lines that are not kept. `until`: how far it has been
    read with these lines. None where the attempt is over, and for no lines."""
    if not lines:
        return None
    text = storable("\n".join(lines))
    values = {"job": job, "attempt": attempt, "text": text, "bytes": len(text.encode()) + 1}
    values |= {"head": keep - keep // 2, "tail": keep // 2, "skipped": skipped, "until": until, "now": now}
    rows = await db.fetch("log_write", **values)
    return int(rows[0]["log_bytes"]) if rows else None


async def page(
    db: Database, job: str, attempt: int | None = None, after: int = 0, limit: int = 1000
) -> list[LogChunk]:
    """Output of all attempts or one, from after the chunk of that number."""
    rows = await db.fetch("log", job=job, attempt=attempt, after=after, limit=limit)
    return [LogChunk(**row) for row in rows]


async def end(db: Database, job: str, attempt: int | None, after: int, lines: int) -> list[LogChunk]:
    """The last `lines` of the output from after the chunk of that number; the first chunk may be cut. Of very
    long lines there are fewer, MOST_BYTES and a chunk at most."""
    values = {"job": job, "attempt": attempt, "after": after, "lines": lines, "bytes": MOST_BYTES}
    first = (await db.fetch("log_end", **values))[0]["number"]
    chunks: list[LogChunk] = []
    for chunk in reversed(await page(db, job, attempt, first - 1, lines) if first else ()):
        own = chunk.text.removesuffix("\n").split("\n")
        if len(own) > lines:
            chunk = replace(chunk, text="\n".join(own[-lines:]), left_out=0)
        chunks.append(chunk)
        lines -= len(own)
        if lines <= 0:
            break
    return chunks[::-1]


async def before(db: Database, job: str, at: datetime) -> int:
    """The number of the last chunk of the output that was written before then; 0 where there is none."""
    return int((await db.fetch("log_before", job=job, at=at))[0]["number"])
