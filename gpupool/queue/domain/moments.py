"""When time alone changes what a round may do: a heap of moments, each said once."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nextafter
from typing import NamedTuple


class Moment(NamedTuple):
    """When time alone changes what a round may do."""

    at: float
    """Epoch seconds."""
    number: int
    """Counts them, so that no two are compared further."""
    kind: str
    """due: a job has waited for as long as `reserve_after`; ripe: one that runs may give way from now on;
    late: it has run for as long as it may; closed: nodes end before the job may have, from now on; pool: they
    end; period: budgets begin again."""
    of: str
    """The job, the pool or the kind of period."""
    attempt: int = 0


@dataclass(slots=True)
class Moments:
    """Those to come."""

    counts: Callable[[Moment], bool]
    """Whether anything may still follow from one: others are thrown away once they are next."""
    _heap: list[Moment] = field(default_factory=list)
    _count: int = 0

    def remember(self, at: float, kind: str, of: str, attempt: int = 0) -> None:
        """Infinity is never."""
        if at < inf:
            self._count += 1
            heapq.heappush(self._heap, Moment(at, self._count, kind, of, attempt))

    @property
    def next_at(self) -> float:
        """Infinity where there is none."""
        while self._heap and not self.counts(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0].at if self._heap else inf

    def take(self) -> Moment:
        """The next one, which is there no longer."""
        return heapq.heappop(self._heap)


def reached(since: float, seconds: float) -> float:
    """The first moment from which so much time has passed, as `now - since >= seconds` has it."""
    at = since + seconds
    while at - since < seconds:
        at = nextafter(at, inf)
    return at


def closing(until: float, seconds: float) -> float:
    """The first moment from which so much time does not end before `until`; `until` is not infinite."""
    at = until - seconds
    while at + seconds <= until:
        at = nextafter(at, inf)
    return at
