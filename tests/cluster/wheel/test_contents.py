"""What is in the wheels, and that what they install is what runs."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

from tests.cluster.wheel.conftest import ROOT, Project

PACKAGES = ("gpupool", "vapcheck")
QUEUE = ("gpupool/queue/", "gpupool/client/", "gpupool/cli/queue/")
"""What gpupool-queue has."""
SHIPPED = ("policies", "charts", "tools", "ci", ".github/workflows/gpupool.yaml", "requirements.lock")
READ_IN_THE_REPOSITORY = ("README.md", "LICENSE", "pyproject.toml")


def sources(*folders: str) -> set[str]:
    """The files that Git has in `folders`, or would take."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *folders]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}


def packed(*folders: str) -> set[str]:
    """The files that packages consist of."""
    return {name for name in sources(*folders) if Path(name).name not in READ_IN_THE_REPOSITORY}


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_every_file_of_the_packages_is_in_a_wheel_and_nothing_else(
    wheel: Path, queue_wheel: Path, vapcheck_wheel: Path
) -> None:
    queue = packed(*QUEUE)
    beside = {f"gpupool/shipped/{name}" for name in sources(*SHIPPED)}
    assert contents(wheel) == packed("gpupool") - queue | beside
    assert contents(queue_wheel) == queue
    assert contents(vapcheck_wheel) == packed("vapcheck")


def test_what_is_imported_is_the_wheel(project: Project) -> None:
    code = f"import {', '.join(PACKAGES)}; print(*(one.__file__ for one in ({', '.join(PACKAGES)})))"
    for file in project.shell(f'python -c "{code}"').split():
        assert Path(file).is_relative_to(project.programs.parent), file


def test_what_came_with_it_is_found_in_it(project: Project) -> None:
    code = "from gpupool.environment.shipped import folder; print(folder('policies'), folder('tools'))"
    for folder in project.shell(f'python -c "{code}"').split():
        assert Path(folder).is_relative_to(project.programs.parent), folder
        assert Path(folder).is_dir()
