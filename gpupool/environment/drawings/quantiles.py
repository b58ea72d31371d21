"""How long things take, as an SVG picture: the share that is done by each time, on a logarithmic axis.

Seconds from 1 to a month; what takes less stands at the left edge. It does not depend on what is timed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log10

from gpupool.environment.drawings.chart import BOTTOM, LEFT, TOP, WIDTH, chart, label, line

HEIGHT = 160
RIGHT = 130
"""Pixels for the names of the lines."""
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


def quantiles(title: str, times: Mapping[str, Sequence[float]], identity: str) -> str:
    """One line for each name; `times` are seconds in any order. `identity` has to be unique in a page."""
    parts = [
        label(LEFT - 4, TOP + 8, "100 %", "end"),
        label(LEFT - 4, HEIGHT - BOTTOM, "0 %", "end"),
        *(label(_x(seconds), HEIGHT - 4, words, "middle") for seconds, words in TICKS.items()),
    ]
    for number, (name, values) in enumerate(times.items()):
        y = TOP + 10 + 15 * number
        parts += [line(number, _path(sorted(values))), line(number, f"M{WIDTH - RIGHT + 8} {y - 4}h24")]
        parts.append(label(WIDTH - RIGHT + 38, y, name))
    return chart("quantiles", identity, title, HEIGHT, RIGHT, parts)


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
