"""Machine images that change by themselves, under work that is not meant to be stopped: a caution alone.

Karpenter takes a node for drifted as soon as its alias stands for another image (Karpenter 1.14, Managing
AMIs), and pods that nothing protects are evicted within the pool's disruption budgets.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import Plan, Pool
from gpupool.policy.rules.bundle import ObjectSet
from gpupool.policy.rules.rule import RuleViolation

_LATEST = "@latest"


def pinned(bundle: ObjectSet) -> Iterator[RuleViolation]:
    plan = bundle.plan
    if plan is None or plan.karpenter is None or plan.cluster.platform != "eks":
        return
    for pool in plan.pools:
        alias = _moving_alias(pool, plan.karpenter.ami_alias)
        if not pool.capacities or alias is None or _may_be_stopped(plan, pool):
            continue
        when = "in its maintenance window" if pool.window else "at any time"
        message = (
            f"pool {pool.name!r} uses {alias}: its nodes are replaced when AWS publishes an image, {when}, "
            "although it runs work that can't be preempted"
        )
        path = "karpenter.amiAlias" if pool.image is None else f"pool {pool.name}"
        yield RuleViolation(message, path=path, values={"pool": pool.name, "alias": alias})


def _moving_alias(pool: Pool, default: str) -> str | None:
    """The alias of the pool's image if what it stands for changes by itself."""
    aliases = [default] if pool.image is None else [term.alias for term in pool.image.selector_terms]
    return next((alias for alias in aliases if alias and alias.endswith(_LATEST)), None)


def _may_be_stopped(plan: Plan, pool: Pool) -> bool:
    """Whether all work of the pool's tenants may be pushed out anyway. A pool of no tenant is open to pods of
    which nothing is known."""
    names = [priority.name for priority in plan.priorities]
    highest = [tenant.max_priority for tenant in plan.tenants if pool.name in tenant.grants]
    allowed = [
        priority
        for name in highest
        for priority in (plan.priorities[names.index(name) :] if name in names else ())
    ]
    return bool(allowed) and None not in highest and all(priority.preemptible for priority in allowed)
