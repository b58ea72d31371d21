"""How many requests each caller may make: token buckets in memory, for one replica.

This module must not know HTTP or credentials; a caller is any text.
"""

from __future__ import annotations

import math
from collections import OrderedDict

_CALLERS = 10_000


class Buckets:
    """One bucket a caller: `burst` requests at once, refilled by `per_second`."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second, self._burst = per_second, burst
        self._buckets = OrderedDict[str, tuple[float, float]]()

    def take(self, caller: str, now: float) -> int:
        """Take one request: 0 where the caller has one left, else the whole seconds until it has."""
        left = self._left(caller, now)
        wait = 0 if left >= 1 else math.ceil((1 - left) / self._per_second)
        self._buckets[caller] = (left - (not wait), now)
        self._buckets.move_to_end(caller)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        return wait

    def _left(self, caller: str, now: float) -> float:
        left, at = self._buckets.get(caller, (self._burst, now))
        return min(self._burst, left + max(0.0, now - at) * self._per_second)
