"""Values survive Pulumi's wire format, and secrets stay secret."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.pulumi_plugins.values import UNKNOWNS, Secret, from_struct, has_unknowns, mark_secrets, to_struct

texts = st.text(max_size=5)
leaves = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts
bodies: Any = st.dictionaries(
    texts,
    st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=20,
    ),
    max_size=5,
)


@given(bodies)
def test_there_and_back(body: Any) -> None:
    again = from_struct(to_struct(body))
    assert again == body
    # An integer must not come back as a float, nor 1 as True.
    assert json.dumps(again, sort_keys=True) == json.dumps(body, sort_keys=True)


def test_secrets_are_wrapped_and_unwrapped() -> None:
    struct = to_struct({"data": {"url": Secret("postgres://x")}})
    assert from_struct(struct) == {"data": {"url": "postgres://x"}}
    kept = from_struct(struct, keep_secrets=True)
    assert isinstance(kept["data"]["url"], Secret)


def test_what_was_secret_in_the_inputs_is_secret_in_the_state() -> None:
    live = {"data": {"url": "eA==", "other": "1"}, "list": [1], "metadata": {"name": "a"}}
    inputs = {"data": {"url": Secret("eA==")}, "list": [Secret(1)], "metadata": {"name": "a"}}
    marked = mark_secrets(live, inputs)
    assert isinstance(marked["data"]["url"], Secret)
    assert marked["data"]["other"] == "1"
    assert isinstance(marked["list"], Secret), "places in lists move, so the whole list is secret"
    assert marked["metadata"] == {"name": "a"}


def test_unknowns_are_found_wherever_they_are() -> None:
    unknown = next(iter(UNKNOWNS))
    assert has_unknowns({"a": [{"b": Secret(unknown)}]})
    assert not has_unknowns({"a": ["b", 1, None]})
