"""Amounts over time as an SVG picture: areas on one scale, from change to change.

Thinned to what can be seen: of each pixel the mean, so that the area stays what it is. Lines differ by their
strokes, never by colour alone. It does not depend on what the amounts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpupool.environment.drawings.chart import BOTTOM, LEFT, TOP, WIDTH, chart, label, line

HEIGHT = 120


@dataclass(frozen=True, slots=True)
class Steps:
    """One amount: `values[i]` holds from `at[i]` until the next."""

    name: str
    at: Sequence[float]
    values: Sequence[float]


def series(title: str, lines: Sequence[Steps], begin: float, end: float, top: float, identity: str) -> str:
    """The lines between two times, seconds, as an `<svg>` element. `top`: the largest amount of the scale.
    `identity` (letters, digits, hyphens) has to be unique in a page."""
    title = f"{title}: {', '.join(amount.name for amount in lines)}"
    parts = [
        label(LEFT - 4, TOP + 8, f"{top:g}", "end"),
        label(LEFT - 4, HEIGHT - BOTTOM, "0", "end"),
        label(LEFT, HEIGHT - 4, "0"),
        label(WIDTH - 2, HEIGHT - 4, _duration(end - begin), "end"),
        *(line(number, _path(amount, begin, end, top)) for number, amount in enumerate(lines)),
    ]
    return chart("series", identity, title, HEIGHT, 0, parts)


def _duration(seconds: float) -> str:
    return f"{seconds / 86400:.1f} d" if seconds > 2 * 86400 else f"{seconds / 3600:.1f} h"


def means(amount: Steps, begin: float, end: float, count: int) -> list[float]:
    """The mean of the amount in each of so many equal parts of the time."""
    width = (end - begin) / count
    sums = [0.0] * count
    if width <= 0:
        return sums
    for number, at in enumerate(amount.at):
        since = max(at, begin)
        until = min(amount.at[number + 1] if number + 1 < len(amount.at) else end, end)
        value = amount.values[number]
        part = int((since - begin) / width)
        while since < until and part < count:
            edge = min(until, begin + (part + 1) * width)
            sums[part] += value * max(0.0, edge - since)
            since, part = edge, part + 1
    return [total / width for total in sums]


def _path(amount: Steps, begin: float, end: float, top: float) -> str:
    count = (WIDTH - LEFT) // 2
    room = HEIGHT - BOTTOM - TOP
    points: list[str] = []
    for number, value in enumerate(means(amount, begin, end, count)):
        y = HEIGHT - BOTTOM - room * min(1.0, value / top if top else 0.0)
        points.append(f"{'H' if points else f'M{LEFT} {y:.1f}H'}{LEFT + 2 * number + 2}V{y:.1f}")
    return "".join(points)
