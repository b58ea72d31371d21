"""The policies' parameters, where sites and environments differ: ConfigMaps in gpupool's own namespace.

Facts of the Plan as short texts that CEL separates with `split`: names separated by spaces, `name=value`
where each has a value. They are in a namespace that no tenant's role can access, under names that never
change, so that a policy of the user's own can refer to them as well. No quota is in them: a changed grant is
a changed ResourceQuota and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from gpupool.environment.plan.device_classes import GPU_CLASSES
from gpupool.environment.plan.karpenter_pools import karpenter_pools
from gpupool.environment.plan.model import POOL_LABEL, SYSTEM_NAMESPACE, Plan, Pool, Taint
from gpupool.environment.plan.pods import RUN_LOCALLY
from gpupool.environment.plan.priority_classes import (
    PlannedClass,
    classes_of,
    counted_apart,
    highest_value,
    priority_classes,
)
from gpupool.environment.plan.tenants import Tenant, cpu_quantity, memory_quantity
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import TENANT_LABEL, manifest_of
from vapcheck import quantity

POOLS, TENANTS = "gpupool-pools", "gpupool-tenants"
OWNERS, LIMITS = "gpupool-owners", "gpupool-limits"
_REPELS = ("NoSchedule", "NoExecute")
"""Effects of a taint that keep a pod away; PreferNoSchedule only advises."""
_POD_SECURITY = "pod-security.kubernetes.io/enforce"
_OWNER_USERS = (
    "system:serviceaccount:kube-system:karpenter",  # labels and taints of the nodes that it starts
    # Those that clear a namespace away, as accounts of their own or as one user.
    "system:serviceaccount:kube-system:namespace-controller",
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:kube-controller-manager",
)


def generate(plan: Plan) -> Iterator[Manifest]:
    for name, facts in ((POOLS, _pools), (TENANTS, _tenants), (OWNERS, _owners), (LIMITS, _limits)):
        yield manifest_of(plan, "ConfigMap", name, SYSTEM_NAMESPACE, data=facts(plan))


def _pools(plan: Plan) -> dict[str, str]:
    """`capacity` is what all pools can offer at their maximum; no pool's name has a dot, so no keys meet."""
    started = karpenter_pools(plan)
    node_pools = [name for pool in started for name in pool.node_pools]
    types = [name for pool in started for name in pool.instance_types]
    data = {
        "pools": _words(pool.name for pool in plan.pools),
        "nodeLabels": _words(
            [f"karpenter.sh/nodepool={name}" for name in node_pools]
            + [f"node.kubernetes.io/instance-type={name}" for name in types]
        ),
        "capacity": _counts(plan.slices_max),
        # Limits of the site, here because a binding has one object of parameters.
        "podGraceSeconds": str(plan.policies.limits.pod_grace_seconds),
        "jobDeadlineSeconds": str(plan.policies.limits.job_deadline_seconds),
    }
    for pool in sorted(plan.pools, key=lambda pool: pool.name):
        data |= _pool(pool)
    return data


def _pool(pool: Pool) -> dict[str, str]:
    taints = [_taint(taint) for taint in pool.taints if taint.effect in _REPELS]
    data = {
        f"resources.{pool.name}": _counts(pool.slices_per_node),
        f"sharing.{pool.name}": pool.sharing.mode,
        f"taints.{pool.name}": " ".join(taints),
        f"grace.{pool.name}": pool.termination_grace_period or "",
        f"jobs-only.{pool.name}": _flag(pool.jobs_only),
        f"lends-whole-gpus.{pool.name}": _flag(pool.lends_whole_gpus),
    }
    if pool.gpu_memory_mib is not None:
        data[f"memory.{pool.name}"] = f"{pool.gpu_memory_mib}Mi"
    shares = {resource: pool.share(resource) for resource in sorted(pool.slices_per_node)}
    known = {resource: share for resource, share in shares.items() if share is not None}
    if len(known) == len(shares):
        cpu = (f"{name}={cpu_quantity(share.cpu_millis)}" for name, share in known.items())
        memory = (f"{name}={memory_quantity(share.memory_mib)}" for name, share in known.items())
        data |= {f"node-cpu.{pool.name}": " ".join(cpu), f"node-memory.{pool.name}": " ".join(memory)}
    extended = (
        f"{resource}:{name}={_milli(share)}"
        for resource in pool.slices_per_node
        for name, share in pool.extended_share(resource).items()
    )
    return data | {f"node-extended.{pool.name}": _words(extended)}


