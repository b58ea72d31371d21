"""Lanes: jobs of one project that a round can't distinguish but by age and money wait in one, first in,
first out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from gpupool.queue.domain.state import Queued
from gpupool.queue.records import Offer


@lru_cache(4096)
def lane_of(
    offers: tuple[Offer, ...], level: int, project: str | None, preemptible: bool, preempts: bool
) -> str:
    """The name of the lane of a job among those of its tenant."""
    content = [[offer.as_dict() for offer in offers], int(level), project, preemptible, preempts]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(slots=True)
class Reading:
    """How far a round has read a lane: what it has started or passed over is behind it."""

    jobs: Sequence[Queued]
    at: int = 0
    passed: int = 0
    """Jobs that wait and did not keep those behind them from being looked at."""

    @property
    def head(self) -> Queued:
        return self.jobs[self.at]

    def __bool__(self) -> bool:
        return self.at < len(self.jobs)

    def behind(self) -> Iterator[Queued]:
        """Those behind the head."""
        return islice(self.jobs, self.at + 1, None)
