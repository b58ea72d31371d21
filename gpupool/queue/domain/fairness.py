"""Whose turn it is: start-time fair queueing over GPU seconds, per pool.

Each tenant has a clock on each pool. A start moves it by GPUs x seconds / weight, and the tenant with the
smallest clock goes next. A tenant that comes back from being idle begins at the pool's present time, so that
idle time is not saved up. Between two tenants that always have work the clocks differ by at most one of each
one's largest jobs (Goyal, Vin, Cheng: Start-time Fair Queuing, 1996, theorem 1).
This module must not know priorities or capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Key = tuple[str, str]
"""(pool, tenant)"""


def floors(previous: Mapping[Key, int], active: Iterable[Key], clocks: Mapping[Key, int]) -> dict[Key, int]:
    """The least clock of each tenant that is active on a pool (it holds slots there or has jobs queued).

    `previous` is what the last round returned; who is not in it has just become active.
    """
    by_pool: dict[str, list[Key]] = {}
    for key in active:
        by_pool.setdefault(key[0], []).append(key)
    latest: dict[str, int] = {}
    for (pool, _), clock in clocks.items():
        latest[pool] = max(clock, latest.get(pool, 0))
    result: dict[Key, int] = {}
    for pool, keys in by_pool.items():
        known = [key for key in keys if key in previous]
        for key in known:
            result[key] = previous[key]
        if known:
            present = min(max(clocks.get(key, 0), previous[key]) for key in known)
        else:
            present = latest.get(pool, 0)
        for key in keys:
            if key not in previous:
                result[key] = max(clocks.get(key, 0), present)
    return result


def charge(gpu_micro: int, seconds: int, weight: float) -> int:
    """How far a clock moves for so much of a GPU over so many seconds."""
    return round(gpu_micro * seconds / weight)
