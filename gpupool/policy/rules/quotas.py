"""ResourceQuotas: there, as granted, within capacity, and nothing promised many times over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction

from gpupool.environment.plan.model import POOL_LABEL, Pool
from gpupool.environment.plan.tenant_quotas import quotas_of
from gpupool.policy.rules.bundle import BundleObject, ObjectSet
from gpupool.policy.rules.fields import at, count, items, mapping, text
from gpupool.policy.rules.rule import RuleViolation

OVERSUBSCRIBED = 4
"""How many times over a pool may be promised. Shares that are each used a quarter of the time still fit;
beyond that a quota no longer shows what its tenant will get, and only the queue decides."""
_TENANT_LABEL = "gpupool.dev/tenant"
_REQUESTS = "requests."
_GPU_PREFIX = "nvidia.com/"


def granted(quota: BundleObject) -> dict[str, int]:
    """GPU resource -> count that the quota allows. Kubernetes counts extended resources by `requests.` alone;
    anything else is accepted and never enforced (Kubernetes 1.36, resource quotas)."""
    return _counts(quota, ("spec", "hard"), _REQUESTS)


def limits_of(node_pool: BundleObject) -> dict[str, int]:
    """GPU resource -> count that a NodePool is limited to."""
    return _counts(node_pool, ("spec", "limits"), "")


def _counts(item: BundleObject, path: tuple[str, ...], prefix: str) -> dict[str, int]:
    return {
        name.removeprefix(prefix): number
        for name, value in mapping(item.body, *path).items()
        if name.startswith(f"{prefix}{_GPU_PREFIX}") and (number := count(value)) is not None
    }


def scoped(quota: BundleObject) -> bool:
    """Whether it counts some pods only, such as those that do not borrow."""
    return any(at(quota.body, "spec", name) for name in ("scopes", "scopeSelector"))


def counted_classes(quota: BundleObject) -> set[str]:
    """The PriorityClasses whose pods alone it counts; empty where it does not name them."""
    return {
        str(name)
        for row in items(quota.body, "spec", "scopeSelector", "matchExpressions")
        if text(row, "scopeName") == "PriorityClass" and text(row, "operator") == "In"
        for name in items(row, "values")
    }


def by_namespace(quotas: Iterable[BundleObject]) -> dict[str, dict[str, int]]:
    """Namespace -> GPU resource -> count: of several quotas the least holds. Those of some PriorityClasses
    alone are left out: they bound no sum."""
    result: dict[str, dict[str, int]] = {}
    for quota in quotas:
        if counted_classes(quota):
            continue
        total = result.setdefault(quota.namespace, {})
        for resource, number in granted(quota).items():
            total[resource] = min(number, total.get(resource, number))
    return result


def capacity(bundle: ObjectSet) -> dict[str, int] | None:
    """GPU resource -> count of all nodes that there may be; None where the bundle does not say."""
    if bundle.plan is not None:
        return _summed(pool.slices_max for pool in bundle.plan.pools)
    pools = [limits_of(item) for item in bundle.of_kind("NodePool")]
    static = any(POOL_LABEL in node.labels for node in bundle.of_kind("Node"))
    if static or not pools or not all(pools):
        return None
    return _summed(pools)


def _summed(pools: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pool in pools:
        for resource, number in pool.items():
            total[resource] = total.get(resource, 0) + number
    return total


def within_capacity(bundle: ObjectSet) -> Iterator[RuleViolation]:
    there = capacity(bundle)
    for quota in bundle.of_kind("ResourceQuota") if there is not None else ():
        for resource, number in granted(quota).items():
            most = (there or {}).get(resource, 0)
            if number > most:
                message = f"allows {number} x {resource}; all pools together have {most}"
                path = f"spec.hard[{_REQUESTS}{resource}]"
                yield RuleViolation(message, quota, path, {"quota": number, "capacity": most})


def present(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Each tenant's namespace has a quota that names every GPU resource: one that none names is free. A
    scoped one leaves the other pods free; a tenant that borrows has one beside that for what is its own."""
    quotas = bundle.of_kind("ResourceQuota")
    whole = by_namespace(quota for quota in quotas if not scoped(quota))
    own = by_namespace(quota for quota in quotas if scoped(quota))
    resources = bundle.plan.resources if bundle.plan else sorted(capacity(bundle) or {})
    borrowers = {tenant.namespace for tenant in bundle.plan.tenants if tenant.up_to} if bundle.plan else set()
    for namespace, source in _tenant_namespaces(bundle).items():
        named = whole.get(namespace)
        if named is None:
            yield RuleViolation(
                f"namespace {namespace!r} has no quota, so its pods may use every GPU", source
            )
            continue
        free = [resource for resource in resources if resource not in named]
        if free:
            message = (
                f"no quota of namespace {namespace!r} names {', '.join(free)}: its pods may use all of it"
            )
            yield RuleViolation(message, source, values={"free": free})
        if namespace in borrowers and (open_ := [r for r in resources if r not in own.get(namespace, {})]):
            message = (
                f"no quota of namespace {namespace!r} bounds {', '.join(open_)} of pods that do not borrow: "
                "they may use capacity that is only lent"
            )
            yield RuleViolation(message, source, values={"free": open_})


