"""How fast a simulation is: a load like that of teams on the shipped `prod`, a tenth of its GPUs in use on
average, with whole GPUs, slices and profiles, all levels, budgets, preemption and reservations."""

from __future__ import annotations

import math
import random
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.resolve import read_plan
from gpupool.queue.domain.current import current
from gpupool.queue.simulate.engine import Simulation
from gpupool.queue.simulate.numbers import numbers
from gpupool.queue.simulate.trace import Arrival

PROD = Path(__file__).parents[2] / "environments" / "prod.yaml"
JOBS = 100_000
MEAN_S, SIGMA = 1800, 1.5
Figure = tuple[str, float]
LEVELS = ("critical", "high", "medium", "low")


def load(plan: Plan, count: int, share: float, seed: int = 1) -> Iterator[Arrival]:
    """`share`: of all GPUs that jobs hold on average."""
    rng = random.Random(seed)
    wishes: list[tuple[str, str | None, str, str, float]] = []
    for tenant in plan.tenants:
        project = tenant.projects[0].name if tenant.projects else None
        for name, granted in tenant.grants.items():
            pool = plan.pool(name)
            for resource_name in granted:
                size = float(pool.equivalents[resource_name])
                profile = resource_name.removeprefix("nvidia.com/mig-")
                gpu = profile if pool.sharing.layout else name
                counts = (1, 2, 4, 8) if size == 1 else (1,)
                wishes += [(tenant.name, project, gpu, name, size * units) for units in counts]
    of_pool = {name: sum(wish[3] == name for wish in wishes) for name in {wish[3] for wish in wishes}}
    weights = [plan.pool(wish[3]).gpus_max / of_pool[wish[3]] / wish[4] for wish in wishes]
    mean = sum(weight * wish[4] for weight, wish in zip(weights, wishes, strict=True)) / sum(weights)
    rate = share * sum(pool.gpus_max for pool in plan.pools) / (mean * MEAN_S)
    at = 1_790_000_000.0
    for _ in range(count):
        wave = 1 + 0.8 * math.sin((at / 3600 % 24 - 9) / 24 * 2 * math.pi)
        at += rng.expovariate(rate * wave)
        name, project, gpu, _, gpus = rng.choices(wishes, weights)[0]
        seconds = rng.lognormvariate(math.log(MEAN_S) - SIGMA**2 / 2, SIGMA)
        seconds = min(86_400.0, max(5.0, seconds))
        timeout = int(max(600, min(172_800, seconds * rng.choice((1.2, 2, 4, 8)))))
        yield Arrival(at, name, project, gpus, gpu, seconds, rng.choice(LEVELS), None, timeout)


def simulation(_: Path) -> Iterator[Figure]:
    """Processor seconds of 100,000 jobs; how many times as much a job takes where twice as many GPUs are
    asked for, which is what a backlog costs; and MiB of a process that runs 100,000 jobs."""
    plan = read_plan(str(PROD))
    speed = _seconds(plan, JOBS, 0.1)
    yield "simulation-speed", speed
    yield "simulation-growth", _seconds(plan, JOBS // 5, 0.2) / (speed / 5)
    command = [sys.executable, "-c", "from tests.perf.simulation_figures import _peak; _peak()"]
    done = subprocess.run(command, cwd=PROD.parents[1], capture_output=True, text=True, check=True)
    yield "simulation-memory", float(done.stdout)


def _seconds(plan: Plan, count: int, share: float) -> float:
    arrivals, now = list(load(plan, count, share)), current(plan)
    began = time.process_time()
    record = Simulation(now, arrivals, numbers(())).play()
    assert len(record.jobs) == count
    return time.process_time() - began


def _peak() -> None:
    plan = read_plan(str(PROD))
    Simulation(current(plan), list(load(plan, JOBS, 0.1)), numbers(())).play()
    # Of this program: what getrusage says counts the process that started it as well.
    status = Path("/proc/self/status").read_text()
    print(int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024)
