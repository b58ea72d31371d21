"""Refusals of expressions in the API server's words, with the line and a mark below the place.

The checker's messages are cel-go's except for some details, which are corrected here.
"""

from __future__ import annotations

import re

from vapcheck.cel.errors import CompileError

_PLACE = re.compile(r"ERROR: <input>:(\d+):(-?\d+): ")
_REWORDED = (
    (re.compile(r"^[A-Z_]+: (?=ERROR)"), ""),
    (re.compile(r" \[[A-Z_]+\]$"), ""),
    (re.compile(r"undeclared reference to 'variables\.(\w+)[^']*' \([^)]*\)"), r"undefined field '\1'"),
    (re.compile(r"(undefined field '[^']*') not found in struct '[^']*'"), r"\1"),
    (re.compile(r"all\(\) variable name must be a simple identifier"), "argument must be a simple name"),
    (
        re.compile(r"(?:[A-Z]+: )?(?:Expression recursion|Exceeded max recursion depth)[^\n]*"),
        "nested too deeply for this check, which has a lower limit than the API server: "
        "make a variable of a part of it",
    ),
    (re.compile(r"has\(\) argument must be a field selection"), "invalid argument to has() macro"),
)
_UNFIT = re.compile(
    r"ERROR: <input>:(?P<line>\d+):(?P<column>\d+): found no matching overload for '(?P<name>[^']*)' "
    r"applied to '\((?P<types>.*)\)'$",
    re.MULTILINE,
)
_TYPES = {
    "google.protobuf.Duration": "duration",
    "google.protobuf.Timestamp": "timestamp",
    "null_type": "null",
}


def refusal(text: str, expression: str, offset: int) -> CompileError:
    """A refusal of our own at an offset, in the form of the checker's."""
    before = expression[:offset]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    source = expression.splitlines()[line - 1] if expression else ""
    shown = f"ERROR: <input>:{line}:{column}: {text}\n | {source}\n | {'.' * (column - 1)}^"
    return CompileError(f"compilation failed: {shown}", line, column)


def reworded(text: str, expression: str) -> CompileError:
    """The checker's message without its wrapping; the place is that of the first error."""
    for pattern, replacement in _REWORDED:
        text = pattern.sub(replacement, text)
    lines = expression.split("\n")
    text = _UNFIT.sub(lambda match: _with_receiver(match, lines), text)
    match = _PLACE.search(text)
    line, column = (int(match[1]), max(1, int(match[2]))) if match else (1, 1)
    return CompileError(f"compilation failed: {text}", line, column)


def _with_receiver(match: re.Match[str], lines: list[str]) -> str:
    """Types of a call's arguments: cel-go writes a receiver before the parenthesis."""
    types = match["types"]
    for name, short in _TYPES.items():
        types = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", short, types)
    shown = f"({types})"
    number, column = int(match["line"]), int(match["column"])
    before = lines[number - 1][: column - 1].rstrip() if number <= len(lines) else ""
    if before.endswith(f".{match['name']}"):
        receiver, rest = _first(types)
        shown = f"{receiver}.({rest})"
    start, end = match.span("types")
    whole = match[0]
    return whole[: start - 1 - match.start()] + shown + whole[end + 1 - match.start() :]


def _first(types: str) -> tuple[str, str]:
    depth = 0
    for position, char in enumerate(types):
        depth += (char in "(<") - (char in ")>")
        if char == "," and depth == 0:
            return types[:position], types[position + 1 :].lstrip()
    return types, ""