def _milli(share: Fraction) -> str:
    """As a quantity: a part of a card with each GPU is whole cards with several. Rounded up by a thousandth,
    so that all GPUs of a node have all of its cards."""
    return str(quantity(f"{-(-share.numerator * 1000 // share.denominator)}m"))


def _tenants(plan: Plan) -> dict[str, str]:
    data = {"namespaces": _words(tenant.namespace for tenant in plan.tenants)}
    for tenant in sorted(plan.tenants, key=lambda tenant: tenant.namespace):
        data[f"pools.{tenant.namespace}"] = _words(tenant.grants)
        apart = [row for pool in counted_apart(plan, tenant) for row in classes_of(plan, tenant, pool)]
        data[f"priorities.{tenant.namespace}"] = _priorities(plan, tenant, apart)
        if apart:
            data[f"classes.{tenant.namespace}"] = _classes(apart, queue_only=False)
            data[f"queue-classes.{tenant.namespace}"] = _classes(apart, queue_only=True)
        data[f"exposure.{tenant.namespace}"] = _words(tenant.exposure)
        taints = (taint for name in tenant.grants for taint in plan.pool(name).tolerated)
        data[f"tolerations.{tenant.namespace}"] = _words(map(_taint, taints))
        for key, names in (("secrets", tenant.job_secrets), ("claims", tenant.job_claims)):
            if names is not None:  # without the key: any
                data[f"{key}.{tenant.namespace}"] = _words(names)
    return data


def _priorities(plan: Plan, tenant: Tenant, apart: Sequence[PlannedClass]) -> str:
    """The classes that the tenant may use with their values, highest first; `apart` are those of pools."""
    if highest_value(plan, tenant) is None:
        return ""
    rows = [row for row in (*classes_of(plan, tenant, None), *apart) if not row.queue_only]
    return " ".join(f"{row.name}={row.value}" for row in sorted(rows, key=lambda row: (-row.value, row.name)))


def _classes(apart: Sequence[PlannedClass], queue_only: bool) -> str:
    """Which classes pods may carry on the pools that are counted apart, `pool=class`."""
    return _words(f"{row.pool}={row.name}" for row in apart if row.queue_only == queue_only)


def _owners(plan: Plan) -> dict[str, str]:
    labels = {key for pool in plan.pools for key in pool.labels} | {POOL_LABEL, TENANT_LABEL, _POD_SECURITY}
    # Administrators, and the GPU Operator's accounts: it sets nvidia.com/mig.config on nodes without one.
    groups = ("system:masters", f"system:serviceaccounts:{plan.gpu_operator.namespace}")
    return {
        "users": " ".join(_OWNER_USERS),
        "groups": " ".join(groups),
        "labels": _words(labels),
        "taints": _words(taint.key for pool in plan.pools for taint in pool.taints),
        "queueClasses": _words(row.name for row in priority_classes(plan) if row.queue_only),
        "queueAnnotations": "" if plan.cluster.platform == "local" else RUN_LOCALLY,
    }


def _limits(plan: Plan) -> dict[str, str]:
    limits = plan.policies.limits
    return {
        "registries": " ".join(f"{registry}/" for registry in limits.registries),
        "deviceClasses": _words(limits.device_classes),
        "gpuClasses": _words(GPU_CLASSES),
        "scope": plan.policies.scope,
        "jobTtlSeconds": str(limits.job_ttl_seconds),
        "jobDeadlineSeconds": str(limits.job_deadline_seconds),
        "jobRetries": str(limits.job_retries),
        "budgetAfterSeconds": str(limits.budget_after_seconds),
    }


def _taint(taint: Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}"


def _flag(value: bool) -> str:
    return str(value).lower()


def _words(values: Iterable[str]) -> str:
    return " ".join(sorted(set(values)))


def _counts(counts: Mapping[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(counts.items()))