def _tenant_namespaces(bundle: ObjectSet) -> dict[str, BundleObject | None]:
    if bundle.plan is not None:
        return {t.namespace: bundle.find("Namespace", t.namespace) for t in bundle.plan.tenants}
    return {item.name: item for item in bundle.of_kind("Namespace") if _TENANT_LABEL in item.labels}


def of_pools(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Where pools of a tenant share a resource's name, a quota for each counts its PriorityClasses."""
    if bundle.plan is None:
        return
    quotas = bundle.by_namespace("ResourceQuota")
    for tenant in bundle.plan.tenants:
        there = {quota.name: quota for quota in quotas.get(tenant.namespace, ())}
        for expected in quotas_of(bundle.plan, tenant):
            quota = there.get(expected.name)
            classes = counted_classes(quota) if quota else set()
            named = granted(quota).keys() if quota else set()
            if expected.only is not None and (
                classes != set(expected.only) or not expected.counts.keys() <= named
            ):
                message = (
                    f"no quota of namespace {tenant.namespace!r} counts {', '.join(expected.counts)} of the "
                    f"PriorityClasses of pool {expected.pool!r}: they count against grants on other pools"
                )
                source = quota or bundle.find("Namespace", tenant.namespace)
                yield RuleViolation(message, source, values={"counted": sorted(classes)})


def as_granted(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """The figures are those of the environment file."""
    if bundle.plan is None:
        return
    quotas = bundle.by_namespace("ResourceQuota")
    for tenant in bundle.plan.tenants:
        expected = {quota.name: quota.counts for quota in quotas_of(bundle.plan, tenant)}
        for quota in quotas.get(tenant.namespace, ()):
            own = scoped(quota)
            counts = expected.get(quota.name, tenant.quota if own else tenant.quota_up_to)
            for resource, number in granted(quota).items():
                planned = counts.get(resource, 0)
                if number != planned:
                    has = "is granted" if own or not tenant.up_to else "may use, with what it borrows,"
                    message = f"allows {number} x {resource}; tenant {tenant.name!r} {has} {planned}"
                    path = f"spec.hard[{_REQUESTS}{resource}]"
                    yield RuleViolation(message, quota, path, {"quota": number, "granted": planned})


def oversubscribed(bundle: ObjectSet) -> Iterator[RuleViolation]:
    """Per pool where the Plan distinguishes pools, else per resource."""
    if bundle.plan is not None:
        for pool in bundle.plan.pools:
            grants = {tenant.name: tenant.grants.get(pool.name, {}) for tenant in bundle.plan.tenants}
            gpus = {name: _gpus(pool, grant) for name, grant in grants.items() if grant}
            total, there = sum(gpus.values(), Fraction(0)), pool.gpus_max
            if total > OVERSUBSCRIBED * there:
                message = (
                    f"pool {pool.name!r} has at most {there} GPUs, but grants add up to {float(total):g}: "
                    f"{float(total / there):.1f} times as many"
                )
                shares = {name: float(share) for name, share in gpus.items()}
                yield RuleViolation(
                    message, path=f"pool {pool.name}", values={"capacity": there, "granted": shares}
                )
        return
    there_are = capacity(bundle) or {}
    quotas = by_namespace(bundle.of_kind("ResourceQuota"))
    for resource, most in there_are.items():
        promised = {name: quota[resource] for name, quota in quotas.items() if quota.get(resource)}
        summed = sum(promised.values())
        if most and summed > OVERSUBSCRIBED * most:
            message = f"there are {most} x {resource} at most; quotas promise {summed}"
            yield RuleViolation(message, values={"capacity": most, "quotas": promised})


def _gpus(pool: Pool, grant: Mapping[str, int]) -> Fraction:
    """Physical GPUs that slices of `pool` amount to."""
    shares = pool.equivalents
    return sum((number * shares.get(name, Fraction(0)) for name, number in grant.items()), Fraction(0))
