"""Numbers of slices that two places give: NodeOverlays, Bottlerocket's userData, two charts."""

from __future__ import annotations

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.environment.plan.cloud_facts import pinned_image

POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: gpus}
spec:
  limits: {nodes: "2"}
  template:
    metadata: {labels: {team: vision, nvidia.com/device-plugin.config: quarters}}
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: gpu}
      requirements:
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [g5]}
        - {key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge, g5.12xlarge]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
"""
QUARTERS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: plugin}
data:
  quarters: '{version: v1, sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}}'
"""
CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: gpu}
spec:
  role: nodes
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  userData: |
    [settings.kubelet-device-plugins.nvidia]
    device-sharing-strategy = "time-slicing"
    [settings.kubelet-device-plugins.nvidia.time-slicing]
    replicas = REPLICAS
"""


def overlay(requirements: str, gpus: int = 4) -> str:
    return (
        "apiVersion: karpenter.sh/v1alpha1\nkind: NodeOverlay\nmetadata: {name: slices}\n"
        f"spec: {{requirements: [{requirements}], capacity: {{nvidia.com/gpu: '{gpus}'}}}}\n"
    )


def converted(*texts: str) -> Conversion:
    documents = []
    for number, text in enumerate(texts):
        found, findings = parse_documents(f"{number}.yaml", text.encode())
        assert not findings
        documents += found
    return convert(documents, Choices())


def said(result: Conversion, kind: str) -> str:
    return "\n".join(str(entry) for entry in result.leftovers if entry.category == kind)


ONE_GPU = "{key: node.kubernetes.io/instance-type, operator: In, values: [g5.xlarge]}"
ABOUT_IT = [
    f"{ONE_GPU}",
    f"{{key: karpenter.sh/nodepool, operator: In, values: [gpus, others]}}, {ONE_GPU}",
    "{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [a10g]}, "
    "{key: karpenter.k8s.aws/instance-gpu-count, operator: Lt, values: ['2']}",
    "{key: karpenter.k8s.aws/instance-family, operator: In, values: [g5, g6]}, "
    "{key: karpenter.k8s.aws/instance-size, operator: NotIn, values: [12xlarge]}",
    f"{{key: team, operator: In, values: [vision]}}, {ONE_GPU}",
    f"{{key: team, operator: Exists}}, {ONE_GPU}",
    f"{{key: karpenter.sh/capacity-type, operator: NotIn, values: [spot]}}, {ONE_GPU}",
    f"{{key: topology.kubernetes.io/zone, operator: In, values: [eu-west-1a]}}, {ONE_GPU}",
]
NOT_ABOUT_IT = [
    "{key: karpenter.k8s.aws/instance-gpu-name, operator: In, values: [l4]}",
    f"{{key: karpenter.sh/nodepool, operator: In, values: [others]}}, {ONE_GPU}",
    f"{{key: karpenter.sh/capacity-type, operator: In, values: [spot]}}, {ONE_GPU}",
    f"{{key: team, operator: In, values: [speech]}}, {ONE_GPU}",
    f"{{key: tier, operator: Exists}}, {ONE_GPU}",
    f"{{key: team, operator: DoesNotExist}}, {ONE_GPU}",
]


@pytest.mark.parametrize("requirements", ABOUT_IT)
def test_an_overlay_that_agrees_is_nothing_to_carry_over(requirements: str) -> None:
    result = converted(POOL, QUARTERS, overlay(requirements))
    assert result.pools == ("gpus",)
    assert not [entry for entry in result.leftovers if entry.object == "NodeOverlay slices"]


@pytest.mark.parametrize("requirements", ABOUT_IT)
def test_one_that_disagrees_leaves_the_pool_out_and_names_both_numbers(requirements: str) -> None:
    result = converted(POOL, QUARTERS, overlay(requirements, 8))
    assert result.pools == ()
    assert (
        "a node has 8 nvidia.com/gpu by NodeOverlay slices, and 4 by its configuration (time-slicing with 4 "
        "replicas); pool gpus is left out; correct one of them and convert again"
    ) in said(result, "todo")
    assert "left out: gpus" in result.text


@pytest.mark.parametrize("requirements", NOT_ABOUT_IT)
def test_an_overlay_for_other_machines_says_nothing_of_the_pool(requirements: str) -> None:
    result = converted(POOL, QUARTERS, overlay(requirements, 8))
    assert result.pools == ("gpus",)
    assert "matches no machine of a converted pool" in said(result, "left")


def test_what_is_unknown_is_listed() -> None:
    unknown = "{key: karpenter.k8s.aws/instance-network-bandwidth, operator: Gt, values: ['1']}"
    result = converted(POOL, QUARTERS, overlay(unknown, 8))
    assert result.pools == ("gpus",)
    assert "the catalog does not have this machine label" in said(result, "left")


def test_an_overlay_without_any_configuration_is_no_choice_either() -> None:
    result = converted(POOL.replace(", nvidia.com/device-plugin.config: quarters", ""), overlay(ONE_GPU))
    assert result.pools == ()
    assert "whole GPUs, because no configuration in the input says otherwise" in said(result, "todo")


def test_the_replicas_of_bottlerocket_are_the_pools() -> None:
    plain = POOL.replace(", nvidia.com/device-plugin.config: quarters", "")
    result = converted(plain, CLASS.replace("REPLICAS", "5"))
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert pool["sharing"] == {"mode": "time-slicing", "replicas": 5}
    assert "userData of node class gpu" in result.text
    assert converted(POOL, QUARTERS, CLASS.replace("REPLICAS", "4")).pools == ("gpus",)


def test_of_bottlerocket_all_else_is_said_to_be_left() -> None:
    plain = POOL.replace(", nvidia.com/device-plugin.config: quarters", "")
    by_id = CLASS.replace("{alias: bottlerocket@latest}", "{id: ami-0123456789abcdef0}")
    for text in (CLASS, by_id.replace("  role", "  amiFamily: Bottlerocket\n  role")):
        result = converted(plain, text.replace("REPLICAS", "5"))
        left = said(result, "left")
        assert result.findings == ()
        assert yaml.safe_load(result.text)["karpenter"]["amiAlias"] == pinned_image()
        assert "image" not in yaml.safe_load(result.text)["pools"][0]["nodes"]
        assert "amiSelectorTerms = " in left
        assert "Bottlerocket has its own device plugin" in left
        assert "only its number of slices is carried over, to the pool's sharing" in left
        assert f"{pinned_image()} replaces Bottlerocket" in said(result, "assumed")


def test_bottlerocket_and_a_configuration_that_disagree_leave_the_pool_out() -> None:
    result = converted(POOL, QUARTERS, CLASS.replace("REPLICAS", "5"))
    assert result.pools == ()
    assert (
        "userData of node class gpu says time-slicing with 5 replicas, but device-plugin configuration "
        "quarters of ConfigMap plugin time-slicing with 4 replicas; correct one of them"
    ) in said(result, "wrong")


@pytest.mark.parametrize(
    "text", ["not = [toml", "[settings]\n", 'settings.kubelet-device-plugins.nvidia = "x"\n']
)
def test_other_user_data_shares_nothing(text: str) -> None:
    node_class = yaml.safe_load(CLASS)
    node_class["spec"]["userData"] = text
    plain = POOL.replace(", nvidia.com/device-plugin.config: quarters", "")
    (pool,) = yaml.safe_load(converted(plain, yaml.safe_dump(node_class)).text)["pools"]
    assert "sharing" not in pool


@pytest.mark.parametrize(("kubernetes", "kept"), [("1.32", True), ("1.33", False), (None, False)])
def test_amazon_linux_2_is_kept_where_eks_has_it(kubernetes: str | None, kept: bool) -> None:
    node_class = yaml.safe_dump(
        yaml.safe_load(CLASS.replace("bottlerocket", "al2").partition("  userData")[0])
    )
    documents = []
    for text in (POOL, QUARTERS, node_class):
        documents += parse_documents("x.yaml", text.encode())[0]
    result = convert(documents, Choices(kubernetes_version=kubernetes))
    alias = yaml.safe_load(result.text)["karpenter"].get("amiAlias")
    assert alias == ("al2@latest" if kept else pinned_image())
    assert (f"{pinned_image()} replaces it" in said(result, "todo")) != kept
    assert result.findings == ()


def test_two_defaults_that_disagree_leave_pools_without_a_label_out() -> None:
    def data(replicas: int) -> dict[str, str]:
        resources = f"[{{name: nvidia.com/gpu, replicas: {replicas}}}]"
        return {"any": f"{{version: v1, sharing: {{timeSlicing: {{resources: {resources}}}}}}}"}

    operator = yaml.safe_dump({"devicePlugin": {"config": {"data": data(4), "default": "any"}}})
    plain = POOL.replace(", nvidia.com/device-plugin.config: quarters", "")
    same = yaml.safe_dump({"config": {"map": data(4), "default": "any"}})
    assert converted(plain, operator, same).pools == ("gpus",)
    other = yaml.safe_dump({"config": {"map": {"other": data(6)["any"]}, "default": "other"}})
    result = converted(plain, operator, other)
    assert result.pools == ()
    assert "time-slicing with 6 replicas for all nodes, but another file time-slicing with 4" in said(
        result, "wrong"
    )
