"""Regular expressions mean one thing in every Python that the project runs in.

CPython before 3.11.5 (python/cpython#106052; Debian 12 has 3.11.2) loses its place in a group that is
repeated possessively and fails half-way, and matches what it must not. Of one character the repetition is
right.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
POSSESSIVE_GROUP = re.compile(r"\)(?:[*+?]|\{+[0-9,]+\}+)\+|\(\?>")


@pytest.mark.parametrize("package", ["gpupool", "vapcheck"])
def test_no_group_is_repeated_possessively(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and POSSESSIVE_GROUP.search(node.value)
    ]
    assert not wrong, "\n".join(wrong)


def test_what_would_be_found() -> None:
    assert all(POSSESSIVE_GROUP.search(text) for text in (r"(a|b)*+", "(a)?+", "(a){0,2}+", "(?>a)"))
    assert not any(POSSESSIVE_GROUP.search(text) for text in ("[a)]*+", "(a)*", "a{2}+"))
