"""What is left of an environment file without its broken parts."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.spec.environment import Environment
from gpupool.environment.spec.gaps import Gaps
from gpupool.environment.spec.load import check_shape
from gpupool.environment.spec.yaml_source import parse_source

_FIELDS = {field.alias or name: field for name, field in Environment.model_fields.items()}


@pytest.mark.parametrize("name", [name for name, field in _FIELDS.items() if field.is_required()])
def test_a_file_that_lacks_a_required_section_is_read_all_the_same(name: str) -> None:
    head = {
        "apiVersion": "gpupool.dev/v1alpha1",
        "kind": "Environment",
        "metadata": "{name: x}",
        "cluster": "{platform: local, name: x}",
    }
    text = "".join(f"{field}: {value}\n" for field, value in head.items() if field != name)
    loaded = check_shape(parse_source("x.yaml", text.encode()))
    assert [finding.path for finding in loaded.findings] == [name]
    assert (loaded.environment is None) == (name in ("apiVersion", "kind"))


def test_places_of_items_are_those_of_the_file() -> None:
    gaps = Gaps()
    data: dict[str, Any] = {"pools": [{"name": name} for name in "abcd"]}
    data = gaps.cut(data, [("string_type", ("pools", 0)), ("string_type", ("pools", 2))])
    assert data == {"pools": [{"name": "b"}, {"name": "d"}]}
    data = gaps.cut(data, [("string_type", ("pools", 0))])
    assert data == {"pools": [{"name": "d"}]}
    assert gaps.place(("pools", 0, "name")) == ("pools", 3, "name")
    assert gaps.broken == {("pools", 0), ("pools", 1), ("pools", 2)}


def test_an_unknown_field_leaves_its_mapping_whole() -> None:
    gaps = Gaps()
    data: dict[str, Any] = {"pools": [{"nodes": {"nmaes": ["n1"], "max": 1}}]}
    data = gaps.cut(data, [("extra_forbidden", ("pools", 0, "nodes", "nmaes"))])
    assert data == {"pools": [{"nodes": {"max": 1}}]}
    nodes = ("pools", 0, "nodes")
    assert gaps.has_unknown_field_at(nodes)
    assert not gaps.has_unknown_field_at((*nodes, "nmaes"))
    assert not gaps.touches(nodes)
