"""Jobs of the past as one table: CSV with a header, one row for each job.

    submitted,tenant,project,gpus,gpu,seconds,priority,preemptible,timeout

`submitted` is seconds or a moment of RFC 3339, `gpus` may be a fraction, `gpu` is a pool, a key of the
catalog, a MIG profile, or empty for any. What can't be a job is left out and counted by its reason; what
can't be read is refused at its place. Tables of others are made into this one by
`gpupool.queue.simulate.formats`.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from math import inf, isfinite

from gpupool.findings import Finding, file_finding

COLUMNS = ("submitted", "tenant", "project", "gpus", "gpu", "seconds", "priority", "preemptible", "timeout")
"""The header of the neutral form. `project`, `gpu` and the last three columns may be left out."""
LEVELS = ("critical", "high", "medium", "low")
TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
RELATIVE = 10**8
"""Seconds below this count from a beginning that the trace doesn't say."""
MONDAY = datetime.fromisoformat("2026-01-05T00:00:00+00:00").timestamp()
"""Where such traces begin: budgets and reservations need dates."""
MOST = 10**9
"""No job has more GPUs, and none runs for longer than so many seconds, which are 31 years."""
LAST = datetime.fromisoformat("2100-01-01T00:00:00+00:00").timestamp()
MOST_FINDINGS = 20
"""A wrong column is wrong in every row."""


class LeftOut(StrEnum):
    """Why a row of a trace is no job that can be played."""

    NO_GPU = "no-gpu"
    NO_START = "never-started"
    NO_END = "no-end"
    STEP = "step-of-a-job"
    WINDOW = "outside-the-window"


