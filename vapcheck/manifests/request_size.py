"""How many bytes an object has in the request that kubectl sends, which the API server bounds.

It does not look at the object's contents.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_BYTES = 3 << 20
"""Of one request (apiserver 0.36, DefaultMaxRequestBodyBytes)."""
_GROWTH = 6
"""Bytes that one character of YAML can become (`<`, which Go writes as \\u003c), aliases apart."""
_ESCAPED = re.compile("[<>&]")
_LINE_ENDS = re.compile("[\u2028\u2029]")


def oversize(body: dict[str, Any], text: str) -> int | None:
    """The bytes of an object that is too large, None for any other; `text` is what it was read from, alone or
    with others, so that small ones need not be measured."""
    if len(text) * _GROWTH <= MAX_BYTES and "*" not in text:
        return None
    size = _sent(body)
    return size if size > MAX_BYTES else None


def _sent(body: dict[str, Any]) -> int:
    """The length of the object as Go encodes it, with the line end that Go puts behind it."""
    written = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    size = len(written) if written.isascii() else len(written.encode("utf-8", "surrogatepass"))
    return size + 5 * len(_ESCAPED.findall(written)) + 3 * len(_LINE_ENDS.findall(written)) + 1
