"""The README is tested: its commands are run, its paths exist, and its examples print what it shows.

A block of ```console holds commands after `$ ` and what they print; `...` stands for anything.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpupool.local.control_plane import ControlPlane
from gpupool.local.job_queue import JobQueue
from gpupool.local.ports import free_port
from tests.programs import require

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TESTED = (ROOT / "docs" / "tested.md").read_text(encoding="utf-8")
LONGEST = 200
"""Lines of the README at most: it is read in a few minutes."""


def commands(page: str = README) -> list[tuple[str, str]]:
    """Every (command, expected output) of a page, in order."""
    found = []
    for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            found.append((command.strip(), expected))
    return found


def matches(expected: str, printed: str) -> bool:
    pattern = re.escape(expected.strip()).replace(re.escape("..."), r"[\s\S]*?")
    return re.fullmatch(pattern, printed.strip()) is not None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A repository with the files that the commands name, and a control plane folder of its own."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "environments", folder / "environments")
    wrong = Path("tests/golden/wrong_environments")
    shutil.copytree(ROOT / wrong, folder / wrong)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "before"]):
        subprocess.run([*git, *step], cwd=folder, check=True)
    yield folder
    ControlPlane(folder / "local").down()
    JobQueue(queue_folder(folder)).stop()
    shutil.rmtree(queue_folder(folder), ignore_errors=True)


@functools.cache
def queue_folder(place: Path) -> Path:
    """Not in pytest's own folder, which only this user enters: as root, the database has another account."""
    return Path(tempfile.mkdtemp(prefix="gpupool-queue-"))


@functools.cache
def port() -> str:
    """For the queue of this module: the usual one may be in use."""
    return str(free_port())


def queue_of(place: Path) -> dict[str, str]:
    """The variables that give commands a queue of their own."""
    return {
        "GPUPOOL_QUEUE_DIR": str(queue_folder(place)),
        "GPUPOOL_PORT": port(),
        "GPUPOOL_URL": f"http://localhost:{port()}",
    }


def shell() -> dict[str, str]:
    """The variables of a shell that was not started by `make test`: a make within a make prints more."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}


def run(command: str, place: Path) -> str:
    """Run a command of the README; `make` in the checkout, the rest in `place`."""
    environment = {
        **shell(),
        "PATH": f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GPUPOOL_LOCAL_DIR": str(place / "local"),
        **queue_of(place),
    }
    cwd = ROOT if command.startswith("make") else place
    done = subprocess.run(
        command,
        shell=True,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.cluster
def test_every_command_prints_what_the_readme_shows(place: Path) -> None:
    require()
    for command, expected in commands():
        printed = run(command, place)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- the README shows:\n{expected}"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A place where the local environment's queue is served."""
    require("nats-server")
    folder = tmp_path_factory.mktemp("queue")
    shutil.copytree(ROOT / "environments", folder / "environments")
    print(run("gpupool serve local --dev --echo http://example --background", folder))
    yield folder
    run("gpupool serve local --stop", folder)
    shutil.rmtree(queue_folder(folder), ignore_errors=True)


def test_the_example_of_the_client_runs(served: Path) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    done = subprocess.run(
        [ROOT / ".venv" / "bin" / "python", "-c", example],
        env={**os.environ, **queue_of(served)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "succeeded" in done.stdout, done.stdout + done.stderr
    assert "trained" in done.stdout


def test_the_commands_of_the_page_on_the_queue_print_what_it_shows(served: Path) -> None:
    page = (ROOT / "docs" / "queue.md").read_text(encoding="utf-8")
    for command, expected in commands(page):
        printed = run(command.replace("localhost:8021", f"localhost:{port()}"), served)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- the page shows:\n{expected}"


def test_the_page_on_doctor_shows_what_the_readme_runs() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert set(commands(page)) <= set(commands())


def test_the_two_commands_and_enough_others_are_there() -> None:
    shown = [command for command, _ in commands()]
    assert {"make up", "make down"} <= set(shown)
    assert "make test" not in shown, "a newcomer need not run the tests"
    assert len(shown) >= 10


def test_the_readme_is_short_and_its_first_screen_shows_everything() -> None:
    lines = README.splitlines()
    assert len(lines) <= LONGEST
    first = "\n".join(lines[:42])
    assert all(part in first for part in ("sharing: {mode: mig", "$ make up", ".svg)"))


def test_make_up_ends_with_the_pages_address_and_asks_for_no_further_step() -> None:
    def printed(goal: str) -> str:
        command = ["make", "--dry-run", "--always-make", goal]
        done = subprocess.run(command, cwd=ROOT, env=shell(), capture_output=True, text=True, check=True)
        return done.stdout

    shown = printed("up")
    assert "the job queue and its page:  http://localhost:${GPUPOOL_PORT:-8021}" in shown.splitlines()[-1]
    assert "next: make up" not in shown
    assert "next: make up" in printed("setup")


def test_every_requirement_has_tests_that_exist() -> None:
    rows = re.findall(r"^\| ([A-C]\d+) \|.*\| (.*) \|$", TESTED, re.MULTILINE)
    assert {name for name, _ in rows} >= {f"A{number}" for number in range(1, 12)} | {"B1", "B5", "C1", "C4"}
    assert all("`" in tests for _, tests in rows)


def test_paths_that_the_readme_names_exist() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    linked += [f"docs/{path}" for path in re.findall(r"\]\(([^)#:]+)\)", TESTED)]
    folders = "|".join(re.escape(path.name) for path in ROOT.iterdir() if path.is_dir())
    named = re.findall(rf"`((?:{folders})/[\w./-]*)`", README + TESTED)
    missing = [path for path in linked + named if not (ROOT / path).exists()]
    assert not missing


def test_registration_points_that_the_table_names_exist() -> None:
    table = README.partition("## Where do I change X?")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z_]\w*)`", table))
    assert {"GENERATORS", "CHECKS", "ENGINES", "FindingFormat"} <= named
    code = "\n".join(
        path.read_text(encoding="utf-8")
        for folder in ("gpupool", "generators")
        for path in (ROOT / folder).rglob("*.py")
    )
    defined = set(re.findall(r"^(?:def |class )?(\w+)\b *[:(=]", code, re.MULTILINE))
    assert named <= defined


def test_every_verb_has_help_with_an_example() -> None:
    from typer.main import get_command

    from gpupool.cli.app import app

    def walk(command: Any, path: str) -> Iterator[tuple[str, str]]:
        if not hasattr(command, "list_commands"):
            yield path, command.help or ""
            return
        for name in command.list_commands(None):
            yield from walk(command.get_command(None, name), f"{path} {name}")

    helps = dict(walk(get_command(app), "gpupool"))
    assert len(helps) >= 14
    without = [path for path, text in helps.items() if not re.search(r"Example:.*gpupool", text)]
    assert not without
