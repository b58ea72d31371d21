"""How Go quotes text in messages and replaces bytes that are not UTF-8."""

from __future__ import annotations

import unicodedata

_ESCAPES = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}
_ESCAPES |= {"\\": "\\\\", '"': '\\"'}


def quote(text: str | bytes) -> str:
    """A string literal as strconv.Quote writes it; bytes that are not UTF-8 become `\\xNN`."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if char == " " or unicodedata.category(char)[0] in "LMNPS":
        return char
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def valid_utf8(text: bytes) -> str:
    """Bytes as text; each one that is not UTF-8 becomes U+FFFD, as in Go's JSON."""
    decoded = text.decode("utf-8", "surrogateescape")
    return "".join("\ufffd" if 0xDC80 <= ord(char) <= 0xDCFF else char for char in decoded)
