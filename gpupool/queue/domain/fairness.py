"""Whose turn it is: start-time fair queueing over GPU seconds, per pool.

Each tenant has a clock on each pool. A start moves it by GPUs x seconds / weight, and the tenant with the
smallest clock goes next; its end takes back what it did not use. A tenant that comes back from being idle
begins where the one that has had least is, so that idle time is not saved up. Between two tenants that always
have work the clocks differ by at most one of each one's largest jobs (Goyal, Vin, Cheng: Start-time Fair
Queuing, 1996, theorem 1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

Key = tuple[str, str]
"""(pool, tenant)"""


def floors(
    previous: Mapping[Key, int],
    active: Collection[Key],
    clocks: Mapping[Key, int],
    ahead: Callable[[Collection[str]], Mapping[Key, int]],
) -> dict[Key, int]:
    """The least clock of each tenant that is active on a pool (it holds slots there or has jobs queued).

    `previous` is what the last round returned. `ahead`: for who holds slots of these pools for jobs, how far
    the clock was moved for time that these jobs have not used yet, and may never use. Who is in neither has
    just become active, and must not wait until others have used that much.
    """
    result = {key: previous[key] for key in active if key in previous}
    if len(result) == len(active):
        return result
    unused = ahead({key[0] for key in active if key not in result})
    # A new leader has no previous round, and goes on with those that hold something.
    result |= {key: 0 for key in active if key in unused and key not in result}
    latest: dict[str, int] = {}
    for (pool, _), clock in clocks.items():
        latest[pool] = max(clock, latest.get(pool, 0))
    present: dict[str, int] = {}
    for key, floor in result.items():
        used = max(clocks.get(key, 0) - unused.get(key, 0), floor)
        present[key[0]] = min(used, present.get(key[0], used))
    for key in active:
        if key not in result:
            pool = key[0]
            result[key] = max(clocks.get(key, 0), present.get(pool, latest.get(pool, 0)))
    return result


def charge(gpu_micro: int, seconds: float, weight: float) -> int:
    """How far a clock moves for so much of a GPU over so many seconds."""
    return round(gpu_micro * seconds / weight)
