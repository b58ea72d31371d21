"""Tenants: what they refer to exists, what they are granted can exist, what they may spend is enough."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from gpupool.environment.catalog.models import CatalogError
from gpupool.environment.money import usd_exact
from gpupool.environment.plan.capacity import grant_slices
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem, closest
from gpupool.environment.plan.checks.names import is_reserved
from gpupool.environment.plan.model import Pool
from gpupool.environment.plan.pool_cost import HOURS_PER_MONTH, monthly_cost
from gpupool.environment.spec import tenants as spec_tenants
from gpupool.environment.spec.yaml_source import Loc

_HOURS = {"day": 24, "week": 168, "month": HOURS_PER_MONTH}


def references(context: CheckContext) -> Iterator[PlanProblem]:
    known = {name: not context.gaps.covers((name,)) for name in ("pools", "priorities")}
    for index, tenant in enumerate(context.environment.tenants):
        max_priority = tenant.max_priority
        if (
            known["priorities"]
            and max_priority is not None
            and max_priority not in context.named["priorities"]
        ):
            message = f"priority {max_priority!r} is not defined"
            yield PlanProblem(
                ("tenants", index, "maxPriority"),
                message,
                closest(max_priority, context.defined("priorities")),
            )
        for pool in tenant.pools if known["pools"] else ():
            if pool not in context.named["pools"]:
                message = f"pool {pool!r} is not defined"
                remediation = closest(pool, context.defined("pools"))
                loc: Loc = ("tenants", index, "pools")
                yield PlanProblem((*loc, pool), message, remediation, judged_by=(loc,))


def grants(context: CheckContext) -> Iterator[PlanProblem]:
    for index, tenant in enumerate(context.environment.tenants):
        for name, grant in tenant.pools.items():
            if name in context.pools:
                yield from _grant(("tenants", index, "pools", name), context.pools[name], grant)


def _grant(loc: Loc, pool: Pool, grant: spec_tenants.Grant) -> Iterator[PlanProblem]:
    fields = grant.counted_in
    if len(fields) != 1:
        message = "is empty" if not fields else f"says {' and '.join(fields)}"
        judged_by = tuple((*loc, field) for field in fields)
        remediation = f"use exactly one of gpus or {pool.sharing.grant_field}"
        yield PlanProblem(loc, f"the grant on pool {pool.name!r} {message}", remediation, judged_by)
        return
    if fields[0] not in ("gpus", pool.sharing.grant_field):
        message = f"{fields[0]} does not fit pool {pool.name!r}, which shares its GPUs by {pool.sharing.mode}"
        yield PlanProblem((*loc, fields[0]), message, f"use gpus or {pool.sharing.grant_field}")
        return
    if grant.gpus is not None and grant.gpus > pool.gpus_max:
        message = f"{grant.gpus} GPUs of pool {pool.name!r} exceed its maximum of {pool.gpus_max}"
        remediation = _raise(pool, f"{pool.gpus_per_node} GPUs")
        yield PlanProblem((*loc, "gpus"), message, remediation)
        return
    try:
        wanted = grant_slices(pool, grant)
    except CatalogError as error:
        yield PlanProblem((*loc, "profiles"), error.message, error.remediation)
        return
    nothing = [resource for resource, count in wanted.items() if count == 0 and grant.up_to is None]
    if nothing:
        message = f"0 x {nothing[0]} of pool {pool.name!r} is no grant"
        remediation = "grant 1 or more, or set upTo to let the tenant borrow idle capacity"
        yield PlanProblem((*loc, fields[0]), message, remediation)
    for resource, count in wanted.items():
        most = pool.slices_max.get(resource, 0)
        if count > most:
            place = (*loc, fields[0])
            yield PlanProblem(place, *_too_many(pool, resource, count, most), judged_by=(place,))


def _too_many(pool: Pool, resource: str, count: int, most: int) -> tuple[str, str]:
    if most == 0:
        offered = ", ".join(pool.slices_per_node)
        return f"pool {pool.name!r} has no {resource}", f"it offers {offered}; name one of its profiles"
    per_node = pool.slices_per_node[resource]
    message = f"{count} x {resource} of pool {pool.name!r} exceed its maximum of {most}"
    return message, _raise(pool, f"{per_node} a node")


def _raise(pool: Pool, per_node: str) -> str:
    product = f"{pool.nodes_max} nodes x {per_node}; " if pool.one_size else ""
    return f"{product}raise {pool.limit_field} or grant less"


def budgets(context: CheckContext) -> Iterator[PlanProblem]:
    """A budget that warm nodes alone exceed is spent before the first job runs. A pool's warm cost, but for
    what is reserved, is split among its tenants by what they are granted."""
    floors = {
        name: cost.warm
        for name, pool in context.pools.items()
        if (cost := monthly_cost(pool)) and cost.warm and not _cost_unknown(context, name)
    }
    totals = {name: _granted(context, name) for name in floors}
    for index, tenant in enumerate(context.environment.tenants):
        if tenant.budget is None or context.gaps.covers(("tenants", index, "budget", "period")):
            continue
        owed = dict[str, float]()
        for name in tenant.pools:
            share = totals.get(name, {}).get(tenant.name)
            if share:
                part = float(share / sum(totals[name].values()))
                owed[name] = floors[name] * part * _HOURS[tenant.budget.period] / HOURS_PER_MONTH
        if (total := sum(owed.values())) > tenant.budget.usd:
            budget = f"{usd_exact(tenant.budget.usd)} a {tenant.budget.period}"
            message = (
                f"{budget} is less than the tenant's share of the warm nodes of {', '.join(owed)}, "
                f"{usd_exact(total)} (reserved nodes are not counted)"
            )
            yield PlanProblem(
                ("tenants", index, "budget", "usd"), message, "raise the budget or lower nodes.warm"
            )


def _cost_unknown(context: CheckContext, name: str) -> bool:
    """Whether a gap leaves open what the pool called `name` costs, or whom."""
    environment, gaps = context.environment, context.gaps
    if not gaps.broken:
        return False
    pools = (at for at, pool in enumerate(environment.pools) if pool.name == name)
    prices = (
        ("pools", at, "nodes", field)
        for at in pools
        for field in ("warm", "spotShare", "reserved", "usdPerHour")
    )
    grants = (("tenants", at, "pools", name) for at in range(len(environment.tenants)))
    return any(gaps.touches(loc) for loc in (*prices, *grants))


def _granted(context: CheckContext, name: str) -> dict[str, Fraction]:
    """Tenant -> physical GPUs granted of the pool called `name`."""
    pool, shares = context.pools[name], dict[str, Fraction]()
    for tenant in context.environment.tenants:
        if name in tenant.pools:
            try:
                slices = grant_slices(pool, tenant.pools[name])
            except CatalogError:
                continue
            equivalents = pool.equivalents
            shares[tenant.name] = sum(
                (count * equivalents.get(r, Fraction(0)) for r, count in slices.items()), Fraction(0)
            )
    return shares


def extra(context: CheckContext) -> Iterator[PlanProblem]:
    """CPU and memory on top of an unknown share would bound nothing."""
    for index, tenant in enumerate(context.environment.tenants):
        granted = [context.pools[name] for name in tenant.pools if name in context.pools]
        unsized = [pool.name for pool in granted if None in map(pool.share, pool.slices_per_node)]
        if unsized and tenant.extra is not None:
            loc: Loc = ("tenants", index, "extra")
            remediation = "add nodes.size there, or remove extra"
            yield PlanProblem(loc, f"the machine size of pool {unsized[0]!r} is unknown", remediation)


def projects(context: CheckContext) -> Iterator[PlanProblem]:
    for index, tenant in enumerate(context.environment.tenants):
        place: Loc = ("tenants", index)
        yield from _alerts((*place, "budget"), tenant.budget)
        listed = set[str]()
        for position, project in enumerate(tenant.projects):
            loc: Loc = (*place, "projects", position)
            name, of_name = (project, loc) if isinstance(project, str) else (project.name, (*loc, "name"))
            if not isinstance(project, str):
                yield from _alerts((*loc, "budget"), project.budget)
            if context.gaps.covers(of_name):
                continue
            if name in listed:
                yield PlanProblem(of_name, f"project {name!r} is listed twice", "list it once")
            listed.add(name)


def _alerts(loc: Loc, budget: spec_tenants.Budget | None) -> Iterator[PlanProblem]:
    if budget is not None and sorted(budget.alert_at) != list(budget.alert_at):
        message = f"alertAt {list(budget.alert_at)} is not in ascending order"
        yield PlanProblem((*loc, "alertAt"), message, "list the shares in ascending order")


def access(context: CheckContext) -> Iterator[PlanProblem]:
    """A tenant's rights must not go to every user, or to the cluster's own accounts."""
    for index, tenant in enumerate(context.environment.tenants):
        for position, group in enumerate(tenant.access.oidc_groups):
            if group.startswith("system:"):
                message = f"group {group!r} belongs to Kubernetes"
                remediation = "use a group of the identity provider"
                yield PlanProblem(("tenants", index, "access", "oidcGroups", position), message, remediation)
        for position, account in enumerate(tenant.access.service_accounts):
            namespace = account.partition("/")[0]
            if is_reserved(namespace, context.environment.gpu_operator.namespace):
                message = f"service account {account!r} belongs to the cluster"
                own = "team" if context.gaps.covers(("tenants", index, "namespace")) else tenant.namespace
                remediation = f"use an account of the tenant, e.g. {own}/default"
                yield PlanProblem(
                    ("tenants", index, "access", "serviceAccounts", position), message, remediation
                )
