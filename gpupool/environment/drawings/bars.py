"""Small bars for one figure before and after: how much there is at least, and how much at most.

What is certain is a solid bar, what may come on top is a dashed outline, and the figures stand beside them,
so that nothing depends on colour. It does not depend on the report: it gets numbers and their names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from gpupool.environment.drawings.svg import EDGE, FONT, WIDTH

ROW = 26
THICK = 14
LABEL = 56
"""Pixels for the word before a bar."""
SAID_SIZE = 11
CHARACTER = 6.8
"""Width of one character at `SAID_SIZE`; ample for the fonts of the drawings."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One line of the picture."""

    label: str
    """`before` or `after`."""
    least: float
    """What is there in any case; 0 or more."""
    most: float
    """What there is at most; not below `least`. Equal to it for a plain count."""
    said: str
    """Both as they are to be read, e.g. `$1,200 to $9,000`."""


def bars(title: str, lines: Sequence[Bar], identity: str = "bars") -> str:
    """The lines below each other on one scale, as an `<svg>` element.

    `identity` (letters, digits, hyphens) begins the id of the title and has to be unique in a page.
    """
    height = ROW * len(lines)
    spoken = "; ".join(f"{line.label}: {line.said}" for line in lines)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bars" role="img" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" aria-labelledby="{escape(identity)}-title">',
        f'<title id="{escape(identity)}-title">{escape(f"{title}: {spoken}")}</title>',
        f'<g fill="none" stroke="currentColor" {FONT} font-size="{SAID_SIZE}">',
        *_lines(lines),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts)


def _lines(lines: Sequence[Bar]) -> Iterator[str]:
    said = max((len(line.said) for line in lines), default=0) * CHARACTER
    room = WIDTH - LABEL - said - 8 - 2 * EDGE
    top = max((line.most for line in lines), default=0) or 1
    for number, line in enumerate(lines):
        y = number * ROW + (ROW - THICK) / 2
        least, most = room * line.least / top, room * line.most / top
        yield _text(line.label, EDGE, y)
        if line.most > line.least:
            yield (
                f'<rect class="most" stroke-dasharray="3 3" x="{LABEL}" y="{y:g}" '
                f'width="{most:.2f}" height="{THICK}"/>'
            )
        # A bar of no length is still a line: the value exists, and it is zero.
        yield (
            f'<rect class="least" fill="currentColor" x="{LABEL}" y="{y:g}" '
            f'width="{least:.2f}" height="{THICK}"/>'
        )
        yield _text(line.said, LABEL + most + 8, y)


def _text(text: str, x: float, y: float) -> str:
    return (
        f'<text x="{x:.2f}" y="{y + THICK / 2 + SAID_SIZE / 3:.2f}" fill="currentColor" stroke="none">'
        f"{escape(text)}</text>"
    )
