"""RBAC offline: who may do what, by the roles and bindings of a bundle.

After the API server's RBAC authorizer (`plugin/pkg/auth/authorizer/rbac`, Kubernetes 1.36). It knows only the
objects it is given, which the server can read: no bootstrap roles but `cluster-admin`, no node or webhook
authorizer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from vapcheck.cel.libraries.authorization import Attributes, AuthorizationError

Body = Mapping[str, Any]
GROUP = "rbac.authorization.k8s.io"
_ADMIN = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
_ADMIN_PATHS = {"nonResourceURLs": ["*"], "verbs": ["*"]}


class Rbac:
    """The roles and bindings of a bundle."""

    def __init__(self, bodies: Iterable[Body]) -> None:
        self._cluster_roles: dict[str, Body] = {}
        self._roles: dict[tuple[str, str], Body] = {}
        self._cluster_bindings: list[Body] = []
        self._bindings: list[Body] = []
        for body in bodies:
            if str(body.get("apiVersion", "")).partition("/")[0] != GROUP:
                continue
            metadata = body.get("metadata") or {}
            name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace") or "default")
            kind = body.get("kind")
            if kind == "ClusterRole":
                self._cluster_roles[name] = body
            elif kind == "Role":
                self._roles[(namespace, name)] = body
            elif kind == "ClusterRoleBinding":
                self._cluster_bindings.append(body)
            elif kind == "RoleBinding":
                self._bindings.append(body)

    def __bool__(self) -> bool:
        """Whether there is anything to decide by."""
        return bool(self._cluster_bindings or self._bindings or self._cluster_roles or self._roles)

    def decide(self, attributes: Attributes) -> tuple[bool, str]:
        """Whether it is allowed, and by what. Raises AuthorizationError without anything to decide by."""
        user, groups = attributes.user, set(attributes.groups)
        if "system:masters" in groups:
            return True, ""
        if not self:
            raise AuthorizationError("no roles or role bindings were given to decide by")
        for binding in self._cluster_bindings:
            if self._is_subject(binding, user, groups, "") and any(
                _rule_allows(rule, attributes) for rule in self._rules(binding, "")
            ):
                return True, _by("ClusterRoleBinding", binding, "")
        if attributes.namespace and not attributes.path:
            for binding in self._bindings:
                where = str((binding.get("metadata") or {}).get("namespace") or "default")
                if (
                    where == attributes.namespace
                    and self._is_subject(binding, user, groups, where)
                    and any(_rule_allows(rule, attributes) for rule in self._rules(binding, where))
                ):
                    return True, _by("RoleBinding", binding, where)
        return False, ""

    @staticmethod
    def _is_subject(binding: Body, user: str, groups: set[str], namespace: str) -> bool:
        for subject in _items(binding, "subjects"):
            kind, name = subject.get("kind"), subject.get("name")
            if kind == "User" and name == user:
                return True
            if kind == "Group" and name in groups:
                return True
            if kind == "ServiceAccount":
                where = subject.get("namespace") or namespace
                if user == f"system:serviceaccount:{where}:{name}":
                    return True
        return False

    def _rules(self, binding: Body, namespace: str) -> list[Body]:
        reference = binding.get("roleRef") or {}
        name = str(reference.get("name", ""))
        if reference.get("kind") == "Role":
            return _items(self._roles.get((namespace, name)) or {}, "rules")
        if name == "cluster-admin" and name not in self._cluster_roles:
            return [_ADMIN, _ADMIN_PATHS]
        return self._cluster_rules(name)

    def _cluster_rules(self, name: str) -> list[Body]:
        role = self._cluster_roles.get(name) or {}
        aggregation = role.get("aggregationRule")
        if not aggregation:
            return _items(role, "rules")
        found: list[Body] = []
        for selector in _items(aggregation, "clusterRoleSelectors"):
            wanted = selector.get("matchLabels") or {}
            for other in self._cluster_roles.values():
                labels = (other.get("metadata") or {}).get("labels") or {}
                if other is not role and wanted.items() <= labels.items():
                    found += _items(other, "rules")
        return found


def _items(body: Body, field: str) -> list[Body]:
    """The items of a list; a null, which the server reads as an item without fields, is {}."""
    return [item or {} for item in body.get(field) or []]


def _rule_allows(rule: Body, asked: Attributes) -> bool:
    verbs = rule.get("verbs") or []
    if asked.verb not in verbs and "*" not in verbs:
        return False
    if asked.path:
        return any(_path_matches(str(pattern), asked.path) for pattern in rule.get("nonResourceURLs") or [])
    groups = rule.get("apiGroups") or []
    if asked.group not in groups and "*" not in groups:
        return False
    subresource = asked.subresource
    full = f"{asked.resource}/{subresource}" if subresource else asked.resource
    resources = rule.get("resources") or []
    if not any(item in ("*", full) or (subresource and item == f"*/{subresource}") for item in resources):
        return False
    names = rule.get("resourceNames") or []
    return not names or asked.name in names


def _path_matches(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _by(kind: str, binding: Body, namespace: str) -> str:
    metadata, reference = binding.get("metadata") or {}, binding.get("roleRef") or {}
    name = f"{metadata.get('name')}/{namespace}" if namespace else str(metadata.get("name"))
    return f'RBAC: allowed by {kind} "{name}" of {reference.get("kind")} "{reference.get("name")}"'
