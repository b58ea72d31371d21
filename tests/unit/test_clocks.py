"""No test fails because a machine is slow: none asserts that something took less than so many seconds.

How long things take is measured by `make bench`. A test compares costs with each other (`tests.growth`),
or counts steps; one of several programs waits until a deadline that only a hang passes. What hangs ends by
the limit for every test in pyproject.toml.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
CLOCKS = {"process_time", "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
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


SYSTEMS = ("browser", "cluster", "nvidia", "perf", "pictures", "queue")
"""Folders of tests with several programs, which wait for each other."""
_WAITING = {"run", "check_output", "check_call", "communicate", "wait", "join"}


def deadlines(source: str) -> Iterator[int]:
    """Lines that give another program or thread so many seconds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _WAITING:
            given = [word.value for word in node.keywords if word.arg == "timeout"]
            if any(isinstance(value, ast.Constant) and value.value for value in given):
                yield node.lineno


def test_only_tests_of_several_programs_have_deadlines() -> None:
    found = [
        f"{path.relative_to(TESTS.parent)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if path.relative_to(TESTS).parts[0] not in SYSTEMS
        if "timeout=" in (source := path.read_text(encoding="utf-8"))
        for line in deadlines(source)
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("subprocess.run(['a'], timeout=60)", [1]),
        ("program.communicate(timeout=0.5)", [1]),
        ("client.job('j').wait(timeout=0)", []),
        ("Watch(timeout=600.0)", []),
    ],
)
def test_it_finds_deadlines(source: str, lines: list[int]) -> None:
    assert list(deadlines(source)) == lines


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("assert time.monotonic() - started < 5", [1]),
        ("import time\nassert 0 <= 1 and round(perf_counter() - start, 1) <= 0.5, 'slow'", [2]),
        ("assert time.monotonic() < deadline", []),
        ("assert time.monotonic() - started >= 0.5", []),
        ("assert time.process_time() - started < 60", [1]),
    ],
)
def test_it_distinguishes_speeds_from_deadlines(source: str, lines: list[int]) -> None:
    assert list(asserted_speeds(source)) == lines
