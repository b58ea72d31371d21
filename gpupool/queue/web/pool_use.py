"""How much the GPUs of each pool were used within the last day, as the overview shows it.

From the Prometheus of `queue.idle`, by the recording rule that the dashboards show; without one there is
nothing to show.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from gpupool.generators.monitoring.rules import POOL_USE
from gpupool.queue import prometheus
from gpupool.queue.web.charts import Picture, shares

PATIENCE_S = 2.0
"""A page waits so long for Prometheus."""
DAY = timedelta(days=1)
STEPS = 48
_STEP_S = int(DAY.total_seconds()) // STEPS

Use = Mapping[str, tuple[float | None, ...]]
"""Pool -> its mean use within each step of the day, None where no GPU was there; the last step ends now."""


class PoolUse(NamedTuple):
    """One pool's day."""

    pool: str
    mean: float
    latest: float | None
    """Within the last step; None where no GPU is there now."""
    picture: Picture


async def of_last_day(url: str, now: datetime) -> Use:
    """The day that ends at `now`. Raises `prometheus.NotKnown`."""
    series = await prometheus.ask(
        url,
        "query_range",
        PATIENCE_S,
        query=f"avg_over_time({POOL_USE}[{_STEP_S}s])",
        start=str(now.timestamp() - (STEPS - 1) * _STEP_S),
        end=str(now.timestamp()),
        step=str(_STEP_S),
    )
    use = {}
    for of_pool in series:
        steps: list[float | None] = [None] * STEPS
        for at, value in of_pool["values"]:
            steps[STEPS - 1 - round((now.timestamp() - at) / _STEP_S)] = float(value)
        use[of_pool["metric"].get("pool", "")] = tuple(steps)
    return use


def drawn(use: Use, pools: Iterable[str]) -> Iterator[PoolUse]:
    """Those of the pools that had a GPU within the day."""
    for pool in pools:
        known = [share for share in use.get(pool, ()) if share is not None]
        if known:
            mean, latest = sum(known) / len(known), use[pool][-1]
            label = f"GPU use of {pool} within the last day: {mean:.0%} on average, {max(known):.0%} at most"
            yield PoolUse(pool, mean, latest, Picture(label, shares(use[pool])))
