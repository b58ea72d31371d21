"""Which one change of an environment file would serve its jobs better: `gpupool recommend`.

Each change is run on the same jobs with the same draws (common random numbers), so that what differs is the
change. All of them on a part of the trace first, and the most promising ones on the whole. A change is better
where GPUs come clearly sooner at no higher cost, or cost clearly less at no longer waits, and no less is
served. It applies nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import display_path, parse_source
from gpupool.findings import GpupoolError
from gpupool.queue.simulate.changes import ChangedFile, FileChange, changed, changes
from gpupool.queue.simulate.figures import RunFigures
from gpupool.queue.simulate.run import Notify, Settings, simulate
from gpupool.queue.simulate.trace import Arrival, Trace

COARSE = 2_000
"""Jobs of the first pass: those of the busiest stretch."""
IN_FULL = 12
"""Changes of the second pass."""
BEST = 5
CLEARLY, HARDLY = 0.95, 1.02
"""A figure is clearly better below the first share of what it was, and no worse below the second."""
LEAST_WAIT_S = 5.0
"""Waits below this are as good as none."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that is better, with what it comes to."""

    change: FileChange
    patch: str
    figures: RunFigures
    score: float
    """How much better: the logarithms of waits and cost added up; more is better."""


@dataclass(frozen=True, slots=True)
class Recommendations:
    """What was tried, and what of it is better."""

    before: RunFigures
    proposals: tuple[Proposal, ...]
    tried: int
    possible: int
    """Changes that the file takes; more than were tried where time ran out."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    change: FileChange
    result: ChangedFile
    plan: Plan


def recommend(
    plan: Plan, file: Path, trace: Trace, settings: Settings, budget_s: float,
    notify: Notify = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Recommendations:  # fmt: skip
    """The best changes of `file`, whose Plan it is. `budget_s`: after so long no further change is tried.
    Raises GpupoolError."""
    began = clock()
    candidates = list(_candidates(plan, file))
    part = replace(trace, arrivals=busiest(trace, COARSE))
    coarse = len(part.arrivals) < len(trace.arrivals)
    first = _run(plan, part, settings)
    scored: list[tuple[float, _Candidate, RunFigures]] = []
    tried = 0
    for candidate in candidates:
        if clock() - began > budget_s:
            break
        tried += 1
        notify(f"{tried} of {len(candidates)} changes: {candidate.change.field}")
        run = _run(candidate.plan, part, settings)
        if (score := better(first, run)) is not None:
            scored.append((score, candidate, run))
    scored.sort(key=lambda row: (-row[0], row[1].change.field))
    before = _run(plan, trace, settings) if coarse else first
    proposals = []
    for score, candidate, run in scored[:IN_FULL]:
        if coarse:
            notify(f"in full: {candidate.change.field}")
            run = _run(candidate.plan, trace, settings)
            whole = better(before, run)
            if whole is None:
                continue
            score = whole
        proposals.append(Proposal(candidate.change, candidate.result.patch, run, round(score, 4)))
    proposals.sort(key=lambda proposal: (-proposal.score, proposal.change.field))
    return Recommendations(before, _one_of_each(proposals), tried, len(candidates))


def _one_of_each(proposals: Sequence[Proposal]) -> tuple[Proposal, ...]:
    """The best, one value of each field."""
    best: dict[str, Proposal] = {}
    for proposal in proposals:
        best.setdefault(proposal.change.field, proposal)
    return tuple(best.values())[:BEST]


def _run(plan: Plan, trace: Trace, settings: Settings) -> RunFigures:
    return simulate(plan, trace, replace(settings, repeat=1)).figures


def _candidates(plan: Plan, file: Path) -> Sequence[_Candidate]:
    """The changes that give a valid file."""
    candidates = []
    source = parse_source(str(file), plan.text.encode())
    for change in changes(plan, source.data):
        try:
            result = changed(display_path(file), plan.text, change)
            read = parse_source(str(file), result.text.encode())
            candidates.append(_Candidate(change, result, resolve(check_shape(read))))
        except GpupoolError:  # such a layout, or so many, is not possible there
            continue
    return candidates


def busiest(trace: Trace, count: int) -> tuple[Arrival, ...]:
    """So many jobs that were submitted within the shortest time; all where there are no more."""
    arrivals = trace.arrivals
    if len(arrivals) <= count:
        return arrivals
    spans = (
        (arrivals[index + count - 1].submitted - arrivals[index].submitted, index)
        for index in range(len(arrivals) - count + 1)
    )
    _, index = min(spans)
    return arrivals[index : index + count]


def better(before: RunFigures, after: RunFigures) -> float | None:
    """How much better; None where it is not."""
    if after.served_gpu_hours < before.served_gpu_hours * 0.999:
        return None
    if sum(row.jobs for row in after.left_out) > sum(row.jobs for row in before.left_out):
        return None
    waits = _ratio(before.to_gpu.p95, after.to_gpu.p95, LEAST_WAIT_S)
    cost = _ratio(before.usd, after.usd, 0.01)
    if not (waits < CLEARLY and cost <= HARDLY) and not (cost < CLEARLY and waits <= HARDLY):
        return None
    return -log(waits) - log(cost)


def _ratio(before: float | None, after: float | None, least: float) -> float:
    return max(after or 0.0, least) / max(before or 0.0, least)
