"""What an account must be allowed to do for `gpupool up`: rights, as the API server judges them.

Derived from the manifests: what is applied, watched and deleted, and the roles among them, which only an
account may make that has their rights itself. Beside these stands what the checks around a run read. That the
list is enough is held by a test, in which an account with these rights alone runs `up` and `destroy`. What
the objects inside of charts need can't be known here. Asks no server.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gpupool.environment.plan.model import SYSTEM_NAMESPACE
from gpupool.generators.kinds import Kind, kind_of
from gpupool.generators.manifest import Bundle, Manifest

_READ = ("get", "list", "watch")
_PATCH = (*_READ, "patch")
"""On objects that others own: never created and never deleted."""
_OWN = (*_PATCH, "create", "delete")
"""Server-side apply is a patch, and where the object is not there yet a create as well."""
_STORED = ("get", "list", "create", "update", "delete")
"""Helm keeps each release in Secrets of its namespace (Helm 3, storage driver `secret`)."""
_ROLES = {"Role": "roles", "ClusterRole": "clusterroles"}
_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource."""

    group: str
    """Empty for the core group."""
    resource: str
    """With its subresource, as `pods/log`."""
    verb: str
    namespace: str = ""
    """Empty: in all of them, or of no namespace."""
    name: str = ""
    """Empty: whatever the object's name."""


EVERYTHING = Right("*", "*", "*")
EDIT = Right("policies.gpupool.dev", "ownedfields", "edit")
"""What the shipped policies ask of an account that changes labels, taints and bounds of pools and tenants
(policies/owned-labels-and-taints-stay.yaml). No API server serves the resource: RBAC alone knows it."""


@dataclass(frozen=True, slots=True)
class Escalation:
    """A role, or a binding of one, that the API server lets be made by who has either of two things
    (Kubernetes documentation, Using RBAC Authorization: privilege escalation prevention)."""

    manifest: Manifest
    instead: Right
    """The verb that allows it whatever the role says: `escalate`, or `bind`."""
    held: tuple[Right, ...]
    """All rights of the role; empty where the role is not among the manifests."""


def needed(bundle: Bundle) -> frozenset[Right]:
    """Every right without which `up` fails, sooner or later; those of `escalations` come on top."""
    return frozenset(_needed(bundle))


def helpful(bundle: Bundle) -> frozenset[Right]:
    """Rights to find in all namespaces what an earlier state has left; without them `up` says so and goes
    on."""
    from gpupool.live.objects.orphans import LISTED

    known = {manifest.kind for manifest in bundle}
    kinds = (kind for kind in LISTED if kind.name in known or not kind.chart)
    return frozenset(Right(kind.group, kind.plural, "list") for kind in kinds) - needed(bundle)


def _needed(bundle: Bundle) -> Iterator[Right]:
    for manifest in bundle:
        kind = _kind_of(manifest)
        for verb in _PATCH if manifest.patch else _OWN:
            yield Right(kind.group, kind.plural, verb, manifest.namespace or "")
    # Which slices running nodes have, and how many jobs a change would hit (`sharing_changes`).
    yield Right("", "nodes", "list")
    yield Right("", "pods", "list")
    # Which settings the operator follows, and whether a repartition is under way (`repartition_mark`).
    yield Right("nvidia.com", "clusterpolicies", "list")
    yield Right("", "configmaps", "get", SYSTEM_NAMESPACE)
    yield Right("", "configmaps", "list", bundle.operator_namespace)
    yield Right("", "configmaps", "delete", bundle.operator_namespace)
    # Which cluster it is (`run_marks`, `recovery`), and whose objects there are (`orphans`).
    yield Right("", "namespaces", "get")
    yield Right("", "namespaces", "list")
    if any(manifest.kind == "ValidatingAdmissionPolicy" for manifest in bundle):
        yield EDIT
    for release in bundle.releases:
        for verb in _STORED:
            yield Right("", "secrets", verb, release.namespace)


def escalations(bundle: Bundle) -> Iterator[Escalation]:
    """Each role and binding of the manifests, with what lets it be made."""
    rules = {(m.kind, m.namespace or "", m.name): m.body.get("rules") or () for m in bundle}
    for manifest in bundle:
        where = manifest.namespace or ""
        if manifest.kind in _ROLES:
            instead = Right(_RBAC, _ROLES[manifest.kind], "escalate", where, manifest.name)
            yield Escalation(manifest, instead, _held(manifest.body.get("rules") or (), where))
        elif "roleRef" in manifest.body:
            kind, role = manifest.body["roleRef"]["kind"], manifest.body["roleRef"]["name"]
            instead = Right(_RBAC, _ROLES[kind], "bind", where, role)
            of_role = rules.get((kind, where if kind == "Role" else "", role), ())
            yield Escalation(manifest, instead, _held(of_role, where))


def _held(rules: Iterable[Mapping[str, Any]], namespace: str) -> tuple[Right, ...]:
    return tuple(
        Right(group, resource, verb, namespace, name)
        for rule in rules
        for group in rule.get("apiGroups") or ()
        for resource in rule.get("resources") or ()
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or ("",)
    )


def _kind_of(manifest: Manifest) -> Kind:
    """Its row, with the version that the manifest has."""
    row = kind_of(manifest.kind)
    return row if row.api_version else Kind(manifest.kind, manifest.api_version, row.wave)
