"""The page of `simulate` and `recommend`: its commands print what it shows, its goals are measured."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from gpupool.environment.drawings.quantiles import quantiles
from gpupool.environment.plan.resolve import read_plan
from gpupool.queue.simulate.formats import read
from gpupool.queue.simulate.names_file import read_names
from gpupool.queue.simulate.numbers import numbers
from gpupool.queue.simulate.run import Settings, simulate
from gpupool.queue.simulate.trace import part_of
from tests.docs.test_readme import commands, matches

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
OPENB = ROOT.parent / "shared" / "data" / "traces" / "openb" / "openb_pod_list_default.csv"
DAY_S = 86400.0


@pytest.mark.parametrize(("command", "expected"), commands(PAGE), ids=lambda text: text[:40])
def test_the_page_shows_what_is_printed(command: str, expected: str) -> None:
    path = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert matches(expected, done.stdout), done.stdout


def test_the_picture_is_of_the_first_run() -> None:
    plan = read_plan(str(ROOT / "docs" / "simulation" / "team.yaml"))
    outcome = simulate(plan, read(ROOT / "docs" / "simulation" / "load.yaml"), Settings(numbers(())))
    times: dict[str, list[float]] = {"speech": [], "vision": []}
    for job in outcome.record.jobs.values():
        times[job.tenant].append(job.to_gpu_s)
    drawn = quantiles("time to GPU on team", times, "times") + "\n"
    picture = ROOT / "docs" / "simulation" / "team-times.svg"
    if os.environ.get("GPUPOOL_WRITE_GOLDEN"):
        picture.write_text(drawn, encoding="utf-8")
    assert picture.read_text(encoding="utf-8") == drawn
    speech, vision = (sorted(times[name])[len(times[name]) // 2] for name in times)
    assert speech < 75 * 60
    assert 75 * 60 < vision < 86400


@pytest.mark.skipif(not OPENB.is_file(), reason=f"the public trace is not at {OPENB}")
def test_the_goals_are_what_is_measured() -> None:
    trace = part_of(read(OPENB), (139 * DAY_S, 150 * DAY_S), 1.0)
    names = read_names(ROOT / "docs" / "simulation" / "openb.yaml")
    plan = read_plan(str(ROOT / "environments" / "prod.yaml"))
    run = simulate(plan, trace, Settings(numbers(()), names=names)).figures
    rows = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| (?:yes|no)", PAGE, re.MULTILINE))
    assert f"{run.jobs:,} jobs, {run.served_gpu_hours:,.0f} GPU hours" in PAGE
    assert rows["40 % below a fixed cluster"] == f"{run.saved:.0%}".replace("%", " %")
    assert rows["more than 80 % of the GPUs that run in use"] == f"{run.utilisation:.0%}".replace("%", " %")
    assert rows["more than 60 % on spot"] == f"{run.spot_share:.0%}".replace("%", " %")
    assert run.waits.p95 == 0
    assert run.to_gpu.p95 is not None
    assert run.to_gpu.p95 < 300
