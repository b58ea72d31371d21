"""A recorded state is returned unchanged, and a damaged record is not taken for one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpupool.live.rollback.last_good import LastGood, _digest, _packed, _unpacked

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)


@given(texts, st.dictionaries(texts, texts, max_size=3))
def test_a_state_comes_back_as_it_was(text: str, policies: dict[str, str]) -> None:
    found = datetime(2026, 11, 21, 18, 30, tzinfo=UTC)
    state = LastGood("prod", text, _digest(text, policies), found, policies)
    assert _unpacked(_packed(state)) == state
    assert _packed(state) == _packed(state)


@pytest.mark.parametrize("damage", ["", "no base64!", "aGVsbG8=", None])
def test_a_damaged_state_is_none(damage: str | None) -> None:
    state = LastGood("prod", "a: 1", _digest("a: 1", {}), datetime(2026, 1, 1, tzinfo=UTC))
    changed = _packed(replace(state, text="a: 2")) if damage is None else damage
    assert _unpacked(changed) is None
