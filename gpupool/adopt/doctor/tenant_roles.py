"""Whether tenants have roles that go beyond `gpupool-tenant` in their namespaces.

Quotas, network rules and policies hold for who has that role. Kubernetes' own `edit` and `admin` may make
NetworkPolicies, Ingresses, PodDisruptionBudgets and ResourceClaims as well (Kubernetes 1.36, default roles).
Judged is what a role lets change: reading alone takes nothing from anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.adopt.doctor.model import CheckResult, DoctorInput, result
from gpupool.adopt.doctor.reading import guarded
from gpupool.adopt.doctor.reasons import Reason
from gpupool.environment.plan.tenants import Tenant
from gpupool.generators.manifest import Bundle
from gpupool.generators.rbac import TENANT_ROLE
from gpupool.live.cluster.kube_api import KubeApi
from gpupool.live.objects.owner import environment_of

_RBAC = "rbac.authorization.k8s.io/v1"
_READS = frozenset({"get", "list", "watch"})
_FIRST = ("networkpolicies", "ingresses", "poddisruptionbudgets", "resourceclaims", "resourceclaimtemplates")
"""What is named first, since these get around network rules, drains and quotas."""
_SHOWN = 3
_ACCOUNTS = "system:serviceaccounts:"
_EVERYBODY = frozenset({"system:authenticated", "system:unauthenticated", "system:serviceaccounts"})

Object = Mapping[str, Any]
_Allowed = tuple[str, str, str]
"""Group, resource and verb, each perhaps `*`."""


@dataclass(frozen=True, slots=True)
class _Roles:
    """The rules of every role that a binding may name."""

    rules: Mapping[tuple[str, str, str], tuple[Object, ...]]
    """By kind, namespace and name."""
    tenant: frozenset[_Allowed]
    """What `gpupool-tenant` allows."""

    def beyond(self, binding: Object, namespace: str) -> list[_Allowed]:
        """What the binding's role lets change and `gpupool-tenant` does not, the gravest first."""
        reference = binding["roleRef"]
        where = namespace if reference["kind"] == "Role" else ""
        rules = self.rules.get((reference["kind"], where, reference["name"]), ())
        more = {allowed for rule in rules for allowed in _allowed(rule) if not self._covered(allowed)}
        return sorted(more, key=_gravity)

    def _covered(self, allowed: _Allowed) -> bool:
        return allowed[2] in _READS or allowed in self.tenant


def _allowed(rule: Object) -> Iterator[_Allowed]:
    for group in rule.get("apiGroups") or ():
        for resource in rule.get("resources") or ():
            yield from ((group, resource, verb) for verb in rule.get("verbs") or ())


def _gravity(allowed: _Allowed) -> tuple[int, int, str, str]:
    group, resource, verb = allowed
    first = _FIRST.index(resource) if resource in _FIRST else len(_FIRST)
    return (-1 if resource == "*" else first, verb not in ("*", "create"), resource, group + verb)


def check(inputs: DoctorInput) -> Iterator[CheckResult]:
    """Each binding that gives a tenant more; and how many there are where none does."""
    assert inputs.api is not None
    assert inputs.plan is not None
    assert inputs.bundle is not None
    if not inputs.plan.tenants:
        yield result("tenants", Reason.TENANTS_NONE)
        return
    roles = _roles(inputs.api, inputs.bundle)
    broad = 0
    for rows in (_in_namespaces(inputs, roles), _in_cluster(inputs, roles)):
        for row in guarded("tenants", inputs, rows) if inputs.api is not None else ():
            broad += 1
            yield row
    if not broad:
        yield result("tenants", Reason.TENANTS_NARROW, role=TENANT_ROLE)


