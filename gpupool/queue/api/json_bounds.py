"""How deep JSON may be nested and how many values it may have, found out before it is parsed.

A few passes over the bytes, each in C: as linear for text that is made to be slow as for any other. Text that
is no JSON is left to the parser, which sees nothing deeper than twice the bound.
"""

from __future__ import annotations

DEEPEST = 20
MOST_VALUES, MOST_MEMBERS = 100_000, 50_000
"""Elements of arrays and members of objects together, and members of objects alone."""
_BRACKETS = bytes.maketrans(b"{}", b"[]")


def _but(kept: bytes) -> bytes:
    return bytes(set(range(256)) - set(kept))


_NO_STRUCTURE, _NO_BRACKETS = _but(b'[]{},:"'), _but(b"[]{}")


class TooDeep(ValueError):
    """It is nested deeper than DEEPEST."""


class TooMany(ValueError):
    """It has more than MOST_VALUES values or MOST_MEMBERS members."""


def check(text: bytes) -> None:
    """Raises TooDeep, TooMany."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")  # a quote that is left begins or ends a string
    structure = text.translate(None, _NO_STRUCTURE).replace(b'""', b"")
    if structure.count(b'"') > 2 * (MOST_VALUES + MOST_MEMBERS):
        raise TooMany
    outside = b"".join(structure.split(b'"')[::2])
    brackets = outside.translate(_BRACKETS, _NO_BRACKETS)
    opened = brackets.count(b"[")
    members, values = outside.count(b":"), outside.count(b",") + opened
    if members > MOST_MEMBERS or values > MOST_VALUES or len(brackets) > 2 * MOST_VALUES:
        raise TooDeep if _deeper(brackets[: 4 * DEEPEST]) else TooMany
    if opened > DEEPEST and _deeper(brackets):
        raise TooDeep


def _deeper(brackets: bytes) -> bool:
    """Each pass takes away all pairs that have nothing between them."""
    for _ in range(DEEPEST):
        left = brackets.replace(b"[]", b"")
        if len(left) == len(brackets):
            break
        brackets = left
    return b"[]" in brackets or brackets.count(b"[") > DEEPEST
