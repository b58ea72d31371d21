"""A grant on a pool binds what runs on that pool, whatever else a tenant is granted under the same name."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from gpupool.environment.plan.model import Plan
from gpupool.environment.plan.priority_classes import classes_of, counted_apart, own_class, priority_classes
from gpupool.environment.plan.tenant_quotas import quotas_of
from gpupool.environment.plan.tenants import Tenant
from gpupool.generators import policy_parameters
from tests.environment_files import Data, plan_of
from tests.environment_strategies import environments

slow = settings(deadline=None)


def admitted(plan: Plan, tenant: Tenant, pods: list[tuple[str, str, str]]) -> Counter[tuple[str, str, bool]]:
    """What the API server admits of pods with one slice each, (pool, resource, class): (pool, resource,
    whether it is borrowed) -> count."""
    used: dict[str, Counter[str]] = {quota.name: Counter() for quota in quotas_of(plan, tenant)}
    borrowed = {planned.name for planned in priority_classes(plan) if planned.borrowed}
    result = Counter[tuple[str, str, bool]]()
    for pool, resource, name in pods:
        counting = [quota for quota in quotas_of(plan, tenant) if quota.counts_class(name)]
        if all(
            used[quota.name][resource] < quota.counts[resource]
            for quota in counting
            if resource in quota.counts
        ):
            for quota in counting:
                used[quota.name][resource] += 1
            result[pool, resource, name in borrowed] += 1
    return result


@slow
@given(st.data())
def test_no_order_of_pods_exceeds_a_grant_on_a_pool(data: st.DataObject) -> None:
    environment: Data = data.draw(environments())
    plan = plan_of(environment)
    for tenant in plan.tenants:
        ways = [
            (pool, resource, name)
            for pool in tenant.grants
            for resource in plan.pool(pool).slices_per_node
            for name in ["", *(planned.name for planned in classes_of(plan, tenant, pool))]
            if name or pool not in counted_apart(plan, tenant)  # else the policy refuses it
        ]
        if not ways:
            continue
        pods = data.draw(st.lists(st.sampled_from(ways), max_size=40))
        # Then as many as the quotas take, so that a bound is met.
        pods += [way for way in ways for _ in range(12)]
        for (pool, resource, lent), count in admitted(plan, tenant, pods).items():
            granted = tenant.grants[pool].get(resource, 0)
            most = tenant.up_to.get(pool, tenant.grants[pool]).get(resource, granted)
            assert count <= (most if lent else granted), (pool, resource, count)


@slow
@given(environments())
def test_the_policy_knows_the_classes_that_the_quotas_count(environment: Data) -> None:
    plan = plan_of(environment)
    (tenants,) = (
        item.body["data"]
        for item in policy_parameters.generate(plan)
        if item.name == policy_parameters.TENANTS
    )
    for tenant in plan.tenants:
        apart = counted_apart(plan, tenant)
        words = [tenants.get(f"{key}.{tenant.namespace}", "") for key in ("classes", "queue-classes")]
        named = {tuple(word.split("=")) for word in " ".join(words).split()}
        counted = {
            (quota.pool, name)
            for quota in quotas_of(plan, tenant)
            for name in quota.only or ()
            if quota.pool is not None
        }
        assert named == counted
        for pool in apart:
            assert (pool, own_class(plan, tenant, pool)) in named
        names = [planned.name for planned in priority_classes(plan)]
        assert len(set(names)) == len(names)
        assert {name for _, name in named} <= set(names)


@slow
@given(environments())
def test_what_only_borrows_may_still_run_pods_without_gpus(environment: Data) -> None:
    for pool in environment["pools"]:
        pool.pop("warm", None)
    for tenant in plan_of(environment).tenants:
        if not any(count for grant in tenant.grants.values() for count in grant.values()):
            assert tenant.requests is None or tenant.requests == tenant.extra
