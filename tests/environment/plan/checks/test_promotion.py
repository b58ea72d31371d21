"""`promotion` of an environment file: what it names exists beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpupool.environment.plan.resolve import findings_of, resolve
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source
from gpupool.findings import SpecError
from tests.environment_files import Data, environment_data, text_of, write_environment


def pool(name: str) -> Data:
    return {"name": name, "gpu": "t4", "nodes": {"instanceTypes": ["g4dn.xlarge"], "max": 1}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "environments"
    put(found, "dev", pools=[pool("devs")])
    return found


def put(folder: Path, name: str, **sections: Any) -> Path:
    return write_environment(folder, environment_data("local", name=name, **sections))


def said(path: Path) -> list[str]:
    return [f"{finding.path}: {finding.what}; {finding.remediation}" for finding in findings_of(path)]


def test_names_of_both_environments_are_known(folder: Path) -> None:
    keep = ["pools.devs", "pools.own.labels.example.org/x", "pools.*.nodes", "queue", "policies.overrides.x"]
    promotion = {"from": "dev", "keep": keep}
    assert said(put(folder, "prod", pools=[pool("own")], promotion=promotion)) == []


def test_unknown_names(folder: Path) -> None:
    path = put(folder, "prod", promotion={"from": "dev", "keep": ["pools.dev"], "follow": ["priorities.low"]})
    assert said(path) == [
        "promotion.keep[0]: pool 'dev' is not defined here or in dev; did you mean \"devs\"? defined: devs",
        "promotion.follow[0]: priority 'low' is not defined here or in dev; none is defined",
    ]


def test_the_environment_before_exists(folder: Path) -> None:
    path = put(folder, "prod", promotion={"from": "dv"})
    assert said(path) == [
        "promotion.from: environment 'dv' does not exist; did you mean \"dev\"? defined: dev"
    ]


def test_a_file_by_itself_is_not_held_to_files_beside_it(tmp_path: Path) -> None:
    assert said(put(tmp_path, "prod", promotion={"from": "dev", "keep": ["pools.x"]})) == []


def test_the_chain_ends(folder: Path) -> None:
    put(folder, "dev", promotion={"from": "prod"})
    put(folder, "staging", promotion={"from": "dev"})
    path = put(folder, "prod", promotion={"from": "staging"})
    assert said(path) == [
        "promotion.from: promotions form a cycle: prod <- staging <- dev <- prod; remove "
        "promotion from the first environment"
    ]


def test_a_loop_further_up_is_reported_where_it_is(folder: Path) -> None:
    put(folder, "dev", promotion={"from": "staging"})
    put(folder, "staging", promotion={"from": "dev"})
    assert said(put(folder, "prod", promotion={"from": "staging"})) == []


def test_the_environments_of_another_state_are_given(folder: Path) -> None:
    """As a report does, which compares a commit while the folder is further on."""
    path = put(folder, "prod", promotion={"from": "staging", "keep": ["pools.old"]})
    loaded = check_shape(parse_source(str(path), path.read_bytes()))
    staging = text_of(environment_data("local", name="staging", pools=[pool("old")])).encode()
    resolve(loaded, siblings={"prod": path.read_bytes(), "staging": staging})
    with pytest.raises(SpecError, match="environment 'staging' does not exist"):
        resolve(loaded)
    path.unlink()
    with pytest.raises(SpecError, match="environment 'staging' does not exist"):
        resolve(loaded, siblings={"prod": b""})


def test_a_file_that_is_alone_may_come_from_elsewhere(tmp_path: Path) -> None:
    """As in a pod, which has the file of its own environment and no other."""
    alone = tmp_path / "environments"
    assert said(put(alone, "prod", promotion={"from": "staging", "keep": ["pools.x"]})) == []
