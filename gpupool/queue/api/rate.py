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
        """Take one request. 0 where the caller has one left, else the whole seconds until it has."""
        left, at = self._buckets.pop(caller, (self._burst, now))
        left = min(self._burst, left + max(0.0, now - at) * self._per_second)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        if len(self._buckets) > _CALLERS:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - left) / self._per_second))

    def empty(self, caller: str, now: float) -> int:
        """As `take`, but takes nothing."""
        left, at = self._buckets.get(caller, (self._burst, now))
        left += max(0.0, now - at) * self._per_second
        return 0 if left >= 1 else max(1, math.ceil((1 - left) / self._per_second))
