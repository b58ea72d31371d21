"""Bodies of requests: JSON that readers of YAML take too."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gpupool.live.cluster.kube_api import APPLY, MERGE, encoded

AWKWARD = ("\U0001f600", "\\ud83d\\ude00", "\x7f\x85", "a\\\U0010fffdb", "e\u0301")


@pytest.mark.parametrize("text", AWKWARD)
def test_what_is_applied_is_read_as_yaml(text: str) -> None:
    body = {"metadata": {"annotations": {"note": text}}}
    assert yaml.safe_load(encoded(body, APPLY)) == json.loads(encoded(body, APPLY)) == body


@given(text=st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_arrives_as_json(text: str) -> None:
    assert json.loads(encoded(text, APPLY)) == json.loads(encoded(text, MERGE)) == text
