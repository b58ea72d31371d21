"""A load that is described, not recorded: how many jobs a day each tenant submits, how large, for how long.

    days: 7
    seed: 1
    tenants:
      - tenant: vision
        jobsPerDay: 300
        gpus: {"1": 80, "4": 20}     # how many of each, in proportion
        seconds: {median: 900, sigma: 1.2}
        peak: 3                      # as many at noon as at night

Run times are log-normal, as those of public traces are (Philly, Helios), and arrivals Poisson with the day's
wave.
"""

from __future__ import annotations

import random
from math import cos, exp, log, pi
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gpupool.environment.spec.field_types import Hint, Model
from gpupool.environment.spec.shape import read_as
from gpupool.findings import GpupoolError
from gpupool.queue.simulate.trace import Arrival, Trace, in_order

DAY_S = 86_400
MOST_JOBS = 2_000_000
Gpus = Annotated[
    str,
    Field(pattern=r"^(0\.[0-9]{0,5}[1-9]0*|[1-9][0-9]{0,3}(\.[0-9]{1,6})?)$"),
    Hint('a number in quotes: {"1": 80, "0.25": 20}'),
]


class RunTimes(Model):
    """Log-normal."""

    median: float = Field(gt=0)
    """Seconds."""
    sigma: float = Field(ge=0, le=4)
    """Standard deviation of the logarithm."""
    most: float = Field(default=7 * DAY_S, gt=0)
    """Seconds that none runs longer than."""


class TenantLoad(Model):
    """What one tenant submits."""

    tenant: str
    """Name of the tenant."""
    project: str | None = None
    """Name of its project."""
    jobs_per_day: float = Field(gt=0, le=1_000_000)
    """Jobs that it submits in a day, on average."""
    gpus: dict[Gpus, Annotated[float, Field(gt=0)]] = Field(min_length=1)
    """GPUs of a job -> how many of such jobs, in proportion."""
    gpu: str | None = None
    """Pool, key of the catalog or profile; left out: any."""
    seconds: RunTimes
    """How long its jobs run."""
    peak: float = Field(default=1, ge=1)
    """How many times as many at noon (UTC) as at midnight."""
    priority: Literal["critical", "high", "medium", "low"] | None = None
    """Level of its jobs."""
    preemptible: bool | None = None
    """Whether they may be ended for others; left out: as the level has it."""
    timeout: int | None = Field(default=None, gt=0)
    """Seconds that they may run."""


class MadeLoad(Model):
    """The whole file."""

    days: float = Field(gt=0, le=366)
    """How long the load lasts."""
    seed: int = 1
    """Of what is drawn: another one gives other jobs of the same kind."""
    tenants: list[TenantLoad] = Field(min_length=1)
    """What each tenant submits."""


def read_made(file: Path) -> Trace:
    """Raises SpecError with the places of what is wrong."""
    load = read_as(file, MadeLoad, "write days and tenants, as docs/simulation.md shows")
    jobs = load.days * sum(tenant.jobs_per_day for tenant in load.tenants)
    if jobs > MOST_JOBS:
        raise GpupoolError(
            f"{file}: generates about {jobs:,.0f} jobs, more than the maximum of {MOST_JOBS:,}; "
            "generate fewer"
        )
    return in_order([*_arrivals(load)], {}, "made")


def _arrivals(load: MadeLoad) -> list[Arrival]:
    arrivals = []
    for number, tenant in enumerate(load.tenants):
        draw = random.Random(f"{load.seed}/{number}/{tenant.tenant}")  # noqa: S311
        sizes, weights = [float(gpus) for gpus in tenant.gpus], list(tenant.gpus.values())
        most = tenant.jobs_per_day / DAY_S * 2 * tenant.peak / (1 + tenant.peak)
        at = 0.0
        while (at := at + draw.expovariate(most)) < load.days * DAY_S:
            # The wave has its least at midnight; what is above it is drawn and thrown away.
            wave = (1 + tenant.peak - (tenant.peak - 1) * cos(2 * pi * at / DAY_S)) / 2
            if draw.random() * tenant.peak > wave:
                continue
            seconds = exp(draw.gauss(log(tenant.seconds.median), tenant.seconds.sigma))
            arrivals.append(
                Arrival(
                    round(at, 3),
                    tenant.tenant,
                    tenant.project,
                    draw.choices(sizes, weights)[0],
                    tenant.gpu,
                    round(min(tenant.seconds.most, max(1.0, seconds)), 3),
                    tenant.priority,
                    tenant.preemptible,
                    tenant.timeout,
                )
            )
    return arrivals
