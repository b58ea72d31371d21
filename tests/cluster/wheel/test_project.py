"""A project of somebody who installed the wheel, as docs/start.md tells it: begun in an empty folder, applied
by gpupool and by plain Pulumi, with folders of its own by the names of gpupool's.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from tests.cluster.wheel.conftest import ROOT, Project
from tests.docs.test_readme import commands, matches
from tests.required_programs import require

PAGE = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")


def test_the_page_is_what_one_sees_with_colliding_folders(project: Project) -> None:
    require("pulumi")
    project.collide()
    for command, expected in commands(PAGE):
        printed = project.shell(command)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- the page shows:\n{expected}"
    assert not (project.folder / ".gpupool").exists()


def test_pulumis_own_language_host_finds_the_program(project: Project) -> None:
    """It runs the file with the project's folder first on the path, as Python does here.

    Outside of an engine the stack is called `stack`, for which there is no environment.
    """
    project.shell("gpupool init --name dev")
    project.collide()
    said = project.shell('PYTHONPATH="$PWD" python pulumi_program.py 2>&1 | tail -n 1', expect=None)
    assert "there are: dev" in said


def test_ci_installs_the_wheels_that_the_project_was_started_with(
    project: Project, wheel: Path, vapcheck_wheel: Path, queue_wheel: Path
) -> None:
    project.shell("gpupool init --name dev")
    made = (project.folder / "requirements-gpupool.txt").read_text()
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    assert made.endswith(lock)
    held = made.removesuffix(lock)
    (project.folder / "own.txt").write_text(held)
    pip = f"{sys.executable} -m pip --disable-pip-version-check install --quiet --no-index --target ci"
    pip += " --require-hashes --only-binary :all: --no-deps -r own.txt"
    for built in (wheel, vapcheck_wheel, queue_wheel):
        shutil.copy(built, project.folder)
    packed = project.folder / wheel.name
    project.shell(pip)
    assert (project.folder / "ci" / "gpupool" / "shipped" / "requirements.lock").read_text() == lock
    shutil.rmtree(project.folder / "ci")
    with packed.open("ab") as stream:
        stream.write(b"more")
    project.shell(pip, expect=1)
    assert not (project.folder / "ci").exists()


def test_an_empty_folder_is_no_project(project: Project) -> None:
    said = project.shell("gpupool validate 2>&1", expect=2)
    assert "no environments; add one" in said
    said = project.shell("gpupool preview dev 2>&1", expect=2)
    assert "no environment 'dev'" in said
