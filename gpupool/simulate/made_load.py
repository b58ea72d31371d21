"""A load that is described, not recorded: how many jobs a day each tenant submits, how large, for how long.

    days: 7
    seed: 1
    tenants:
      - tenant: vision
        jobsPerDay: 300
        gpus: {1: 80, 4: 20}         # how many of each, in proportion
        seconds: {median: 900, sigma: 1.2}
        peak: 3                      # as many at noon as at night

Run times are log-normal, as those of public traces are (Philly, Helios), and arrivals Poisson with the day's
wave.
"""

from __future__ import annotations

import random
from math import cos, exp, log, pi
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gpupool.findings import GpupoolError
from gpupool.simulate.trace import LEVELS, Arrival, Trace, in_order

DAY_S = 86_400
_Level = Annotated[str, Field(pattern=f"^({'|'.join(LEVELS)})$")]


class _Described(BaseModel):
    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, populate_by_name=True)


class RunTimes(_Described):
    """Log-normal."""

    median: float = Field(gt=0)
    """Seconds."""
    sigma: float = Field(ge=0, le=4)
    """Standard deviation of the logarithm."""
    most: float = Field(default=7 * DAY_S, gt=0)


class TenantLoad(_Described):
    """What one tenant submits."""

    tenant: str
    project: str | None = None
    jobs_per_day: float = Field(gt=0, le=1_000_000)
    gpus: dict[float, float]
    """GPUs of a job -> how many of such jobs, in proportion."""
    gpu: str | None = None
    seconds: RunTimes
    peak: float = Field(default=1, ge=1)
    """How many times as many at noon (UTC) as at midnight."""
    priority: _Level | None = None
    preemptible: bool | None = None
    timeout: int | None = Field(default=None, gt=0)
    """Seconds."""


class MadeLoad(_Described):
    """The whole file."""

    days: float = Field(gt=0, le=366)
    seed: int = 1
    tenants: list[TenantLoad] = Field(min_length=1)


def read_made(file: Path) -> Trace:
    """Raises GpupoolError with the places of what is wrong."""
    try:
        data: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise GpupoolError(f"{file}: is not YAML: {' '.join(str(error).split())}") from error
    try:
        load = MadeLoad.model_validate(data)
    except ValidationError as error:
        rows = [f"{file}: {_path(row['loc'])}: {row['msg'].lower()}" for row in error.errors()]
        raise GpupoolError("\n".join(rows)) from error
    return in_order([*_arrivals(load)], {}, "made")


def _path(parts: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).lstrip(".")


def _arrivals(load: MadeLoad) -> list[Arrival]:
    arrivals = []
    for number, tenant in enumerate(load.tenants):
        draw = random.Random(f"{load.seed}/{number}/{tenant.tenant}")  # noqa: S311
        sizes, weights = list(tenant.gpus), list(tenant.gpus.values())
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
