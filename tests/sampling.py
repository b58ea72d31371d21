"""Which cases of an exhaustive test a run takes: all in `make test-all`, else a few drawn by a seed.

The seed is printed at the head of a run; GPUPOOL_SEED repeats one. It is the day, so that runs come around to
every case. Workers inherit it from the process that starts them.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeVar

Case = TypeVar("Case")

EXHAUSTIVE = os.environ.get("GPUPOOL_TESTS") == "all"
"""Whether this run is `make test-all`."""
SEED = int(os.environ.setdefault("GPUPOOL_SEED", str(datetime.now(UTC).toordinal())))


def drawn(cases: Sequence[Case], count: int) -> list[Case]:
    """`count` of `cases`, in their order; all of them in an exhaustive run."""
    if EXHAUSTIVE or count >= len(cases):
        return list(cases)
    numbers = random.Random(SEED).sample(range(len(cases)), count)
    return [cases[number] for number in sorted(numbers)]
