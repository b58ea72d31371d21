"""What the templates install, by real pip in an empty environment: the files whose hashes the project holds,
and nothing that an index or a source distribution adds to them."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.unit.ci import test_github, test_gitlab
from tests.unit.ci.project import Project

FILE = "requirements-gpupool.txt"
MARK = "somebody else's code ran"
TEMPLATES = ("github", "gitlab")
BUILD = '[build-system]\nrequires = [{}]\nbuild-backend = "backend"\nbackend-path = ["."]\n'


def wheel(name: str, version: str, code: str = "pass", needs: str = "") -> bytes:
    """A wheel with the command `name`, which runs `code`."""
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    files = {
        f"{name}.py": f"def run():\n    {code}\n",
        f"{info}/METADATA": about + (f"Requires-Dist: {needs}\n" if needs else ""),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:run\n",
        f"{info}/RECORD": "",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return packed.getvalue()


def source(name: str, version: str, mark: Path) -> bytes:
    """A source distribution whose build needs nothing and leaves a mark."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for path, text in {
            "backend.py": f"open({str(mark)!r}, 'w').write('built')\n",
            "pyproject.toml": BUILD.format(""),
            "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        }.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()


@dataclass
class Runner:
    """A CI job's machine: Python with pip, an index on this machine, and nothing installed."""

    project: Project
    index: Path
    environment: Path
    python: Path
    lines: list[str] = field(default_factory=list)

    def serve(self, name: str, content: bytes) -> str:
        """The index has this file; its hash, as a requirements file has it."""
        (self.index / name).write_bytes(content)
        return f"--hash=sha256:{hashlib.sha256(content).hexdigest()}"

    def commit(self, name: str, content: bytes) -> str:
        (self.project.folder / name).write_bytes(content)
        return f"--hash=sha256:{hashlib.sha256(content).hexdigest()}"

    def run(self, template: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Install as `template` does, with the `lines` as the project's file."""
        if self.lines:
            (self.project.folder / FILE).write_text("".join(f"{line}\n" for line in self.lines))
        if template == "github":
            step = test_github.steps("check")["Install"]
            values = {name: test_github.value(text, **inputs) for name, text in step["env"].items()}
            script, shell = step["run"], ("bash", "-eo", "pipefail")
        else:
            job = test_gitlab.CHECK
            values = {
                name: test_gitlab.interpolated(text, **inputs) for name, text in job["variables"].items()
            }
            script, shell = "\n".join(job["before_script"]), ("sh", "-e")
        return self.project.shell(
            script,
            values
            | {
                "PATH": f"{self.python}{os.pathsep}{self.environment / 'bin'}{os.pathsep}/usr/bin:/bin",
                "PIP_PYTHON": str(self.environment / "bin" / "python"),
                "PIP_NO_CACHE_DIR": "1",
                "PIP_FIND_LINKS": str(self.index),
            },
            shell,
        )

    def installed(self) -> set[str]:
        return {path.name.partition("-")[0] for path in self.environment.rglob("*.dist-info")}


@pytest.fixture
def runner(project: Project, tmp_path: Path) -> Runner:
    index, python = tmp_path / "index", tmp_path / "python"
    index.mkdir()
    python.mkdir()
    for name in ("python", "python3"):
        (python / name).write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (python / name).chmod(0o755)
    environment = tmp_path / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (project.folder / FILE).unlink()
    return Runner(project, index, environment, python)


GOOD = "print('gpupool 0.1.0')"
BAD = f"print({MARK!r})"


@pytest.mark.parametrize("template", TEMPLATES)
def test_the_wheel_in_the_repository_is_installed_with_what_has_a_hash(runner: Runner, template: str) -> None:
    held = runner.commit("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", GOOD, "listed"))
    listed = runner.serve("listed-1.0-py3-none-any.whl", wheel("listed", "1.0"))
    runner.serve("gpupool-9.0-py3-none-any.whl", wheel("gpupool", "9.0", BAD))
    runner.serve("listed-9.0-py3-none-any.whl", wheel("listed", "9.0", BAD))
    runner.lines = [f"./gpupool-0.1.0-py3-none-any.whl {held}", f"listed==1.0 {listed}"]
    done = runner.run(template)
    assert (done.returncode, done.stdout) == (0, "gpupool 0.1.0\n"), done.stderr
    assert runner.installed() == {"gpupool", "listed"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_without_the_file_nothing_is_installed_by_a_name(runner: Runner, template: str) -> None:
    runner.serve("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", BAD))
    done = runner.run(template)
    assert done.returncode == 1
    assert f"requirements: {FILE} is no file of this repository; `gpupool init` writes one" in done.stderr
    assert runner.installed() == set()


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("line", ["gpupool", "gpupool==0.1.0", "gpupool>=0.1"])
def test_a_line_without_a_hash_installs_nothing(runner: Runner, template: str, line: str) -> None:
    listed = runner.serve("listed-1.0-py3-none-any.whl", wheel("listed", "1.0"))
    runner.serve("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", BAD))
    runner.lines = [f"listed==1.0 {listed}", line]
    done = runner.run(template)
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()
    assert runner.installed() == set()


