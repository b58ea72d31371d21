"""Regular expressions in linear time, with Go's syntax errors; `find` and `findAll`.

RE2 and Go's regexp share their syntax except in rare cases; what RE2 accepts and Go doesn't is refused here.
Python's `re` must not run a policy's pattern: it can take exponential time.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import re2

from vapcheck.cel.errors import CelError, EvaluationError
from vapcheck.cel.libraries import costs
from vapcheck.cel.libraries.declaration import Overload, member

_GO_WORDING = {
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid UTF-8": "invalid UTF-8",
    "invalid named capture group": "invalid named capture",
}
"""RE2's words for its error codes and Go's (go1.26 regexp/syntax/parse.go)."""
_NEEDS_WHOLE = {"missing )", "unexpected )"}
"""Errors whose argument is the whole pattern in Go."""
_SINGLE_BYTE = re.compile(r"(?<!\\)(?:\\\\)*\\C")
"""`\\C`, one byte of a character, which RE2 has and Go refuses."""
_CACHED = 1024


@functools.lru_cache(maxsize=_CACHED)
def compile_pattern(pattern: str) -> Any:
    """The compiled pattern; matching takes time linear in the text. Raises CelError with Go's message."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        raise CelError(_in_go(error, pattern)) from None
    if _SINGLE_BYTE.search(pattern):
        raise CelError("error parsing regexp: invalid escape sequence: `\\C`")
    return compiled


def _in_go(error: Exception, pattern: str) -> str:
    text = error.args[0]
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    for word in sorted(_GO_WORDING, key=len, reverse=True):
        if text.startswith(word):
            argument = pattern if word in _NEEDS_WHOLE else text[len(word) :].removeprefix(": ")
            return f"error parsing regexp: {_GO_WORDING[word]}: `{argument}`"
    return f"error parsing regexp: {text}"


def search(text: str, pattern: str) -> bool:
    """Whether the pattern matches anywhere in the text: CEL's `matches`."""
    return compile_pattern(pattern).search(text) is not None


def find(text: str, pattern: str) -> str:
    """The first match, empty when there is none."""
    match = _compiled(pattern).search(text)
    return "" if match is None else str(match.group())


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """All matches from the left, at most `limit` of them unless that is negative.

    As in Go an empty match right after another match does not count.
    """
    found: list[str] = []
    end = -1
    compiled = _compiled(pattern)
    if limit == 0:
        return found
    for match in compiled.finditer(text):
        start, stop = match.span()
        if start == stop == end:
            continue
        found.append(text[start:stop])
        end = stop
        if len(found) == limit:
            break
    return found


def _compiled(pattern: str) -> Any:
    try:
        return compile_pattern(pattern)
    except EvaluationError as error:
        raise CelError(f"Illegal regex: {error}") from None


OVERLOADS: tuple[Overload, ...] = (
    member("string_find_string", "find", ("string", "string", "string"), find, costs.pattern),
    member(
        "string_find_all_string", "findAll", ("string", "string", "list(string)"), find_all, costs.pattern
    ),
    member(
        "string_find_all_string_int",
        "findAll",
        ("string", "string", "int", "list(string)"),
        find_all,
        costs.pattern,
    ),
)
