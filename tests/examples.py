"""How many examples hypothesis draws for a property that takes long: a share, or all where its area is whole.

Areas are those of tests/selection.yaml. GPUPOOL_FUZZ=50 draws fifty times as many as all. GPUPOOL_SEED=N is
the random seed of tests that make up histories and kill processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TypeVar

from hypothesis import HealthCheck, settings

from tests import selection

FUZZ = os.environ.get("GPUPOOL_FUZZ")
FACTOR = int(FUZZ or "1")
SHARE = 4
"""One in so many examples is drawn where the area is not run whole."""
SEED = int(os.environ.get("GPUPOOL_SEED") or 0)
SIZES = (HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.too_slow)
"""What hypothesis says of large examples; here they are large on purpose."""
Property = TypeVar("Property", bound=Callable[..., None])


def examples(
    area: str, count: int, allowed: Collection[HealthCheck] = SIZES
) -> Callable[[Property], Property]:
    """Draw `count` examples, or a share of them."""
    whole = area in selection.WHOLE or FUZZ is not None
    assert area in selection.AREAS, area
    drawn = count * FACTOR if whole else -(-count // SHARE)
    return settings(max_examples=drawn, suppress_health_check=allowed)
