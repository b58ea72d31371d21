"""The project that the templates are run on: made once, copied for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.unit.ci.project import Project


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ci") / "project"
    Project(folder).start()
    return folder


@pytest.fixture
def project(started: Path, tmp_path: Path) -> Project:
    shutil.copytree(started, tmp_path / "project")
    return Project(tmp_path / "project")
