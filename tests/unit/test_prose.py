"""Prose is output: no code branches on the words of a message, nor looks anything up by them.

Found are comparisons and searches in what holds prose by its name (`error.message`, `str(error)`,
`finding.what`), comparisons and cases of whole sentences, and look-ups by either. Texts of other programs,
which say no other way what they mean, are listed in foreign_prose.yaml, each with its reason. A message that
was put under another name first isn't seen.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PACKAGES = ("gpupool", "vapcheck")
FOREIGN: dict[str, str] = yaml.safe_load(Path(__file__).with_name("foreign_prose.yaml").read_text())
"""File -> what the text that it reads is, and why nothing else says the same."""
PROSE = frozenset(
    ("message", "what", "detail", "remediation", "sentence", "description", "problem", "refusal")
)
EXCEPTIONS = frozenset(("error", "exception", "problem", "finding", "refusal", "trouble"))
PARTS = frozenset(("startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"))
SEARCHES = frozenset(("search", "match", "fullmatch", "findall", "finditer"))
SENTENCE = 3
"""Words."""


def is_prose(node: ast.expr) -> bool:
    match node:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in PROSE
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in EXCEPTIONS
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "strip" | "casefold")):
            return is_prose(value)
    return False


def is_text(node: ast.expr, words: int) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) >= words


def reads_prose(node: ast.AST) -> bool:
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            within = any(isinstance(op, ast.In | ast.NotIn) for op in ops) and any(map(is_prose, others))
            sides = [left, *others]
            equal = any(map(is_prose, sides)) and any(is_text(side, 1) for side in sides)
            return within or equal or any(is_text(side, SENTENCE) for side in sides)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=args):
            return (name in PARTS and is_prose(value)) or (name in SEARCHES and any(map(is_prose, args)))
        case ast.MatchValue(value=value) | ast.Subscript(slice=value):
            return is_text(value, SENTENCE) or (isinstance(node, ast.Subscript) and is_prose(value))
    return False


def lines(source: str) -> Iterator[int]:
    """Those that read prose."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr | ast.pattern) and reads_prose(node):
            yield node.lineno


def test_nothing_branches_on_prose() -> None:
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    places = {path.relative_to(ROOT).as_posix(): sorted(lines(path.read_text())) for path in paths}
    read = {path: numbers for path, numbers in places.items() if numbers}
    assert {path: numbers for path, numbers in read.items() if path not in FOREIGN} == {}
    assert FOREIGN.keys() - read.keys() == set(), "these read no prose any more"


@pytest.mark.parametrize(
    "source",
    [
        "if 'quota' in error.message: pass",
        "if 'quota' not in str(error): pass",
        "if finding.remediation == 'write it': pass",
        "message.removeprefix('error: ')",
        "re.search('quota of (.*)', str(error))",
        "PATTERN.match(problem.detail)",
        "HINTS[error.message]",
        "if text == 'is not a number': pass",
        "match text:\n  case 'is not a number': pass",
        "if 'down' in message.lower(): pass",
    ],
)
def test_what_reads_prose_is_seen(source: str) -> None:
    assert Counter(lines(source)).total() == 1


@pytest.mark.parametrize(
    "source", ["str(error)", "f'{error.message}; {hint}'", "x == 'on'", "message.split()"]
)
def test_what_passes_prose_on_is_not(source: str) -> None:
    assert not list(lines(source))
