"""The files for Argo CD and Flux, one by one, for three small environments.

The objects themselves are those of every engine (tests/generators/test_delivery.py), so these files have
the index, what lies in `delivery/`, and the objects that carry more than their order. `make golden` writes
them again; read the difference before committing it.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpupool.environment.plan.resolve import read_plan
from gpupool.generators import generate
from gpupool.generators.render import files

HERE = Path(__file__).parent / "delivery"
NAMES = sorted(path.stem for path in HERE.glob("*.yaml"))
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))
_NOTED = ("Prune=", "Force=", "fluxcd.io/")


def reported(name: str) -> dict[str, str]:
    rendered = files(generate(read_plan(str(HERE / f"{name}.yaml"))))
    return {
        path: text
        for path, text in rendered.items()
        if path.startswith(("delivery/", "index.json")) or any(note in text for note in _NOTED)
    }


@pytest.mark.parametrize("name", NAMES)
def test_delivery(name: str) -> None:
    folder = HERE / name
    expected = reported(name)
    if WRITING:
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in expected.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(expected)
    for path, text in expected.items():
        assert text == (folder / path).read_text(encoding="utf-8"), path


def test_there_is_one_of_each_engine_at_least() -> None:
    assert {name.rpartition("-")[2] for name in NAMES} == {"argocd", "flux"}
