"""Amounts over time as an SVG picture: areas on one scale, from change to change.

Thinned to what can be seen: of each pixel the mean, so that the area stays what it is. Lines differ by their
strokes, never by colour alone. It does not depend on what the amounts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from gpupool.drawings.svg import FONT

WIDTH, HEIGHT = 720, 120
LEFT, BOTTOM, TOP = 44, 18, 6
LABEL_SIZE = 11
STROKES = ("", "4 3", "1 3")
"""Dashes of the first line, the second and the third."""


@dataclass(frozen=True, slots=True)
class Steps:
    """One amount: `values[i]` holds from `at[i]` until the next."""

    name: str
    at: Sequence[float]
    values: Sequence[float]


def series(title: str, lines: Sequence[Steps], begin: float, end: float, top: float, identity: str) -> str:
    """The lines between two times, seconds, as an `<svg>` element. `top`: the largest amount of the scale.
    `identity` (letters, digits, hyphens) has to be unique in a page."""
    name = escape(identity)
    words = f"{title}: {', '.join(line.name for line in lines)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="series" role="img" width="{WIDTH}" '
        f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-labelledby="{name}-title">',
        f'<title id="{name}-title">{escape(words)}</title>',
        f'<g fill="none" stroke="currentColor" {FONT} font-size="{LABEL_SIZE}">',
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH}" stroke-opacity="0.5"/>',
        _label(LEFT - 4, TOP + 8, f"{top:g}", "end"),
        _label(LEFT - 4, HEIGHT - BOTTOM, "0", "end"),
        _label(LEFT, HEIGHT - 4, "0"),
        _label(WIDTH - 2, HEIGHT - 4, _duration(end - begin), "end"),
        *(
            f'<path d="{_path(line, begin, end, top)}" stroke-dasharray="{STROKES[number % len(STROKES)]}"/>'
            for number, line in enumerate(lines)
        ),
        "</g>",
        "</svg>",
    ]
    return "\n".join(parts)


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor" stroke="none">'
        f"{escape(text)}</text>"
    )


def _duration(seconds: float) -> str:
    return f"{seconds / 86400:.1f} d" if seconds > 2 * 86400 else f"{seconds / 3600:.1f} h"


def means(line: Steps, begin: float, end: float, count: int) -> list[float]:
    """The mean of the amount in each of so many equal parts of the time."""
    width = (end - begin) / count
    sums = [0.0] * count
    if width <= 0:
        return sums
    for number, at in enumerate(line.at):
        since = max(at, begin)
        until = min(line.at[number + 1] if number + 1 < len(line.at) else end, end)
        value = line.values[number]
        part = int((since - begin) / width)
        while since < until and part < count:
            edge = min(until, begin + (part + 1) * width)
            sums[part] += value * max(0.0, edge - since)
            since, part = edge, part + 1
    return [total / width for total in sums]


def _path(line: Steps, begin: float, end: float, top: float) -> str:
    count = (WIDTH - LEFT) // 2
    room = HEIGHT - BOTTOM - TOP
    points: list[str] = []
    for number, value in enumerate(means(line, begin, end, count)):
        y = HEIGHT - BOTTOM - room * min(1.0, value / top if top else 0.0)
        points.append(f"{'H' if points else f'M{LEFT} {y:.1f}H'}{LEFT + 2 * number + 2}V{y:.1f}")
    return "".join(points)
