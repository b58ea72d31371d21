"""How Go writes numbers and quotes text where Python does otherwise, and what it makes of broken UTF-8."""

from __future__ import annotations

import math
import unicodedata
from decimal import Decimal

ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
ESCAPES |= {"\\": "\\\\", '"': '\\"'}
"""What stands for these characters between double quotes."""


def double_g(value: float) -> str:
    """A double as Go's %g and %v: shortest digits, an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    number = Decimal(repr(value)).normalize()
    exponent = number.adjusted()
    if not -4 <= exponent < 6:
        return f"{number:e}".partition("e")[0] + f"e{exponent:+03d}"
    return f"{number:f}"


def double_f(value: float) -> str:
    """A double as strconv.FormatFloat(value, 'f', -1, 64): shortest digits, never an exponent."""
    return f"{Decimal(repr(value)).normalize():f}" if math.isfinite(value) else double_g(value)


def quote(text: str | bytes) -> str:
    """A string literal as strconv.Quote writes it; bytes that are not UTF-8 become `\\xNN`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(char: str) -> str:
    if char in ESCAPES:
        return ESCAPES[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if char == " " or unicodedata.category(char)[0] in "LMNPS":
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def valid_utf8(raw: bytes) -> str:
    """Bytes as text with one U+FFFD for each byte that is not UTF-8, as Go ranges over a string."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        decoded = raw.decode("utf-8", "surrogateescape")
        return "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in decoded)