@pytest.mark.parametrize("template", TEMPLATES)
def test_another_file_under_the_same_name_and_version_is_refused(runner: Runner, template: str) -> None:
    hash_of_ours = f"--hash=sha256:{hashlib.sha256(wheel('gpupool', '0.1.0', GOOD)).hexdigest()}"
    runner.serve("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", BAD))
    runner.lines = [f"gpupool==0.1.0 {hash_of_ours}"]
    done = runner.run(template)
    assert done.returncode != 0
    assert MARK not in done.stdout
    assert runner.installed() == set()


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_source_distribution_is_not_built_though_its_hash_is_right(
    runner: Runner, template: str, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    held = runner.serve("listed-1.0.tar.gz", source("listed", "1.0", mark))
    runner.lines = [f"listed==1.0 {held}"]
    done = runner.run(template)
    assert done.returncode != 0
    assert not mark.exists()


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_wheel_needs_and_the_file_has_not_is_not_fetched(runner: Runner, template: str) -> None:
    held = runner.commit("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", GOOD, "unlisted"))
    runner.serve("unlisted-1.0-py3-none-any.whl", wheel("unlisted", "1.0", BAD))
    runner.lines = [f"./gpupool-0.1.0-py3-none-any.whl {held}"]
    assert runner.run(template).returncode == 0
    assert runner.installed() == {"gpupool"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_file_without_gpupool_is_refused(runner: Runner, template: str) -> None:
    """`gpupool init` in a checkout leaves that line to its reader."""
    runner.serve("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", BAD))
    listed = runner.serve("listed-1.0-py3-none-any.whl", wheel("listed", "1.0"))
    runner.lines = [f"listed==1.0 {listed}"]
    done = runner.run(template)
    assert done.returncode == 1
    assert f"requirements: {FILE} has no line for gpupool itself" in done.stderr


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize(
    "name", ["gpupool", "gpupool==0.1.0", "file:///{index}/gpupool-0.1.0-py3-none-any.whl"]
)
def test_a_source_is_a_folder_and_never_a_name(runner: Runner, template: str, name: str) -> None:
    runner.serve("gpupool-0.1.0-py3-none-any.whl", wheel("gpupool", "0.1.0", BAD))
    listed = runner.serve("listed-1.0-py3-none-any.whl", wheel("listed", "1.0"))
    runner.lines = [f"listed==1.0 {listed}"]
    done = runner.run(template, source=name.format(index=runner.index))
    assert done.returncode != 0
    assert MARK not in done.stdout
    assert runner.installed() == {"listed"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_forks_own_source_is_installed_without_an_index(runner: Runner, template: str) -> None:
    backend = runner.serve("setuptools-80.0-py3-none-any.whl", wheel("setuptools", "80.0"))
    folder = runner.project.folder
    (folder / "backend.py").write_text(
        "import shutil\n"
        "def build_wheel(folder, *_):\n"
        "    name = 'gpupool-0.1.0-py3-none-any.whl'\n"
        f"    shutil.copy({str(runner.index / 'own.whl')!r}, f'{{folder}}/{{name}}')\n"
        "    return name\n"
    )
    (folder / "pyproject.toml").write_text(BUILD.format('"unlisted"'))
    (runner.index / "own.whl").write_bytes(wheel("gpupool", "0.1.0", GOOD, "unlisted"))
    runner.serve("unlisted-1.0-py3-none-any.whl", wheel("unlisted", "1.0", BAD))
    runner.lines = [f"setuptools==80.0 {backend}"]
    done = runner.run(template, source=".")
    assert (done.returncode, done.stdout) == (0, "gpupool 0.1.0\n"), done.stderr
    assert runner.installed() == {"gpupool", "setuptools"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_no_input_has_a_default_that_an_index_could_answer(template: str) -> None:
    if template == "github":
        inputs = {name: spec["default"] for name, spec in test_github.INPUTS.items()}
    else:
        inputs = test_gitlab.INPUTS
        assert "@sha256:" in inputs["image"]
    assert "package" not in inputs
    assert (inputs["requirements"], inputs["source"]) == (FILE, "")


def test_both_templates_install_alike() -> None:
    """Options of pip are the same, so that what is proved of one holds for the other."""
    github = test_github.steps("check")["Install"]["run"]
    gitlab = "\n".join(test_gitlab.CHECK["before_script"])
    commands = [
        [
            line.strip().partition(" -m pip ")[2].split("$")[0].rstrip('"./')
            for line in text.splitlines()
            if "pip install" in line
        ]
        for text in (github, gitlab)
    ]
    assert commands[0] == commands[1]
    assert yaml.safe_load((test_github.ROOT / "ci" / "github" / "pull-request.yaml").read_text())["jobs"][
        "gpupool"
    ]["uses"].startswith("./")
