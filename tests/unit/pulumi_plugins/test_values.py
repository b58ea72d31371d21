"""Values survive Pulumi's wire format."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gpupool.pulumi_plugins.values import from_struct, to_struct

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
