"""How many examples hypothesis draws for a property that takes long: a share, or all where its area is whole.

The share is of tests/sampling.py, and so are the areas. GPUPOOL_FUZZ=50 draws fifty times as many as all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TypeVar

from hypothesis import HealthCheck, seed, settings

from tests import sampling

FUZZ = os.environ.get("GPUPOOL_FUZZ")
FACTOR = int(FUZZ or "1")
SIZES = (HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.too_slow)
"""What hypothesis says of large examples; here they are large on purpose."""
Property = TypeVar("Property", bound=Callable[..., None])


def examples(
    area: str, count: int, allowed: Collection[HealthCheck] = SIZES
) -> Callable[[Property], Property]:
    """Draw `count` examples, or a share of them; in CI by the run's seed, so that days come around."""
    whole = area in sampling.WHOLE or FUZZ is not None
    assert area in sampling.AREAS, area
    drawn = count * FACTOR if whole else -(-count // sampling.SHARE)

    def decorate(test: Property) -> Property:
        test = settings(max_examples=drawn, suppress_health_check=allowed)(test)
        return seed(sampling.SEED)(test) if os.environ.get("CI") else test

    return decorate
