"""The wheel without an extra, in a virtual environment with nothing but the base: what runs, and what a verb
says that needs more.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpupool.cli.app import EXTRAS, VERBS
from tests.cluster.wheel.conftest import Project

NEEDING = (
    *("jobs list", "simulate dev --trace jobs.csv", "recommend dev --trace jobs.csv --budget 5"),
    *("policy check dev", "policy test", "report new --base HEAD", "import some", "assert dev", "doctor dev"),
    *("preview dev", "up dev", "refresh dev", "destroy dev", "rollback dev", "handover dev --to pulumi"),
    *("repartition dev notebooks --dry-run", "local up", "serve dev", "keys list"),
)
"""A command of each verb that needs an extra."""


@pytest.fixture
def base(base_programs: Path, tmp_path: Path) -> Project:
    project = Project(tmp_path / "project", base_programs)
    project.folder.mkdir()
    project.shell("gpupool init --name dev --platform eks")
    project.shell("git init -q && git add . && git -c user.name=a -c user.email=a@b.example commit -qm a")
    project.shell("gpupool init --name new --platform eks")
    return project


def test_without_an_extra_environments_are_read_and_rendered(base: Project) -> None:
    for command in (
        "validate dev",
        "show dev",
        "render dev -o rendered",
        "catalog",
        "mig a100-40gb 3g.20gb=1",
    ):
        assert base.shell(f"gpupool {command}"), command


def test_every_verb_has_its_help(base: Project) -> None:
    for verb in VERBS.keys() - {"jobs", "simulate", "recommend", "serve", "keys"}:  # gpupool-queue has these
        assert "Usage: gpupool" in base.shell(f"gpupool {verb} --help")


def test_there_is_a_command_for_every_extra() -> None:
    assert {command.split()[0] for command in NEEDING} == EXTRAS.keys()


@pytest.mark.parametrize("command", NEEDING)
def test_a_verb_that_needs_an_extra_names_it_in_one_sentence(base: Project, command: str) -> None:
    verb = command.split()[0]
    printed = base.shell(f"gpupool {command} 2>&1", expect=2)
    result = re.escape(f'pip install "gpupool[{EXTRAS[verb]}]"')
    assert re.fullmatch(rf"gpupool {verb} needs [\w-]+, which is not installed: {result}\n", printed), printed


def test_it_is_json_where_json_was_asked_for(base: Project) -> None:
    printed = json.loads(base.shell("gpupool assert dev --format json", expect=2))
    assert printed["errors"][0].endswith('pip install "gpupool[cluster]"')
