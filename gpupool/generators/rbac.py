"""Who may do what: the job launcher in tenants' namespaces, the queue's API, and tenants in their own.

Least privilege: no account may change anything in the whole cluster, and in the queue's own namespace the
launcher may change one Lease alone. What holds everywhere is read only: the
launcher sees nodes, pods and Jobs, so that one watch each serves all namespaces and GPU pods that are not the
queue's count too; the API may ask whose token a pod has sent. Tenants can't change quotas, roles or nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.environment.plan.pods import API_ACCOUNT, LAUNCHER_ACCOUNT, LEASE
from gpupool.environment.plan.tenants import Tenant
from gpupool.generators.manifest import Manifest
from gpupool.generators.metadata import manifest_of

LAUNCHER_READER = f"{LAUNCHER_ACCOUNT}-reader"
LAUNCHER_LEASE = f"{LAUNCHER_ACCOUNT}-lease"
TENANT_ROLE = "gpupool-tenant"
_GROUP = "rbac.authorization.k8s.io"

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "patch", "update"]
_LAUNCHER_RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["get", "create", "delete", "patch"]},
    # Headless ones, for jobs of several nodes; they go with their Jobs.
    {"apiGroups": [""], "resources": ["services"], "verbs": ["get", "create"]},
    # Removes its finalizer; Jobs end their pods.
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]},
]
"""In tenants' namespaces, beside what LAUNCHER_READER reads everywhere."""
_READER_RULES = [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list", "watch"]},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["list", "watch"]},
]
_LEASE_RULES = [
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "resourceNames": [LEASE],
        # By a PUT to its name: a POST has none, so that rights for one name do not cover it.
        "verbs": ["get", "create", "update"],
    }
]
"""In the queue's own namespace: whose the cluster is."""
_API_RULES = [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]
_TENANT_RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": [*_READ, *_WRITE]},
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": [*_READ, *_WRITE]},
    # What `gpupool snippet` prints, where an operator for it runs.
    *(
        {"apiGroups": [group], "resources": [resource], "verbs": [*_READ, *_WRITE]}
        for group, resource in (
            ("argoproj.io", "workflows"),
            ("kubeflow.org", "pytorchjobs"),
            ("ray.io", "rayclusters"),
            ("sparkoperator.k8s.io", "sparkapplications"),
        )
    ),
    {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "secrets", "persistentvolumeclaims"],
        "verbs": [*_READ, *_WRITE],
    },
    {"apiGroups": [""], "resources": ["pods/exec", "pods/portforward"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["pods/log", "events", "resourcequotas", "limitranges"], "verbs": _READ},
]
_RULES: Mapping[str, list[dict[str, Any]]] = {
    LAUNCHER_ACCOUNT: _LAUNCHER_RULES,
    TENANT_ROLE: _TENANT_RULES,
    LAUNCHER_READER: _READER_RULES,
    API_ACCOUNT: _API_RULES,
}
"""ClusterRoles, for the rules to be in one place whether or not they are bound in namespaces."""


def generate(plan: Plan) -> Iterator[Manifest]:
    for account in (LAUNCHER_ACCOUNT, API_ACCOUNT):
        yield manifest_of(plan, "ServiceAccount", account, SYSTEM_NAMESPACE)
    for role, rules in _RULES.items():
        yield manifest_of(plan, "ClusterRole", role, rules=rules)
    yield manifest_of(plan, "Role", LAUNCHER_LEASE, SYSTEM_NAMESPACE, rules=_LEASE_RULES)
    launcher = _account(LAUNCHER_ACCOUNT, SYSTEM_NAMESPACE)
    reference = {"apiGroup": _GROUP, "kind": "Role", "name": LAUNCHER_LEASE}
    yield manifest_of(
        plan, "RoleBinding", LAUNCHER_LEASE, SYSTEM_NAMESPACE, roleRef=reference, subjects=[launcher]
    )
    yield _binding(plan, None, LAUNCHER_READER, [launcher])
    yield _binding(plan, None, API_ACCOUNT, [_account(API_ACCOUNT, SYSTEM_NAMESPACE)])
    for tenant in plan.tenants:
        yield _binding(plan, tenant, LAUNCHER_ACCOUNT, [launcher])
        subjects = _subjects(tenant)
        if subjects:
            yield _binding(plan, tenant, TENANT_ROLE, subjects)


def _subjects(tenant: Tenant) -> list[dict[str, str]]:
    groups = [{"apiGroup": _GROUP, "kind": "Group", "name": group} for group in tenant.oidc_groups]
    accounts = [account.partition("/") for account in tenant.service_accounts]
    return groups + [_account(name, where) for where, _, name in accounts]


def _account(name: str, namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def _binding(plan: Plan, tenant: Tenant | None, role: str, subjects: list[dict[str, str]]) -> Manifest:
    """The role in the tenant's namespace; without a tenant, everywhere."""
    namespace = tenant.namespace if tenant else None
    kind = "RoleBinding" if tenant else "ClusterRoleBinding"
    reference = {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role}
    return manifest_of(plan, kind, role, namespace, tenant=tenant, roleRef=reference, subjects=subjects)
