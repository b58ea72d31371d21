"""What a reviewer must not miss about what pools promise: more granted than they have, jobs isolated less
from each other, older releases of what runs the nodes. Registered in `gpupool.review.report.risks`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpupool.environment.plan.changes import wording
from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.operator_releases import version_key
from gpupool.environment.sharing import Isolation
from gpupool.review.report.environment_state import kept_pools
from gpupool.review.report.model import Risk, risk

_LOST: Mapping[Isolation, str] = {
    Isolation.memory: "a fault in one job may end other jobs on its GPU",
    Isolation.nothing: "a job may use the memory of other jobs on its GPU, and a fault in one may end them",
}


def overgranted(old: Plan, new: Plan) -> Iterator[Risk]:
    """Pools whose grants add up to more than their capacity, where that gets worse."""
    before = _granted(old)
    for (pool, resource), (granted, most) in _granted(new).items():
        was, had = before.get((pool, resource), (0, 0))
        if granted > most and granted - most > was - had:
            yield risk(
                "capacity",
                f"pool {pool}: tenants are granted {granted:,} of {most:,} {wording.resource_name(resource)} "
                f"({was:,} of {had:,} before), so they can't all use their quotas at once",
            )


def _granted(plan: Plan) -> dict[tuple[str, str], tuple[int, int]]:
    """Pool and resource -> the sum of all grants, and the capacity with all nodes."""
    sums: dict[tuple[str, str], int] = {}
    for tenant in plan.tenants:
        for pool, grant in tenant.grants.items():
            for resource, count in grant.items():
                sums[pool, resource] = sums.get((pool, resource), 0) + count
    most = {pool.name: pool.slices_max for pool in plan.pools}
    return {key: (count, most.get(key[0], {}).get(key[1], 0)) for key, count in sums.items()}


def isolation(old: Plan, new: Plan) -> Iterator[Risk]:
    """Pools whose jobs are isolated less than before."""
    for was, pool in kept_pools(old, new):
        if pool.sharing.isolation < was.sharing.isolation:
            yield risk(
                "isolation",
                f"pool {pool.name} goes from {was.sharing.mode} to {pool.sharing.mode}: "
                f"{_LOST[pool.sharing.isolation]}",
            )


def downgrades(old: Plan, new: Plan) -> Iterator[Risk]:
    """Charts that go back to an older release, which their projects do not test."""
    pairs = []
    if old.gpu_operator.install and new.gpu_operator.install:
        pairs.append(("gpuOperator.version", old.gpu_operator.version, new.gpu_operator.version))
    if old.karpenter and new.karpenter and old.karpenter.install and new.karpenter.install:
        pairs.append(("karpenter.version", old.karpenter.version, new.karpenter.version))
    for name, was, now in pairs:
        if version_key(now) < version_key(was):
            yield risk(
                "downgrade",
                f"{name} is downgraded from {was} to {now}: the chart's CRDs stay those of {was}, and {now} "
                "may reject or misread data of the newer release; read its release notes",
            )
