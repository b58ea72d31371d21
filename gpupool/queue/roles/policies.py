"""The Plan's tenants into the database, where submits count against their limits.

It must not read anything back: the Plan is where limits come from.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from gpupool.queue.plan_source import Current, PlanSource
from gpupool.queue.records import MICRO
from gpupool.queue.store import dispatch
from gpupool.queue.store.database import Database
from gpupool.queue.store.dispatch import ProjectPolicy, TenantPolicy
from gpupool.spec.tenants import Budget


@dataclass
class Policies:
    """Keeps the tenants in the database as the environment file has them."""

    db: Database
    source: PlanSource
    writes: bool = True
    """False: the process reads the file alone; those that decide write."""
    _written: str | None = field(default=None, init=False)

    async def step(self) -> bool:
        """Read the file where it has changed, and write what is not written yet, if it `writes`; whether that
        was another Plan."""
        self.source.refresh()
        present = self.source.current
        if present.hash == self._written:
            return False
        if self.writes:
            await mirror(self.db, present)
        self._written = present.hash
        return True


async def mirror(db: Database, current: Current) -> None:
    """Write every tenant's policy, and under which Plan."""
    policies = [
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
    await dispatch.mirror(db, current.hash, policies)


def _money(budget: Budget | None) -> ProjectPolicy:
    return ProjectPolicy(round(budget.usd * MICRO), budget.period) if budget else ProjectPolicy()
