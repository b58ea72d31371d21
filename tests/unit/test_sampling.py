"""How exhaustive tests draw their cases."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import sampling


def test_the_same_seed_draws_the_same_cases_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE", frozenset())
    chosen = sampling.drawn("drift", range(100), 10)
    assert chosen == sampling.drawn("drift", range(100), 10) == sorted(set(chosen))
    assert len(chosen) == 10
    monkeypatch.setattr(sampling, "SEED", sampling.SEED + 1)
    assert chosen != sampling.drawn("drift", range(100), 10)


def test_an_area_that_is_run_whole_has_all_its_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "WHOLE", frozenset({"drift"}))
    assert sampling.drawn("drift", range(100), 10) == list(range(100))
    assert len(sampling.drawn("kills", range(100), 10)) == 10


def test_changed_files_call_for_their_areas() -> None:
    assert sampling.called_for(["gpupool/drift/check.py", "README.md"]) == ["drift"]
    assert sampling.called_for(["infra/apply.py", "vapcheck/outcome.py"]) == ["kills", "differential"]
    assert sampling.called_for(["README.md"]) == []
    command = [sys.executable, "-m", "tests.sampling", "no-such-commit"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_every_area_names_folders_that_exist() -> None:
    root = Path(__file__).parents[2]
    assert all((root / folder).is_dir() for folders in sampling.AREAS.values() for folder in folders)
