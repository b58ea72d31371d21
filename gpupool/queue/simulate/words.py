"""RunFigures in words: the one place where they are made into sentences and cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpupool.environment.money import usd
from gpupool.queue.simulate.figures import PassedOver, RunFigures, WaitTimes, wait_times
from gpupool.queue.simulate.trace import WORDS, LeftOut, Trace

WELL_FILLED = 0.8
"""Slices are too large for the jobs below this share."""


def seconds(value: float | None) -> str:
    """A time as people say it."""
    if value is None:
        return "-"
    if value < 120:
        return f"{value:.0f} s"
    if value < 2 * 3600:
        return f"{value / 60:.0f} min"
    return f"{value / 3600:.1f} h" if value < 48 * 3600 else f"{value / 86400:.1f} d"


def share(value: float | None) -> str:
    return "-" if value is None else f"{value * 100:.0f} %"


def hours(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def summary(run: RunFigures) -> list[tuple[str, str]]:
    """What comes first: what was served, and then how."""
    left = sum(row.jobs for row in run.left_out)
    rows = [
        (
            "GPU hours served",
            f"{hours(run.served_gpu_hours)} of {run.jobs:,} jobs, in {seconds(run.hours * 3600)}",
        ),
        ("left out", f"{left:,} jobs" if left else "nothing"),
        ("wait in the queue", _waits(run.waits)),
        ("time to GPU", _waits(run.to_gpu)),
        ("GPUs in use", f"{share(run.utilisation)} of running GPUs"),
        ("cost", f"{usd(run.usd)}, {usd(run.usd_month)} a month; {usd(run.usd_idle)} of it idle"),
        ("fixed cluster", f"{usd(run.usd_fixed)} for all nodes on demand; {share(run.saved)} less"),
        ("on spot", f"{share(run.spot_share)} of the GPU hours; {run.spot_losses} nodes lost"),
    ]
    if run.preempted_jobs or run.lost_gpu_hours:
        rows.append(
            ("preempted", f"{run.preempted_jobs:,} jobs; {hours(run.lost_gpu_hours)} GPU hours repeated")
        )
    if run.borrowed_gpu_hours:
        rows.append(("borrowed", f"{hours(run.borrowed_gpu_hours)} GPU hours beyond grants"))
    if run.fairness.distance:
        apart, bound = hours(run.fairness.distance), hours(run.fairness.bound)
        rows.append(("fairness", f"at most {apart} weighted GPU hours apart; one job of each: {bound}"))
    if run.timeouts:
        rows.append(("timed out", f"{run.timeouts:,} jobs"))
    return rows


def _waits(waits: WaitTimes) -> str:
    return f"p50 {seconds(waits.p50)}, p95 {seconds(waits.p95)}, p99 {seconds(waits.p99)}"


def left_out(reason: str) -> str:
    """Why, as a sentence goes on after `jobs`."""
    kind, _, detail = reason.partition(":")
    if kind == "refused":
        return f"that the queue would refuse: {detail} (docs/queue-problems.md)"
    if kind == "waits":
        return f"that never started: {detail}"
    return f"where the row {WORDS[LeftOut(reason)]}"


def evidence(pool: str, passed: PassedOver) -> str:
    """A resource that was unused while jobs waited for another."""
    return (
        f"{pool}: jobs waited for {passed.resource} during {passed.waited_hours:.1f} h, and {passed.free} "
        f"was free for {passed.hours:.1f} h of them"
    )


def backtest(trace: Trace, run: RunFigures) -> str:
    """How a simulation of the queue's own jobs compares with how long they really waited."""
    measured, simulated = wait_times(trace.measured).p95, run.waits.p95
    error = "" if measured is None or simulated is None else f", {simulated - measured:+.1f} s"
    return f"These jobs waited {seconds(measured)} in the queue at p95; simulated {seconds(simulated)}{error}"


def reasons(run: RunFigures, pool: str) -> Iterator[str]:
    """What the run of the file as it is shows of a pool."""
    figures = next(row for row in run.pools if row.name == pool)
    for passed in figures.passed:
        if passed.hours >= 0.05:
            yield evidence(pool, passed)
    group = next((row for row in run.groups if (row.by, row.name) == ("pool", pool)), None)
    waits = (
        f"its {group.jobs:,} jobs waited {seconds(group.waits.p95)} at p95" if group else "no jobs ran there"
    )
    yield (
        f"{pool}: {waits}; {share(figures.utilisation)} of the GPUs that ran were in use, and "
        f"{share(figures.ready)} of all its nodes ran"
    )
    if figures.filled is not None and figures.filled < WELL_FILLED:
        yield f"{pool}: jobs requested {share(figures.filled)} of what they held"


def differences(before: RunFigures, after: RunFigures) -> Iterator[str]:
    """What another file changes, the largest first of each kind."""
    served = after.served_gpu_hours - before.served_gpu_hours
    if abs(served) >= max(0.1, before.served_gpu_hours / 1000):
        yield f"{hours(abs(served))} GPU hours {'more' if served > 0 else 'less'} are served"
    month = after.usd_month - before.usd_month
    if abs(month) >= max(1.0, before.usd_month / 1000):
        yield f"{usd(abs(month))} a month {'more' if month > 0 else 'less'}"
    olds = {group.name: group for group in before.groups if group.by == "tenant"}
    changes = []
    for group in after.groups:
        old = olds.get(group.name) if group.by == "tenant" else None
        if old is None or old.waits.p95 is None or group.waits.p95 is None:
            continue
        changes.append((group.waits.p95 - old.waits.p95, group.name))
    for change, name in sorted(changes, key=lambda row: -abs(row[0])):
        if abs(change) >= 1:
            yield f"{name} waits {seconds(abs(change))} {'longer' if change > 0 else 'less'} at p95"


def spreads(names: Sequence[str], ranges: dict[str, tuple[float, float]]) -> Iterator[tuple[str, str]]:
    """The range of a figure over seeds."""
    for name in names:
        if name in ranges:
            low, high = ranges[name]
            yield name, f"{low:g}" if low == high else f"{low:g} to {high:g}"
