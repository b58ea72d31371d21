"""How single values of a plan are written for people: counts, taints, windows.

One spelling for every format of a report. Says nothing about changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpupool.environment.money import usd
from gpupool.environment.plan.capacity import WEEKDAYS
from gpupool.environment.plan.changes.model import Cost
from gpupool.environment.plan.model import Plan, Pool, Reserved, Taint, Window
from gpupool.environment.plan.platforms import PLATFORMS
from gpupool.environment.spec.tenants import Budget


def resource_name(resource: str) -> str:
    """An extended resource without its vendor: `gpu`, `mig-3g.40gb`."""
    return resource.removeprefix("nvidia.com/")


def counts(given: Mapping[str, int]) -> str:
    """`18 gpu`, `8 mig-3g.40gb + 16 mig-2g.20gb`; `none` where there is nothing."""
    return " + ".join(f"{count} {resource_name(name)}" for name, count in given.items()) or "none"


def sharing(pool: Pool) -> str:
    """The mode and its number: `exclusive`, `time-slicing x3`, `mig 1x3g.40gb + 2x2g.20gb`."""
    if pool.sharing.layout:
        # Sorted as in the name of its configuration: the order in the file means nothing.
        parts = [f"{count}x{name}" for name, count in sorted(pool.sharing.layout.items(), reverse=True)]
        return f"{pool.sharing.mode} {' + '.join(parts)}"
    replicas = max(pool.sharing.slices_per_gpu(pool.gpu).values())
    return f"{pool.sharing.mode} x{replicas}" if replicas > 1 else pool.sharing.mode


def taint(given: Taint) -> str:
    """As kubectl writes it: `gpu=mig:NoSchedule`."""
    return f"{given.key}={given.value}:{given.effect}" if given.value else f"{given.key}:{given.effect}"


def node_group(plan: Plan, pool: Pool) -> str:
    """The labels and taints that a node group is to give to the pool's nodes, in the words of its tool."""
    labels = ",".join(f"{key}={value}" for key, value in sorted(pool.labels.items()))
    taints = ",".join(map(taint, pool.taints)) or "none"
    return PLATFORMS[plan.cluster.platform].group.format(labels=labels, taints=taints)


def window(given: Window | None) -> str | None:
    """As in the environment file: `Sat 02:00-06:00 UTC`."""
    if given is None:
        return None
    # As weeks are read: Sunday, cron's day 0, is the last.
    week = sorted(given.weekdays, key=lambda day: (day - 1) % 7)
    days = "daily" if len(week) == 7 else ",".join(WEEKDAYS[day] for day in week)
    end = (given.start_minute + given.minutes) % 1440
    return f"{days} {_clock(given.start_minute)}-{_clock(end)} UTC"


def reservation_name(reservation: Reserved) -> str:
    """Its id, or its tags: `for=gpus team=ml`."""
    return reservation.id or " ".join(f"{key}={value}" for key, value in sorted(reservation.tags.items()))


def reserved(reservation: Reserved) -> str:
    """`4 of cr-0123 until 2027-01-31 11:30 UTC`."""
    end = f" until {reservation.until:%Y-%m-%d %H:%M} UTC" if reservation.until else ""
    return f"{reservation.count} of {reservation_name(reservation)}{end}"


def spot(pool: Pool) -> str:
    """Which of the pool's nodes are spot nodes, as in the environment file: `spotShare 0.5`."""
    return "capacity [spot, on-demand]" if pool.spot_first else f"spotShare {pool.spot_share:g}"


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def budget(given: Budget | None) -> str | None:
    """`$20,000 a month (onExhausted: wait)`: what the file says of it."""
    if given is None:
        return None
    return f"{usd(given.usd)} a {given.period} (onExhausted: {given.on_exhausted})"


def cost_range(cost: Cost) -> str:
    """Floor and ceiling: `$1,000 to $5,000`, or one sum where both are the same."""
    if cost.floor == cost.ceiling:
        return usd(cost.ceiling)
    return f"{usd(cost.floor)} to {usd(cost.ceiling)}"
