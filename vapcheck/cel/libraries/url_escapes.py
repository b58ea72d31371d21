"""Percent escapes of URLs: which bytes each part of a URL may hold as they are (go1.26 net/url).

Converts bytes to bytes; it does not depend on the structure of URLs.
"""

from __future__ import annotations

import string
from dataclasses import dataclass

from vapcheck.go_text import quote

_ALWAYS = frozenset((string.ascii_letters + string.digits + "-_.~").encode())
_HEX = frozenset(string.hexdigits.encode())
_TAKEN_AS_ESCAPED = frozenset(b"!$&'()*+,;=:@[]%")


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One part of a URL and the bytes that stand in it as they are."""

    allowed: frozenset[int]
    is_host: bool = False
    is_zone: bool = False
    plus_is_space: bool = False


PATH = Part(_ALWAYS | frozenset(b"$&+,/:;=@"))
USER = Part(_ALWAYS | frozenset(b"$&+,;="))
HOST = Part(_ALWAYS | frozenset(b"!$&'()*+,;=:[]<>\""), is_host=True)
ZONE = Part(HOST.allowed, is_zone=True)
QUERY = Part(_ALWAYS, plus_is_space=True)
FRAGMENT = Part(_ALWAYS | frozenset(b"$&+,/:;=?@!()*"))


class UrlError(Exception):
    """A text that is not a URL; `str()` is Go's message."""


def escape(plain: bytes, part: Part) -> bytes:
    """`plain` with every byte escaped that `part` can't hold."""
    return b"".join(bytes([byte]) if byte in part.allowed else b"%%%02X" % byte for byte in plain)


def is_escaped(text: bytes, part: Part) -> bool:
    """Whether a text can be an escaped form of something in that part of a URL."""
    return all(byte in part.allowed or byte in _TAKEN_AS_ESCAPED for byte in text)


def unescape(text: bytes, part: Part) -> bytes:
    """`text` with its escapes resolved. Raises UrlError for what `part` may not hold."""
    out = bytearray()
    position = 0
    while position < len(text):
        byte = text[position]
        if byte == ord("%"):
            out.append(_escaped_byte(text[position : position + 3], part))
            position += 3
            continue
        if (part.is_host or part.is_zone) and byte < 0x80 and byte not in part.allowed:
            raise UrlError(f"invalid character {quote(bytes([byte]))} in host name")
        out.append(ord(" ") if byte == ord("+") and part.plus_is_space else byte)
        position += 1
    return bytes(out)


def _escaped_byte(escaped: bytes, part: Part) -> int:
    if len(escaped) < 3 or not (escaped[1] in _HEX and escaped[2] in _HEX):
        raise UrlError(f"invalid URL escape {quote(escaped)}")
    value = int(escaped[1:], 16)
    wrong_in_host = part.is_host and value < 0x80
    wrong_in_zone = part.is_zone and value != ord(" ") and value not in part.allowed
    if escaped != b"%25" and (wrong_in_host or wrong_in_zone):
        raise UrlError(f"invalid URL escape {quote(escaped)}")
    return value
