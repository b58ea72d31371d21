"""What a run means: GPU hours served, waits, use, cost, and what was left out. Pure values from a record.

Percentiles are those of the nearest rank. A month has 730 hours, as in price lists.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf

from pydantic import BaseModel, ConfigDict

from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH
from gpupool.queue.records import MICRO
from gpupool.queue.simulate.record import JobRecord, Record
from gpupool.queue.simulate.trace import Trace

SIZES = ((0.999, "a part of a GPU"), (1, "1 GPU"), (4, "2 to 4"), (8, "5 to 8"), (inf, "more than 8"))
"""GPUs of a job at most, and what such jobs are called."""


class _Json(BaseModel):
    model_config = ConfigDict(frozen=True)


class WaitTimes(_Json):
    """Seconds; null where no job has started."""

    p50: float | None
    p95: float | None
    p99: float | None


class JobGroup(_Json):
    """Jobs that have something in common."""

    by: str
    """tenant, level, pool or size."""
    name: str
    jobs: int
    served_gpu_hours: float
    waits: WaitTimes
    to_gpu: WaitTimes
    usd: float


class PoolFigures(_Json):
    """One pool."""

    name: str
    gpus: float
    """Of all nodes that it may have."""
    utilisation: float | None
    """GPU hours held, of those of nodes that ran."""
    filled: float | None
    """What its jobs ask for, of what they hold: slices may be larger."""
    ready: float
    """GPU hours of nodes that ran, of those of all nodes."""
    fragmentation: float | None
    """Of what was free, the share that a typical job could not use (FGD)."""
    usd: float
    usd_idle: float
    launches: int
    """Nodes that were started."""
    passed: list[PassedOver]
    """Resources that were free while jobs waited for another one of the same pool."""


class PassedOver(_Json):
    """A resource that jobs waited for, while another one of the pool was free."""

    resource: str
    free: str
    hours: float
    waited_hours: float
    """In which a job waited for it at all."""


class Fairness(_Json):
    """How far the fair clocks of two tenants that both could start something were apart at most, seen once an
    hour, in GPU hours for a weight of 1."""

    distance: float
    bound: float
    """One of each one's largest jobs, as fair queueing promises; levels and reservations come before it."""


class LeftOutFigure(_Json):
    """Rows of the trace, or jobs, that were not run."""

    reason: str
    """Of the trace; `refused:` and the queue's problem; or `waits:` and what they waited for to the end."""
    jobs: int


class RunFigures(_Json):
    """One run on one environment."""

    environment: str
    seed: int
    hours: float
    """From the first submission to the last end."""
    jobs: int
    """That ran to an end. With those that are left out they are all rows of the trace."""
    served_gpu_hours: float
    waits: WaitTimes
    """From submission to dispatch."""
    to_gpu: WaitTimes
    """From submission until the container runs, nodes that start included."""
    utilisation: float | None
    """GPU hours held, of those of nodes that ran."""
    usd: float
    """Of nodes, for the whole run."""
    usd_month: float
    """What a month (730 hours) of such submissions costs, as far as the nodes could run for them."""
    usd_idle: float
    """Of GPUs that ran and no job held."""
    usd_fixed: float
    """What all nodes would have cost on demand, kept the whole time."""
    saved: float | None
    """Of that."""
    spot_share: float | None
    """Of the GPU hours served."""
    borrowed_gpu_hours: float
    preempted_jobs: int
    lost_gpu_hours: float
    """Work that was done again."""
    spot_losses: int
    """Nodes that were taken away."""
    timeouts: int
    most_waiting: int
    fairness: Fairness
    left_out: list[LeftOutFigure]
    groups: list[JobGroup]
    pools: list[PoolFigures]


def figures(environment: str, seed: int, trace: Trace, record: Record) -> RunFigures:
    """What a run of a trace came to."""
    jobs = list(record.jobs.values())
    hours = max(record.end - record.begin, 1.0) / 3600
    ran_on = dict.fromkeys(record.nodes, 0.0)
    for job in jobs:
        if job.pool:
            ran_on[job.pool] += job.ran_s
    pools = [_pool(name, record, hours, ran_s) for name, ran_s in ran_on.items()]
    served = sum(job.served_s for job in jobs)
    usd = sum(pool.usd for pool in pools)
    fixed = sum(nodes.usd_of_all(hours) for nodes in record.nodes.values())
    held = sum(series.held_s for series in record.series.values())
    ready = sum(sum(nodes.gpu_seconds.values()) for nodes in record.nodes.values())
    return RunFigures(
        environment=environment,
        seed=seed,
        hours=round(hours, 3),
        jobs=len(jobs) - record.never.total(),
        served_gpu_hours=_hours(served),
        waits=wait_times(job.wait_s for job in jobs),
        to_gpu=wait_times(job.to_gpu_s for job in jobs),
        utilisation=_part(held, ready),
        usd=round(usd, 2),
        usd_month=round(_usd_month(usd, trace, record), 2),
        usd_idle=round(sum(pool.usd_idle for pool in pools), 2),
        usd_fixed=round(fixed, 2),
        saved=_part(fixed - usd, fixed) if served else None,
        spot_share=_part(sum(job.spot_s for job in jobs), sum(job.ran_s for job in jobs)),
        borrowed_gpu_hours=_hours(sum(job.borrowed_s for job in jobs)),
        preempted_jobs=sum(job.preempted > 0 for job in jobs),
        lost_gpu_hours=_hours(sum(job.lost_s for job in jobs)),
        spot_losses=record.spot_losses,
        timeouts=sum(job.how == "timeout" for job in jobs),
        most_waiting=record.most_waiting,
        fairness=Fairness(distance=round(record.samples.distance, 3), bound=round(record.samples.bound, 3)),
        left_out=_left_out(trace, record),
        groups=_groups(jobs),
        pools=pools,
    )


