"""Tenants use no more than the file gives them. `objects` checks their objects."""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.tenant_quotas import TenantQuota, quotas_of
from gpupool.environment.plan.tenants import Tenant
from gpupool.live.drift.drift import Drift
from gpupool.live.drift.drift_input import DriftInput
from vapcheck import quantity


def check(inputs: DriftInput) -> Iterator[Drift]:
    """What the quota counts against what the file gives now."""
    for tenant in inputs.plan.tenants:
        for quota in quotas_of(inputs.plan, tenant):
            yield from _exceeded(inputs, tenant, quota)


def _exceeded(inputs: DriftInput, tenant: Tenant, quota: TenantQuota) -> Iterator[Drift]:
    live = inputs.snapshot.find("v1", "ResourceQuota", quota.name, tenant.namespace)
    used = ((live or {}).get("status") or {}).get("used") or {}
    for resource, given in quota.counts.items():
        count = str(quantity(str(used.get(f"requests.{resource}", "0"))))
        if count.isdigit() and int(count) > given:
            pools = quota.pool or ", ".join(
                name for name, grant in tenant.grants.items() if resource in grant
            )
            where = f"tenants[{tenant.name}].pools" + (f" ({pools})" if pools else "")
            short = resource.removeprefix("nvidia.com/") + (f" of pool {quota.pool}" if quota.pool else "")
            yield Drift(
                layer="tenants",
                code="quota-exceeded",
                object=f"tenant {tenant.name}",
                path=f"status.used[requests.{resource}]",
                wanted=given,
                found=int(count),
                what=f"it uses {count} {short} but the file grants {given}: "
                "running pods stay, no new ones start",
                remediation=f"raise {where} in the file, then {inputs.apply()}; or end jobs: "
                f"kubectl -n {tenant.namespace} get jobs,pods",
            )
