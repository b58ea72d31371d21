"""The example in docs/known-limits.md is one that gpupool takes, and that Karpenter can register."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpupool.generators import generate
from gpupool.generators.node_classes import generate as node_classes
from tests.environment_files import environment_data, plan_of

PAGE = Path(__file__).parents[2] / "docs" / "known-limits.md"


def test_ubuntu_for_mig_is_taken_and_registers_with_karpenters_taint() -> None:
    text = PAGE.read_text(encoding="utf-8")
    nodes = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])["nodes"]
    pool = {"name": "p", "gpu": "l4", "nodes": {"instanceTypes": ["g6.xlarge"], "max": 1, **nodes}}
    plan = plan_of(environment_data("eks", pools=[pool]))
    assert generate(plan).manifests
    (node_class,) = [manifest.body["spec"] for manifest in node_classes(plan)]
    # Karpenter 1.0, NodeClasses, Custom: without it a node is never registered.
    assert "--register-with-taints=karpenter.sh/unregistered:NoExecute" in node_class["userData"]
    for said in (
        "/dev/sda1",
        node_class["blockDeviceMappings"][0]["deviceName"],
        "instanceStorePolicy: RAID0",
    ):
        assert f"`{said}`" in text
