"""How a label is broken where its block is narrow. Shared by the characters and the SVG."""

from __future__ import annotations

import re


def pieces(label: str, width: int) -> list[str]:
    """`label` on as few lines of `width` characters as its natural breaks allow.

    A MIG profile breaks after its compute slices and before its attribute: `1g.`, `10gb`, `+me`. Where even
    that is too long the pieces are returned as they are; with a width of 0, so, its smallest pieces.
    """
    if len(label) <= width:
        return [label]
    profile, attribute = re.fullmatch(r"(.*?)([+-][a-z].*)?", label, re.DOTALL).groups()  # type: ignore[union-attr]
    tail = [attribute] if attribute else []
    if len(profile) <= width and all(len(piece) <= width for piece in tail):
        return [profile, *tail]
    return [*re.findall(r"[^.]+\.?", profile), *tail]
