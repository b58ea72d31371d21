"""YAML that all readers agree about, read fast.

kubectl's reader follows YAML 1.1, the fast one (`yaml_rs`) 1.2. A text in which every line has one of a few
shapes means the same in both: keys that are words, values that are words, plain decimal numbers or quoted,
flow lists and mappings of such, literal blocks. `read` proves that for a text, line by line, or declines; it
never guesses. `vapcheck.manifests.go_yaml` reads the rest. The tests compare the two on many such texts.
"""

from __future__ import annotations

import re
from typing import Any

import yaml_rs

_RESERVED = "|".join(
    form
    for word in ("y", "n", "yes", "no", "on", "off", "true", "false", "null")
    for form in (word, word.capitalize(), word.upper())
)
_KEY = rf"(?!(?:{_RESERVED}):)[A-Za-z][A-Za-z0-9_./-]{{0,200}}+"
_QUOTED = r"\"(?:[^\"\\]|\\[\"\\nt])*\"|'(?:[^']|'')*'(?!')"
_ANY_KEY = rf"(?:{_KEY}|\"[^\"\\]{{0,200}}+\"|'[^']{{0,200}}+')"
_NUMBER = (
    r"[0-9]{1,15}(?:\.[0-9]{1,5})?(?:[KMGTPE]i|[mkKMGTPshd]|ms|%)"
    r"|[0-9]{1,9}(?:\.[0-9]{1,9}){2,3}(?:/[0-9]{1,2})?"
    r"|-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{0,5}[1-9])?|true|false|null"
    r"|(?!0[xXoO]|0[bB][01]*+(?![0-9A-Za-z]))[0-9]+(?:[eE][0-9]*[A-Za-z]|[a-df-zA-DF-Z])[A-Za-z0-9./-]*+"
)
"""Quantities, addresses, versions and digests, which are text; numbers and words that all read alike."""
_WORD = rf"(?!(?:{_RESERVED})[,\]}} ])[A-Za-z/][A-Za-z0-9_./-]*+"
_ITEM = rf"(?:{_QUOTED}|(?:{_NUMBER}|{_WORD})(?=[,\]}} ]))"
_PAIR = rf"{_ANY_KEY}: {_ITEM}"
_FLOW = rf"\[\]|\{{\}}|\[ ?{_ITEM}(?:, {_ITEM})* ?\]|\{{ ?{_PAIR}(?:, {_PAIR})* ?\}}"
_TEXT = (
    rf"(?!(?:{_RESERVED})(?: +#| *$))(?:[A-Za-z/$]|--?(?=[A-Za-z]))(?:[^: ]|:(?=[!-~])| (?=[!-\"$-9;-~]))*"
)
_VALUE = rf"(?:{_QUOTED}|(?:{_NUMBER})(?= *$| +#)|{_FLOW}|{_TEXT})"
_LINE = re.compile(
    rf"(?: {{0,80}}+(?:(?:- ){{0,2}}{_ANY_KEY}:(?: {{1,20}}{_VALUE})?|(?:- ){{1,2}}{_VALUE}))?"
    r"(?: *| +#.*+)|#.*+"
)
_BLOCK = re.compile(
    rf"^( {{0,80}}+)((?:- )?){_ANY_KEY}: \|[-+]?\n(\1 +)[^ \n].*+\n(?:(?:\3.*+)?\n)*", re.MULTILINE
)
_BREAKS = {ord("\n"): None, ord("\t"): None}
_KNOWN_LIMIT = 60_000
_known: set[str] = set()
"""Lines that were found plain; manifests repeat most of their lines."""


def read(text: str) -> Any:
    """The value of the one document in `text`, which ends with a line feed, or NotImplemented where its
    meaning is not plain, broken YAML and keys that appear twice included."""
    if not is_plain(text):
        return NotImplemented
    try:
        return yaml_rs.loads(text, parse_datetime=False)
    except ValueError:
        return NotImplemented


def is_plain(text: str) -> bool:
    """Whether every line of `text` has a shape that all readers understand alike."""
    if "|" in text:
        text = _BLOCK.sub(_without_block, text)
    lines = text.split("\n")
    if _known.issuperset(lines):
        return True
    fresh = set(lines) - _known
    if not all(map(str.isprintable, fresh)) or not all(map(_LINE.fullmatch, fresh)):
        return False
    if len(_known) > _KNOWN_LIMIT:
        _known.clear()
    _known.update(fresh)
    return True


def _without_block(match: re.Match[str]) -> str:
    """The lines of a literal block are always text: only its key is checked."""
    indent, dash, inner = match.groups()
    block = match[0]
    if len(inner) <= len(indent) + len(dash) or not block.translate(_BREAKS).isprintable():
        return block
    return f"{indent}{dash}block: text\n"
