"""What machines are made of: rendered, and read again; and what has no place is listed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpupool.generators import generate
from tests.adopt.convert.test_requirements import ON_DEMAND, TYPES, converted, pool
from tests.environment.plan.test_machines import EVERYTHING
from tests.environment.plan.test_reserved import environment
from tests.environment_files import plan_of


def node_class(**spec: Any) -> dict[str, Any]:
    metadata = {"name": "gpu"}
    spec = {"role": "nodes", **spec}
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": metadata, "spec": spec}


def test_everything_that_is_rendered_is_in_the_file_again() -> None:
    plan = plan_of(environment([], **EVERYTHING))
    kinds = ("NodePool", "EC2NodeClass")
    result = converted(*(dict(manifest.body) for manifest in generate(plan) if manifest.kind in kinds))
    (row,) = yaml.safe_load(result.text)["pools"]
    assert {key: row["nodes"][key] for key in EVERYTHING} == EVERYTHING
    left = [str(entry) for entry in result.leftovers if entry.category != "assumed"]
    assert [entry for entry in left if "device-plugin.config" not in entry] == [], (
        "its ConfigMap is not there"
    )


_DISK = {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True, "deleteOnTermination": True}
_HUNDRED = {"rootVolume": {"size": "100Gi"}}


def _disk(device: str, **ebs: Any) -> dict[str, Any]:
    return {"blockDeviceMappings": [{"deviceName": device, "ebs": {**_DISK, **ebs}}]}


@pytest.mark.parametrize(
    ("spec", "nodes", "listed"),
    [
        (_disk("/dev/xvda"), _HUNDRED, ""),
        (_disk("/dev/sda1"), {}, "blockDeviceMappings"),
        (_disk("/dev/xvda", encrypted=False), _HUNDRED, "encrypted"),
        ({"kubelet": {"maxPods": 50, "registryBurst": 9}}, {"kubelet": {"maxPods": 50}}, "registryBurst"),
        ({"subnetSelectorTerms": [{"id": "subnet-1"}]}, {"subnets": [{"id": "subnet-1"}]}, ""),
        ({"subnetSelectorTerms": [{"name": "x"}]}, {}, "subnetSelectorTerms"),
        ({"tags": {"team": "ml", "eks:a": "x"}}, {"tags": {"team": "ml"}}, "eks:a"),
    ],
)
def test_what_has_a_place_is_carried_over_and_the_rest_is_listed(
    spec: dict[str, Any], nodes: dict[str, Any], listed: str
) -> None:
    result = converted(pool(TYPES, ON_DEMAND), node_class(**spec))
    (row,) = yaml.safe_load(result.text)["pools"]
    fields = ("rootVolume", "kubelet", "subnets", "securityGroups", "tags", "placementGroup")
    assert {key: row["nodes"][key] for key in fields if key in row["nodes"]} == nodes
    entries = "\n".join(str(entry) for entry in result.leftovers if entry.category != "assumed")
    assert listed in entries
    assert listed or not entries


def test_settings_of_the_kubelet_and_taints_of_an_older_node_pool() -> None:
    old = pool(TYPES, ON_DEMAND)
    old["apiVersion"] = "karpenter.sh/v1beta1"
    template = old["spec"]["template"]["spec"]
    taint = {"key": "example.com/agent", "effect": "NoSchedule"}
    template |= {"kubelet": {"maxPods": 50}, "startupTaints": [taint]}
    (row,) = yaml.safe_load(converted(old).text)["pools"]
    assert row["nodes"]["kubelet"] == {"maxPods": 50}
    assert row["nodes"]["startupTaints"] == [taint]
