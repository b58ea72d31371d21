"""How gpupool's pages look and print text: the report's page and the queue's pages share it.

One style sheet, light and dark, and the characters that are spelled out because they would hide or reorder
text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control characters and those of Unicode that print nothing or turn the direction of what follows."""


def page_style() -> str:
    """The style sheet."""
    return Path(__file__).with_name("pages.css").read_text(encoding="utf-8").strip()


def style_source(style: str) -> str:
    """The source expression that allows exactly this style sheet (CSP level 2)."""
    return "sha256-" + base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


def visible(value: Any) -> Any:
    """Text with its hidden characters spelled out, as `<U+202E>`; markup of our own stays as it is. For
    Jinja2's `finalize`."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return _HIDDEN.sub(lambda found: f"<U+{ord(found[0]):04X}>", value)
    return value