WORDS = {
    LeftOut.NO_GPU: "requests no GPU",
    LeftOut.NO_START: "never started, so its run time is unknown",
    LeftOut.NO_END: "has no end other than that of the recording",
    LeftOut.STEP: "is a step of a job that is already counted",
    LeftOut.WINDOW: "is outside the window",
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """One job as it was submitted."""

    submitted: float
    """Epoch seconds, or seconds since the trace began."""
    tenant: str
    project: str | None
    gpus: float
    """Of physical GPUs."""
    gpu: str | None
    """A pool, a key of the catalog or a MIG profile; None: any."""
    seconds: float
    """How long it runs on what it asks for."""
    priority: str | None = None
    preemptible: bool | None = None
    timeout_s: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """The jobs that can be played."""

    arrivals: tuple[Arrival, ...]
    """In the order of their submission; times in epoch seconds."""
    left_out: Mapping[LeftOut, int] = field(default_factory=dict)
    format: str = "neutral"
    """What it was read as."""
    measured: tuple[float, ...] = ()
    """How long jobs really waited in the queue, seconds, where that is known."""


@dataclass(frozen=True, slots=True)
class Names:
    """What names of a trace are in the environment file."""

    tenants: Mapping[str, str] = field(default_factory=dict)
    """`*`: all others."""
    gpus: Mapping[str, str] = field(default_factory=dict)
    """The same; an empty name stands for any GPU."""
    priorities: Mapping[str, str] = field(default_factory=dict)

    def of(self, arrival: Arrival) -> Arrival:
        """The job with the file's names."""
        if not (self.tenants or self.gpus or self.priorities):
            return arrival
        gpu = arrival.gpu
        if gpu is not None and self.gpus:
            gpu = self.gpus.get(gpu, self.gpus.get("*", gpu)) or None
        priority = arrival.priority
        if priority is not None:
            priority = self.priorities.get(priority, self.priorities.get("*", priority))
        tenant = self.tenants.get(arrival.tenant, self.tenants.get("*", arrival.tenant))
        return replace(arrival, tenant=tenant, gpu=gpu, priority=priority)


def in_order(arrivals: list[Arrival], left_out: Mapping[LeftOut, int], format: str) -> Trace:
    """The trace, on the calendar."""
    arrivals.sort(key=lambda arrival: arrival.submitted)
    if arrivals and arrivals[-1].submitted < RELATIVE:
        for number, arrival in enumerate(arrivals):  # in place: a million jobs are not there twice
            arrivals[number] = replace(arrival, submitted=MONDAY + arrival.submitted)
    return Trace(tuple(arrivals), {reason: count for reason, count in left_out.items() if count}, format)


def part_of(trace: Trace, window: tuple[float, float] | None, load: float) -> Trace:
    """The jobs submitted within `window`, seconds since the first of the trace, `load` times as close to each
    other."""
    if not trace.arrivals:
        return trace
    first = trace.arrivals[0].submitted
    kept = trace.arrivals
    left_out = Counter(trace.left_out)
    if window is not None:
        begin, end = first + window[0], first + window[1]
        kept = tuple(arrival for arrival in kept if begin <= arrival.submitted < end)
        left_out[LeftOut.WINDOW] += len(trace.arrivals) - len(kept)
        first = begin
    if load != 1:
        kept = tuple(
            replace(arrival, submitted=first + (arrival.submitted - first) / load) for arrival in kept
        )
    return replace(trace, arrivals=kept, left_out={why: count for why, count in left_out.items() if count})


class Cells:
    """One row of a table, and what is wrong with it."""

    def __init__(
        self, file: str, line: int, header: Sequence[str], row: Sequence[str],
        zone: timedelta | None = None, last: float = inf,
    ) -> None:  # fmt: skip
        """`zone`: of times that say none, its distance to UTC. `last`: the last second of the recording."""
        self.findings: list[Finding] = []
        self.zone, self.last = zone, last
        self._file, self._line, self._header = file, line, header
        self._cells = dict(zip(header, row, strict=False))
        if len(row) != len(header):
            cells = f"{len(row)} cells, but the header has {len(header)}"
            self.wrong(header[0] if header else "", cells, "write one per column")

    def text(self, name: str) -> str:
        """Empty where the column is missing. Names that many rows have are kept once."""
        return sys.intern(self._cells.get(name, "").strip())

    def number(self, name: str) -> float | None:
        """None where it is empty, or wrong."""
        text = self.text(name)
        if not text:
            return None
        try:
            number = float(text)
        except ValueError:
            number = float("nan")
        if not 0 <= number <= MOST:
            self.wrong(name, f"{text!r} is not a number from 0 to {MOST:,}", "write plain digits")
            return None
        return number

    def truth(self, name: str) -> bool | None:
        text = self.text(name).lower()
        if text and text not in TRUTH:
            self.wrong(name, f"{text!r} is not a boolean", "write true or false")
        return TRUTH.get(text)

    def moment(self, name: str) -> float | None:
        """Seconds, or a moment, in epoch seconds."""
        text = self.text(name)
        try:
            seconds = float(text)
        except ValueError:
            seconds = float("nan")
        if isfinite(seconds):
            return self._known(name, seconds)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.wrong(name, f"{text!r} is neither seconds nor a time", "write 2026-11-02T08:30:00Z")
            return None
        if moment.tzinfo is None and self.zone is None:
            self.wrong(name, f"{text!r} has no time zone", "add --zone, such as --zone +08:00")
            return None
        zone = (self.zone if moment.tzinfo is None else moment.utcoffset()) or timedelta()
        return self._known(name, (moment.replace(tzinfo=None) - datetime(1970, 1, 1) - zone).total_seconds())

    def _known(self, name: str, seconds: float) -> float | None:
        if 0 <= seconds < LAST:
            return seconds
        message = f"{self.text(name)!r} is not between 1970 and 2100"
        self.wrong(name, message, "write seconds, not milliseconds, or a time")
        return None

    def wrong(self, column: str, message: str, remediation: str) -> None:
        at = self._header.index(column) + 1 if column in self._header else 1
        self.findings.append(file_finding(self._file, self._line, at, column, message, remediation))


def neutral(cells: Cells) -> Arrival | LeftOut | None:
    """A row of the neutral form; None where findings say why not."""
    submitted, gpus, seconds = cells.moment("submitted"), cells.number("gpus"), cells.number("seconds")
    preemptible, timeout = cells.truth("preemptible"), cells.number("timeout")
    priority = cells.text("priority") or None
    tenant = cells.text("tenant")
    if not tenant:
        cells.wrong("tenant", "the tenant is missing", "add a tenant")
    if cells.findings or submitted is None:
        return None
    if seconds is None:
        return LeftOut.NO_END
    if not gpus:
        return LeftOut.NO_GPU
    limit = None if timeout is None else max(1, round(timeout))
    project, gpu = cells.text("project") or None, cells.text("gpu") or None
    return Arrival(submitted, tenant, project, gpus, gpu, seconds, priority, preemptible, limit)


def header_findings(file: str, header: Sequence[str], needed: Sequence[str]) -> Iterator[Finding]:
    """Of the neutral form."""
    for column, name in enumerate(header):
        known = name in COLUMNS
        if not known or header.index(name) != column:
            what = f"column {name} appears twice" if known else f"unknown column {name!r}"
            yield file_finding(file, 1, column + 1, name, what, f"the columns are {','.join(COLUMNS)}")
    for name in needed:
        if name not in header:
            missing = f"column {name} is missing"
            yield file_finding(file, 1, 1, name, missing, f"the columns are {','.join(COLUMNS)}")
