"""Jobs by lane, as a snapshot has them, for tests that have the jobs in a row."""

from __future__ import annotations

from collections.abc import Iterable

from gpupool.queue.domain.state import Lane, Queued


def in_lanes(jobs: Iterable[Queued]) -> dict[Lane, list[Queued]]:
    """Jobs by lane; those of a lane in the order in which they come."""
    lanes: dict[Lane, list[Queued]] = {}
    for job in jobs:
        lanes.setdefault((job.tenant, job.lane), []).append(job)
    return lanes
