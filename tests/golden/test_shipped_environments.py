"""What the shipped environments amount to, file by file and number by number.

`make golden` writes the expected files anew after a generator has changed; read the difference before
committing it: it is what users will see in their own repositories.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from generators import generate
from generators.render import files, write
from gpupool.plan.resolve import read_plan
from gpupool.spec.load import environment_names

HERE = Path(__file__).parent
NAMES = ("dev", "homelab", "local", "prod", "staging")
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))


def test_every_shipped_environment_is_here() -> None:
    assert environment_names() == list(NAMES)
    assert {path.name for path in (HERE / "rendered").iterdir()} == set(NAMES)
    assert {path.stem for path in (HERE / "plan").iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_plan(name: str) -> None:
    said = json.dumps(read_plan(name).as_dict(), indent=2, ensure_ascii=False) + "\n"
    expected = HERE / "plan" / f"{name}.json"
    if WRITING:
        expected.write_text(said, encoding="utf-8")
    assert json.loads(said) == json.loads(expected.read_text(encoding="utf-8"))
    assert said == expected.read_text(encoding="utf-8"), "the order of keys is part of the contract"


@pytest.mark.parametrize("name", NAMES)
def test_rendering(name: str) -> None:
    made = generate(read_plan(name))
    folder = HERE / "rendered" / name
    if WRITING:
        shutil.rmtree(folder, ignore_errors=True)
        write(made, folder)
    rendered = files(made)
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == set(rendered)
    for path, content in rendered.items():
        assert content == (folder / path).read_text(encoding="utf-8"), path
