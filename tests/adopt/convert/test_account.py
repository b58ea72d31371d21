"""Nothing is dropped: an unmarked value is listed, at the largest part that was not read."""

from __future__ import annotations

from typing import Any

from gpupool.adopt.convert.account import NO_PLACE, ConversionAccount, Part
from gpupool.adopt.convert.documents import parse_documents
from gpupool.environment.spec.yaml_scalars import Unclear

TEXT = b"""
kind: Thing
metadata: {name: t}
spec:
  used: 1
  kept: {a: 1, b: [2, 3]}
  odd: yes
  none: null
"""


def account() -> tuple[ConversionAccount, Part]:
    documents, findings = parse_documents("x.yaml", TEXT)
    assert not findings
    made = ConversionAccount(documents)
    return made, made.parts[0]


def listed(made: ConversionAccount) -> list[tuple[str, str, str]]:
    return [(entry.path, entry.value, entry.what) for entry in made.leftovers()]


def test_unread_parts_are_listed_as_a_whole() -> None:
    made, part = account()
    part.uses("kind", "metadata")
    assert [path for path, _, _ in listed(made)] == ["spec"]
    part.whole("spec", "used")
    assert [path for path, _, _ in listed(made)] == ["spec.kept", "spec.odd"]
    assert listed(made)[0] == ("spec.kept", '{"a": 1, "b": [2, 3]}', NO_PLACE)


def test_a_value_that_readers_disagree_about_is_never_used() -> None:
    made, part = account()
    assert isinstance(part.document.data["spec"]["odd"], Unclear)
    assert part.text("spec", "odd") is None
    assert ("spec.odd", "yes", "not text") in listed(made)


def test_the_last_mark_holds_and_a_reason_shrinks_to_what_is_left_of_it() -> None:
    made, part = account()
    part.left("the whole", "keep it")
    assert listed(made) == [("", "", "the whole")]
    part.uses("kind", "metadata")
    part.text("spec", "kept", "b", 0)  # 2 is not text
    assert {why for _, _, why in listed(made)} == {"the whole", "not text"}
    assert ("spec.kept.b[1]", "3", "the whole") in listed(made)


def test_values_are_compared_as_yaml_means_them() -> None:
    made, part = account()
    assert not part.mark_derived_if(True, "spec", "used"), "1 is not true"
    assert part.mark_derived_if({"a": 1, "b": [2, 3]}, "spec", "kept")
    assert made.counts() == {"used": 0, "derived": 3, "cluster": 1, "listed": 4}


def test_entries_have_one_line_whatever_is_in_them() -> None:
    raw = b'kind: Thing\n"a\\nb\\u001b[31m": "x\\ny"\n'
    documents, _ = parse_documents("x.yaml", raw)
    made: Any = ConversionAccount(documents)
    (text,) = {str(entry) for entry in made.leftovers()}
    assert "\n" not in text
    assert "\x1b" not in text
