"""How long things take, as an SVG picture: the share that is done by each time, on a logarithmic axis.

Seconds from 1 to a month; what takes less stands at the left edge. It does not depend on what is timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import log10

from gpupool.drawings.svg import FONT

WIDTH, HEIGHT = 720, 160
LEFT, BOTTOM, TOP, RIGHT = 44, 18, 6, 130
LABEL_SIZE = 11
MOST = 30 * 86400.0
TICKS = {
    1: "1 s",
    10: "10 s",
    60: "1 min",
    600: "10 min",
    3600: "1 h",
    21600: "6 h",
    86400: "1 d",
    604800: "7 d",
}
POINTS = 120
STROKES = ("", "6 3", "2 3", "8 3 2 3", "1 2", "10 4")


def quantiles(title: str, times: Mapping[str, Sequence[float]], identity: str) -> str:
    """One line for each name; `times` are seconds in any order. `identity` has to be unique in a page."""
    name = escape(identity)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="quantiles" role="img" width="{WIDTH}" '
        f'height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" aria-labelledby="{name}-title">',
        f'<title id="{name}-title">{escape(title)}</title>',
        f'<g fill="none" stroke="currentColor" {FONT} font-size="{LABEL_SIZE}">',
        f'<path d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}" stroke-opacity="0.5"/>',
        _label(LEFT - 4, TOP + 8, "100 %", "end"),
        _label(LEFT - 4, HEIGHT - BOTTOM, "0 %", "end"),
        *(_label(_x(seconds), HEIGHT - 4, words, "middle") for seconds, words in TICKS.items()),
    ]
    for number, (who, values) in enumerate(times.items()):
        dashes = STROKES[number % len(STROKES)]
        parts.append(f'<path d="{_path(sorted(values))}" stroke-dasharray="{dashes}"/>')
        y = TOP + 10 + 15 * number
        parts.append(f'<path d="M{WIDTH - RIGHT + 8} {y - 4}h24" stroke-dasharray="{dashes}"/>')
        parts.append(_label(WIDTH - RIGHT + 38, y, who))
    return "\n".join([*parts, "</g>", "</svg>"])


def _label(x: float, y: float, text: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" fill="currentColor" stroke="none">'
        f"{escape(text)}</text>"
    )


def _x(seconds: float) -> float:
    part = log10(min(max(seconds, 1.0), MOST)) / log10(MOST)
    return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)


def _path(ordered: Sequence[float]) -> str:
    if not ordered:
        return ""
    room = HEIGHT - BOTTOM - TOP
    points = [f"M{LEFT} {HEIGHT - BOTTOM}"]
    for number in range(1, POINTS + 1):
        value = ordered[min(len(ordered) - 1, -(-number * len(ordered) // POINTS) - 1)]
        points.append(f"L{_x(value)} {HEIGHT - BOTTOM - room * number / POINTS:.1f}")
    return "".join(points)
