"""Namespaces: the operator's, gpupool's own, and one per tenant, each with its Pod Security level.

Quotas, roles and network rules inside them are other generators' concern.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.tenants import Tenant
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of

_ENFORCE = "pod-security.kubernetes.io/enforce"
_WARN = "pod-security.kubernetes.io/warn"


def generate(plan: Plan) -> Iterator[Manifest]:
    if (plan.gpu_operator.install and plan.uses_gpu_operator) or plan.cluster.platform == "local":
        # The operator's daemonsets load kernel modules and mount host paths.
        yield _namespace(plan, plan.gpu_operator.namespace, "privileged")
    yield _namespace(plan, SYSTEM_NAMESPACE, "restricted")
    for tenant in plan.tenants:
        yield _namespace(plan, tenant.namespace, "baseline", tenant)


def _namespace(plan: Plan, name: str, level: str, tenant: Tenant | None = None) -> Manifest:
    # Tenants are warned about what `restricted` would refuse, and stopped at what reaches the host.
    labels = {_ENFORCE: level} | ({_WARN: "restricted"} if tenant else {})
    return manifest_of(plan, "Namespace", name, tenant=tenant, labels=labels, protect=tenant is not None)
