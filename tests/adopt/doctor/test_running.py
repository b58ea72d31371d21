"""What `doctor` says of what is in the cluster already: roles, workloads, images, and other ways to GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.adopt.doctor.model import CheckResult, Diagnosis
from gpupool.adopt.doctor.reasons import Reason
from tests.adopt.doctor.fake_api import FakeApi
from tests.adopt.doctor.files import EKS, HOMELAB

RBAC = "rbac.authorization.k8s.io/v1"
TEAM = "team-vision"


def rows(diagnosis: Diagnosis, check: str) -> list[CheckResult]:
    return [row for row in diagnosis.results if row.check == check]


def thing(api: str, kind: str, name: str, namespace: str | None = None, **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **more.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def role(name: str, *resources: str, verbs: tuple[str, ...] = ("create",), kind: str = "ClusterRole") -> Any:
    group = {"networkpolicies": "networking.k8s.io", "resourceclaims": "resource.k8s.io"}
    rules = [
        {"apiGroups": [group.get(name, "")], "resources": [name], "verbs": list(verbs)} for name in resources
    ]
    return thing(RBAC, kind, name, TEAM if kind == "Role" else None, rules=rules)


def bound(
    subject: dict[str, str], to: str = "edit", kind: str = "RoleBinding", of: str = "ClusterRole"
) -> Any:
    where = TEAM if kind == "RoleBinding" else None
    reference = {"kind": of, "name": to, "apiGroup": "rbac.authorization.k8s.io"}
    return thing(RBAC, kind, "b", where, roleRef=reference, subjects=[subject])


EDIT = role("edit", "pods", "networkpolicies", "resourceclaims", verbs=("create", "get"))
VIEW = role("view", "pods", "networkpolicies", verbs=("get", "list", "watch"))
ALICE = {"kind": "User", "name": "alice"}
TENANT = {"kind": "Group", "name": "vision"}
ROLES = {
    "a person": ([EDIT, bound(ALICE)], True),
    "the tenant's group": ([EDIT, bound(TENANT)], True),
    "the tenant's group everywhere": ([EDIT, bound(TENANT, kind="ClusterRoleBinding")], True),
    "another group everywhere": (
        [EDIT, bound({"kind": "Group", "name": "ops"}, kind="ClusterRoleBinding")],
        False,
    ),
    "everybody everywhere": (
        [EDIT, bound({"kind": "Group", "name": "system:authenticated"}, kind="ClusterRoleBinding")],
        True,
    ),
    "an account of the namespace": ([EDIT, bound({"kind": "ServiceAccount", "name": "ci"})], True),
    "the tenant's account elsewhere": (
        [EDIT, bound({"kind": "ServiceAccount", "name": "deployer", "namespace": "ci"})],
        True,
    ),
    "a tool's account": (
        [EDIT, bound({"kind": "ServiceAccount", "name": "argocd", "namespace": "argocd"})],
        False,
    ),
    "a controller": ([EDIT, bound({"kind": "User", "name": "system:kube-scheduler"})], False),
    "view": ([VIEW, bound(TENANT, "view")], False),
    "a Role of the namespace": (
        [role("own", "configmaps", "ingresses", kind="Role"), bound(ALICE, "own", of="Role")],
        True,
    ),
    "a Role within the tenant's": (
        [role("own", "configmaps", kind="Role"), bound(ALICE, "own", of="Role")],
        False,
    ),
    "all of it": ([role("cluster-admin", "*", verbs=("*",)), bound(ALICE, "cluster-admin")], True),
    "a role that is gone": ([bound(ALICE, "gone")], False),
}


@pytest.mark.parametrize("case", ROLES)
def test_roles_beyond_a_tenants(diagnosed: Any, case: str) -> None:
    objects, broad = ROLES[case]
    found = rows(diagnosed(EKS, FakeApi(objects)), "tenants")
    assert [row.reason for row in found] == [Reason.TENANT_BROAD if broad else Reason.TENANTS_NARROW]
    assert not any(row.blocks for row in found)
    if broad:
        assert "kubectl delete " in found[0].remediation
        assert "pods" not in found[0].message.split(" by ")[0]


def test_the_gravest_rights_are_named_first(diagnosed: Any) -> None:
    (row,) = rows(diagnosed(EKS, FakeApi([EDIT, bound(ALICE)])), "tenants")
    assert "User alice may create networkpolicies.networking.k8s.io, create resourceclaims" in row.message


def pod(
    name: str, namespace: str = "web", image: str = "nginx", owner: Any = None, **more: Any
) -> dict[str, Any]:
    metadata = {
        "ownerReferences": [{**owner, "controller": True}] if owner else [],
        **more.pop("metadata", {}),
    }
    container = {"name": "c", "image": image, "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [container], "nodeName": "n"}
    return (
        thing("v1", "Pod", name, namespace, metadata=metadata, spec=spec, status={"phase": "Running"}) | more
    )


def replica_set(name: str) -> dict[str, str]:
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name}


def space(name: str) -> dict[str, Any]:
    return thing("v1", "Namespace", name, metadata={"labels": {"kubernetes.io/metadata.name": name}})


def test_workloads_that_policies_would_refuse_are_counted_once(diagnosed: Any) -> None:
    """GPU pods that name no pool: two of one Deployment, a mirror of a file, one that has ended, and one in a
    namespace that policies leave alone."""
    labels = {"labels": {"pod-template-hash": "abc12"}}
    pods = [pod(f"train-{n}", owner=replica_set("train-abc12"), metadata=labels) for n in range(2)] + [
        pod("mirror", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        pod("done") | {"status": {"phase": "Succeeded"}},
        pod("plugin", "kube-system"),
        pod("lone"),
    ]
    (row,) = rows(diagnosed(EKS, FakeApi([*pods, space("web"), space("kube-system")])), "workloads")
    assert row.reason is Reason.WORKLOADS_REFUSED
    assert row.values["refused"] == 2
    assert row.values["count"] == 3
    assert "Deployment web/train (" in row.message
    assert "Pod web/lone (" in row.message


def test_the_operators_own_pods_are_left_alone_where_it_runs(diagnosed: Any) -> None:
    """And only there: its usual namespace is nothing special in a cluster that has it elsewhere."""
    text = HOMELAB.replace("install: false", "install: false, namespace: nvidia")
    pods = [pod("plugin", "nvidia"), pod("other", "gpu-operator")]
    spaces = [space("nvidia"), space("gpu-operator")]
    (row,) = rows(diagnosed(text, FakeApi([*pods, *spaces])), "workloads")
    assert row.values["first"].startswith("Pod gpu-operator/other (")
    assert row.values["refused"] == 1


def node_class(name: str, alias: str, *amis: str) -> dict[str, Any]:
    status = {"amis": [{"name": ami} for ami in amis]}
    spec = {"amiSelectorTerms": [{"alias": alias}]}
    return thing("karpenter.k8s.aws/v1", "EC2NodeClass", name, spec=spec, status=status)


def test_an_image_at_latest_is_named_with_the_release_that_it_has_now(diagnosed: Any) -> None:
    amis = [
        f"amazon-eks-node-al2023-x86_64-{kind}-1.36-v202611{day}"
        for kind, day in (("nvidia", 12), ("standard", 12))
    ]
    found = diagnosed(
        EKS, FakeApi([node_class("a10", "al2023@latest", *amis), node_class("b", "al2023@v20261001")])
    )
    (row,) = rows(found, "images")
    assert (row.subject, row.reason) == ("EC2NodeClass a10", Reason.IMAGE_LATEST)
    assert "karpenter.amiAlias: al2023@v20261112" in row.remediation
    fine = rows(diagnosed(EKS, FakeApi([node_class("b", "al2023@v20261001")])), "images")
    assert [row.reason for row in fine] == [Reason.IMAGES_PINNED]
    assert [row.reason for row in rows(diagnosed(HOMELAB, FakeApi()), "images")] == [Reason.IMAGES_NONE]


def test_a_dra_driver_and_another_plugin_on_nodes_of_pools(diagnosed: Any) -> None:
    allocatable = {"status": {"allocatable": {"nvidia.com/gpu": "1", "volcano.sh/vgpu-number": "4"}}}
    nodes = [thing("v1", "Node", name, **allocatable) for name in ("desk", "other")]
    spec = {"driver": "gpu.nvidia.com", "devices": [{"name": "gpu-0"}]}
    slices = [
        thing("resource.k8s.io/v1", "ResourceSlice", name, spec={**spec, "nodeName": name})
        for name in ("desk", "other")
    ]
    found = rows(diagnosed(HOMELAB, FakeApi([*nodes, *slices])), "claims")
    assert [(row.subject, row.reason) for row in found] == [
        ("gpu.nvidia.com", Reason.CLAIMS_DRIVER),
        ("volcano.sh/vgpu-number", Reason.CLAIMS_RESOURCE),
    ]
    assert "other" not in found[0].message


def policy(name: str = "cluster-policy", **more: Any) -> dict[str, Any]:
    return thing("nvidia.com/v1", "ClusterPolicy", name, spec={}, **more)


def test_the_namespace_of_somebody_elses_operator(diagnosed: Any) -> None:
    """By the policy's status, by the operator's pods, and where neither shows it by the namespace alone."""
    said = policy(status={"namespace": "nvidia"})
    labels = {"labels": {"app.kubernetes.io/component": "gpu-operator"}}
    runs = thing("v1", "Pod", "gpu-operator-7", "nvidia", metadata=labels, spec={"containers": []})
    for objects in ([said], [policy(), runs]):
        (row, *_) = rows(diagnosed(HOMELAB, FakeApi(objects)), "operator")
        assert row.reason is Reason.OPERATOR_UNFIT
        assert "write gpuOperator.namespace: nvidia" in row.remediation
    (row, *_) = rows(diagnosed(HOMELAB, FakeApi([policy()])), "operator")
    assert row.reason is Reason.OPERATOR_UNFIT
    assert "namespace gpu-operator" in row.remediation
    text = HOMELAB.replace("install: false", "install: false, namespace: nvidia")
    (row, *_) = rows(diagnosed(text, FakeApi([said, space("nvidia")])), "operator")
    assert row.reason is Reason.OPERATOR_FOREIGN
    assert row.message.endswith("in namespace nvidia")


def test_a_chart_beside_an_operator_that_has_no_policy_yet(diagnosed: Any) -> None:
    labels = {"labels": {"app.kubernetes.io/component": "gpu-operator"}}
    runs = thing(
        "v1", "Pod", "gpu-operator-7", "nvidia-gpu-operator", metadata=labels, spec={"containers": []}
    )
    (row,) = rows(diagnosed(EKS, FakeApi([runs])), "operator")
    assert row.reason is Reason.OPERATOR_ELSEWHERE
    assert "gpuOperator: {install: false, namespace: nvidia-gpu-operator}" in row.remediation
    other = policy("gpu-cluster-policy", status={"namespace": "nvidia-gpu-operator"})
    (row,) = rows(diagnosed(EKS, FakeApi([other])), "operator")
    assert row.reason is Reason.OPERATOR_TWO
    assert (
        "{install: false, clusterPolicy: gpu-cluster-policy, namespace: nvidia-gpu-operator}"
        in row.remediation
    )
