"""RBAC offline: roles, bindings, subjects, names, subresources, paths, aggregation."""

from __future__ import annotations

from typing import Any

import pytest

from vapcheck.cel.libraries.authorization import Attributes, AuthorizationError
from vapcheck.judging.rbac import Rbac

GROUP = "rbac.authorization.k8s.io/v1"


def role(
    kind: str, name: str, *rules: dict[str, Any], namespace: str | None = None, **more: Any
) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "labels": more.pop("labels", {})},
        "rules": list(rules),
    } | more


def binding(
    kind: str, to: tuple[str, str], *subjects: dict[str, Any], namespace: str | None = None
) -> dict[str, Any]:
    return {
        "apiVersion": GROUP,
        "kind": kind,
        "metadata": {"name": "b", "namespace": namespace},
        "roleRef": {"kind": to[0], "name": to[1]},
        "subjects": list(subjects),
    }


ANNA = {"kind": "User", "name": "anna"}
PODS = {"apiGroups": [""], "resources": ["pods", "pods/log"], "verbs": ["get"]}
NAMED = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["*"], "resourceNames": ["known"]}
PATHS = {"nonResourceURLs": ["/metrics/*", "/healthz"], "verbs": ["get"]}
CLUSTER = Rbac(
    [
        role("ClusterRole", "reader", PODS, NAMED, PATHS),
        binding("ClusterRoleBinding", ("ClusterRole", "reader"), ANNA, {"kind": "Group", "name": "readers"}),
    ]
)
SCOPED = Rbac(
    [
        role("Role", "reader", PODS, namespace="team"),
        binding(
            "RoleBinding",
            ("Role", "reader"),
            ANNA,
            {"kind": "ServiceAccount", "name": "robot"},
            namespace="team",
        ),
        binding(
            "RoleBinding",
            ("ClusterRole", "cluster-admin"),
            {"kind": "User", "name": "boss"},
            namespace="team",
        ),
    ]
)


@pytest.mark.parametrize(
    ("rbac", "user", "groups", "verb", "what", "expected"),
    [
        (CLUSTER, "anna", [], "get", {"resource": "pods"}, True),
        (CLUSTER, "anna", [], "list", {"resource": "pods"}, False),
        (CLUSTER, "anna", [], "get", {"resource": "pods", "group": "apps"}, False),
        (CLUSTER, "anna", [], "get", {"resource": "pods", "subresource": "log", "namespace": "x"}, True),
        (CLUSTER, "anna", [], "get", {"resource": "pods", "subresource": "exec"}, False),
        (CLUSTER, "carl", ["readers"], "get", {"resource": "pods"}, True),
        (CLUSTER, "carl", [], "get", {"resource": "pods"}, False),
        (CLUSTER, "carl", ["system:masters"], "nuke", {"resource": "moons"}, True),
        (CLUSTER, "anna", [], "delete", {"resource": "secrets", "name": "known"}, True),
        (CLUSTER, "anna", [], "delete", {"resource": "secrets", "name": "other"}, False),
        (CLUSTER, "anna", [], "delete", {"resource": "secrets"}, False),
        (CLUSTER, "anna", [], "get", {"path": "/metrics/x"}, True),
        (CLUSTER, "anna", [], "get", {"path": "/healthz"}, True),
        (CLUSTER, "anna", [], "get", {"path": "/logs"}, False),
        (SCOPED, "anna", [], "get", {"resource": "pods", "namespace": "team"}, True),
        (SCOPED, "anna", [], "get", {"resource": "pods", "namespace": "other"}, False),
        (SCOPED, "anna", [], "get", {"resource": "pods"}, False),
        (
            SCOPED,
            "system:serviceaccount:team:robot",
            [],
            "get",
            {"resource": "pods", "namespace": "team"},
            True,
        ),
        (SCOPED, "boss", [], "delete", {"resource": "pods", "namespace": "team"}, True),
        (SCOPED, "boss", [], "delete", {"resource": "pods", "namespace": "other"}, False),
    ],
)
def test_allows(
    rbac: Rbac, user: str, groups: list[str], verb: str, what: dict[str, str], expected: bool
) -> None:
    allowed, reason = rbac.decide(Attributes(user, tuple(groups), verb, **what))
    assert allowed is expected
    assert bool(reason) == (allowed and "system:masters" not in groups)


def test_aggregated_roles() -> None:
    rule = {"clusterRoleSelectors": [{"matchLabels": {"into": "all"}}]}
    rbac = Rbac(
        [
            role("ClusterRole", "all", aggregationRule=rule),
            role("ClusterRole", "part", PODS, labels={"into": "all"}),
            binding("ClusterRoleBinding", ("ClusterRole", "all"), ANNA),
        ]
    )
    assert rbac.decide(Attributes("anna", (), "get", resource="pods"))[0]


@pytest.mark.parametrize("field", ["subjects", "rules", "clusterRoleSelectors"])
def test_a_null_in_a_list_is_an_item_without_fields(field: str) -> None:
    nulls = {field: [None]}
    rbac = Rbac(
        [
            {**role("ClusterRole", "none"), **nulls},
            role("ClusterRole", "all", aggregationRule=nulls),
            binding("ClusterRoleBinding", ("ClusterRole", "none"), ANNA),
            binding("ClusterRoleBinding", ("ClusterRole", "all"), ANNA),
            {**binding("ClusterRoleBinding", ("ClusterRole", "none"), ANNA), **nulls},
        ]
    )
    assert not rbac.decide(Attributes("anna", (), "get", resource="pods"))[0]


def test_nothing_given() -> None:
    nothing = Rbac([{"apiVersion": "v1", "kind": "ConfigMap"}])
    with pytest.raises(AuthorizationError, match="no roles"):
        nothing.decide(Attributes("anna", (), "get", resource="pods"))
