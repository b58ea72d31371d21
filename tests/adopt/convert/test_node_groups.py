"""What a live cluster shows of node groups, reserved nodes and grants, as the file that is written of it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpupool.adopt.convert.convert import Conversion, convert
from gpupool.adopt.convert.documents import parse_documents
from gpupool.adopt.convert.draft import Choices
from gpupool.generators import generate
from gpupool.generators.emit import yaml_text
from tests.environment_files import environment_data, plan_of

GROUP = "eks.amazonaws.com/nodegroup"


def converted(*bodies: dict[str, Any]) -> Conversion:
    documents, findings = parse_documents("input.yaml", "---\n".join(map(yaml_text, bodies)).encode())
    assert not findings
    return convert(documents, Choices())


def node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"nvidia.com/gpu.product": "NVIDIA-L4", **labels}},
        "status": {"capacity": {"nvidia.com/gpu": "1"}},
    }


@pytest.mark.parametrize(
    ("nodes", "chosen"),
    [
        ([node("a", **{GROUP: "l4"}), node("b", **{GROUP: "l4"})], {"selector": {GROUP: "l4"}, "max": 2}),
        ([node("a", **{GROUP: "l4"}), node("b", **{GROUP: "other"})], {"names": ["a", "b"]}),
        ([node("a", **{GROUP: "l4"}), node("b")], {"names": ["a", "b"]}),
        ([node("a"), node("b")], {"names": ["a", "b"]}),
        (
            [node("a", **{GROUP: "l4"}), {**node("b", **{GROUP: "l4"}), "status": {"capacity": {}}}],
            {"names": ["a"]},
        ),
    ],
    ids=["one group", "two groups", "one of none", "no group", "a group of more"],
)
def test_nodes_of_a_group_are_chosen_by_it(nodes: list[dict[str, Any]], chosen: dict[str, Any]) -> None:
    """Groups replace their nodes; a name stays in the file."""
    for body in nodes:
        if not body["status"]["capacity"]:
            del body["metadata"]["labels"]["nvidia.com/gpu.product"]
    result = converted(*nodes)
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert pool["nodes"] == chosen
    assert result.findings == ()


def rendered(environment: dict[str, Any]) -> Conversion:
    plan = plan_of(environment)
    bodies = [m.body for m in generate(plan) if m.kind != "ValidatingAdmissionPolicy"]
    return converted(*map(dict, bodies))


def environment(nodes: dict[str, Any], grants: list[int], **pool: Any) -> dict[str, Any]:
    return environment_data(
        "eks",
        karpenter={"nodeRole": "nodes", "amiAlias": "al2023@latest"},
        pools=[{"name": "pool", "gpu": "l4", "nodes": {"instanceTypes": ["g6.xlarge"], **nodes}, **pool}],
        tenants=[
            {"name": f"t{number}", "namespace": f"team-{number}", "pools": {"pool": {"gpus": gpus}}}
            for number, gpus in enumerate(grants)
        ],
    )


RESERVED = [{"id": "cr-0a1b", "count": 2}]


@pytest.mark.parametrize(
    ("nodes", "written"),
    [
        ({"max": 4, "reserved": RESERVED}, {}),
        ({"max": 4, "reserved": RESERVED, "consolidateAfter": "3m"}, {"consolidateAfter": "3m"}),
        (
            {"max": 4, "reserved": RESERVED, "reservedConsolidateAfter": "1h"},
            {"reservedConsolidateAfter": "1h"},
        ),
        ({"max": 2, "reserved": RESERVED, "consolidateAfter": "3m"}, {}),
        ({"max": 4, "consolidateAfter": "Never"}, {"consolidateAfter": "Never"}),
    ],
)
def test_each_time_comes_from_its_own_node_pool(nodes: dict[str, Any], written: dict[str, str]) -> None:
    result = rendered(environment(nodes, []))
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert {
        name: value for name, value in pool["nodes"].items() if name.endswith("onsolidateAfter")
    } == written
    assert pool["nodes"]["max"] == nodes["max"]
    assert result.findings == ()


@pytest.mark.parametrize(("grants", "over"), [([2, 2], False), ([3, 2], True)])
def test_more_granted_than_there_is_is_said_to_be_meant(grants: list[int], over: bool) -> None:
    result = rendered(environment({"max": 4}, grants, **({"overcommit": True} if over else {})))
    (pool,) = yaml.safe_load(result.text)["pools"]
    assert pool.get("overcommit", False) == over
    assert ("overcommit was written" in str(result.leftovers)) == over
    assert result.findings == ()


def test_the_image_that_was_read_is_written() -> None:
    result = rendered(environment({"max": 1}, []))
    assert yaml.safe_load(result.text)["karpenter"]["amiAlias"] == "al2023@latest"
