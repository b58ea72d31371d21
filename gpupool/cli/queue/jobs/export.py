"""The queue's jobs as a trace in the neutral form of `gpupool simulate`: what `jobs export` prints, and what
`simulate --trace queue` reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from gpupool.queue.simulate.trace import COLUMNS, Arrival, Cells, LeftOut, Trace, in_order, neutral

if TYPE_CHECKING:
    from gpupool.client import Client

_READ = (
    *("enqueued_at", "dispatched_at", "started_at", "finished_at", "tenant", "project_id", "gpus", "pool"),
    *("gpu_pool_requested", "priority", "preemptible", "timeout_seconds"),
)
"""What of a job is read: of 100,000 jobs not all is kept."""
_NO_POOL = ("auto", "mig", None)
"""Requests that name no pool: the one that the job had is written, so that it is asked for again."""


def over(client: Client, limit: int) -> Iterator[Mapping[str, Any]]:
    """The newest jobs that are over, as they were submitted: of others it is not known how long they run."""
    from gpupool.client.values import FINAL

    states = sorted(state.value for state in FINAL)
    newest = (job.data for job in islice(client.jobs(*states, page_size=200), limit))
    read: list[Mapping[str, Any]] = [{name: job.get(name) for name in _READ} for job in newest]
    return iter(read[::-1])


def rows(jobs: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Cells of the jobs; `seconds` is empty where a job never ran."""
    for job in jobs:
        seconds = _seconds(job["started_at"], job["finished_at"])
        named = job.get("gpu_pool_requested")
        yield {
            "submitted": job["enqueued_at"],
            "tenant": job["tenant"],
            "project": job.get("project_id") or "",
            "gpus": f"{job['gpus']:g}",
            "gpu": (job.get("pool") if named in _NO_POOL else named) or "",
            "seconds": "" if seconds is None else f"{seconds:g}",
            "priority": job.get("priority") or "",
            "preemptible": str(bool(job.get("preemptible"))).lower(),
            "timeout": str(job.get("timeout_seconds") or ""),
        }


def table(jobs: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The same with its header."""
    yield list(COLUMNS)
    for row in rows(jobs):
        yield [row[name] for name in COLUMNS]


def trace_of(jobs: Iterable[Mapping[str, Any]]) -> Trace:
    """The jobs that ran to an end, and how long each of them waited."""
    arrivals, waits, never = list[Arrival](), list[float](), 0
    listed = list(jobs)
    for number, (job, row) in enumerate(zip(listed, rows(listed), strict=True), 1):
        arrival = neutral(Cells("the queue", number, COLUMNS, [row[name] for name in COLUMNS]))
        if isinstance(arrival, Arrival):
            arrivals.append(arrival)
            waits.append(_moment(job["dispatched_at"]) - arrival.submitted)
        else:  # what never ran has no time for which it did
            never += 1
    return replace(in_order(arrivals, {LeftOut.NO_START: never}, "queue"), measured=tuple(waits))


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def _seconds(begun: str | None, ended: str | None) -> float | None:
    return None if begun is None or ended is None else round(_moment(ended) - _moment(begun), 3)
