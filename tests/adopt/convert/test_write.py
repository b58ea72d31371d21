"""What is written is read back as it was meant, by gpupool's own reader and by others."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.adopt.convert import write
from gpupool.adopt.convert.draft import Draft, DraftPool
from gpupool.environment.spec.yaml_source import parse_source
from tests.environment_strategies import AWKWARD

printable = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
texts = st.one_of(
    printable, st.sampled_from((*AWKWARD, "a b", "a: b", "a #b", "- a", "a\nb\n", "a\n\n", " a\n", "#\n"))
)
scalars = st.one_of(texts, st.integers(-(10**12), 10**12), st.booleans(), st.none())
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=12,
)


@given(st.dictionaries(texts.filter(lambda key: key != "<<"), values, max_size=4))
def test_values_come_back(value: dict[str, Any]) -> None:
    draft = Draft("x", operator={"values": value})
    source = parse_source("x.yaml", write.text(draft).encode())
    assert source.data["gpuOperator"]["values"] == value
    assert yaml.safe_load(write.text(draft))["gpuOperator"]["values"] == value


@given(st.floats(0, 1))
def test_shares_come_back(share: float) -> None:
    assert float(yaml.safe_load(write.scalar(share))) == share


@given(printable)
def test_no_comment_becomes_content(line: str) -> None:
    pool = DraftPool("a", "t4", instance_types=["g4dn.xlarge"], max=1, origin=[line])
    data = parse_source("x.yaml", write.text(Draft("x", pools=[pool], left_out=[line])).encode()).data
    assert [pool["name"] for pool in data["pools"]] == ["a"]
    assert set(data) == {"apiVersion", "kind", "metadata", "cluster", "pools"}
