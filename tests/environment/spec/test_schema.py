"""The published JSON Schema: current, valid, described, and of one mind with the loader about shapes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from jsonschema import Draft202012Validator

from gpupool.environment.project import environments_folder
from gpupool.environment.schema.published import FILE
from gpupool.environment.spec.yaml_scalars import Unclear
from gpupool.environment.spec.yaml_source import read_source
from tests.environment_files import Data
from tests.environment_strategies import environments
from tests.examples import examples

SCHEMA = json.loads(FILE.read_text())
VALIDATOR = Draft202012Validator(SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER)
WRONG = Path(__file__).parents[2] / "golden" / "wrong_environments"


def test_the_file_is_what_the_module_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "gpupool.environment.schema.published", "environment"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert printed.stdout == FILE.read_text(), "run: make schema"


def test_it_is_a_valid_schema() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    Draft202012Validator.check_schema(SCHEMA)


def objects(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield path, schema
        for key, value in schema.items():
            yield from objects(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value, path)


@pytest.mark.parametrize(
    ("path", "schema"), list(objects(SCHEMA)), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_property_is_described_and_no_other_is_allowed(path: str, schema: dict[str, Any]) -> None:
    assert schema["additionalProperties"] is False
    for name, prop in schema["properties"].items():
        assert prop.get("description"), f"{path}: {name}"


def as_plain(value: Any) -> Any:
    """Values as an editor's YAML reader has them: unquoted dates and the like are text."""
    if isinstance(value, dict):
        return {key: as_plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_plain(inner) for inner in value]
    return value.text if isinstance(value, Unclear) else value


@pytest.mark.parametrize("path", sorted(environments_folder().glob("*.yaml")), ids=lambda path: path.stem)
def test_shipped_files_are_valid_and_say_where_their_schema_is(path: Path) -> None:
    assert list(VALIDATOR.iter_errors(as_plain(read_source(path).data))) == []
    assert list(VALIDATOR.iter_errors(yaml.safe_load(path.read_text()))) == []
    first, _, _ = path.read_text().partition("\n")
    assert first.startswith("# yaml-language-server: $schema=")
    assert (path.parent / first.partition("=")[2]).resolve() == FILE


SHAPES = (
    "cluster-missing duration-malformed max-missing mode-missing mode-misspelt norwegian-label not-a-mapping "
    "other-api-version pool-name-malformed replicas-as-text spot-share-out-of-range unknown-field "
    "unquoted-version waiver-without-reason"
)


def shape_errors(name: str) -> list[Any]:
    path = WRONG / f"{name}.yaml"
    return list(VALIDATOR.iter_errors(yaml.safe_load(path.read_bytes())))


@pytest.mark.parametrize("name", [name for name in SHAPES.split() if name != "max-missing"])
def test_wrong_shapes_are_refused_by_the_schema_too(name: str) -> None:
    assert shape_errors(name)


@examples("environments", 50)
@given(environments())
def test_what_the_loader_takes_the_schema_takes(environment: Data) -> None:
    assert list(VALIDATOR.iter_errors(environment)) == []
