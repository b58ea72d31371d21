"""`doctor` on a file with a fake API server in place of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpupool.adopt.doctor import access
from gpupool.adopt.doctor.checks import diagnose
from gpupool.adopt.doctor.model import Diagnosis
from gpupool.programs import binaries
from tests.adopt.doctor.fake_api import FakeApi

Diagnose = Callable[[str, FakeApi], Diagnosis]


@pytest.fixture
def diagnosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Diagnose:
    """Writes the file, and runs every check."""
    (tmp_path / "Pulumi.yaml").write_text("name: gpupool\nruntime: python\nmain: infra\n")
    (tmp_path / "environments").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(access.access, "require_cluster", lambda _: None)
    monkeypatch.setattr(binaries, "find", lambda _: None)

    def run(text: str, api: FakeApi) -> Diagnosis:
        (tmp_path / "environments" / "trial.yaml").write_text(text)
        monkeypatch.setattr(access.access, "connect", lambda _: api)
        return diagnose("trial", lambda _: None)

    return run
