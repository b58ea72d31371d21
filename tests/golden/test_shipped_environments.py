"""What the shipped environments amount to, file by file and number by number.

`make golden` writes the expected files again after a generator has changed; read the difference before
committing it: it is what users will see in their own repositories.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from gpupool.environment.plan.plan_json import plan_json
from gpupool.environment.plan.policy_files import SHIPPED, read_objects
from gpupool.environment.plan.resolve import read_plan
from gpupool.environment.spec.load import environment_names
from gpupool.generators import generate
from gpupool.generators.metadata import object_labels
from gpupool.generators.render import files

HERE = Path(__file__).parent
NAMES = ("dev", "homelab", "local", "prod", "staging")
WRITING = bool(os.environ.get("GPUPOOL_WRITE_GOLDEN"))
SHIPPED_OBJECTS = {
    (body["kind"], body["metadata"]["name"]): body for body in read_objects(sorted(SHIPPED.glob("*.yaml")))
}


def test_every_shipped_environment_is_here() -> None:
    assert environment_names() == list(NAMES)
    assert {path.name for path in (HERE / "rendered").iterdir()} == set(NAMES)
    assert {path.stem for path in (HERE / "plan").iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_plan(name: str) -> None:
    said = json.dumps(plan_json(read_plan(name)), indent=2, ensure_ascii=False) + "\n"
    expected = HERE / "plan" / f"{name}.json"
    if WRITING:
        expected.write_text(said, encoding="utf-8")
    assert json.loads(said) == json.loads(expected.read_text(encoding="utf-8"))
    assert said == expected.read_text(encoding="utf-8"), "the order of keys is part of the contract"


def repeats_a_shipped_policy(text: str, labels: dict[str, str]) -> bool:
    """Whether a rendered file is a policy or a binding as it is shipped, the labels of ownership added."""
    body = yaml.load(text, Loader=yaml.CSafeLoader)
    shipped = SHIPPED_OBJECTS.get((body.get("kind"), (body.get("metadata") or {}).get("name")))
    if shipped is None:
        return False
    metadata = {**shipped["metadata"], "labels": {**shipped["metadata"].get("labels", {}), **labels}}
    return bool(body == {**shipped, "metadata": metadata})


@pytest.mark.parametrize("name", NAMES)
def test_rendering(name: str) -> None:
    """Every file, except policies that are only repeated: 300 of them can't be reviewed."""
    plan = read_plan(name)
    rendered = files(generate(plan))
    labels = dict(object_labels(plan))
    repeated = {path for path, text in rendered.items() if repeats_a_shipped_policy(text, labels)}
    assert len(repeated) >= len(list(SHIPPED.glob("*.yaml"))), "every policy is rendered as it is shipped"
    folder = HERE / "rendered" / name
    if WRITING:
        shutil.rmtree(folder, ignore_errors=True)
        for path in rendered.keys() - repeated:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(rendered[path], encoding="utf-8")
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert found == rendered.keys() - repeated
    for path in found:
        assert rendered[path] == (folder / path).read_text(encoding="utf-8"), path
