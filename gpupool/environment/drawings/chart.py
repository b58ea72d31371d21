"""What line charts have in common: an `<svg>` element with its title, two axes, labels, and strokes by which
lines differ, never by colour alone."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from gpupool.environment.drawings.svg import FONT

WIDTH = 720
LEFT, BOTTOM, TOP = 44, 18, 6
"""Pixels beside, below and above the lines."""
_LABEL_SIZE = 11
_STROKES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4")


def chart(kind: str, identity: str, title: str, height: int, right: int, parts: Sequence[str]) -> str:
    """The picture around its `parts`. `kind` is its class, `identity` (letters, digits, hyphens) has to be
    unique in a page; `right`: pixels that its axis leaves free."""
    name = escape(identity)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{kind}" role="img" width="{WIDTH}" '
            f'height="{height}" viewBox="0 0 {WIDTH} {height}" aria-labelledby="{name}-title">',
            f'<title id="{name}-title">{escape(title)}</title>',
            f'<g fill="none" stroke="currentColor" {FONT} font-size="{_LABEL_SIZE}">',
            f'<path d="M{LEFT} {TOP}V{height - BOTTOM}H{WIDTH - right}" stroke-opacity="0.5"/>',
            *parts,
            "</g>",
            "</svg>",
        )
    )


def label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor" stroke="none">'
        f"{escape(text)}</text>"
    )


def line(number: int, path: str) -> str:
    """The line of that number, from 0."""
    return f'<path d="{path}" stroke-dasharray="{_STROKES[number % len(_STROKES)]}"/>'