def _roles(api: KubeApi, bundle: Bundle) -> _Roles:
    """The cluster's roles; of `gpupool-tenant` as the file has it, which `up` brings."""
    rows = [*api.list(_RBAC, "ClusterRole"), *api.list(_RBAC, "Role")]
    rules = {
        (row["kind"], row["metadata"].get("namespace", ""), row["metadata"]["name"]): tuple(
            row.get("rules") or ()
        )
        for row in rows
    }
    ours = [m for m in bundle if m.kind == "ClusterRole" and m.name == TENANT_ROLE]
    for manifest in ours:
        rules["ClusterRole", "", TENANT_ROLE] = tuple(manifest.body["rules"])
    tenant = rules.get(("ClusterRole", "", TENANT_ROLE), ())
    return _Roles(rules, frozenset(allowed for rule in tenant for allowed in _allowed(rule)))


def _in_namespaces(inputs: DoctorInput, roles: _Roles) -> Iterator[CheckResult]:
    assert inputs.api is not None
    assert inputs.plan is not None
    for tenant in inputs.plan.tenants:
        for binding in inputs.api.list(_RBAC, "RoleBinding", tenant.namespace):
            ours = environment_of(binding) == inputs.plan.environment
            subjects = [row for row in binding.get("subjects") or () if _works_in(row, tenant)]
            if subjects and not ours:
                yield from _row(tenant, binding, subjects, roles.beyond(binding, tenant.namespace))


def _in_cluster(inputs: DoctorInput, roles: _Roles) -> Iterator[CheckResult]:
    assert inputs.api is not None
    assert inputs.plan is not None
    bindings = inputs.api.list(_RBAC, "ClusterRoleBinding")
    for tenant in inputs.plan.tenants:
        for binding in bindings:
            subjects = [row for row in binding.get("subjects") or () if _is_tenants(row, tenant)]
            if subjects:
                yield from _row(tenant, binding, subjects, roles.beyond(binding, ""))


def _works_in(subject: Object, tenant: Tenant) -> bool:
    """Whether a subject of a binding in the tenant's namespace may be the tenant: a person, a group of
    people, or an account of the namespace. Accounts of other namespaces are the platform's tools."""
    if subject.get("kind") == "ServiceAccount":
        return _is_tenants(subject, tenant)
    return _is_tenants(subject, tenant) or not str(subject.get("name", "")).startswith("system:")


def _is_tenants(subject: Object, tenant: Tenant) -> bool:
    """Whether the subject is the tenant wherever it is named."""
    kind, name = subject.get("kind"), str(subject.get("name", ""))
    if kind == "ServiceAccount":
        namespace = subject.get("namespace") or tenant.namespace
        return namespace == tenant.namespace or f"{namespace}/{name}" in tenant.service_accounts
    own = {f"{_ACCOUNTS}{tenant.namespace}", *tenant.oidc_groups}
    return kind == "Group" and (name in own or name in _EVERYBODY)


def _row(
    tenant: Tenant, binding: Object, subjects: Iterable[Object], beyond: list[_Allowed]
) -> Iterator[CheckResult]:
    if not beyond:
        return
    examples = dict.fromkeys(f"{verb} {_resource(group, name)}" for group, name, verb in beyond)
    shown = ", ".join(list(examples)[:_SHOWN])
    metadata, reference = binding["metadata"], binding["roleRef"]
    where = f" --namespace {metadata['namespace']}" if metadata.get("namespace") else ""
    yield result(
        tenant.namespace,
        Reason.TENANT_BROAD,
        who=" and ".join(f"{row['kind']} {row['name']}" for row in subjects),
        examples=shown,
        more=f" and {len(examples) - _SHOWN} more rights" if len(examples) > _SHOWN else "",
        kind=reference["kind"],
        role=reference["name"],
        narrow=TENANT_ROLE,
        binding=f"{binding['kind']} {metadata['name']}",
        command=f"kubectl delete {binding['kind'].lower()} {metadata['name']}{where}",
    )


def _resource(group: str, resource: str) -> str:
    return "everything" if resource == "*" else f"{resource}.{group}" if group not in ("", "*") else resource
