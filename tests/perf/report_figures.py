"""Figures of `gpupool report`: the whole command over five environments of 200 objects each, under Git."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.perf import large
from tests.perf.measure import run

GPUPOOL = Path(sys.executable).with_name("gpupool")
ENVIRONMENTS, OBJECTS = 5, 1000
TIMES = 5
Figure = tuple[str, float]


def reports(folder: Path) -> Iterator[Figure]:
    """First with one environment changed, as most pull requests do, then with all of them."""
    project = folder / "project"
    (project / "environments").mkdir(parents=True)
    names = [f"env-{number}" for number in range(ENVIRONMENTS)]
    for name in names:
        path = large.write_objects(project / "environments", name, OBJECTS // ENVIRONMENTS)
        data = json.loads(path.read_text())
        data["cluster"]["name"] = name
        path.write_text(json.dumps(data, indent=2))
    _git(project, "init", "-q", "-b", "main")
    _git(project, "add", "-A")
    _git(project, "commit", "-q", "-m", "before")
    _change(project, names[0])
    yield "report-one-changed", _median(project)
    for name in names[1:]:
        _change(project, name)
    yield "report", _median(project)


def _git(project: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=bench", "-c", "user.email=bench@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", "-C", str(project), *identity, *arguments], check=True, capture_output=True)


def _change(project: Path, name: str) -> None:
    """Other labels on every pool, so that all nodes of it are replaced."""
    path = project / "environments" / f"{name}.yaml"
    data = json.loads(path.read_text())
    for pool in data["pools"]:
        pool["labels"] = {"workload-type": "changed"}
    path.write_text(json.dumps(data, indent=2))


def _median(project: Path) -> float:
    command = [GPUPOOL, "report", "--base", "main", "--format", "markdown"]
    return statistics.median(run(command, project)[0] for _ in range(TIMES))
