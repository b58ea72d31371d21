"""Ways to find a machine image that Karpenter takes: they reach the EC2NodeClass as they are written."""

from __future__ import annotations

from typing import Any

import pytest

from gpupool.environment.plan.model import Plan
from gpupool.findings import SpecError
from gpupool.generators import generate
from tests.environment_files import environment_data, plan_of


def plan_with(family: str, terms: list[dict[str, Any]], kubernetes: str = "1.36", alias: str = "") -> Plan:
    image = {"family": family, "selectorTerms": terms, "userData": "#!/bin/sh"}
    nodes = {"instanceTypes": ["g6.xlarge"], "max": 1, "image": image}
    environment = environment_data(
        "eks",
        cluster={"kubernetesVersion": kubernetes},
        karpenter={"nodeRole": "nodes"} | ({"amiAlias": alias} if alias else {}),
        pools=[{"name": "p", "gpu": "l4", "nodes": nodes}],
    )
    return plan_of(environment)


@pytest.mark.parametrize(
    ("family", "terms"),
    [
        ("AL2023", [{"alias": "al2023@v20240625"}]),
        ("Custom", [{"alias": "al2023@latest"}]),
        ("Custom", [{"id": "ami-0123456789abcdef0"}, {"id": "ami-1"}]),
        ("Custom", [{"owner": "099720109477", "name": "ubuntu-eks/k8s_1.36/images/*"}]),
        ("AL2023", [{"tags": {"team": "*", "tier": "gpu"}, "owner": "self"}, {"ssmParameter": "/own/image"}]),
    ],
)
def test_terms_reach_the_node_class(family: str, terms: list[dict[str, Any]]) -> None:
    bodies = [manifest.body for manifest in generate(plan_with(family, terms)).manifests]
    (spec,) = [body["spec"] for body in bodies if body["kind"] == "EC2NodeClass"]
    assert spec["amiSelectorTerms"] == terms


@pytest.mark.parametrize(("kubernetes", "there"), [("1.32", True), ("1.33", False), ("1.36", False)])
def test_amazon_linux_2_ends_with_kubernetes_1_32(kubernetes: str, there: bool) -> None:
    def plan() -> Plan:
        return plan_with("Custom", [{"id": "ami-1"}], kubernetes, "al2@latest")

    if there:
        assert plan().karpenter
        return
    with pytest.raises(SpecError, match=r"karpenter\.amiAlias: al2@latest: EKS has no Amazon Linux 2 image"):
        plan()
