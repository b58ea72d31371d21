"""Who may do what: the job launcher in tenants' namespaces, and tenants in their own.

Least privilege: there are no cluster-wide bindings, tenants can't change quotas, roles or nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from generators.manifest import Manifest
from generators.metadata import metadata
from gpupool.plan.model import SYSTEM_NAMESPACE, Plan
from gpupool.plan.tenants import Tenant

LAUNCHER = "gpupool-launcher"
TENANT_ROLE = "gpupool-tenant"
_GROUP = "rbac.authorization.k8s.io"

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "patch", "update"]
_LAUNCHER_RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": [*_READ, "create", "delete", "patch"]},
    {"apiGroups": [""], "resources": ["pods", "pods/log", "events"], "verbs": _READ},
]
_TENANT_RULES = [
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": [*_READ, *_WRITE]},
    {"apiGroups": ["apps"], "resources": ["deployments", "statefulsets"], "verbs": [*_READ, *_WRITE]},
    {
        "apiGroups": [""],
        "resources": ["pods", "services", "configmaps", "secrets", "persistentvolumeclaims"],
        "verbs": [*_READ, *_WRITE],
    },
    {"apiGroups": [""], "resources": ["pods/exec", "pods/portforward"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["pods/log", "events", "resourcequotas", "limitranges"], "verbs": _READ},
]


def generate(plan: Plan) -> Iterator[Manifest]:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(plan, LAUNCHER, SYSTEM_NAMESPACE),
    }
    yield Manifest(account)
    yield _role(plan, LAUNCHER, _LAUNCHER_RULES)
    yield _role(plan, TENANT_ROLE, _TENANT_RULES)
    launcher = {"kind": "ServiceAccount", "name": LAUNCHER, "namespace": SYSTEM_NAMESPACE}
    for tenant in plan.tenants:
        yield _binding(plan, tenant, LAUNCHER, [launcher])
        subjects = _subjects(tenant)
        if subjects:
            yield _binding(plan, tenant, TENANT_ROLE, subjects)


def _subjects(tenant: Tenant) -> list[dict[str, str]]:
    groups = [{"apiGroup": _GROUP, "kind": "Group", "name": group} for group in tenant.oidc_groups]
    accounts = [account.partition("/") for account in tenant.service_accounts]
    return groups + [
        {"kind": "ServiceAccount", "name": name, "namespace": where} for where, _, name in accounts
    ]


def _role(plan: Plan, name: str, rules: list[dict[str, Any]]) -> Manifest:
    """A ClusterRole, for the rules to be in one place; it is only ever bound within a namespace."""
    body = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": metadata(plan, name),
        "rules": rules,
    }
    return Manifest(body)


def _binding(plan: Plan, tenant: Tenant, role: str, subjects: list[dict[str, str]]) -> Manifest:
    return Manifest(
        {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": metadata(plan, role, tenant.namespace, tenant=tenant),
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
            "subjects": subjects,
        }
    )
