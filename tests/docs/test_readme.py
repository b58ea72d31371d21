"""The README and the pages with examples are tested: their commands run, and print what the page shows.

A block of ```console holds commands after `$ ` and what they print; `...` stands for anything.
"""

from __future__ import annotations

import functools
import json
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
from tests.required_programs import require

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
TESTED = (ROOT / "docs" / "tested.md").read_text(encoding="utf-8")
LONGEST = 115
"""Lines of the README at most: one screen, and what a newcomer needs below it."""
WITHOUT_A_CLUSTER = ("coming-from.md", "environment-file.md", "policies.md", "report.md")
"""Pages whose commands need the shipped environments and nothing else."""


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
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files that the commands name."""
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "environments", folder / "environments")
    wrong = Path("tests/golden/wrong_environments")
    shutil.copytree(ROOT / wrong, folder / wrong)
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-qm", "before"]):
        subprocess.run([*git, *step], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def place(checkout: Path) -> Iterator[Path]:
    """The same with a control plane folder of its own."""
    yield checkout
    ControlPlane(checkout / "local").down()
    JobQueue(queue_folder(checkout)).stop()
    shutil.rmtree(queue_folder(checkout), ignore_errors=True)


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
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


def test_every_command_prints_what_the_readme_shows(place: Path) -> None:
    require()
    for command, expected in commands():
        printed = run(command, place)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- the README shows:\n{expected}"


@pytest.mark.parametrize("page", WITHOUT_A_CLUSTER)
def test_the_commands_of_a_page_print_what_it_shows(page: str, checkout: Path) -> None:
    shown = commands((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert shown
    for command, expected in shown:
        printed = run(command, checkout)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- the page shows:\n{expected}"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the environment file of the README."""
    folder = tmp_path_factory.mktemp("example")
    (written,) = re.findall(r"```yaml\n# (environments/\w+\.yaml)\n(.*?)```", README, re.DOTALL)
    (folder / "environments").mkdir()
    (folder / written[0]).write_text(written[1], encoding="utf-8")
    return folder


def test_the_first_file_is_taken_and_becomes_the_tree(example: Path) -> None:
    (command,) = re.findall(r"`(gpupool render .*)`", README)
    run(command, example)
    (tree,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    top, *lines = tree.splitlines()
    folder = ""
    for line in lines:
        name = re.split(r"\s{2,}", line.lstrip("│├└─ "))[0]
        if name.endswith("/"):
            folder = name
        found = list((example / top / folder).glob(name.removeprefix(folder) or "*"))
        assert found, f"{top}{folder}{name} is not rendered"


def test_the_numbers_beside_the_tree_are_the_plans(example: Path) -> None:
    plan = json.loads(run("gpupool show ml --format json", example))
    (tenant,) = plan["tenants"]
    assert tenant["quota"] == {"nvidia.com/gpu": 18, "nvidia.com/mig-3g.40gb": 4}
    assert plan["pools"][0]["slicesPerNode"] == {"nvidia.com/gpu": 24}


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
    page = (ROOT / "docs" / "submit-jobs.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    done = subprocess.run(
        [ROOT / ".venv" / "bin" / "python", "-c", example],
        env={**os.environ, **queue_of(served)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "succeeded" in done.stdout, done.stdout + done.stderr
    assert "trained" in done.stdout


def test_the_commands_of_the_page_on_the_queue_print_what_it_shows(served: Path) -> None:
    page = (ROOT / "docs" / "submit-jobs.md").read_text(encoding="utf-8")
    for command, expected in commands(page):
        printed = run(command.replace("localhost:8021", f"localhost:{port()}"), served)
        assert matches(expected, printed), f"$ {command}\n{printed}\n--- the page shows:\n{expected}"


def test_the_page_on_doctor_shows_what_the_readme_runs() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    assert set(commands(page)) <= set(commands())


def test_the_two_commands_are_there() -> None:
    shown = [command for command, _ in commands()]
    assert {"make up", "make down"} <= set(shown)
    assert "make test" not in shown, "a newcomer need not run the tests"


def test_the_readme_is_short_and_its_first_screen_shows_everything() -> None:
    lines = README.splitlines()
    assert len(lines) <= LONGEST
    first = "\n".join(lines[:60])
    assert all(
        part in first for part in ("sharing: {mode: mig", "resourcequota", "## Install", "pip install")
    )


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
    table = CONTRIBUTING.partition("## Where do I change X?")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z_]\w*)`", table))
    assert {"GENERATORS", "CHECKS", "ENGINES", "FindingFormat"} <= named
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "gpupool").rglob("*.py"))
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
