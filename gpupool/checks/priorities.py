"""Priorities: the order of the list, the values and the levels say the same thing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gpupool.checks.context import Context, Problem

LEVELS = ("critical", "high", "medium", "low")


def order(context: Context) -> Iterator[Problem]:
    numbered = list(enumerate(context.environment.priorities))
    for (_, upper), (index, lower) in pairwise(numbered):
        if lower.value >= upper.value:
            rank = f"{lower.name!r} stands below {upper.name!r}"
            message = f"{rank}, but its value {lower.value} is not below {upper.value}"
            yield Problem(
                ("priorities", index, "value"), message, "list priorities highest first, each value its own"
            )
        if LEVELS.index(lower.level) < LEVELS.index(upper.level):
            message = (
                f"{lower.name!r} stands below {upper.name!r}, but level {lower.level} is above {upper.level}"
            )
            yield Problem(("priorities", index, "level"), message, "let levels fall with values")
