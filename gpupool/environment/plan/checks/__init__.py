"""What the fields of an environment mean together: every refusal that is not about one field's type.

One module per subject, one function per rule, each a generator of Problems. CHECKS is the only place
where they are registered. Checks read specs and the catalog; they change nothing and know no Plan but
the pools that are already resolved.

What is broken is not in the environment, or has a neutral value there. A Problem at such a place is dropped
by `gpupool.environment.plan.resolve`; a rule that looks at other places too asks `context.gaps` about those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpupool.environment.plan.checks import (
    borrowing,
    delivery,
    images,
    labels,
    machines,
    monitoring,
    names,
    operator,
    overgrants,
    policies,
    pool_bounds,
    pools,
    priorities,
    promotion,
    queue,
    reservations,
    selectors,
    tenants,
)
from gpupool.environment.plan.checks.context import CheckContext, PlanProblem, Siblings

CHECKS: tuple[Callable[[CheckContext], Iterator[PlanProblem]], ...] = (
    names.file_name,
    names.pool_names,
    names.tenant_names,
    names.operator_namespace,
    names.priority_names,
    names.static_nodes,
    names.placeholders,
    pools.cluster,
    pools.platform_fields,
    selectors.selectors,
    pools.cloud_sharing,
    pools.instance_types,
    pools.sharing,
    pool_bounds.bounds,
    reservations.reserved,
    pools.zones,
    pools.fallbacks,
    pools.maintenance,
    images.bottlerocket,
    images.terms,
    images.aliases,
    images.own,
    machines.volumes,
    machines.selectors,
    machines.kubelets,
    machines.efa,
    machines.tags,
    labels.labels,
    labels.taints,
    operator.releases,
    operator.values,
    priorities.order,
    tenants.references,
    tenants.grants,
    overgrants.overgrants,
    borrowing.up_to,
    tenants.extra,
    tenants.budgets,
    tenants.projects,
    tenants.access,
    queue.durations,
    queue.engine,
    queue.ids,
    queue.chart,
    policies.references,
    policies.waivers,
    delivery.source,
    delivery.settings,
    delivery.names,
    delivery.existing_nodes,
    monitoring.assertion,
    monitoring.components,
    promotion.origin,
    promotion.paths,
)

__all__ = ["CHECKS", "CheckContext", "PlanProblem", "Siblings"]
