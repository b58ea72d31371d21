"""Whose turn it is: start-time fair queueing over GPU seconds, per pool.

Each tenant has a clock on each pool. A start moves it by GPUs x seconds / weight, and the tenant with the
smallest clock goes next; its end takes back what it did not use. A tenant that comes back from being idle
begins where the one that has had least is, so that idle time is not saved up. Between two tenants that always
have work the clocks differ by at most one of each one's largest jobs (Goyal, Vin, Cheng: Start-time Fair
Queuing, 1996, theorem 1).
This module must not know priorities or capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Key = tuple[str, str]
"""(pool, tenant)"""


def floors(
    previous: Mapping[Key, int], active: Iterable[Key], clocks: Mapping[Key, int], ahead: Mapping[Key, int]
) -> dict[Key, int]:
    """The least clock of each tenant that is active on a pool (it holds slots there or has jobs queued).

    `previous` is what the last round returned; who is not in it, and holds nothing, has just become active.
    `ahead`: how far the clock of each tenant that holds slots was moved for time that its jobs have not used
    yet, and may never use. Who has just become active must not wait until others have used that much.
    """
    by_pool: dict[str, list[Key]] = {}
    for key in active:
        by_pool.setdefault(key[0], []).append(key)
    latest: dict[str, int] = {}
    for (pool, _), clock in clocks.items():
        latest[pool] = max(clock, latest.get(pool, 0))
    result: dict[Key, int] = {}
    for pool, keys in by_pool.items():
        # A new leader has no previous round, and goes on with those that hold something.
        known = {key: previous.get(key, 0) for key in keys if key in previous or key in ahead}
        used = [max(clocks.get(key, 0) - ahead.get(key, 0), floor) for key, floor in known.items()]
        present = min(used, default=latest.get(pool, 0))
        for key in keys:
            result[key] = known[key] if key in known else max(clocks.get(key, 0), present)
    return result


def charge(gpu_micro: int, seconds: float, weight: float) -> int:
    """How far a clock moves for so much of a GPU over so many seconds."""
    return round(gpu_micro * seconds / weight)
