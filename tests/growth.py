"""How what a piece of work costs grows with its size: two sizes compared, never a clock with a figure.

Counted is the processor time of this process, which other processes on the machine do not use up, and of
each size the best of several rounds, so that a moment's hindrance is in neither.
"""

from __future__ import annotations

import time
from collections.abc import Callable

FACTOR = 8
"""How much larger the second size is: so much does linear work grow, and 64 times quadratic work."""
LINEAR = 24.0
"""What linear work stays below, at three times what it should be."""
_ROUNDS = 5


def growth(work: Callable[[int], object], size: int) -> float:
    """What `work(FACTOR * size)` costs over what `work(size)` does; at best some milliseconds each."""
    best = {size: float("inf"), FACTOR * size: float("inf")}
    work(size)
    for _ in range(_ROUNDS):
        for each in best:
            started = time.process_time()
            work(each)
            best[each] = min(best[each], time.process_time() - started)
    return best[FACTOR * size] / max(best[size], 1e-6)
