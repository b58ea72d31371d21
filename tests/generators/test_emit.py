"""YAML text that reads back as it was meant, by a reader of YAML 1.1 and in stable bytes."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.generators.emit import yaml_text

characters = st.characters(exclude_categories=("Cs",))
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(characters),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(characters), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_reads_back(value: object) -> None:
    assert yaml.safe_load(yaml_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("a/b.c-d:e", "a/b.c-d:e"),
        ("no", '"no"'),
        ("Y", '"Y"'),
        ("1e3", '"1e3"'),
        ("0777", '"0777"'),
        ("", '""'),
        ("a b", '"a b"'),
        ("a:", '"a:"'),
        ("<<", '"<<"'),
        ("2027-03-31", '"2027-03-31"'),
        (3, "3"),
        (True, "true"),
        (None, "null"),
    ],
)
def test_quotes_where_readers_differ(value: object, text: str) -> None:
    assert yaml_text({"k": value}) == f"k: {text}\n"


def test_lines_stay_lines() -> None:
    assert yaml_text({"k": "version: v1\nflags: {}\n"}) == "k: |\n  version: v1\n  flags: {}\n"


def test_nothing_is_folded_shared_or_sorted() -> None:
    shared = {"long": "word " * 300}
    text = yaml_text({"z": shared, "a": shared})
    assert text.startswith("z:")
    assert text.count("\n") == 4
    assert "&" not in text


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1: "a"}])
def test_what_has_no_place_in_a_manifest(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        yaml_text({"k": value})
