"""The state of one running evaluation, as the compiled steps see it.

A frame is a list, because a list's slots are the cheapest variables that Python has and every step touches
them. Slots: COST the cost so far, VALUES the values by name, LIMIT the cost at which to stop, SCOPE the scope
that resolves names without a value yet; from LOCALS on the variables of comprehensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vapcheck.cel.errors import CostExceeded

COST, VALUES, LIMIT, SCOPE, LOCALS = 0, 1, 2, 3, 4

Frame = list[Any]
Run = Callable[[Frame], Any]
"""A compiled step: gives its value or raises CelError, and adds what it cost to the frame."""


@dataclass(slots=True)
class Step:
    """A compiled expression; for a constant also its value."""

    run: Run
    constant: bool = False
    value: Any = None


def new_frame(
    slots: int = LOCALS, limit: int = 0, values: Mapping[str, Any] | None = None, scope: Any = None
) -> Frame:
    """A frame with so many slots, at the start of an evaluation."""
    return [0, values, limit, scope, *([None] * (slots - LOCALS))]


def check_cost(frame: Frame) -> None:
    """Stop an evaluation that has become too expensive. Raises CostExceeded."""
    if frame[COST] > frame[LIMIT]:
        raise CostExceeded
