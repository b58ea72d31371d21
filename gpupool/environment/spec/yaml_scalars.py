"""The value of a plain scalar of a YAML file where all YAML readers agree, and a marker where they don't.

A plain `yes`, `0777`, `1e3` or `2027-03-31` is text to one reader and a truth value, number or date to
another, so it becomes `Unclear` and is accepted only where the field says what it is.
"""

from __future__ import annotations

import re

_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(0|[1-9][0-9]*)\.[0-9]+")
_BOOL = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULL = {"", "~", "null", "Null", "NULL"}
_UNCLEAR = re.compile(
    r"y|n|yes|no|on|off|=|<<"
    r"|[-+]?[0-9][0-9_,]*|[-+]?0[xob][0-9a-f_]+"
    r"|[-+]?\.?[0-9][0-9_]*(\.[0-9_]*)?(e[-+]?[0-9]+)?|[-+]?\.(inf|nan)"
    r"|[-+]?[0-9]+(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([T \t].*)?",
    re.IGNORECASE,
)
"""What some reader takes for a number, date or truth value. No part of it can match in two ways, or a long
run of digits would take quadratic time."""


class Unclear:
    """A plain scalar that readers of YAML disagree about. Not a string: the file's author must decide."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def plain_value(text: str) -> str | int | float | bool | Unclear | None:
    """The value of the plain scalar `text`."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if len(text) < 20 and _INT.fullmatch(text):
        return int(text)
    if len(text) < 40 and _FLOAT.fullmatch(text):
        return float(text)
    return Unclear(text) if _UNCLEAR.fullmatch(text) else text