def _usd_month(usd: float, trace: Trace, record: Record) -> float:
    """By the time from the trace's first submission to its last, a day at least: it is the same whatever the
    file does, so that one that only takes longer does not look cheaper. No month costs more than one of all
    nodes."""
    times = trace.arrivals
    hours = max(24.0, (times[-1].submitted - times[0].submitted) / 3600) if times else 24.0
    most = sum(nodes.usd_of_all(HOURS_PER_MONTH) for nodes in record.nodes.values())
    return min(usd / hours * HOURS_PER_MONTH, most)


def _left_out(trace: Trace, record: Record) -> list[LeftOutFigure]:
    reasons = Counter({reason.value: count for reason, count in trace.left_out.items()})
    reasons.update({f"refused:{problem}": count for problem, count in record.refused.items()})
    reasons.update({f"waits:{reason.value}": count for reason, count in record.never.items()})
    return [LeftOutFigure(reason=reason, jobs=count) for reason, count in reasons.most_common()]


def _pool(name: str, record: Record, hours: float, ran_s: float) -> PoolFigures:
    nodes, series = record.nodes[name], record.series[name]
    ready = sum(nodes.gpu_seconds.values())
    idle = max(0.0, ready - series.held_s) / ready if ready else 0.0
    passed = [
        PassedOver(
            resource=resource,
            free=free,
            hours=_hours(seconds),
            waited_hours=_hours(series.waited_s[resource]),
        )
        for (resource, free), seconds in series.passed_s.items()
        if seconds >= 1
    ]
    return PoolFigures(
        name=name,
        gpus=round(series.gpus, 3),
        utilisation=_part(series.held_s, ready),
        filled=_part(ran_s, series.held_s),
        ready=round(ready / 3600 / max(nodes.gpus * hours, 1e-9), 4),
        fragmentation=_part(record.samples.wasted[name], record.samples.free[name]),
        usd=round(nodes.usd, 2),
        usd_idle=round(nodes.usd * idle, 2),
        launches=nodes.launches,
        passed=passed,
    )


def _groups(jobs: Sequence[JobRecord]) -> list[JobGroup]:
    members: dict[tuple[str, str], list[JobRecord]] = defaultdict(list)
    for job in jobs:
        size = next(words for most, words in SIZES if job.gpus <= most)
        level = job.level.name.lower()
        for key in (("tenant", job.tenant), ("level", level), ("pool", job.pool), ("size", size)):
            if key[1]:
                members[key].append(job)
    order = {words: number for number, (_, words) in enumerate(SIZES)}
    kinds = ("tenant", "level", "pool", "size")
    keys = sorted(members, key=lambda key: (kinds.index(key[0]), order.get(key[1], 0), key[1]))
    return [_group(by, name, members[by, name]) for by, name in keys]


def _group(by: str, name: str, jobs: Sequence[JobRecord]) -> JobGroup:
    return JobGroup(
        by=by,
        name=name,
        jobs=len(jobs),
        served_gpu_hours=_hours(sum(job.served_s for job in jobs)),
        waits=wait_times(job.wait_s for job in jobs),
        to_gpu=wait_times(job.to_gpu_s for job in jobs),
        usd=round(sum(job.micro_usd for job in jobs) / MICRO, 2),
    )


def wait_times(seconds: Iterable[float]) -> WaitTimes:
    """Of jobs that have started."""
    known = sorted(value for value in seconds if value < inf)
    p50, p95, p99 = (percentile(known, share) for share in (0.5, 0.95, 0.99))
    return WaitTimes(p50=p50, p95=p95, p99=p99)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Of the nearest rank; None of nothing."""
    if not ordered:
        return None
    return round(ordered[max(0, -(-len(ordered) * int(share * 100) // 100) - 1)], 1)


def _hours(gpu_seconds: float) -> float:
    return round(gpu_seconds / 3600, 2)


def _part(value: float, whole: float) -> float | None:
    return round(value / whole, 4) if whole else None


PLAIN = (
    *("jobs", "served_gpu_hours", "utilisation", "usd", "usd_month", "usd_idle", "usd_fixed", "saved"),
    *("spot_share", "hours", "borrowed_gpu_hours", "preempted_jobs", "lost_gpu_hours", "spot_losses"),
    *("timeouts", "most_waiting", "left_out"),
)
"""Figures of a whole run that --assert has."""
TIMES = tuple(f"{kind}.{share}" for kind in ("wait", "to_gpu") for share in ("p50", "p95", "p99"))
"""Those of a run and of a tenant."""


def spread(runs: Sequence[RunFigures]) -> Mapping[str, tuple[float, float]]:
    """The least and the most of each figure over runs with other seeds."""
    values: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for name, value in named(run).items():
            if value is not None:
                values[name].append(value)
    return {name: (min(amounts), max(amounts)) for name, amounts in values.items()}


def named(run: RunFigures) -> dict[str, float | None]:
    """RunFigures by the name that --assert has for them; those of tenants begin with the tenant's."""
    values: dict[str, float | None] = {name: getattr(run, name) for name in PLAIN if name != "left_out"}
    values["left_out"] = sum(row.jobs for row in run.left_out)
    for prefix, waits, to_gpu in (
        ("", run.waits, run.to_gpu),
        *((f"{group.name}.", group.waits, group.to_gpu) for group in run.groups if group.by == "tenant"),
    ):
        for name in ("p50", "p95", "p99"):
            values[f"{prefix}wait.{name}"] = getattr(waits, name)
            values[f"{prefix}to_gpu.{name}"] = getattr(to_gpu, name)
    return values


PoolFigures.model_rebuild()
