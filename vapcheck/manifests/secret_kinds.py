"""Which objects hold secrets, and how to describe their values without showing them.

It must not read the values: `redaction` decides what a report hides.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any

SECRET_KINDS = frozenset({"Secret", "SecretList"})
"""Whatever their apiVersion: a misspelt one makes the values no less secret."""
_WORD = re.compile(r"\bSecret(?:List)?\b", re.IGNORECASE)
_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "true or false"),
    (str, "text"),
    (dict, "an object"),
    (list, "a list"),
    (int, "a number"),
    (float, "a number"),
)


def is_secret(body: Mapping[str, Any]) -> bool:
    """Whether an object is a Secret, or a list of them."""
    kind = body.get("kind")
    return isinstance(kind, str) and kind in SECRET_KINDS


@functools.lru_cache(maxsize=2)
def may_hold_secret(text: str) -> bool:
    """Whether a text that can't be read may have been meant as a Secret: it mentions one anywhere."""
    return _WORD.search(text) is not None


def unshown(value: Any) -> str:
    """What can be shown of a value that may be secret: its type."""
    name = next((name for kind, name in _NAMES if isinstance(value, kind)), "a value")
    return f"{name} (not shown, because it may come from a Secret)"
