"""Bundles of which something is unknown: folders without a Plan, others' operators, unusual overlays."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.policy.rules import BundleObject, ObjectSet, check_bundle
from tests.policy.rules.changes import TENANT, config_data, edit, pool_affinity, replan
from tests.policy.rules.drafts import Draft, job, shipped


def test_others_operator_is_only_pointed_at_configurations() -> None:
    """Of an operator that others run no tolerations are known, and its namespace is theirs to make."""
    draft = shipped("homelab")
    assert draft.plan is not None
    operator = draft.plan.gpu_operator.model_copy(update={"install": False})
    replan(draft, gpu_operator=operator)
    config = draft.values("gpu-operator")["devicePlugin"]["config"]
    draft.releases.clear()
    draft.drop("Namespace", "gpu-operator")
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}}
    draft.patches.append({**policy, "spec": {"devicePlugin": {"config": config}}})
    assert draft.findings() == []
    config["name"] = "gone"
    assert [finding.rule for finding in draft.findings()] == ["device-plugin-configs-exist"] * 2


def test_what_a_folder_lacks_is_no_denial() -> None:
    """A folder may be incomplete; its contradictions are denied anyway."""
    draft = shipped("prod")
    draft.plan = None
    draft.drop("Namespace", TENANT)
    draft.one("NodeOverlay", "notebooks")["spec"]["capacity"]["nvidia.com/gpu"] = "9"
    found = {(finding.rule, finding.level) for finding in draft.findings()}
    assert found == {("namespaces-exist", "warn"), ("pool-counts-agree", "deny")}


def test_folder_without_plan_knows_capacity_by_its_node_pools() -> None:
    draft = shipped("dev")
    draft.plan = None
    hard = draft.one("ResourceQuota", "gpupool")["spec"]["hard"]
    hard["requests.nvidia.com/gpu"] = "97"
    found = {finding.rule: finding.message for finding in draft.findings()}
    assert set(found) == {"quotas-within-capacity", "pools-not-oversubscribed"}
    assert "24 x nvidia.com/gpu at most; quotas promise 97" in found["pools-not-oversubscribed"]


def test_finding_names_file_and_line() -> None:
    item = BundleObject(job("nowhere"), "jobs.yaml", 7)
    (finding,) = check_bundle(ObjectSet("folder", (item,)))
    assert (finding.file, finding.line, str(finding.object)) == ("jobs.yaml", 7, "Job nowhere/try")


def _folder(name: str) -> Draft:
    draft = shipped(name)
    draft.plan = None
    return draft


def test_machines_beside_node_pools_leave_capacity_open() -> None:
    """What nodes that exist already have is in no file."""
    draft = _folder("dev")
    draft.one("ResourceQuota", "gpupool")["spec"]["hard"]["requests.nvidia.com/gpu"] = "97"
    node = {"name": "n", "labels": {"gpupool.dev/pool": "desk"}}
    draft.bodies.append({"apiVersion": "v1", "kind": "Node", "metadata": node})
    assert draft.findings() == []


def test_folder_without_nodes_does_not_say_which_pools_there_are() -> None:
    naming = job("default", nodeSelector={"gpupool.dev/pool": "notebooks"})
    assert check_bundle(ObjectSet.of("jobs", [naming])) == []
    draft = shipped("dev")
    draft.bodies = [body for body in draft.bodies if body["kind"] != "NodePool"] + [naming]
    assert "pods-reach-pools" in {finding.rule for finding in draft.findings()}


def test_affinity_for_another_label_names_no_pool() -> None:
    draft = shipped("prod")
    rows = [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]},
        {"key": "gpupool.dev/pool", "operator": "NotIn", "values": ["gone"]},
    ]
    affinity = pool_affinity()
    affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = [
        {"matchExpressions": rows}
    ]
    draft.bodies.append(job(TENANT, affinity=affinity))
    assert draft.findings() == []


def _overlay(requirements: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": "other"},
        "spec": {"weight": 200, "requirements": requirements, "capacity": {"nvidia.com/gpu": "1"}},
    }


@pytest.mark.parametrize(
    ("requirements", "rules"),
    [
        (
            [{"key": "karpenter.sh/nodepool", "operator": "NotIn", "values": ["notebooks"]}],
            {"pool-counts-agree"},
        ),
        ([{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m7i.large"]}], set()),
        ([{"key": "gpupool.dev/pool", "operator": "In", "values": ["notebooks"]}], {"pool-counts-agree"}),
        # Instance families are not known here: Karpenter may choose it or not.
        ([{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["g4dn"]}], set()),
    ],
)
def test_overlays_are_held_against_the_pools_that_they_choose(
    requirements: list[dict[str, Any]], rules: set[str]
) -> None:
    draft = shipped("prod")
    draft.bodies.append(_overlay(requirements))
    found = draft.findings()
    assert {finding.rule for finding in found} == rules
    about = {finding.message for finding in found if "of notebooks has" in finding.message}
    assert bool(about) == (requirements[0]["key"] == "gpupool.dev/pool")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("devices: all\n    mig-enabled: true", "devices: [0, 1]\n    mig-enabled: true"),
        ("devices: all\n    mig-enabled: true", "devices: all\n    device-filter: x\n    mig-enabled: true"),
    ],
)
def test_layouts_that_differ_from_gpu_to_gpu_are_not_counted(old: str, new: str) -> None:
    draft = _folder("prod")
    edit(draft, "gpupool-mig", "config.yaml", old, new)
    for overlay in ("inference-h100", "inference-small"):
        draft.one("NodeOverlay", overlay)["spec"]["capacity"] = {"nvidia.com/gpu": "5"}
    assert draft.findings() == []


def test_node_pool_without_a_limit_of_nodes_is_not_counted() -> None:
    draft = _folder("prod")
    draft.one("NodePool", "notebooks")["spec"]["limits"] = {"nvidia.com/gpu": "80"}
    assert draft.findings() == []


def test_configurations_that_the_chart_makes() -> None:
    draft = _folder("prod")
    data, name = config_data(draft, "gpupool-device")
    draft.drop("ConfigMap", name)
    config = draft.values("gpu-operator")["devicePlugin"]["config"]
    config |= {"create": True, "data": data}
    assert draft.findings() == []
    data["notebooks"] = "a: [b"
    (finding,) = draft.findings()
    assert (str(finding.object), finding.path) == ("HelmRelease gpu-operator/gpu-operator", "data[notebooks]")
