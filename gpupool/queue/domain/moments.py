"""When time alone changes what a round may do: a heap of moments, each said once."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nextafter
from typing import Literal, NamedTuple

MomentKind = Literal["due", "ripe", "late", "closed", "pool", "period"]
"""due: a job has waited for as long as `reserve_after`; ripe: one that runs may give way from now on; late:
it has run for as long as it may; closed: nodes end before the job may have, from now on; pool: they end;
period: budgets begin again."""


class Moment(NamedTuple):
    """When time alone changes what a round may do."""

    at: float
    """Epoch seconds."""
    number: int
    """Counts them, so that no two are compared further."""
    kind: MomentKind
    subject: str
    """The job, the pool or the kind of period."""
    attempt: int = 0
    """That of the job, for `ripe` and `late`: another attempt has moments of its own."""


@dataclass(slots=True)
class Moments:
    """Those to come. None is ever taken back: one from which nothing can follow any more is dropped when it
    is the next."""

    may_matter: Callable[[Moment], bool]
    """Whether anything may still follow from one."""
    _heap: list[Moment] = field(default_factory=list)
    _count: int = 0

    def remember(self, at: float, kind: MomentKind, subject: str, attempt: int = 0) -> None:
        """Add one. At infinity it never comes, and is not kept."""
        if at < inf:
            self._count += 1
            heapq.heappush(self._heap, Moment(at, self._count, kind, subject, attempt))

    @property
    def next_at(self) -> float:
        """When the next one that may matter comes; infinity where there is none."""
        while self._heap and not self.may_matter(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else inf

    def take_due(self, now: float) -> Moment | None:
        """Remove and return the next one that may matter; None where that is not due yet."""
        return heapq.heappop(self._heap) if self.next_at <= now else None


def first_passed(since: float, seconds: float) -> float:
    """The first `now` with `now - since >= seconds`, in floating point as others compute it."""
    at = since + seconds
    while at - since < seconds:
        at = nextafter(at, inf)
    return at


def first_too_late(until: float, seconds: float) -> float:
    """The first `now` with `now + seconds > until`, likewise; `until` is not infinite."""
    at = until - seconds
    while at + seconds <= until:
        at = nextafter(at, inf)
    return at
