"""What the Plan says of tenants, as the database has it: submissions count against their limits there.

It must not read anything back: the Plan is where limits come from.
"""

from __future__ import annotations

from dataclasses import asdict

from gpupool.environment.spec.tenants import Budget
from gpupool.queue.domain.current import Current
from gpupool.queue.records import MICRO
from gpupool.queue.store.dispatch import ProjectPolicy, TenantPolicy


def policies_of(current: Current) -> list[TenantPolicy]:
    """Every tenant's policy."""
    return [
        TenantPolicy(
            tenant=tenant.name,
            tenant_id=tenant.id,
            weight=tenant.weight,
            running_limit=tenant.running,
            queued_limit=tenant.queued,
            gpus_per_job=tenant.gpus_per_job,
            **asdict(_money(tenant.budget)),
            projects={project.name: _money(project.budget) for project in tenant.projects},
        )
        for tenant in current.plan.tenants
    ]


def _money(budget: Budget | None) -> ProjectPolicy:
    return ProjectPolicy(round(budget.usd * MICRO), budget.period) if budget else ProjectPolicy()
