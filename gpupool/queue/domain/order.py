"""How many jobs go before one, in the order of this moment.

Jobs of one lane differ in their age alone, so that those of another lane that go before a job are the ones
before a point of that lane. Where only the fair clocks are between two tenants, a start moves the clock: of
the other's jobs as many go first as its clock has turns before that of the job's tenant comes to it. Lanes
that have no pool in common with the job take nothing from it, and don't count. Of two tenants that borrow the
one that has borrowed least goes first; how many of its jobs that are is estimated by their clocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from gpupool.queue.domain import fairness
from gpupool.queue.domain.lower_bound import Line
from gpupool.queue.domain.round import Round
from gpupool.queue.domain.state import Lane, Queued
from gpupool.queue.records import Level

Point = tuple[float, str]
"""(time of submission, id): those of a lane that are smaller are before it."""

BEGIN, END = (float("-inf"), ""), (float("inf"), "")
MICROSECOND = 1e-6


@dataclass(frozen=True, slots=True)
class Rival:
    """What goes before a job of another lane."""

    lane: Lane
    sure: Point
    """The jobs before this point go first, whatever is started."""
    like: Point
    """Those from there to this point have the same rank: the fair clocks are between them."""


def rivals(opened: Round, job: Queued) -> list[Rival]:
    """The lanes of which jobs go before `job`."""
    pools = {offer.pool for offer in job.offers}
    first = opened.key(job)
    if not first[0]:  # capacity is reserved for it
        return []
    listed = []
    for lane, queued in opened.lanes.items():
        head = queued[0]
        if lane == (job.tenant, job.lane) or pools.isdisjoint(offer.pool for offer in head.offers):
            continue
        sure, like = _points(opened, job, head)
        if like > BEGIN:
            listed.append(Rival(lane, sure, like))
    return listed


def _points(opened: Round, job: Queued, head: Queued) -> tuple[Point, Point]:
    rules, mine = opened.supply.rules, (job.enqueued, job.job)
    borrows, other_borrows = (opened.borrows(of, of.offers[0]) for of in (job, head))
    if borrows != other_borrows:
        return (END, END) if borrows else (BEGIN, BEGIN)
    if rules.ordering == "fifo":
        return mine, mine
    if rules.ordering == "fair-share":
        above, other_above = opened.below_guarantee(job), opened.below_guarantee(head)
        if above != other_above:
            return (BEGIN, BEGIN) if above else (END, END)
    level = opened.aged(job)
    higher, same = _aged_by(opened, head, level + 1), _aged_by(opened, head, level)
    if rules.ordering == "priority":
        point = max(higher, min(same, mine))
        return point, point
    if head.tenant != job.tenant:
        return higher, same
    clock, other_clock = (opened.clock(of.offers[0].pool, of.tenant) for of in (job, head))
    point = max(higher, min(same, mine)) if clock == other_clock else same if other_clock < clock else higher
    return point, point


def _aged_by(opened: Round, head: Queued, level: int) -> Point:
    """The jobs of the lane before this point have been lifted to that level, or had it."""
    if head.level >= level:
        return END
    if level > Level.CRITICAL:
        return BEGIN
    return opened.now - (level - head.level) * opened.supply.rules.aging_s + MICROSECOND, ""


def ahead(
    opened: Round, job: Queued, line: Line, others: list[Rival], counts: Mapping[Lane, tuple[int, int]]
) -> int:
    """How many jobs go before `job`. `counts`: of each lane those before its two points."""
    if not opened.key(job)[0]:
        return 0
    total, tied, charges = line.jobs, defaultdict[str, int](int), dict[str, int]()
    own = _charge(opened, job, 1) * line.jobs
    counted = set[Lane]()
    for rival in others:
        sure, like = counts[rival.lane]
        total += sure
        tenant, head = rival.lane[0], opened.lanes[rival.lane][0]
        if tenant == job.tenant:
            own += _charge(opened, head, sure)
        tied[tenant] += like - sure
        charges.setdefault(tenant, max(1, _charge(opened, head, 1)))
        if like > 0:
            counted.add(rival.lane)
    pools, pool = {offer.pool for offer in job.offers}, job.offers[0].pool
    for other in opened.reservations.of_pools():  # wherever they stand
        lane = other.tenant, other.lane
        apart = pools.isdisjoint(offer.pool for offer in other.offers)
        total += not apart and lane not in counted and lane != (job.tenant, job.lane)
    tag = opened.clock(pool, job.tenant) + own
    for tenant, jobs in tied.items():
        room = tag - opened.clock(pool, tenant)
        total += min(jobs, max(0, -(-room // charges[tenant])))
    return total


def _charge(opened: Round, job: Queued, jobs: int) -> int:
    """How far so many jobs like this one move their tenant's clock."""
    weight = opened.rule(job.tenant).weight
    return fairness.charge(job.offers[0].gpu_micro, job.timeout_s, weight) * jobs
