"""What is granted of a pool, all tenants together: no more than it has, unless the file says it is meant.

Each pool is judged alone: a job that falls back to another pool uses its tenant's grant there. `upTo` grants
nothing; it borrows.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.catalog.models import CatalogError
from gpupool.environment.plan.capacity import grant_slices, overgranted
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem
from gpupool.environment.plan.model import Pool
from gpupool.environment.spec.yaml_source import Loc

_LISTED = 4
"""Tenants that a finding names, those with the largest grants."""


def overgrants(context: CheckContext) -> Iterator[PlanProblem]:
    """The grants on a pool fit into it together, by each resource that it offers."""
    for index, pool in enumerate(context.environment.pools):
        resolved = context.pools.get(pool.name)
        if resolved is None or pool.overcommit:
            continue
        grants = _grants(context, resolved)
        if any(overgranted(resolved.slices_max, [grant]) for grant in grants.values()):
            continue  # a finding of that grant
        loc: Loc = ("pools", index)
        tenants = context.environment.tenants
        judged_by = (
            (*loc, "overcommit"),
            *(("tenants", at, "pools", pool.name) for at, row in enumerate(tenants) if row.name in grants),
        )
        for resource, (total, most) in overgranted(resolved.slices_max, grants.values()).items():
            shares = _shares(grants, resource)
            message = f"grants add up to {total} x {resource}, but the pool has {most}: {shares}"
            remediation = (
                f"grant less (with upTo tenants borrow idle capacity), raise {resolved.limit_field}, or set "
                "overcommit: true on the pool if this is intended"
            )
            yield PlanProblem(loc, message, remediation, judged_by)
            break  # what is said of one profile holds for the others


def _grants(context: CheckContext, pool: Pool) -> dict[str, dict[str, int]]:
    """Tenant -> extended resource -> count granted of the pool; without grants that are findings."""
    grants: dict[str, dict[str, int]] = {}
    for tenant in context.environment.tenants:
        grant = tenant.pools.get(pool.name)
        if grant is None or len(grant.counted_in) != 1:
            continue
        if grant.counted_in[0] not in ("gpus", pool.sharing.grant_field):
            continue
        try:
            grants[tenant.name] = grant_slices(pool, grant)
        except CatalogError:
            continue
    return grants


def _shares(grants: dict[str, dict[str, int]], resource: str) -> str:
    counts = {name: row[resource] for name, row in grants.items() if row.get(resource)}
    largest = sorted(counts, key=lambda name: -counts[name])
    listed = [f"{name} {counts[name]}" for name in largest[:_LISTED]]
    more = len(largest) - _LISTED
    return ", ".join(listed) + (f" and {more} more" if more > 0 else "")
