"""docs/reference.md has every field of the environment file, each with what a reader needs of it."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import yaml

from gpupool.environment.schema.reference import DATA, UNRELEASED, examples, fields, text
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "reference.md"
GIVEN = yaml.safe_load(DATA.read_text(encoding="utf-8"))


def test_the_page_is_what_the_module_prints() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert text(page) == page, "run: make schema"


def test_it_has_the_fields_of_the_schema() -> None:
    schema = json.loads((ROOT / "gpupool" / "environment" / "schema" / "environment.schema.json").read_text())
    in_schema = {name for part in (schema, *schema["$defs"].values()) for name in part.get("properties", {})}
    assert {re.split(r"[.\]]", field.path.removesuffix("[]"))[-1] for field in fields()} == in_schema


def test_every_field_has_a_meaning_an_example_and_every_number_a_unit() -> None:
    shown = examples()
    for field in fields():
        assert field.description, f"{field.path}: give it a docstring"
        assert field.kind == "object" or field.path in shown or field.choices, (
            f"{field.path}: put an example into {DATA.name}"
        )
        assert field.unit or not field.numeric, f"{field.path}: put its unit into {DATA.name}"


def test_no_unit_and_no_example_is_of_a_field_that_is_gone() -> None:
    paths = {field.path for field in fields()}
    ends = {path.rpartition(".")[2] for path in paths}
    assert GIVEN["units"].keys() <= paths | ends
    given = textwrap.dedent(DATA.read_text(encoding="utf-8").partition("\nexamples:")[2].partition("\n")[2])
    assert check_shape(parse_source("example.yaml", given.encode())).findings == ()


def test_a_new_field_is_unreleased_and_others_keep_their_version() -> None:
    page = PAGE.read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith("| `cluster.region`"))
    assert "| 0.2 |" in row
    again = text(page.replace(f"{row}\n", ""))
    assert row.replace("| 0.2 |", f"| {UNRELEASED} |") in again
