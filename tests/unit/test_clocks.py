"""No test fails because a machine is slow: none asserts that something took less than so many seconds.

How long things take is measured by `make bench`. A test compares costs with each other (`tests.growth`),
counts steps, bounds the processor time of what might explode, or waits until a deadline that only a hang
passes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
READING = re.compile(rf"\b(?:{'|'.join(CLOCKS)})\(")
"""What a source has that reads a clock; parsing the others would take a second."""


def asserted_speeds(source: str) -> Iterator[int]:
    """Lines with an assertion that a clock, less what it was before, is below something."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assert):
            continue
        for part in ast.walk(node.test):
            if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Lt | ast.LtE):
                spans = [one for one in ast.walk(part.left) if isinstance(one, ast.BinOp)]
                if any(isinstance(span.op, ast.Sub) and _reads_clock(span.left) for span in spans):
                    yield node.lineno


def _reads_clock(node: ast.expr) -> bool:
    name = node.func if isinstance(node, ast.Call) else None
    return (isinstance(name, ast.Attribute) and name.attr in CLOCKS) or (
        isinstance(name, ast.Name) and name.id in CLOCKS
    )


def test_no_test_asserts_a_speed() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if TESTS / "perf" not in path.parents
        if READING.search(source := path.read_text(encoding="utf-8"))
        for line in asserted_speeds(source)
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("assert time.monotonic() - started < 5", [1]),
        ("import time\nassert 0 <= 1 and round(perf_counter() - start, 1) <= 0.5, 'slow'", [2]),
        ("assert time.monotonic() < deadline", []),
        ("assert time.monotonic() - started >= 0.5", []),
        ("assert time.process_time() - started < 60", []),
    ],
)
def test_it_distinguishes_speeds_from_deadlines(source: str, lines: list[int]) -> None:
    assert list(asserted_speeds(source)) == lines
