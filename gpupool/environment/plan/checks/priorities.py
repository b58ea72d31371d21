"""Priorities: the order of the list, the values and the levels say the same thing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.spec.environment import Priority

LEVELS = ("critical", "high", "medium", "low")


def order(context: CheckContext) -> Iterator[PlanProblem]:
    for (_, upper), (index, lower) in pairwise(_with(context, "value")):
        if lower.value >= upper.value:
            rank = f"{lower.name!r} is listed after {upper.name!r}"
            message = f"{rank}, but its value {lower.value} is not below {upper.value}"
            yield PlanProblem(
                ("priorities", index, "value"),
                message,
                "list priorities highest first, with different values",
            )
    for (_, upper), (index, lower) in pairwise(_with(context, "level")):
        if LEVELS.index(lower.level) < LEVELS.index(upper.level):
            message = (
                f"{lower.name!r} is listed after {upper.name!r}, but its level {lower.level} is "
                f"above {upper.level}"
            )
            yield PlanProblem(("priorities", index, "level"), message, "use lower levels for lower values")


def _with(context: CheckContext, field: str) -> list[tuple[int, Priority]]:
    """The priorities whose `field` is known, each with its index."""
    numbered = enumerate(context.environment.priorities)
    return [(at, one) for at, one in numbered if not context.gaps.covers(("priorities", at, field))]
