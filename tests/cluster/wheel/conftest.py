"""gpupool as somebody has it who installed the wheels: built once, gpupool's from its source distribution.

The environment has gpupool's dependencies from the one that runs the tests, so that nothing is downloaded:
all of them, or those of the base alone. Of the repository's own, the packages are those of the wheels.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path

import pytest

from gpupool.local.control_plane import ControlPlane
from tests.distributions import needed

ROOT = Path(__file__).parents[3]
_NOT_SOURCES = (
    ".git",
    ".venv",
    ".gpupool",
    ".pulumi",
    "build",
    "dist",
    "*.egg-info",
    "__pycache__",
    ".*_cache",
    ".hypothesis",
)
_SOURCE_DISTRIBUTION = "from setuptools import build_meta; build_meta.build_sdist('dist')"
COLLIDING = ("cli", "generators", "infra", "policies", "report", "tools", "vapcheck")
"""Folders of the project that are Python packages, which nothing of gpupool may import."""


def run(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def packed(source: Path, folder: Path) -> Path:
    """The wheel of `source`, a source distribution or a folder that may be written to."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, source, cwd=folder)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="session")
def client_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's own."""
    folder = tmp_path_factory.mktemp("client")
    return packed(Path(shutil.copytree(ROOT / "gpupool" / "client", folder / "source")), folder)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, which is built from the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    source = shutil.copytree(ROOT, folder / "source", ignore=shutil.ignore_patterns(*_NOT_SOURCES))
    run(sys.executable, "-c", _SOURCE_DISTRIBUTION, cwd=source)
    [archive] = (source / "dist").glob("*.tar.gz")
    return packed(archive, folder)


@pytest.fixture(scope="session")
def vapcheck_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vapcheck")
    return packed(Path(shutil.copytree(ROOT / "vapcheck", folder / "source")), folder)


@pytest.fixture(scope="session")
def queue_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The queue's, built in its folder of a checkout."""
    folder = tmp_path_factory.mktemp("queue")
    source = shutil.copytree(
        ROOT / "gpupool", folder / "gpupool", ignore=shutil.ignore_patterns(*_NOT_SOURCES)
    )
    return packed(Path(source) / "queue", folder)


@dataclass(frozen=True)
class Project:
    """An empty folder, and the environment that the wheel is installed in."""

    folder: Path
    programs: Path

    def shell(self, command: str, expect: int | None = 0) -> str:
        """What a shell in the project prints; stderr too where it should have succeeded and did not."""
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GPUPOOL_LOCAL", "PULUMI", "PYTHON"))
        }
        variables |= {
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
        }
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        said = done.stdout + done.stderr
        assert expect is None or done.returncode == expect, f"$ {command}\n{said}"
        assert "Traceback" not in said, said
        return done.stdout

    def collide(self) -> None:
        """Give the project packages of its own by the names of gpupool's, which can't be imported."""
        for name in COLLIDING:
            package = self.folder / name / "__init__.py"
            package.parent.mkdir(exist_ok=True)
            package.write_text(f"raise ImportError('{name} of the project was imported')\n")


@pytest.fixture(scope="session")
def programs(
    wheel: Path, vapcheck_wheel: Path, queue_wheel: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Where the commands of an environment with the wheels are."""
    folder = tmp_path_factory.mktemp("installed")
    # Only a folder on the path: what is named in .pth files there, as an editable gpupool, is not looked at.
    packages = environment(folder, wheel, vapcheck_wheel, queue_wheel)
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


@pytest.fixture(scope="session")
def base_programs(wheel: Path, vapcheck_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same where gpupool was installed without an extra."""
    folder = tmp_path_factory.mktemp("base")
    link(needed("gpupool") - {"gpupool", "vapcheck"}, environment(folder, wheel, vapcheck_wheel))
    return folder / "bin"


def link(distributions: set[str], packages: Path) -> None:
    """Have `distributions` of the environment that runs the tests, and no others, at `packages`."""
    for name in distributions:
        files = distribution(name).files or ()
        for top in {file.parts[0] for file in files if ".." not in file.parts} - {"__pycache__"}:
            (packages / top).symlink_to(Path(str(distribution(name).locate_file(top))))


def environment(folder: Path, *wheels: Path) -> Path:
    """A virtual environment with the wheels and nothing else; returns the folder of its packages."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    pip = (
        sys.executable,
        "-m",
        "pip",
        "--disable-pip-version-check",
        "--python",
        python,
        "install",
        "--quiet",
    )
    run(*pip, "--no-deps", "--no-index", *wheels, cwd=folder)
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(run(python, "-c", asked, cwd=folder).strip())


@pytest.fixture
def project(programs: Path, tmp_path: Path) -> Iterator[Project]:
    """An empty folder; what runs of its control plane is stopped afterwards."""
    made = Project(tmp_path / "project", programs)
    made.folder.mkdir()
    yield made
    ControlPlane(made.folder / ".gpupool" / "local").down()
