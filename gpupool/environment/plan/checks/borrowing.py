"""What tenants may borrow (`upTo`): no less than they are granted, no more than there is, and by jobs that
give it back."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.catalog.models import CatalogError
from gpupool.environment.plan.capacity import grant_slices, up_to_slices
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.model import Pool
from gpupool.environment.spec import tenants as spec_tenants
from gpupool.environment.spec.yaml_source import Loc


def up_to(context: CheckContext) -> Iterator[PlanProblem]:
    for index, tenant in enumerate(context.environment.tenants):
        for name, grant in tenant.pools.items():
            loc: Loc = ("tenants", index, "pools", name, "upTo")
            if grant.up_to is None:
                continue
            if name in context.pools:
                yield from _up_to(loc, context.pools[name], grant)
            yield from _borrowers(context, loc, tenant)


def _up_to(loc: Loc, pool: Pool, grant: spec_tenants.Grant) -> Iterator[PlanProblem]:
    if len(grant.counted_in) != 1:
        return  # a finding of the grant
    (field,) = grant.counted_in
    if isinstance(grant.up_to, dict) != (field == "profiles"):
        example = next(iter(grant.profiles), "")
        right = f"a mapping such as {{{example}: 8}}" if field == "profiles" else f"a number of {field}"
        form = "a mapping" if isinstance(grant.up_to, dict) else "a number"
        yield PlanProblem(loc, f"upTo is {form}, and the grant says {field}", f"write {right}")
        return
    try:
        granted, most = grant_slices(pool, grant), up_to_slices(pool, grant)
    except CatalogError as error:
        if isinstance(grant.up_to, dict) and not set(grant.up_to) <= set(grant.profiles):
            yield PlanProblem(loc, error.message, error.remediation)
        return
    for resource, count in most.items():
        there = pool.slices_max.get(resource, 0)
        if count < granted.get(resource, 0):
            message = f"upTo is {count} x {resource}, which is less than the grant of {granted[resource]}"
            yield PlanProblem(loc, message, "raise it, or remove it to borrow nothing")
        elif count > there:
            message = f"upTo is {count} x {resource}, but pool {pool.name!r} has at most {there}"
            yield PlanProblem(loc, message, f"use at most {there}, or raise {pool.limit_field}")


def _borrowers(context: CheckContext, loc: Loc, tenant: spec_tenants.Tenant) -> Iterator[PlanProblem]:
    """Something may be lent to: jobs of the queue that give way."""
    environment, gaps = context.environment, context.gaps
    if not environment.queue.enabled and not gaps.covers(("queue", "enabled")):
        message = "only jobs of the queue can borrow, and queue.enabled is false"
        yield PlanProblem(loc, message, "enable the queue, or remove upTo")
    if gaps.covers(("priorities",)):
        return
    names = [priority.name for priority in environment.priorities]
    highest = tenant.max_priority or (names[-1] if names else "")
    allowed = environment.priorities[names.index(highest) :] if highest in names else []
    if not any(priority.preemptible for priority in allowed) and (highest in names or not names):
        message = (
            f"no priority that {tenant.name} may use is preemptible, and only preemptible jobs can borrow"
        )
        yield PlanProblem(loc, message, "add preemptible: true to one of its priorities, or remove upTo")
